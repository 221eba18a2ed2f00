/*
 * bids.c
 *		The rows of bids.h.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bids.h"

#define AUCTIONS	200000
#define PERSONS		100000
#define SPAN_MS		2000000
#define JITTER_MS	3000
#define START_MS	INT64_C(1767225600000)	/* 2026-01-01 00:00:00 UTC */
#define RING		1000

static uint64_t state;
static int64_t rows;
static int64_t given;

/* The last rows, of which some come again. */
static Bid	ring[RING];
static int	filled;

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

void
bids_start(int64_t nrows, uint64_t seed)
{
	state = mix(seed) ^ mix(strlen("bids") * 131 + 'b');
	rows = nrows;
	given = 0;
	filled = 0;
}

/* What does not depend on the auction; the order of the random numbers makes the data set. */
static void
fill(Bid *bid, int64_t person)
{
	static const char *const channels[] = {"Google", "Facebook", "Baidu", "Apple"};
	char		a[8],
				b[8],
				c[8];

	if (below(2))
		bid->bidder = person - below(smaller(person + 1, 500));
	else
		bid->bidder = person - below(smaller(person + 1, 10000));
	bid->price = (int64_t) (pow(10.0, (double) (next_random() >> 11) * (6.0 / 9007199254740992.0)) * 100);
	word(a, 5);
	word(b, 5);
	word(c, 5);
	word(bid->extra, 28);
	if (below(2))
		strcpy(bid->channel, channels[below(4)]);
	else
		snprintf(bid->channel, sizeof(bid->channel), "channel-%d", (int) below(10000));
	snprintf(bid->url, sizeof(bid->url), "https://www.nexmark.com/%s/%s/%s/item.htm?query=1", a, b, c);
}

const Bid *
bid_next(void)
{
	int64_t		i = given++;
	int64_t		newest = i * AUCTIONS / rows;
	int64_t		kind;
	Bid		   *bid;
	int64_t		ms;

	if (i >= rows)
		return NULL;
	ms = START_MS + (int64_t) ((__int128) i * SPAN_MS / rows) - below(JITTER_MS);
	if (filled >= RING && below(50) == 0)
		return &ring[below(RING)];
	bid = &ring[filled < RING ? filled++ : i % RING];
	bid->date_time = ms;
	kind = below(100);
	if (kind < 50)
		bid->auction = newest - newest % 100;
	else if (kind < 52)
		bid->auction = below(newest + 1);
	else
		bid->auction = newest - below(smaller(newest + 1, 1000));
	fill(bid, i * PERSONS / rows);
	return bid;
}

const Bid *
bid_now(int64_t date_time, int64_t auctions)
{
	static Bid	bid;

	bid.date_time = date_time;
	bid.auction = below(auctions);
	fill(&bid, PERSONS);
	return &bid;
}
