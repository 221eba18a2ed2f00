/*
 * gen_bids.c
 *		gen_bids ROWS [SEED]: the bids of bids.h as CSV.
 *
 * Columns auction, bidder, price, channel, url, date_time, extra.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

int
main(int argc, char **argv)
{
	const Bid  *bid;
	char		when[48];

	bids_start(argc > 1 ? atoll(argv[1]) : 2000000, argc > 2 ? (uint64_t) atoll(argv[2]) : 42);
	while ((bid = bid_next()) != NULL)
	{
		event_time(when, sizeof(when), bid->date_time);
		printf("%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%s,%s,%s\n",
			   bid->auction, bid->bidder, bid->price, bid->channel, bid->url, when, bid->extra);
	}
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
