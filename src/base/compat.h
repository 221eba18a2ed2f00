/*
 * compat.h
 *		The differences between PostgreSQL 15, 16, 17 and 18, in one place.
 *
 * Callers are written for the newest name; older servers get it here.
 */
#ifndef SX_BASE_COMPAT_H
#define SX_BASE_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "streamx needs PostgreSQL 15 or newer"
#endif

/* 18: pg_noreturn stands before a declaration; older servers have only this, behind it. */
#if PG_VERSION_NUM >= 180000
#define pg_attribute_noreturn() __attribute__((noreturn))
#endif

/* 16: the macros of varlena values are in a header of their own. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 18: not for btree alone; the numbers of the comparisons are the same (include utils/lsyscache.h). */
#if PG_VERSION_NUM >= 180000
#define SxOpInterpretation OpIndexInterpretation
#define sx_op_interpretations(operator) get_op_index_interpretation(operator)
#define sx_op_strategy(interpretation) ((int) (interpretation)->cmptype)
#else
#define SxOpInterpretation OpBtreeInterpretation
#define sx_op_interpretations(operator) get_op_btree_interpretation(operator)
#define sx_op_strategy(interpretation) ((interpretation)->strategy)
#endif

/* 18: base64 is made of unsigned bytes. */
#if PG_VERSION_NUM >= 180000
#define sx_b64_encode(from, len, to, tolen) \
	pg_b64_encode((const uint8 *) (from), (len), (to), (tolen))
#else
#define sx_b64_encode(from, len, to, tolen) \
	pg_b64_encode((from), (len), (to), (tolen))
#endif

/* 16: one function for the rights on objects of any class. */
#if PG_VERSION_NUM < 160000
#define object_aclcheck(classid, oid, role, mode) \
	((classid) == ProcedureRelationId ? pg_proc_aclcheck((oid), (role), (mode)) : \
	 pg_namespace_aclcheck((oid), (role), (mode)))
#endif

/* 16: make_range() can report soft errors. */
#if PG_VERSION_NUM >= 160000
#define sx_make_range(type, lower, upper) \
	make_range((type), (lower), (upper), false, NULL)
#else
#define sx_make_range(type, lower, upper) \
	make_range((type), (lower), (upper), false)
#endif

/* 16: one function checks the rights on objects of every class. */
#if PG_VERSION_NUM >= 160000
#define sx_type_aclcheck(type, role, mode) \
	object_aclcheck(TypeRelationId, (type), (role), (mode))
#else
#define sx_type_aclcheck(type, role, mode) \
	pg_type_aclcheck((type), (role), (mode))
#endif

/* 17: restrictions may be attached; 18: disabled nodes are counted. */
#if PG_VERSION_NUM >= 180000
#define sx_create_foreignscan_path(root, rel, rows, startup, total, outer) \
	create_foreignscan_path((root), (rel), NULL, (rows), 0, (startup), (total), NIL, (outer), NULL, NIL, NIL)
#elif PG_VERSION_NUM >= 170000
#define sx_create_foreignscan_path(root, rel, rows, startup, total, outer) \
	create_foreignscan_path((root), (rel), NULL, (rows), (startup), (total), NIL, (outer), NULL, NIL, NIL)
#else
#define sx_create_foreignscan_path(root, rel, rows, startup, total, outer) \
	create_foreignscan_path((root), (rel), NULL, (rows), (startup), (total), NIL, (outer), NULL, NIL)
#endif

/* 16: TRUNCATE can run as the table's owner. */
#if PG_VERSION_NUM >= 160000
#define sx_truncate(rels, relids) \
	ExecuteTruncateGuts((rels), (relids), NIL, DROP_RESTRICT, false, false)
#else
#define sx_truncate(rels, relids) \
	ExecuteTruncateGuts((rels), (relids), NIL, DROP_RESTRICT, false)
#endif

/* 16: permission data moved from range table entries to RTEPermissionInfos. */
#if PG_VERSION_NUM >= 160000
#define sx_rte_check_as_user(query, rte) \
	((rte)->perminfoindex == 0 ? InvalidOid : \
	 ((RTEPermissionInfo *) list_nth((query)->rteperminfos, (rte)->perminfoindex - 1))->checkAsUser)
