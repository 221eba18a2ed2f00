/*
 * gen_bids.c
 *		gen_bids ROWS [SEED [KIND]]: rows of bids.h as CSV.
 *
 * bids		auction, bidder, price, channel, url, date_time, extra
 * auctions	id, date_time, seller, category (ROWS doesn't count: there are as many as it takes)
 * ads		ad_id, event_type, event_time
 * campaigns	ad_id, campaign_id
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bids.h"

static void
event_time(char *out, size_t size, int64_t ms)
{
	time_t		second = ms / 1000;
	struct tm	tm;
	char		day[32];

	gmtime_r(&second, &tm);
	strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(out, size, "%s.%03d+00", day, (int) (ms % 1000));
}

static void
write_bids(int64_t rows, uint64_t seed)
{
	const Bid  *bid;
	char		when[48];

	bids_start(rows, seed);
	while ((bid = bid_next()) != NULL)
	{
		event_time(when, sizeof(when), bid->date_time);
		printf("%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%s,%s,%s\n",
			   bid->auction, bid->bidder, bid->price, bid->channel, bid->url, when, bid->extra);
	}
}

static void
write_auctions(uint64_t seed)
{
	const Auction *auction;
	char		when[48];

	auctions_start(seed);
	while ((auction = auction_next()) != NULL)
	{
		event_time(when, sizeof(when), auction->date_time);
		printf("%" PRId64 ",%s,%" PRId64 ",%d\n", auction->id, when, auction->seller, auction->category);
	}
}

static void
write_ads(int64_t rows, uint64_t seed)
{
	const Ad   *ad;
	char		when[48];

	ads_start(rows, seed);
	while ((ad = ad_next()) != NULL)
	{
		event_time(when, sizeof(when), ad->event_time);
		printf("%s,%s,%s\n", ad->ad_id, ad->event_type, when);
	}
}

static void
write_campaigns(void)
{
	char		id[40];

	for (int ad = 0; ad < ADS; ad++)
	{
		ad_id_of(id, ad);
		printf("%s,%d\n", id, ad * ADS_CAMPAIGNS / ADS);
	}
}

int
main(int argc, char **argv)
{
	int64_t		rows = argc > 1 ? atoll(argv[1]) : 2000000;
	uint64_t	seed = argc > 2 ? (uint64_t) atoll(argv[2]) : 42;
	const char *kind = argc > 3 ? argv[3] : "bids";

	if (strcmp(kind, "bids") == 0)
		write_bids(rows, seed);
	else if (strcmp(kind, "auctions") == 0)
		write_auctions(seed);
	else if (strcmp(kind, "ads") == 0)
		write_ads(rows, seed);
	else if (strcmp(kind, "campaigns") == 0)
		write_campaigns();
	else
		return 2;
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
