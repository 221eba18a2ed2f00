/*
 * query_effect.h
 *		What a changed definition means for the state that a query has.
 */
#ifndef SX_API_QUERY_EFFECT_H
#define SX_API_QUERY_EFFECT_H

#include "plan/plan.h"
#include "registry/query.h"

typedef enum SxEffect
{
	SX_EFFECT_NEW,				/* there is nothing to keep yet */
	SX_EFFECT_KEPT,
	SX_EFFECT_REBUILT,			/* kept, and read from the log into another store */
	SX_EFFECT_LOST,				/* the query begins anew */
	SX_EFFECT_REFUSED			/* the next start refuses it */
} SxEffect;

typedef struct SxEffectOn
{
	int			operator_id;	/* -1: a stream's offsets */
	char	   *name;			/* of the operator, or the stream */
	SxEffect	effect;
	char	   *detail;			/* a sentence, or NULL */
} SxEffectOn;

/* For each operator, sink first, then each stream; changes nothing. List of SxEffectOn *. */
extern List *sx_query_effects(const SxQuery *before, const SxQuery *after, const SxPlan *plan,
							  bool reset);

/* A NOTICE for each operator whose state fits; the others' details, NULL if there are none. */
extern char *sx_query_effects_tell(List *effects);

#endif