#define sx_rte_forget_relation(rte) ((void) 0)	/* 16 keeps relid, so that locks and rights are checked */
#define sx_query_drop_permissions(query) ((query)->rteperminfos = NIL)
#define sx_flatten_join_aliases(query, node) flatten_join_alias_vars(NULL, query, node)
#else
#define sx_rte_check_as_user(query, rte) ((rte)->checkAsUser)
#define sx_rte_forget_relation(rte) ((rte)->relid = InvalidOid, (rte)->relkind = 0, (rte)->requiredPerms = 0)
#define sx_query_drop_permissions(query) ((void) 0)
#define sx_flatten_join_aliases(query, node) flatten_join_alias_vars(query, node)
#endif

/* 16: a Var says which outer joins may make it NULL; permission data goes along with a range table. */
#if PG_VERSION_NUM >= 160000
#define sx_var_set_nulling(var, rels) ((var)->varnullingrels = (rels))
#define sx_query_move_permissions(to, from) ((to)->rteperminfos = (from)->rteperminfos)
#else
#define sx_var_set_nulling(var, rels) ((void) (rels))
#define sx_query_move_permissions(to, from) ((void) 0)
#endif

/* 18: grouping expressions moved into a range table entry of their own. */
#if PG_VERSION_NUM >= 180000
#define sx_query_flatten_groups(query) \
	do { \
		if ((query)->hasGroupRTE) \
		{ \
			(query)->targetList = (List *) flatten_group_exprs(NULL, query, (Node *) (query)->targetList); \
			(query)->havingQual = flatten_group_exprs(NULL, query, (query)->havingQual); \
			(query)->hasGroupRTE = false; \
			for (int rti_ = 0; rti_ < list_length((query)->rtable); rti_++) \
			{ \
				RangeTblEntry *rte_ = list_nth((query)->rtable, rti_); \
				if (rte_->rtekind == RTE_GROUP) \
				{ \
					rte_->rtekind = RTE_RESULT;	/* its expressions are uses of columns no more */ \
					rte_->groupexprs = NIL; \
				} \
			} \
		} \
	} while (0)
#else
#define sx_query_flatten_groups(query) ((void) 0)
#endif

/* 17: a background worker may run as a role that cannot log in. */
#if PG_VERSION_NUM >= 170000
#define SX_NEEDS_LOGIN_ROLE		false
#define SX_CONNECTION_FLAGS		BGWORKER_BYPASS_ROLELOGINCHECK
#else
#define SX_NEEDS_LOGIN_ROLE		true
#define SX_CONNECTION_FLAGS		0
#endif

/* 16: one function for the privileges on all kinds of objects (include utils/acl.h). */
#if PG_VERSION_NUM >= 160000
#define sx_database_aclcheck(oid, role, mode) \
	object_aclcheck(DatabaseRelationId, (oid), (role), (mode))
#define sx_database_ownercheck(oid, role) \
	object_ownercheck(DatabaseRelationId, (oid), (role))
#define sx_extension_ownercheck(oid, role) \
	object_ownercheck(ExtensionRelationId, (oid), (role))
#define sx_relation_ownercheck(oid, role) \
	object_ownercheck(RelationRelationId, (oid), (role))
#else
#define sx_database_aclcheck(oid, role, mode) \
	pg_database_aclcheck((oid), (role), (mode))
#define sx_database_ownercheck(oid, role) \
	pg_database_ownercheck((oid), (role))
#define sx_extension_ownercheck(oid, role) \
	pg_extension_ownercheck((oid), (role))
#define sx_relation_ownercheck(oid, role) \
	pg_class_ownercheck((oid), (role))
#endif

/* 16: rights of range table entries are checked from lists of their own (include executor/executor.h). */
#if PG_VERSION_NUM >= 160000
#define sx_check_permissions(query, report) \
	ExecCheckPermissions((query)->rtable, (query)->rteperminfos, (report))
#else
#define sx_check_permissions(query, report) \
	ExecCheckRTPerms((query)->rtable, (report))
#endif

/* 16: only summarizing indexes can be asked for. */
#if PG_VERSION_NUM >= 160000
#define sx_insert_index_tuples(info, slot, estate) \
	ExecInsertIndexTuples((info), (slot), (estate), false, false, NULL, NIL, false)
#else
#define sx_insert_index_tuples(info, slot, estate) \
	ExecInsertIndexTuples((info), (slot), (estate), false, false, NULL, NIL)
#endif

/* 18: ExecutorRun() lost execute_once. */
#if PG_VERSION_NUM >= 180000
#define sx_executor_run(desc) \
	ExecutorRun((desc), ForwardScanDirection, 0)
