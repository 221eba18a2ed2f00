/*
 * kafka_ends.h
 *		How far each partition is read in a batch.
 *
 * In proportion to what waits in each, so that partitions advance together
 * through time and catching up makes no row late (Spark sources 1.2):
 *
 *		backlogs 90, 10, 1 and a limit of 10:  8.91 -> 8,  0.99 -> 1,  0.099 -> 1
 *
 * A share below one is rounded up, so that nobody starves, others down. What
 * counts is offsets, not records: gaps count too.
 */
#ifndef SX_SOURCE_KAFKA_ENDS_H
#define SX_SOURCE_KAFKA_ENDS_H

/* ends: in, how far there is anything; out, how far to read. limit: in all, at least 1. */
extern void sx_kafka_share(int n, const int64 *begins, int64 *ends, int64 limit);

/* Cuts the ranges at an equal fraction of each, for what didn't fit into memory. */
extern void sx_kafka_cut(int n, const int64 *begins, int64 *ends, double fraction);

#endif
