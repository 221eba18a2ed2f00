/*
 * transform_layout.c
 *		What a handler keeps, as lines of the layout (layout.c):
 *
 *	 handler event time, output mode append
 *	 variable n value bigint
 *	 variable seen map text to public.visit(at timestamp with time zone, url text) with ttl
 *
 * Row types come with their columns: these may change under a name that stays, and
 * values were written as they were.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "plan/cut.h"
#include "plan/transform_layout.h"

static void
print_type(StringInfo text, Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);
	TupleDesc	desc;

	check_stack_depth();
	if (OidIsValid(element) && get_typtype(element) == TYPTYPE_COMPOSITE)
	{
		print_type(text, element);
		appendStringInfoString(text, "[]");
		return;
	}
	appendStringInfoString(text, format_type_be_qualified(type));
	if (get_typtype(base) != TYPTYPE_COMPOSITE)
		return;
	LockRelationOid(get_typ_typrelid(base), AccessShareLock);
	desc = lookup_rowtype_tupdesc(base, -1);
	appendStringInfoChar(text, '(');
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		appendStringInfo(text, "%s%s", i > 0 ? ", " : "",
						 att->attisdropped ? "-" : quote_identifier(NameStr(att->attname)));
		if (!att->attisdropped)
		{
			appendStringInfoChar(text, ' ');
			print_type(text, att->atttypid);
		}
	}
	appendStringInfoChar(text, ')');
	ReleaseTupleDesc(desc);
}

static void
print_variable(StringInfo text, const SxPlanVariable *variable)
{
	appendStringInfo(text, "variable %s %s ", quote_identifier(variable->name),
					 sx_variable_kind_name(variable->kind));
	if (variable->kind == SX_VARIABLE_MAP)
	{
		print_type(text, variable->key_type);
		appendStringInfoString(text, " to ");
	}
	print_type(text, variable->type);
	if (variable->ttl > 0)
		appendStringInfoString(text, " with ttl");
	appendStringInfoChar(text, '\n');
}

void
sx_transform_print_layout(const SxPlanOperator *op, SxOutputMode mode, StringInfo text)
{
	const SxPlanTransform *transform = op->transform;

	appendStringInfo(text, "handler %s time, output mode %s", sx_time_mode_name(transform->time_mode),
					 sx_output_mode_name(mode));
	if (get_typtype(getBaseType(op->keys->type)) == TYPTYPE_COMPOSITE)
	{
		appendStringInfoString(text, ", key ");
		print_type(text, op->keys->type);
	}
	appendStringInfoChar(text, '\n');
	for (int i = 0; i < transform->nvariables; i++)
		print_variable(text, &transform->variables[i]);
}
