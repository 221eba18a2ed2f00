-- Everything that the extension makes has a comment.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SELECT plan(2);

CREATE TEMPORARY VIEW members AS
	SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS what
	FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
	WHERE e.extname = 'streamx' AND d.deptype = 'e';

SELECT ok((SELECT count(*) > 30 FROM members), 'the extension has members');
SELECT is((SELECT string_agg(what, ', ' ORDER BY what) FROM members m
		WHERE obj_description(objid, (SELECT relname FROM pg_class WHERE oid = classid)) IS NULL
			AND what !~ '^(type|index|toast|rule|trigger|user mapping)'),
	NULL, 'none is without a comment');
SELECT * FROM finish();
