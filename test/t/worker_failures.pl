# What becomes of a query that fails: retried, given up, taken up again by a
# fresh process, or by a whole fresh server; and of one that finds no room (CASE-49).
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep time);
use SxCluster;

my $node = SxCluster->new('failures', conf => ['max_worker_processes = 40', 'streamx.max_failures_in_a_row = 3']);
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE ROLE owner LOGIN;
CREATE FOREIGN TABLE s (a int) SERVER streamx;
GRANT ALL ON s TO owner;
CREATE TABLE mood (raise text);
INSERT INTO mood VALUES ('');
GRANT ALL ON mood TO owner;
CREATE FUNCTION f(a int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	e text := (SELECT raise FROM mood);
BEGIN
	IF e = 'sleep' THEN PERFORM pg_sleep(60); END IF;
	IF e = 'stubborn' THEN
		BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(60); END;
	END IF;
	IF e <> '' THEN RAISE EXCEPTION 'mood %', e USING ERRCODE = e; END IF;
	RETURN a;
END $$;
SQL

sub mood { $node->sql("UPDATE mood SET raise = '$_[0]'; INSERT INTO s VALUES (1)"); }
sub state { return $node->sql("SELECT state FROM streamx.queries WHERE name = '$_[0]'"); }
sub facts { return $node->sql("SELECT $_[1] FROM streamx.queries WHERE name = '$_[0]'"); }
sub pid_of { return $node->sql("SELECT pid FROM streamx.queries WHERE name = '$_[0]'"); }
sub wait_state { return $node->poll("SELECT state FROM streamx.queries WHERE name = '$_[0]'", $_[1], $_[2] || 20); }

for my $q (qw(sick healthy))
{
	my $column = $q eq 'sick' ? 'f(a)' : 'a';
	$node->sql("SELECT start_query('$q', 'SELECT $column AS a FROM s', 'noop')", user => 'owner');
}
ok(wait_state('sick', 'running') && wait_state('healthy', 'running'), 'both queries run');
is($node->sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: sick' AND usename = 'owner'"),
	'1', 'pg_stat_activity names the query and its owner');
$node->sql("INSERT INTO s VALUES (1)");
$node->sql("SELECT process_all_available('sick', '20 s'), process_all_available('healthy', '20 s')");

# --- transient: the same process, growing pauses, then a fresh one
my $pid = pid_of('sick');
mood('40001');
ok($node->poll("SELECT failures_in_a_row >= 2 FROM streamx.queries WHERE name = 'sick'", 't', 20), 'a transient failure is tried again');
ok($node->poll("SELECT failures_in_a_row >= 5 FROM streamx.queries WHERE name = 'sick'", 't', 30), 'and again');
isnt(state('sick'), 'failed', 'without giving up');
is($node->sql("SELECT max(sqlstate) || max(message) FROM streamx.failures WHERE query = 'sick'"), '40001mood 40001', 'each failure is written down');
$node->sql("SELECT process_all_available('healthy', '20 s')");
pass('the other query is not held up');
mood('');
ok($node->poll("SELECT state = 'running' AND failures_in_a_row = 0 FROM streamx.queries WHERE name = 'sick'", 't', 40), 'it recovers when the cause is gone');
isnt(pid_of('sick'), $pid, 'every third failure in a row brings a fresh process');
mood('40001');
$node->poll("SELECT failures_in_a_row > 0 FROM streamx.queries WHERE name = 'sick'", 't', 20);
mood('');
$node->poll("SELECT state = 'running' AND failures_in_a_row = 0 FROM streamx.queries WHERE name = 'sick'", 't', 40);
is($node->sql("SELECT count(*) FROM pg_locks l JOIN streamx.queries q ON q.pid = l.pid
	WHERE q.name = 'sick' AND l.locktype = 'object' AND l.classid = 'streamx.query'::regclass AND l.objid = q.id::oid AND l.objsubid = 0 AND granted"),
	'1', 'after an aborted batch the query is locked again');

# --- who listens is told, and nothing but the name
my $told = $node->sql(<<'SQL');
LISTEN streamx_failure;
UPDATE mood SET raise = '40001';
INSERT INTO s VALUES (1);
DO $$
DECLARE
	before bigint := (SELECT count(*) FROM streamx.failures);
BEGIN
	COMMIT;
	WHILE (SELECT count(*) FROM streamx.failures) = before LOOP
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
UPDATE mood SET raise = '';
SELECT 'seen';
SQL
like($told, qr/notification "streamx_failure" with payload "sick" received/, 'a failure is notified');
$node->poll("SELECT state = 'running' AND failures_in_a_row = 0 FROM streamx.queries WHERE name = 'sick'", 't', 40);

# --- deterministic: three in a row, then failed
mood('22012');
ok(wait_state('sick', 'failed', 30), 'a failure that repeating cannot cure ends the query');
is($node->sql("SELECT count(*) FROM streamx.failures WHERE query = 'sick' AND sqlstate = '22012'"), '3', 'after three in a row');
my ($rc, $out, $err) = $node->try_sql("SELECT process_all_available('sick')");
like($err, qr/query "sick" failed: mood 22012/, 'waiters get its error');
($rc, $out, $err) = $node->try_sql("\\set VERBOSITY verbose\nSELECT await_termination('sick')");
like($err, qr/SX007.*SQLSTATE 22012/s, 'with our code and its own');
is(state('healthy'), 'running', 'the other query runs on');
$node->sql("SELECT process_all_available('healthy', '20 s')");
mood('');
$node->sql("SELECT start_query('sick')", user => 'owner');
$node->sql("SELECT process_all_available('sick', '20 s')");
is(state('sick'), 'running', 'start_query takes it up again');

# --- permanent: at once
mood('SX004');
ok(wait_state('sick', 'failed', 20), 'a permanent failure ends the query');
is($node->sql("SELECT count(*) FROM streamx.failures WHERE query = 'sick' AND sqlstate = 'SX004'"), '1', 'at the first time');

# --- max_retries
$node->sql("UPDATE mood SET raise = '40001'; SELECT alter_query('sick', options => '{\"maxRetries\": 2}'); SELECT start_query('sick')");
ok(wait_state('sick', 'failed', 20), 'max_retries bounds transient failures');
is($node->sql("SELECT count(*) FROM streamx.failures WHERE query = 'sick' AND sqlstate = '40001' AND at > (SELECT max(at) FROM streamx.failures WHERE query = 'sick' AND sqlstate = 'SX004')"), '3', 'one try and two more');
$node->sql("UPDATE mood SET raise = ''; SELECT alter_query('sick', options => '{\"maxRetries\": null}'); SELECT start_query('sick')");
$node->sql("SELECT process_all_available('sick', '20 s')");

# --- cancel, terminate, stop in the middle of a batch
mood('sleep');
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: sick' AND wait_event = 'PgSleep'", '1', 20), 'a batch that takes long');
my $start = time;
$node->sql("UPDATE mood SET raise = ''");
$node->sql("SELECT pg_cancel_backend(pid) FROM streamx.queries WHERE name = 'sick'");
$node->sql("SELECT process_all_available('sick', '20 s')");
ok(time - $start < 5, 'pg_cancel_backend aborts the batch, which runs again');
mood('sleep');
$node->poll("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: sick' AND wait_event = 'PgSleep'", '1', 20);
$node->sql("UPDATE mood SET raise = ''");
$node->sql("SELECT pg_terminate_backend(pid) FROM streamx.queries WHERE name = 'sick'");
$node->sql("SELECT process_all_available('sick', '20 s')");
pass('pg_terminate_backend: a fresh process goes on');
mood('sleep');
$node->poll("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: sick' AND wait_event = 'PgSleep'", '1', 20);
my $failures = $node->sql("SELECT count(*) FROM streamx.failures WHERE query = 'sick'");
$start = time;
is($node->sql("SELECT stop_query('sick', '0.3 s')"), 't', 'stop_query aborts the batch at its timeout');
ok(time - $start < 2, 'within a second');
is(state('sick'), 'stopped', 'and the query is stopped');
is($node->sql("SELECT count(*) FROM streamx.failures WHERE query = 'sick'"), $failures, 'which is no failure');
$node->sql("SELECT start_query('sick')");
$node->poll("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: sick' AND wait_event = 'PgSleep'", '1', 20);
mood('stubborn');
$node->sql("SELECT pg_cancel_backend(pid) FROM streamx.queries WHERE name = 'sick'");
$node->poll("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: sick' AND wait_event = 'PgSleep'", '1', 20);
sleep 1;
$start = time;
is($node->sql("SELECT stop_query('sick', '0 s')"), 't', 'also when a function catches the cancel');
ok(time - $start < 3, 'soon after');
$node->sql("UPDATE mood SET raise = ''");

# --- shutdown and kill -9
$node->sql("UPDATE mood SET raise = 'sleep'; SELECT start_query('sick')");
$node->poll("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: sick' AND wait_event = 'PgSleep'", '1', 20);
$node->sql("UPDATE mood SET raise = ''");
$start = time;
$node->stop('fast');
ok(time - $start < 4, 'a fast shutdown does not wait for batches');
$node->start;
ok(wait_state('sick', 'running') && wait_state('healthy', 'running'), 'what ran before runs after the start');
$node->sql("SELECT process_all_available('sick', '20 s')");
kill 9, pid_of('sick');
ok($node->poll("SELECT count(*) FROM streamx.queries WHERE state = 'running'", '2', 30), 'kill -9 of a worker: after recovery both resume');
$node->sql("INSERT INTO s VALUES (2)");
$node->sql("SELECT process_all_available('sick', '20 s'), process_all_available('healthy', '20 s')");

# --- a function of a grouping column is replaced under the running query
$node->sql(<<'SQL');
CREATE FUNCTION bucket(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN a % 3; END';
GRANT ALL ON s TO owner;
SELECT start_query('grouped', 'SELECT bucket(a) AS b, count(*) AS n FROM s GROUP BY bucket(a)', 'grouped_out', output_mode => 'update');
INSERT INTO s VALUES (1), (2), (4);
SELECT process_all_available('grouped', '20 s');
CREATE OR REPLACE FUNCTION bucket(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN a % 3; END';
INSERT INTO s VALUES (5);
SELECT process_all_available('grouped', '20 s');
CREATE OR REPLACE FUNCTION bucket(a int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN a * random(); END';
INSERT INTO s VALUES (7);
SQL
ok(wait_state('grouped', 'failed', 20), 'a function of a grouping column became volatile: the query fails');
like(facts('grouped', 'last_error || hint'), qr/grouping column.*has become volatile.*IMMUTABLE or STABLE again/s, 'and says what to do');
$node->sql("ALTER FUNCTION bucket IMMUTABLE; CREATE OR REPLACE FUNCTION bucket(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN a % 3; END'");
$node->sql("SELECT start_query('grouped'); SELECT process_all_available('grouped', '20 s')");
is($node->sql("SELECT string_agg(b || ':' || n, ' ' ORDER BY b) FROM grouped_out"),
	$node->sql("SELECT string_agg(b || ':' || n, ' ' ORDER BY b) FROM streamx_query.grouped"), 'made stable again, it goes on');
$node->sql("SELECT drop_query('grouped')");

# --- a failing query with ticks is given up too
$node->sql("SELECT create_query('ticks', 'SELECT f(a) AS a FROM s', 'noop', trigger => '300 ms')");
mood('22012');
$node->sql("SELECT start_query('ticks')");
ok(wait_state('ticks', 'failed', 30), 'also between ticks failures in a row are counted');
$node->sql("UPDATE mood SET raise = ''; SELECT drop_query('ticks')");
wait_state('sick', 'failed', 10);
$node->sql("SELECT start_query('sick')");
like($node->sql("SELECT offsets FROM streamx.failures WHERE query = 'sick' ORDER BY at DESC LIMIT 1"), qr/^\{"s": /, 'a failure says where its batch began');

# --- a cancel between batches, and the end of our other processes
$node->sql("SELECT process_all_available('sick', '20 s')");
$pid = pid_of('sick');
$node->sql("SELECT pg_cancel_backend($pid)");
$node->sql("INSERT INTO s VALUES (5)");
$node->sql("SELECT process_all_available('sick', '20 s')");
is(pid_of('sick'), $pid, 'a cancel between batches does nothing');
$node->sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type IN ('streamx scheduler', 'streamx launcher')");
$node->sql("INSERT INTO s VALUES (6)");
$node->sql("SELECT process_all_available('sick', '20 s')");
is(pid_of('sick'), $pid, 'a query runs on without scheduler and launcher');
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('streamx scheduler', 'streamx launcher')", '2', 30), 'which come back');
$node->sql("SELECT stop_query('sick'); SELECT start_query('sick')");
$node->sql("SELECT process_all_available('sick', '20 s')");
is($node->sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: sick'"), '1', 'and know what runs');

# --- the owner cannot connect any more
$node->sql("SELECT stop_query('sick'); ALTER ROLE owner NOLOGIN");
SKIP: {
	skip 'a role without LOGIN can be connected', 3 if $node->sql("SHOW server_version_num") >= 170000;
	($rc, $out, $err) = $node->try_sql("SET ROLE owner; SELECT create_query('n', 'SELECT a FROM s', 'noop')");
	like($err, qr/role "owner" cannot own a continuous query.*HINT:  ALTER ROLE owner LOGIN/s, 'a NOLOGIN role cannot own a query');
	$node->sql("SELECT start_query('sick')");
	ok(wait_state('sick', 'failed', 20), 'an owner who became NOLOGIN: the query fails');
	like(facts('sick', 'last_error || hint'), qr/not permitted to log in.*ALTER ROLE owner LOGIN/, 'and says what to do');
}
$node->sql("ALTER ROLE owner LOGIN; SELECT start_query('sick')");
ok(wait_state('sick', 'running'), 'and runs again as before');

# --- a new owner
$node->sql("CREATE ROLE heir LOGIN; GRANT ALL ON s, mood TO heir; REASSIGN OWNED BY owner TO heir");
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: sick' AND usename = 'heir'", '1', 20), 'REASSIGN OWNED: the worker runs as the new owner');

# --- streamx.enabled
$node->set('streamx.enabled', 'off');
$node->reload;
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'streamx query'", '0', 20), 'streamx.enabled = off: workers end');
($rc, $out, $err) = $node->try_sql("SELECT process_all_available('sick')");
like($err, qr/streamx.enabled is off/, 'and nobody waits in vain');
$node->set('streamx.enabled', 'on');
$node->reload;
ok($node->poll("SELECT count(*) FROM streamx.queries WHERE state = 'running'", '2', 30), 'on: they come back');

# --- no free worker slot
$node->sql("SELECT stop_query('sick'), stop_query('healthy')");
$node->set('max_worker_processes', 4);    # launchers of streamx and of logical replication, scheduler, one query
$node->restart;
$node->sql("SELECT start_query('healthy')");
ok(wait_state('healthy', 'running'), 'one worker fits');
$node->sql("SELECT start_query('sick')");
ok(wait_state('sick', 'waiting for a worker'), 'the second waits for a worker');
like(facts('sick', 'hint'), qr/max_worker_processes/, 'and says what to raise');
$node->sql("INSERT INTO s VALUES (3); ");
$node->sql("SELECT process_all_available('healthy', '20 s')");
pass('the first goes on');
sleep 3;
my $lines = () = SxCluster::slurp($node->{log}) =~ /no background worker is free for query/g;
ok($lines >= 1 && $lines <= 6, "one line in the log per step of the back-off ($lines)");
$node->sql("SELECT stop_query('healthy')");
ok(wait_state('sick', 'running', 40), 'it starts when there is room');

# --- failures are bounded
is($node->sql("SELECT max(n) <= 100 FROM (SELECT count(*) AS n FROM streamx.failure GROUP BY query) x"), 't', 'at most 100 failures are kept');
done_testing();
