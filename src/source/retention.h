/*
 * retention.h
 *		Gives back the storage of INSERT-able streams.
 */
#ifndef SX_SOURCE_RETENTION_H
#define SX_SOURCE_RETENTION_H

/*
 * Called by the scheduler every few seconds, outside a transaction: looks after
 * each stream of the database in a transaction of its own.
 */
extern void sx_stream_rotate_all(void);

/* The same for one stream, in the caller's transaction with an active snapshot. */
extern void sx_stream_rotate(Oid stream);

#endif
