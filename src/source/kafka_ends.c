/*
 * kafka_ends.c
 *		How far each partition is read in a batch.
 */
#include "postgres.h"

#include <math.h>

#include "source/kafka_ends.h"

static int64
advance(int64 begin, int64 end, double share)
{
	double		rounded = share < 1 ? ceil(share) : floor(share);

	if (rounded >= (double) (end - begin))
		return end;
	return begin + (int64) rounded;
}

void
sx_kafka_share(int n, const int64 *begins, int64 *ends, int64 limit)
{
	double		total = 0;

	for (int i = 0; i < n; i++)
		if (ends[i] > begins[i])
			total += ends[i] - begins[i];
	if (total <= limit)
		return;
	for (int i = 0; i < n; i++)
		if (ends[i] > begins[i])
			ends[i] = advance(begins[i], ends[i], limit * ((ends[i] - begins[i]) / total));
}

void
sx_kafka_cut(int n, const int64 *begins, int64 *ends, double fraction)
{
	for (int i = 0; i < n; i++)
		if (ends[i] > begins[i])
			ends[i] = advance(begins[i], ends[i], (ends[i] - begins[i]) * fraction);
}
