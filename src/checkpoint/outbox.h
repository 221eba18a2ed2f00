/*
 * outbox.h
 *		Intents: what a committed batch owes a sink outside PostgreSQL.
 *
 * An intent is written in the batch's transaction and published after its
 * commit; once the sink is known to have it, it is deleted.  So at any time the
 * rows here are exactly the batches whose output may not be there yet.
 */
#ifndef SX_CHECKPOINT_OUTBOX_H
#define SX_CHECKPOINT_OUTBOX_H

/* In the batch's transaction. */
extern void sx_outbox_append(int64 query_id, int64 batch_id, const char *data, int len);

/* Batch ids that wait, oldest first; CurrentMemoryContext. Returns how many. */
extern int	sx_outbox_pending(int64 query_id, int64 **batches);

/* The intent as it was appended; ERRCODE_SX_CHECKPOINT if it is short or damaged. */
extern char *sx_outbox_read(int64 query_id, int64 batch_id, int *len);

/* The sink has every batch up to this one. */
extern void sx_outbox_delete(int64 query_id, int64 up_to_batch);
extern void sx_outbox_delete_all(int64 query_id);

#endif
