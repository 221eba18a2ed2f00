/*
 * bids.c
 *		The rows of bids.h: bids, auctions, ads.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bids.h"

#define AUCTIONS	BIDS_AUCTIONS
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

/* ---------------------------------------------------------------- auctions */

static void
start(const char *kind, int64_t nrows, uint64_t seed)
{
	state = mix(seed) ^ mix(strlen(kind) * 131 + (uint64_t) kind[0]);
	rows = nrows;
	given = 0;
}

static int64_t
time_of_row(int64_t i)
{
	return START_MS + (int64_t) ((__int128) i * SPAN_MS / rows);
}

void
auctions_start(uint64_t seed)
{
	start("auctions", AUCTIONS, seed);
}

const Auction *
auction_next(void)
{
	static Auction auction;
	int64_t		i = given++;

	if (i >= rows)
		return NULL;
	auction.id = i;
	auction.date_time = time_of_row(i) - JITTER_MS - below(1000);
	word(auction.item_name, 7);
	word(auction.extra, 20);
	auction.initial_bid = below(10000);
	auction.reserve = below(100000);
	auction.seller = i * PERSONS / rows;
	auction.category = 10 + (int) below(5);
	return &auction;
}

/* ---------------------------------------------------------------- ads */

static void
uuid(char *out, uint64_t n)
{
	uint64_t	x = mix(n);
	uint64_t	y = mix(n ^ 0x5555);

	sprintf(out, "%08x-%04x-4%03x-a%03x-%012llx", (unsigned) (x >> 32), (unsigned) (x >> 16) & 0xffff,
			(unsigned) x & 0xfff, (unsigned) (y >> 52) & 0xfff, (unsigned long long) (y & 0xffffffffffffULL));
}

void
ad_id_of(char *out, int ad)
{
	uuid(out, 900000 + (uint64_t) ad);
}

void
ads_start(int64_t nrows, uint64_t seed)
{
	start("ads", nrows, seed);
}

const Ad *
ad_next(void)
{
	static const char *const events[] = {"view", "click", "purchase"};
	static const char *const types[] = {"banner", "modal", "sponsored-search", "mail", "mobile"};
	static Ad	ad;
	int64_t		i = given++;

	if (i >= rows)
		return NULL;
	ad.event_time = time_of_row(i) - below(JITTER_MS);
	ad_id_of(ad.ad_id, (int) below(ADS));
	uuid(ad.user_id, 1000000 + (uint64_t) below(100000));
	uuid(ad.page_id, 2000000 + (uint64_t) below(100));
	ad.ad_type = types[below(5)];
	ad.event_type = events[below(3)];
	for (int k = 0; k < 4; k++)
		ad.address[k] = (int) below(256);
	return &ad;
}
