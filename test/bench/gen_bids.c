/*
 * gen_bids.c
 *		gen_bids ROWS [SEED]: bids of an auction house as CSV, the same bytes every time.
 *
 * Columns auction, bidder, price, channel, url, date_time, extra, after Nexmark:
 * ROWS spread over 200,000 auctions, 100,000 persons and 2,000 s of event time.
 * Half of the bids go to one hot auction in a hundred, most others to one of the
 * last 1,000; event time runs with the row number minus a jitter of up to 3 s;
 * 2 % of the rows are copies of one of the 1,000 rows before.  2,000,000 rows give
 * 359,208 groups of (10 s window, auction) and 1,838,288 of (bidder, auction).
 */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AUCTIONS	200000
#define PERSONS		100000
#define SPAN_MS		2000000
#define JITTER_MS	3000
#define START_S		1767225600	/* 2026-01-01 00:00:00 UTC */
#define RING		1000
#define LINE		256

static uint64_t state;

/* splitmix64 */
static uint64_t
mix(uint64_t z)
{
	z += UINT64_C(0x9E3779B97F4A7C15);
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

static uint64_t
next_random(void)
{
	uint64_t	z = mix(state);

	state += UINT64_C(0x9E3779B97F4A7C15);
	return z;
}

static int64_t
below(int64_t n)
{
	return (int64_t) (next_random() % (uint64_t) n);
}

static int64_t
smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void
word(char *out, int len)
{
	for (int i = 0; i < len; i++)
		out[i] = (char) ('a' + below(26));
	out[len] = '\0';
}

static void
event_time(char *out, size_t size, int64_t ms)
{
	time_t		second = START_S + (ms >= 0 ? ms / 1000 : -((999 - ms) / 1000));
	int			millis = (int) (ms - (second - START_S) * 1000);
	struct tm	tm;
	char		day[32];

	gmtime_r(&second, &tm);
	strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(out, size, "%s.%03d+00", day, millis);
}

static void
bid(char *line, int64_t i, int64_t rows, int64_t ms)
{
	static const char *const channels[] = {"Google", "Facebook", "Baidu", "Apple"};
	int64_t		newest = i * AUCTIONS / rows;
	int64_t		person = i * PERSONS / rows;
	int64_t		kind = below(100);
	int64_t		auction,
				bidder,
				price;
	char		a[8],
				b[8],
				c[8],
				extra[32],
				channel[24],
				when[48];

	if (kind < 50)
		auction = newest - newest % 100;
	else if (kind < 52)
		auction = below(newest + 1);
	else
		auction = newest - below(smaller(newest + 1, 1000));
	if (below(2))
		bidder = person - below(smaller(person + 1, 500));
	else
		bidder = person - below(smaller(person + 1, 10000));
	price = (int64_t) (pow(10.0, (double) (next_random() >> 11) * (6.0 / 9007199254740992.0)) * 100);
	word(a, 5);
	word(b, 5);
	word(c, 5);
	word(extra, 28);
	if (below(2))
		strcpy(channel, channels[below(4)]);
	else
		snprintf(channel, sizeof(channel), "channel-%d", (int) below(10000));
	event_time(when, sizeof(when), ms);
	snprintf(line, LINE, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,https://www.nexmark.com/%s/%s/%s/item.htm?query=1,%s,%s\n",
			 auction, bidder, price, channel, a, b, c, when, extra);
}

int
main(int argc, char **argv)
{
	static char ring[RING][LINE];
	int64_t		rows = argc > 1 ? atoll(argv[1]) : 2000000;
	uint64_t	seed = argc > 2 ? (uint64_t) atoll(argv[2]) : 42;
	int			filled = 0;

	state = mix(seed) ^ mix(strlen("bids") * 131 + 'b');
	for (int64_t i = 0; i < rows; i++)
	{
		int64_t		ms = (int64_t) ((__int128) i * SPAN_MS / rows) - below(JITTER_MS);

		if (filled >= RING && below(50) == 0)
			fputs(ring[below(RING)], stdout);
		else
		{
			char	   *line = ring[filled < RING ? filled++ : i % RING];

			bid(line, i, rows, ms);
			fputs(line, stdout);
		}
	}
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
