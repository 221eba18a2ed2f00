# Rude neighbours and careless users: whatever is done to the objects, roles and
# processes under running queries ends in a state with a hint; nothing of the
# batch is there before the cause is mended, nothing is lost or doubled after,
# and a healthy query beside it does not notice.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep time);
use SxCluster;

my $node = SxCluster->new('rude', conf => ['streamx.max_failures_in_a_row = 1', 'max_prepared_transactions = 5']);
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE ROLE owner LOGIN;
CREATE ROLE other;
GRANT other TO owner;
CREATE SCHEMA mine;
GRANT ALL ON SCHEMA mine TO owner;
CREATE FOREIGN TABLE s (id int, k int, v text, ts timestamptz OPTIONS (watermark '10 s')) SERVER streamx;
GRANT SELECT ON s TO owner;
CREATE SEQUENCE ids;
CREATE TABLE dim (k int PRIMARY KEY, name text);
INSERT INTO dim SELECT i, 'n' || i FROM generate_series(0, 9) i;
GRANT SELECT ON dim TO owner;
CREATE FUNCTION f(v text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN v; END';
CREATE TABLE mine.a_out (id int, v text, name text);
CREATE TABLE mine.u_out (k int, n bigint, UNIQUE NULLS NOT DISTINCT (k));
GRANT ALL ON mine.a_out, mine.u_out TO owner;
CREATE TABLE seen (batch bigint, id int, who text, path text);
GRANT ALL ON seen TO owner;
-- waits for one of the states
CREATE FUNCTION st(q text, wanted text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	is_state text;
BEGIN
	FOR i IN 1..600 LOOP
		SELECT state INTO is_state FROM streamx.queries WHERE name = q;
		EXIT WHEN is_state = ANY (string_to_array(wanted, '|'));
		PERFORM pg_sleep(0.02);
	END LOOP;
	RETURN is_state;
END $$;
CREATE FUNCTION put(n int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO s SELECT i, i % 10, 'v' || i, '2024-01-01Z'::timestamptz + i * interval '1 s' FROM (SELECT nextval('ids')::int AS i FROM generate_series(1, n)) x $$;
SQL

sub body { return "CREATE OR REPLACE FUNCTION each_batch(batch_id bigint) RETURNS void LANGUAGE plpgsql AS \$f\$ BEGIN INSERT INTO seen SELECT batch_id, id, current_user, current_setting('search_path') FROM batch; $_[0] END \$f\$"; }
$node->sql(body(''));

sub psql_as_owner { return $node->sql($_[0], user => 'owner'); }
psql_as_owner(<<'SQL');
SELECT create_query('a', 'SELECT s.id, f(s.v) AS v, dim.name FROM s JOIN dim USING (k)', 'mine.a_out');
SELECT create_query('u', 'SELECT k, count(*) AS n FROM s GROUP BY k', 'mine.u_out', 'update');
SELECT create_query('e', 'SELECT id, v FROM s', foreach_batch => 'each_batch(bigint)');
SELECT start_query('a'), start_query('u'), start_query('e');
SQL
$node->sql("SELECT start_query('healthy', 'SELECT id FROM s', 'healthy_out')");

my %complete = (
	a => "(SELECT array_agg(id ORDER BY id) FROM s) = (SELECT array_agg(id ORDER BY id) FROM mine.a_out)",
	u => "NOT EXISTS (SELECT k, count(*) FROM s GROUP BY k EXCEPT TABLE mine.u_out) AND (SELECT count(DISTINCT k) FROM s) = (SELECT count(*) FROM mine.u_out)",
	e => "(SELECT array_agg(id ORDER BY id) FROM s) = (SELECT array_agg(id ORDER BY id) FROM seen)",
	healthy => "(SELECT array_agg(id ORDER BY id) FROM s) = (SELECT array_agg(id ORDER BY id) FROM healthy_out)");
my %sink = (a => 'mine.a_out', u => 'mine.u_out', e => 'seen');

sub complete { return $node->sql("SELECT process_all_available('$_[0]', '30 s'); SELECT $complete{$_[0]}") =~ /t$/; }
sub st { return $node->sql("SELECT st('$_[0]', '$_[1]')"); }

# The query fails with the SQLSTATE and a hint; its sink is as before; mended it has all.
sub fault
{
	my ($q, $what, $sqlstate, $hint, $break, $mend) = @_;
	my $before = $node->sql("SELECT process_all_available('$q', '30 s'); $break; SELECT coalesce(md5(string_agg(t::text, ',' ORDER BY t::text)), '') FROM $sink{$q} t");
	$node->sql("SELECT put(3)");
	is(st($q, 'failed'), 'failed', "$what: the query fails");
	my ($is_state, $is_hint) = split /\|/, $node->sql("SELECT f.sqlstate, q.hint FROM streamx.queries q JOIN streamx.failures f ON f.query = q.name WHERE name = '$q' ORDER BY at DESC LIMIT 1");
	is($is_state, $sqlstate, "$what: with its SQLSTATE");
	like($is_hint, $hint, "$what: and a hint");
	is($node->sql("SELECT coalesce(md5(string_agg(t::text, ',' ORDER BY t::text)), '') FROM $sink{$q} t"), ($before =~ /([^\n]*)$/)[0], "$what: nothing of the batch is in the sink")
	  unless $break =~ /COLUMN|TYPE/;
	$node->sql("$mend; SELECT start_query('$q')");
	ok(complete($q), "$what: mended, it goes on with nothing lost or doubled");
}

# It never fails.
sub harmless
{
	my ($q, $what, $do, $undo) = @_;
	$node->sql("SELECT process_all_available('$q', '30 s'); $do");
	$node->sql("SELECT put(3)");
	$node->sql("SELECT process_all_available('$q', '30 s')");
	$node->sql("$undo; SELECT put(1)");
	ok(complete($q) && $node->sql("SELECT failures_in_a_row FROM streamx.queries WHERE name = '$q'") eq '0', "$what: the query goes on");
}
$node->sql("SELECT put(10)");
ok(complete($_), "query $_ runs") for qw(a u e healthy);

# ---------- sinks ----------
$node->sql(<<'SQL');
CREATE FUNCTION rude() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING HINT = 'be nice'; END $$;
CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.log VALUES (TG_OP, TG_LEVEL); SET search_path = nowhere; IF current_user <> 'other' THEN SET ROLE other; END IF; RETURN NEW; END $$;	-- 18 runs a deferred one as who queued it, and lets it change no role
CREATE FUNCTION commits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN COMMIT; RETURN NEW; END $$;
CREATE TABLE log (op text, level text);
GRANT ALL ON log TO PUBLIC;
CREATE TABLE refs (id int PRIMARY KEY);
GRANT ALL ON refs TO owner;
CREATE TABLE parent (id int, v text, name text) PARTITION BY RANGE (id);
SQL
my $t = 'ALTER TABLE mine.a_out';
my $any = qr/start_query\('[aue]'\)/;
fault('a', 'a CHECK that fails', '23514', $any, "$t ADD CONSTRAINT c CHECK (id < 0) NOT VALID", "$t DROP CONSTRAINT c");
fault('a', 'a column that must have a value', '23502', qr/default/, "$t ADD COLUMN must int; UPDATE mine.a_out SET must = 1; $t ALTER must SET NOT NULL", "$t DROP must");
fault('a', 'a BEFORE trigger that raises', 'P0001', qr/be nice/, "CREATE TRIGGER r BEFORE INSERT ON mine.a_out FOR EACH ROW EXECUTE FUNCTION rude()", "DROP TRIGGER r ON mine.a_out");
fault('a', 'an AFTER statement trigger that raises', 'P0001', qr/be nice/, "CREATE TRIGGER r AFTER INSERT ON mine.a_out FOR EACH STATEMENT EXECUTE FUNCTION rude()", "DROP TRIGGER r ON mine.a_out");
fault('a', 'a trigger that commits', '2D000', $any, "CREATE TRIGGER r AFTER INSERT ON mine.a_out FOR EACH ROW EXECUTE FUNCTION commits()", "DROP TRIGGER r ON mine.a_out");
fault('a', 'a deferred foreign key', '23503', $any, "$t ADD CONSTRAINT r FOREIGN KEY (id) REFERENCES refs DEFERRABLE INITIALLY DEFERRED NOT VALID", "$t DROP CONSTRAINT r");
fault('u', 'a deferred trigger of an upserting query', 'P0001', qr/be nice/, "CREATE CONSTRAINT TRIGGER r AFTER INSERT OR UPDATE ON mine.u_out DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rude()", "DROP TRIGGER r ON mine.u_out");
fault('a', "a user's row holds a unique key", '23505', qr/not written by this query/, "CREATE UNIQUE INDEX i ON mine.a_out (id); INSERT INTO mine.a_out SELECT last_value + 2 FROM ids", "DELETE FROM mine.a_out WHERE v IS NULL; DROP INDEX mine.i");
fault('a', 'an exclusion constraint', '23P01', $any, "$t ADD CONSTRAINT x EXCLUDE USING btree (id WITH =); INSERT INTO mine.a_out SELECT last_value + 2 FROM ids", "DELETE FROM mine.a_out WHERE v IS NULL; $t DROP CONSTRAINT x");
fault('a', 'a column that is renamed', '42703', qr/Add the column/, "$t RENAME COLUMN v TO w", "$t RENAME COLUMN w TO v");
fault('a', 'a column that is dropped', '42703', qr/Add the column/, "$t DROP COLUMN name", "$t ADD COLUMN name text");
fault('a', 'a column of another type', '42804', qr/Cast/, "$t ALTER COLUMN name TYPE point USING NULL", "$t ALTER COLUMN name TYPE text USING NULL");
fault('a', 'a column too short', '22001', $any, "UPDATE mine.a_out SET name = NULL; $t ALTER COLUMN name TYPE varchar(1)", "$t ALTER COLUMN name TYPE text");
fault('a', 'a row security policy', '42501', qr/Grant role "owner"/, "$t ENABLE ROW LEVEL SECURITY", "$t DISABLE ROW LEVEL SECURITY");
fault('a', 'a sink that becomes a partition', '23514', $any, "ALTER TABLE parent ATTACH PARTITION mine.a_out FOR VALUES FROM (0) TO (" . ($node->sql("SELECT last_value + 2 FROM ids")) . ")", "ALTER TABLE parent DETACH PARTITION mine.a_out");
fault('u', 'its unique index dropped', '42P10', qr/CREATE UNIQUE INDEX/, "ALTER TABLE mine.u_out DROP CONSTRAINT u_out_k_key", "CREATE UNIQUE INDEX ON mine.u_out (k) NULLS NOT DISTINCT");
fault('u', 'a rule on an upserted table', '0A000', $any, "CREATE RULE r AS ON UPDATE TO mine.u_out DO INSTEAD NOTHING", "DROP RULE r ON mine.u_out");
harmless('a', 'triggers that write, SET a search_path and a role', "CREATE TRIGGER q BEFORE INSERT ON mine.a_out FOR EACH ROW EXECUTE FUNCTION quiet(); CREATE CONSTRAINT TRIGGER d AFTER INSERT ON mine.a_out DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION quiet()",
	"SELECT put(2); SELECT process_all_available('a', '20 s'); DROP TRIGGER q ON mine.a_out; DROP TRIGGER d ON mine.a_out");
is($node->sql("SELECT usename || ' ' || (SELECT count(*) > 9 FROM log) FROM pg_stat_activity WHERE application_name = 'streamx: a'"), 'owner true', 'what triggers SET has no effect on the next batch');
harmless('a', 'a sink renamed and moved, another made in its place', "ALTER TABLE mine.a_out RENAME TO moved; ALTER TABLE mine.moved SET SCHEMA public; CREATE TABLE mine.a_out (id int, v text, name text)",
	"DROP TABLE mine.a_out; ALTER TABLE moved SET SCHEMA mine; ALTER TABLE mine.moved RENAME TO a_out");
harmless('a', 'columns added, the table rewritten', "$t ADD COLUMN extra int DEFAULT 5; VACUUM FULL mine.a_out; $t ADD COLUMN g int GENERATED ALWAYS AS (id * 2) STORED; $t ADD COLUMN i int GENERATED ALWAYS AS IDENTITY", "$t DROP extra, DROP g, DROP i");
harmless('u', 'users who update and delete rows', "UPDATE mine.u_out SET n = -1; DELETE FROM mine.u_out WHERE k < 5; INSERT INTO mine.u_out VALUES (3, -3)", "SELECT put(10); SELECT process_all_available('u', '20 s')");
harmless('u', 'TRUNCATE', "TRUNCATE mine.u_out", "SELECT put(10)");

# locks: it waits, says so, and can be stopped
my $locker = $node->background("BEGIN; LOCK TABLE mine.u_out; SELECT pg_sleep(3); COMMIT; SELECT pg_sleep(1000)");
$node->poll("SELECT count(*) > 0 FROM pg_locks WHERE relation = 'mine.u_out'::regclass AND mode = 'AccessExclusiveLock' AND granted");
$node->sql("SELECT put(10)");
ok($node->poll("SELECT waits_for = 'a lock' AND hint ~ 'pg_blocking_pids' AND state = 'running' FROM streamx.queries WHERE name = 'u'", 't', 3), 'a locked sink: the query waits for a lock and says so');
ok(complete('u'), 'and goes on afterwards');
$node->sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(1000)%'");
$node->stop_background($locker);
my $start = time;
is($node->sql("BEGIN; LOCK TABLE mine.u_out; SELECT put(1); SELECT pg_sleep(0.2); COMMIT; BEGIN; LOCK TABLE mine.u_out; SELECT pg_sleep(0.3); SELECT stop_query('u', '0.1 s'); COMMIT"), "\n\n\nt", 'stop_query by the one who holds the lock');
ok(time - $start < 3, 'does not wait for itself');
$node->sql("SELECT start_query('u')");
ok(complete('u'), 'and the query goes on');
done_part();

# ---------- rights ----------
fault('a', 'no INSERT on the sink', '42501', qr/Grant role "owner"/, "REVOKE INSERT ON mine.a_out FROM owner", "GRANT INSERT ON mine.a_out TO owner");
fault('u', 'no UPDATE on the sink', '42501', qr/Grant role "owner"/, "REVOKE UPDATE ON mine.u_out FROM owner", "GRANT UPDATE ON mine.u_out TO owner");
fault('u', 'no DELETE on the sink', '42501', qr/Grant role "owner"/, "REVOKE DELETE ON mine.u_out FROM owner; SELECT stop_query('u'); SELECT start_query('u')", "GRANT DELETE ON mine.u_out TO owner");
fault('a', 'no SELECT on the stream', '42501', qr/Grant role "owner"/, "REVOKE SELECT ON s FROM owner", "SELECT st('u', 'failed'), st('e', 'failed'); GRANT SELECT ON s TO owner; SELECT start_query('u'), start_query('e')");
fault('a', 'no SELECT on a joined table', '42501', qr/Grant role "owner"/, "REVOKE SELECT ON dim FROM owner", "GRANT SELECT ON dim TO owner");
fault('a', 'no EXECUTE on a function', '42501', qr/Grant role "owner"/, "REVOKE EXECUTE ON FUNCTION f FROM PUBLIC", "GRANT EXECUTE ON FUNCTION f TO PUBLIC");
fault('e', 'no EXECUTE on the foreach_batch function', '42501', qr/Grant role "owner"/, "REVOKE EXECUTE ON FUNCTION each_batch FROM PUBLIC", "GRANT EXECUTE ON FUNCTION each_batch TO PUBLIC");
fault('a', 'no USAGE on the schema of the sink', '42501', qr/Grant role "owner"/, "REVOKE ALL ON SCHEMA mine FROM owner", "SELECT st('u', 'failed'); GRANT ALL ON SCHEMA mine TO owner; SELECT start_query('u')");
fault('a', 'a function that raises from now on', 'P0001', $any, "CREATE OR REPLACE FUNCTION f(v text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'", "CREATE OR REPLACE FUNCTION f(v text) RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN v; END'");
for my $call ("start_query('a')", "stop_query('a')", "drop_query('a')", "alter_query('a', trigger => '1 s')", "process_all_available('a')", "explain_query('a')", "last_progress('a')")
{
	my ($rc, $out, $err) = $node->try_sql("SET ROLE other; SELECT $call");
	like($err, qr/must be owner of query "a"/, "$call is not for others");
}
is($node->sql("SET ROLE other; SELECT count(*) FROM streamx.queries"), '0', "nor do they see the queries");
done_part();

# ---------- foreach_batch ----------
fault('e', 'a foreach_batch function that raises', 'P0001', $any, body("RAISE EXCEPTION 'no';"), body(''));
fault('e', '... commits', '2D000', $any, body('COMMIT;'), body(''));
fault('e', '... rolls back', '2D000', $any, body('ROLLBACK;'), body(''));
fault('e', '... becomes a superuser', '42501', qr/./, body('SET SESSION AUTHORIZATION postgres;'), body(''));
fault('e', '... drops "batch" and raises', 'P0001', $any, body("DROP TABLE batch; RAISE EXCEPTION 'no';"), body(''));
fault('e', '... stops its query', '55006', qr/another session/, body("PERFORM stop_query('e');"), body(''));
fault('e', '... drops its query', '55006', qr/another session/, body("PERFORM drop_query('e');"), body(''));
fault('e', '... waits for its query', '55006', qr/another session/, body("PERFORM process_all_available('e');"), body(''));
harmless('e', 'a foreach_batch function that changes the role', body('SET ROLE other;'), body(''));
harmless('e', '... changes settings', body("SET search_path = nowhere; SET statement_timeout = 1; SET lock_timeout = 1; SET default_transaction_read_only = on; SET default_transaction_isolation = serializable;"), body(''));
is($node->sql("SELECT string_agg(DISTINCT who || ' ' || path, ',') FROM seen"), 'owner "$user", public', 'none of it is seen by a later batch');
harmless('e', '... makes temporary tables', body('CREATE TEMP TABLE IF NOT EXISTS mine (x int); INSERT INTO mine VALUES (1);'), body(''));
harmless('e', '... drops "batch"', body('DROP TABLE batch;'), body(''));
harmless('e', '... alters "batch"', body('ALTER TABLE batch RENAME id TO di; ALTER TABLE batch ADD extra int NOT NULL DEFAULT 1;'), body(''));
harmless('e', '... puts another "batch" in its place', body('DROP TABLE batch; CREATE TEMP TABLE batch (id int, v text); INSERT INTO batch VALUES (-1);'), body(''));
harmless('e', '... puts a trigger on "batch"', body("EXECUTE 'CREATE OR REPLACE FUNCTION pg_temp.eat() RETURNS trigger LANGUAGE plpgsql AS ''BEGIN RETURN NULL; END'''; EXECUTE 'CREATE TRIGGER eat BEFORE INSERT ON batch FOR EACH ROW EXECUTE FUNCTION pg_temp.eat()';"), body(''));
harmless('e', '... catches errors', body("BEGIN INSERT INTO seen VALUES (0, 0); RAISE EXCEPTION 'x'; EXCEPTION WHEN OTHERS THEN NULL; END;"), body(''));
$node->sql("GRANT INSERT ON s TO owner");
harmless('e', '... writes to the stream of its own query', body("INSERT INTO s SELECT id + 1000000, k, 'again', NULL FROM s WHERE id IN (SELECT b.id FROM batch b WHERE b.id < 1000000);"), body(''));
$node->sql(body('PERFORM pg_sleep(60);') . "; SELECT put(1); SELECT pg_sleep(0.3)");
$start = time;
is($node->sql("SELECT stop_query('e', '0.2 s')"), 't', 'one that runs for long is stopped');
ok(time - $start < 1.5, 'within a second');
$node->sql(body('') . "; SELECT start_query('e')");
ok(complete('e'), 'and its batch runs again');
done_part();

# ---------- objects ----------
for my $ddl ('DROP TABLE dim', 'DROP FUNCTION f(text)', 'DROP FOREIGN TABLE s', 'DROP TABLE mine.a_out', 'DROP FUNCTION each_batch(bigint)', 'ALTER TABLE dim DROP COLUMN name',
	'ALTER FOREIGN TABLE s DROP COLUMN v', 'ALTER FOREIGN TABLE s ALTER v TYPE varchar(20)', 'ALTER TABLE dim ALTER name TYPE varchar(20)', 'DROP SCHEMA streamx CASCADE', 'DROP SCHEMA streamx_query CASCADE',
	'DROP SCHEMA streamx_data CASCADE', 'DROP SERVER streamx CASCADE', 'DROP EXTENSION streamx', 'DROP ROLE owner', 'DROP SCHEMA mine')
{
	my ($rc, $out, $err) = $node->try_sql($ddl);
	like($err, qr/cannot|depend/, "$ddl is refused while queries use it");
}
harmless('a', 'a stream, its columns, a table and a function renamed', "ALTER FOREIGN TABLE s RENAME TO s2; ALTER FOREIGN TABLE s2 RENAME COLUMN v TO vv; ALTER TABLE dim RENAME TO dim2; ALTER TABLE dim2 RENAME name TO nom; ALTER FUNCTION f(text) RENAME TO f2; ALTER FOREIGN TABLE s2 RENAME TO s; ALTER FOREIGN TABLE s ADD COLUMN extra int DEFAULT 7; CREATE OR REPLACE FUNCTION put(n int) RETURNS void LANGUAGE sql AS 'INSERT INTO s SELECT i, i % 10, ''v'' || i, NULL FROM (SELECT nextval(''ids'')::int AS i FROM generate_series(1, n)) x'",
	"ALTER FOREIGN TABLE s RENAME COLUMN vv TO v; ALTER TABLE dim2 RENAME TO dim; ALTER TABLE dim RENAME nom TO name; ALTER FUNCTION f2(text) RENAME TO f; ALTER FOREIGN TABLE s DROP COLUMN extra");
for my $ddl ('DROP TABLE dim CASCADE', 'DROP FUNCTION f(text) CASCADE', 'ALTER TABLE dim DROP COLUMN name CASCADE', 'DROP TABLE mine.a_out CASCADE', 'DROP VIEW streamx_query.a', 'DROP OWNED BY owner', 'DROP EXTENSION streamx CASCADE')
{
	$node->sql("BEGIN; $ddl; ROLLBACK; SELECT put(1)");
	ok(complete('a') && complete('u'), "$ddl rolled back: the queries go on");
}
for my $ddl ('DROP TABLE x_dim CASCADE', 'DROP TABLE x_out CASCADE', 'DROP FUNCTION x_f(int) CASCADE', 'DROP FOREIGN TABLE x_s CASCADE', 'DROP VIEW streamx_query.x', 'ALTER FOREIGN TABLE x_s DROP COLUMN a CASCADE')
{
	$node->sql("CREATE TABLE x_dim (a int); INSERT INTO x_dim VALUES (1); CREATE FOREIGN TABLE x_s (a int, b int) SERVER streamx; CREATE FUNCTION x_f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN \$1; END'");
	$node->sql("SELECT start_query('x', 'SELECT x_f(a) AS a, count(*) AS n FROM x_s JOIN x_dim USING (a) GROUP BY x_f(a)', 'x_out', 'update'); INSERT INTO x_s VALUES (1, 1)");
	$node->sql("SELECT process_all_available('x', '20 s')");
	my ($rc, $out, $err) = $node->try_sql($ddl);
	like($err, qr/query "x" is dropped with its view/, "$ddl drops the query");
	is($node->sql("SELECT count(*) FROM streamx.queries WHERE name = 'x'") . $node->sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: x'"), '00', 'and its worker');
	$node->sql("DROP TABLE IF EXISTS x_out; DROP FUNCTION IF EXISTS x_f; DROP TABLE IF EXISTS x_dim; DROP FOREIGN TABLE IF EXISTS x_s");
}

# what the temporary table of a foreach_batch query uses
$node->sql("CREATE TYPE mood AS ENUM ('v')");
$node->sql(<<'SQL');
CREATE FUNCTION no_rows(batch_id bigint) RETURNS void LANGUAGE sql AS '';
SELECT create_query('x', 'SELECT id, left(v, 1)::mood AS m FROM s WHERE id < 10', foreach_batch => 'no_rows(bigint)');
SELECT start_query('x');
SQL
$node->sql("SELECT process_all_available('x', '20 s')");
$start = time;
like(($node->try_sql("DROP TYPE mood CASCADE"))[2], qr/query "x" is dropped with its view/, 'DROP TYPE CASCADE drops the query that hands it to a function');
ok(time - $start < 5, 'and does not wait for the lock that it holds itself');

# a checkpoint that somebody has changed
$node->sql("SELECT start_query('x', 'SELECT id FROM s WHERE id < 10', 'x_out')");
$node->sql("SELECT process_all_available('x', '20 s'); UPDATE streamx.batch SET offsets = 'garbage' WHERE query = (SELECT id FROM streamx.queries WHERE name = 'x'); SELECT stop_query('x')");
$node->try_sql("SELECT start_query('x')");
is(st('x', 'failed'), 'failed', 'a checkpoint that cannot be read fails the query');
is($node->sql("SELECT max(sqlstate) FROM streamx.failures WHERE query = 'x'"), 'SX003', 'and the failure says so');
$node->sql("SELECT drop_query('x'); DROP TABLE x_out");

# a search_path that finds things made later first
$node->sql(<<'SQL');
CREATE SCHEMA evil;
SET search_path = evil, public, pg_catalog;
SELECT start_query('p1', 'SELECT k, count(*) AS n FROM s GROUP BY k', 'public.p1_out', 'update');
SELECT start_query('p2', 'SELECT count(*) AS n, max(f(v)) AS v FROM s', 'public.p2_out', 'complete');
SQL
$node->sql("SELECT process_all_available('p1', '20 s'), process_all_available('p2', '20 s')");
$node->sql(<<'SQL');
CREATE DOMAIN evil.text AS text CHECK (VALUE = 'never');
CREATE TYPE evil.record AS (a int);
CREATE FUNCTION evil.f(pg_catalog.text) RETURNS pg_catalog.text LANGUAGE sql AS $$ SELECT 'evil' $$;
CREATE FUNCTION evil.count() RETURNS bigint LANGUAGE sql AS 'SELECT 666::bigint';
CREATE FUNCTION evil.row_number() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
CREATE FUNCTION evil.eq(anyelement, anyelement) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR evil.= (LEFTARG = anyelement, RIGHTARG = anyelement, FUNCTION = evil.eq);
CREATE TABLE evil.p1_out (k int, n bigint);
CREATE TABLE evil.query (id int);
CREATE TABLE evil.s (id int);
SELECT stop_query('p1'), stop_query('p2');
SELECT start_query('p1'), start_query('p2');
SELECT put(10);
SQL
$node->sql("SELECT process_all_available('p1', '20 s'), process_all_available('p2', '20 s')");
is($node->sql("SELECT NOT EXISTS (SELECT k, count(*) FROM s GROUP BY k EXCEPT TABLE p1_out) AND (SELECT n = (SELECT count(*) FROM s) AND v <> 'evil' FROM p2_out)"), 't', 'objects made later in an earlier schema are not used');
$node->sql("SELECT drop_query('p1'), drop_query('p2'); DROP SCHEMA evil CASCADE");
done_part();

# ---------- roles and settings ----------
my @hostile = ("statement_timeout = '1ms'", "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '1ms'", "default_transaction_read_only = on",
	"default_transaction_isolation = serializable", "default_transaction_deferrable = on", "search_path = nowhere", "role = other", "exit_on_error = on", "quote_all_identifiers = on",
	"standard_conforming_strings = off", "transform_null_equals = on", "default_tablespace = nowhere", "enable_seqscan = off", "work_mem = '64kB'", "cursor_tuple_fraction = 0.01", "client_encoding = LATIN1");
$node->sql("SELECT stop_query('a'), stop_query('u'), stop_query('e'); " . join('; ', map { "ALTER ROLE owner SET $_" } @hostile) . "; SELECT start_query('a'), start_query('u'), start_query('e'); SELECT put(5)");
ok(complete($_), "query $_ of a role with hostile settings runs") for qw(a u e);
fault('a', 'a failure under hostile settings', '23514', $any, "$t ADD CONSTRAINT c CHECK (id < 0) NOT VALID", "$t DROP CONSTRAINT c");
$node->sql("ALTER ROLE owner RESET ALL; " . join('; ', map { "ALTER DATABASE postgres SET $_" } @hostile[0, 1, 2, 4]));
$node->sql("SET statement_timeout = 0; SELECT stop_query('a'), stop_query('u'), stop_query('e'); SELECT start_query('a'), start_query('u'), start_query('e')");
$node->sql("SET statement_timeout = 0; ALTER DATABASE postgres RESET ALL; SELECT put(5)");
ok(complete($_), "query $_ in a database with hostile settings runs") for qw(a u e);
$node->sql("CREATE ROLE heir LOGIN; GRANT ALL ON SCHEMA mine TO heir; GRANT ALL ON s, dim, mine.a_out, mine.u_out, seen TO heir; REASSIGN OWNED BY owner TO heir; SELECT put(5)");
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE usename = 'heir' AND backend_type = 'streamx query'", '3', 20) && complete('a') && complete('u') && complete('e'), 'REASSIGN OWNED: the queries go on as the new owner');
$node->sql("REASSIGN OWNED BY heir TO owner");
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE usename = 'owner' AND backend_type = 'streamx query'", '3', 20) && complete('a'), 'and back');
$node->sql("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC; SELECT stop_query('a'); SELECT start_query('a')");
is(st('a', 'failed'), 'failed', 'an owner without CONNECT: the query fails');
like($node->sql("SELECT hint FROM streamx.queries WHERE name = 'a'"), qr/GRANT CONNECT ON DATABASE postgres TO owner/, 'and says what to do');
$node->sql("GRANT CONNECT ON DATABASE postgres TO PUBLIC; SELECT start_query('a')");
ok(complete('a'), 'then it goes on');
done_part();

# ---------- transactions ----------
for my $call ("create_query('t', 'SELECT id FROM s', 't_out')", "start_query('a')", "stop_query('a')", "drop_query('a')", "alter_query('a', trigger => '1 s')")
{
	my ($rc, $out, $err) = $node->try_sql("BEGIN READ ONLY; SELECT $call; COMMIT");
	like($err, qr/read-only transaction/, "no $call in a read-only transaction");
	($rc, $out, $err) = $node->try_sql("BEGIN; SELECT $call; PREPARE TRANSACTION 'x'");
	like($err, $call =~ /start/ ? qr/^NOTICE/ : qr/cannot PREPARE.*HINT/s, $call =~ /start/ ? 'a start_query that does nothing may be prepared' : "nor in one that is prepared");
	$node->try_sql("ROLLBACK PREPARED 'x'");
	$node->sql("BEGIN; SAVEPOINT p; SELECT $call; ROLLBACK TO p; COMMIT; SELECT put(1)");
	ok(complete('a'), 'and rolled back in a savepoint it changes nothing');
}
is($node->sql("SELECT count(*) FROM streamx.queries WHERE name = 't'") . ($node->sql("SELECT to_regclass('t_out')") || '-'), '0-', 'no query, no sink');
$node->sql("BEGIN; SELECT put(1); PREPARE TRANSACTION 'rows'");
$node->sql("SELECT put(1)");
ok(complete('a'), 'rows of a prepared transaction are waited for');
$node->sql("COMMIT PREPARED 'rows'");
ok(complete('a'), 'and read once it is committed');

# ---------- big and strange values ----------
$node->sql("INSERT INTO s SELECT nextval('ids'), 1, repeat(md5(random()::text), 50 * 32768), ts FROM (VALUES ('infinity'::timestamptz), ('-infinity'), ('4713-01-01 BC'), ('294276-12-31 23:59Z')) x(ts)");
ok(complete($_), "rows of 50 MB at both ends of time go through query $_") for qw(a u);
$node->sql("SELECT start_query('big', 'SELECT k, min(v) AS v FROM s GROUP BY k', 'big_out', 'update')");
is($node->sql("SELECT process_all_available('big', '60 s'); SELECT max(length(v)) FROM big_out"), "\n52428800", 'and through state');
$node->sql("SELECT drop_query('big')");

# ---------- secrets ----------
for my $ddl ("CREATE SERVER x FOREIGN DATA WRAPPER streamx OPTIONS (passwrd 's3cr3t!')", "CREATE USER MAPPING FOR PUBLIC SERVER streamx OPTIONS (password 's3cr3t!', sasl_passwrd 's3cr3t!')",
	"CREATE FOREIGN TABLE x (a int) SERVER streamx OPTIONS (retention 'banana', sasl_password 's3cr3t!')", "CREATE FOREIGN TABLE x (a int OPTIONS (secret 's3cr3t!')) SERVER streamx",
	"SELECT create_query('x', 'SELECT id FROM s', 'noop', options => '{\"max_retris\": 1, \"password\": \"s3cr3t!\"}')")
{
	my ($rc, $out, $err) = $node->try_sql($ddl);
	ok($err =~ /ERROR/ && $err !~ /s3cr3t/, 'an error about an option shows no value of another');
}
unlike(SxCluster::slurp($node->{log}), qr/s3cr3t/, 'nor does the log');
done_part();

# ---------- processes ----------
for my $kind ('streamx query', 'streamx scheduler', 'streamx launcher', 'streamx')
{
	for my $call ('pg_cancel_backend', 'pg_terminate_backend')
	{
		$node->sql("SELECT $call(pid) FROM pg_stat_activity WHERE backend_type LIKE '$kind%'");
		$node->sql("SELECT put(2)");
		ok(complete('a') && complete('u'), "$call of $kind: the queries go on");
	}
}
$node->sql("SELECT stop_query('a'); SELECT start_query('a')");
ok(complete('a'), 'and can be stopped and started');
my $pid = $node->sql("SELECT pid FROM streamx.queries WHERE name = 'a'");
kill 'STOP', $pid;
$start = time;
my ($rc, $out, $err) = $node->try_sql("SELECT stop_query('a', '0.1 s')");
ok($out eq 'f' && $err =~ /has not ended yet/ && time - $start < 15, 'a process that does not react: stop_query returns false in time');
kill 'CONT', $pid;
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", '0', 10), 'it ends as soon as it can');
$node->sql("SELECT start_query('a')");
ok(complete('a'), 'and the query goes on');

# ---------- no room ----------
$node->set('streamx.max_queries', 3);
$node->restart;
ok($node->poll("SELECT count(*) FROM streamx.queries WHERE state = 'running'", '3', 20), 'streamx.max_queries: as many run');
is($node->sql("SELECT state || ' ' || (hint ~ 'max_queries') FROM streamx.queries WHERE state <> 'running'"), 'waiting for a worker true', 'the others wait and say what to raise');
$node->set('streamx.max_queries', 64);
for my $workers (0, 1, 2)
{
	$node->set('max_worker_processes', $workers);
	$node->restart;
	ok($node->poll("SELECT string_agg(DISTINCT state, ',') = 'waiting for a worker' AND bool_and(hint ~ 'max_worker_processes') FROM streamx.queries", 't', 10), "max_worker_processes = $workers: every query says what to raise");
}
$node->set('max_worker_processes', 40);
$node->restart;
ok(complete($_), "with room query $_ goes on") for qw(a u e);

# ---------- disk full ----------
SKIP: {
	my $small = "$node->{dir}/small";
	mkdir $small;
	skip 'needs root and mount', 5 unless $> == 0 && system("mount -t tmpfs -o size=4m,mode=0755 tmpfs $small 2>/dev/null") == 0;
	chown((getpwnam('postgres'))[ 2, 3 ], $small);
	$node->set('streamx.state_directory', $small);
	$node->reload;
	$node->sql("CREATE FOREIGN TABLE w (k int, v text) SERVER streamx");
	for my $store (qw(rocksdb table))
	{
		$node->sql("SELECT start_query('w_$store', 'SELECT k, count(*) AS n, max(v) AS v FROM w GROUP BY k', 'w_$store', 'update', options => '{\"state_memory\": \"1MB\", \"batch_rows\": 5000, \"state_store\": \"$store\"}')");
	}
	$node->sql("INSERT INTO w SELECT i, md5(i::text) || md5(i + 1 || '') || md5(i + 2 || '') || md5(i + 3 || '') FROM generate_series(1, 60000) i");
	ok($node->poll("SELECT count(*) > 0 FROM streamx.failures WHERE query = 'w_rocksdb' AND sqlstate = '53100'", 't', 30), 'no space for the state: the error says so');
	like($node->sql("SELECT state || hint FROM streamx.queries WHERE name = 'w_rocksdb'"), qr/(retrying|starting|running).*free space/, 'the query is tried again, and has a hint');
	$node->sql("SELECT process_all_available('w_table', '60 s')");
	ok(complete('u'), 'other queries go on');
	system("mount -o remount,size=100m $small");
	$node->sql("SELECT process_all_available('w_rocksdb', '60 s'); INSERT INTO w SELECT i, 'z' FROM generate_series(1, 60000) i");
	$node->sql("SELECT process_all_available('w_rocksdb', '60 s'), process_all_available('w_table', '60 s')");
	is($node->sql("SELECT count(*) || ' ' || sum(n) FROM w_$_"), '60000 120000', "store $_: with space again nothing is lost or doubled") for qw(rocksdb table);
	$node->sql("SELECT drop_query('w_rocksdb'), drop_query('w_table')");
	$node->stop;
	system("umount $small");
	$node->set('streamx.state_directory', '');
	$node->start;
}

# ---------- the end ----------
ok(complete($_), "query $_ has everything") for qw(a u e healthy);
is($node->sql("SELECT count(*) FROM streamx.failures WHERE query = 'healthy'"), '0', 'the healthy query never failed');
$node->sql("BEGIN; SET CONSTRAINTS ALL DEFERRED; DROP SCHEMA public CASCADE; ROLLBACK");
ok(complete('a'), 'DROP SCHEMA of the extension rolled back: the queries go on');
$node->sql("DROP EXTENSION streamx CASCADE");
is($node->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'streamx query'"), '0', 'DROP EXTENSION CASCADE under running queries');
unlike(SxCluster::slurp($node->{log}), qr/PANIC|TRAP|terminated by signal|invalid memory|cache lookup failed/, 'the server was up all the time');
done_testing();

# The healthy query did not notice; called between the parts.
sub done_part
{
	ok(complete('healthy') && $node->sql("SELECT failures_in_a_row FROM streamx.queries WHERE name = 'healthy'") eq '0', 'the healthy query has not noticed');
}