#else
#define sx_executor_run(desc) \
	ExecutorRun((desc), ForwardScanDirection, 0, true)
#endif

/* 17: ExplainOnePlan() can show the planner's memory. */
#if PG_VERSION_NUM >= 170000
#define sx_explain_one_plan(plan, es, text, env) \
	ExplainOnePlan((plan), NULL, (es), (text), NULL, (env), NULL, NULL, NULL)
#else
#define sx_explain_one_plan(plan, es, text, env) \
	ExplainOnePlan((plan), NULL, (es), (text), NULL, (env), NULL, NULL)
#endif

/* 16: relfilenode became relfilenumber. */
#if PG_VERSION_NUM < 160000
#define RelationSetNewRelfilenumber(rel, persistence) \
	RelationSetNewRelfilenode(rel, persistence)
#endif

/* An index that nobody but us uses: no checks, no notices. */
#if PG_VERSION_NUM < 160000
#define sx_define_index(relation, statement) \
	DefineIndex(relation, statement, InvalidOid, InvalidOid, InvalidOid, \
				false, false, false, false, true)
#else
#define sx_define_index(relation, statement) \
	DefineIndex(relation, statement, InvalidOid, InvalidOid, InvalidOid, -1, \
				false, false, false, false, true)
#endif

/* 17: a better name. Read without its lock: it only ever grows (include access/transam.h). */
#if PG_VERSION_NUM >= 170000
#define sx_completed_transactions() \
	(*(volatile uint64 *) &TransamVariables->xactCompletionCount)
#else
#define sx_completed_transactions() \
	(*(volatile uint64 *) &ShmemVariableCache->xactCompletionCount)
#endif

/* 17: REINDEX's own statement may be passed (include catalog/index.h). */
#if PG_VERSION_NUM >= 170000
#define sx_reindex_index(index, persistence) \
	reindex_index(NULL, (index), true, (persistence), &(ReindexParams) {0})
#else
#define sx_reindex_index(index, persistence) \
	reindex_index((index), true, (persistence), &(ReindexParams) {0})
#endif

/* 18: index scans can be counted for EXPLAIN. */
#if PG_VERSION_NUM >= 180000
#define sx_index_beginscan(heap, index, snapshot, nkeys, norderbys) \
	index_beginscan((heap), (index), (snapshot), NULL, (nkeys), (norderbys))
#else
#define sx_index_beginscan(heap, index, snapshot, nkeys, norderbys) \
	index_beginscan((heap), (index), (snapshot), (nkeys), (norderbys))
#endif

/*
 * A relation leaves the extension that it is a member of, so that it can be dropped.
 * 17: its row type and that type's array type are members, too (include
 * catalog/dependency.h, catalog/pg_extension.h, catalog/pg_type.h, utils/lsyscache.h).
 */
#define sx_leave_extension_as(classid, oid) \
	((void) deleteDependencyRecordsForClass((classid), (oid), ExtensionRelationId, DEPENDENCY_EXTENSION))
#if PG_VERSION_NUM >= 170000
#define sx_leave_extension(relation) \
	do { \
		Oid			rowtype_ = get_rel_type_id(relation); \
		sx_leave_extension_as(RelationRelationId, (relation)); \
		if (OidIsValid(rowtype_)) \
		{ \
			sx_leave_extension_as(TypeRelationId, rowtype_); \
			sx_leave_extension_as(TypeRelationId, get_array_type(rowtype_)); \
		} \
	} while (0)
#else
#define sx_leave_extension(relation) \
	sx_leave_extension_as(RelationRelationId, (relation))
#endif

/* 18: a primary key that is checked at the end can be asked for (include utils/relcache.h). */
#if PG_VERSION_NUM >= 180000
#define sx_primary_key_index(relation) \
	RelationGetPrimaryKeyIndex((relation), false)
#else
#define sx_primary_key_index(relation) \
	RelationGetPrimaryKeyIndex(relation)
#endif

/* Whose rights a foreign scan has; InvalidOid: the current user's. Needs executor/executor.h. */
#if PG_VERSION_NUM >= 160000
#define sx_scan_check_as_user(node) \
	(((ForeignScan *) (node)->ss.ps.plan)->checkAsUser)
#else
#define sx_scan_check_as_user(node) \
	(exec_rt_fetch(((Scan *) (node)->ss.ps.plan)->scanrelid, (node)->ss.ps.state)->checkAsUser)
#endif

#endif
