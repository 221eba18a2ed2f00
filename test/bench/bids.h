/*
 * bids.h
 *		Bids of an auction house after Nexmark, the same ones every time.
 *
 * The rows are spread over 200,000 auctions, 100,000 persons and 2,000 s of event
 * time.  Half of the bids go to one hot auction in a hundred, most others to one of
 * the last 1,000; event time runs with the row number minus a jitter of up to 3 s;
 * 2 % of the rows are copies of one of the 1,000 rows before.  2,000,000 rows give
 * 359,208 groups of (10 s window, auction) and 1,838,288 of (bidder, auction).
 */
#ifndef BIDS_H
#define BIDS_H

#include <stdint.h>

typedef struct Bid
{
	int64_t		auction;
	int64_t		bidder;
	int64_t		price;
	char		channel[24];
	char		url[72];
	int64_t		date_time;		/* ms since 1970 */
	char		extra[32];
} Bid;

/* From here on bid_next gives the rows of a set of that many. */
extern void bids_start(int64_t rows, uint64_t seed);

/* The next row; valid until the next call.  NULL after the last one. */
extern const Bid *bid_next(void);

/*
 * The next row for measuring latency: of this time, to one of `auctions` auctions,
 * each as likely.  No copies of rows before.
 */
extern const Bid *bid_now(int64_t date_time, int64_t auctions);

/*
 * The auctions that are bid on, each a little before its first bid: 3 to 4 s, so that
 * 98 % of the bids come within 20 s after it.
 */
#define BIDS_AUCTIONS	200000

typedef struct Auction
{
	int64_t		id;
	int64_t		initial_bid;
	int64_t		reserve;
	int64_t		date_time;		/* ms since 1970 */
	int64_t		seller;
	int			category;
	char		item_name[8];
	char		extra[24];
} Auction;

extern void auctions_start(uint64_t seed);
extern const Auction *auction_next(void);

/*
 * Events of ads after the Yahoo streaming benchmark: a third of them are views;
 * 1,000 ads, ten to a campaign.  Event time runs as that of bids does.
 */
#define ADS_CAMPAIGNS	100
#define ADS				1000

typedef struct Ad
{
	char		user_id[40];
	char		page_id[40];
	char		ad_id[40];
	const char *ad_type;
	const char *event_type;
	int64_t		event_time;		/* ms since 1970 */
	int			address[4];
} Ad;

extern void ads_start(int64_t rows, uint64_t seed);
extern const Ad *ad_next(void);
extern void ad_id_of(char *out, int ad);	/* 40 bytes */

#endif
