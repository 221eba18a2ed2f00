/*
 * pane_table.h
 *		Panes by their keys, and the windows that they make up.
 *
 *	 add		panes of any keys, in any order
 *	 order		by key, then by time
 *	 walk		over the panes of one key: each window that holds any of them
 *
 * Lives for a step of a batch. Keys are those of operators whose bytes decide
 * what is equal.
 */
#ifndef SX_EXEC_PANE_TABLE_H
#define SX_EXEC_PANE_TABLE_H

#include "time/window.h"

typedef struct SxPane
{
	TimestampTz start;
	char	   *values;			/* of the aggregates; NULL where only counted */
	bool		touched;		/* in this batch */
	bool		old;			/* a batch before had it */
} SxPane;

typedef struct SxPaneKey
{
	const char *bytes;			/* without the pane */
	uint32		len;
	uint32		hash;
	uint8		group;			/* its key group */
	int			npanes;
	SxPane	   *panes;			/* once they are in order */
} SxPaneKey;

typedef struct SxPaneTable
{
	MemoryContext context;
	uint64		seed;
	uint32		nkeys;
	SxPaneKey  *keys;
	uint32		keys_allocated;
	uint32	   *slots;			/* number of the key + 1, 0: free */
	uint32		mask;
	Size		npanes;
	Size		panes_allocated;
	struct SxAddedPane *added;
	SxPane	   *panes;
} SxPaneTable;

/* In CurrentMemoryContext; gone with it. */
extern SxPaneTable *sx_pane_table_make(void);

/* The bytes must stay until the table is gone; pane->start is set by them. */
extern void sx_pane_table_add(SxPaneTable *table, const char *key, uint32 keylen, uint8 group,
							  const SxPane *pane);
extern void sx_pane_table_order(SxPaneTable *table);

/* Windows that hold some of the panes, which are in order; in their own order. */
typedef struct SxPaneWalk
{
	const SxWindow *window;
	const SxPane *panes;
	int			npanes;
	TimestampTz upto;			/* no window that ends after it */
	TimestampTz next;			/* no window that starts before it */
	int			seen;			/* the pane that next was made to fit */

	/* the current window and its panes [first, end) */
	TimestampTz start;
	int			first;
	int			end;
} SxPaneWalk;

/* Only windows that end after "after", and not after "upto". */
extern void sx_pane_walk_begin(SxPaneWalk *walk, const SxWindow *window, const SxPane *panes,
							   int npanes, TimestampTz after, TimestampTz upto);
extern bool sx_pane_walk_next(SxPaneWalk *walk);

#endif
