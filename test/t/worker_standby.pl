# Nothing runs on a standby; what can be seen there can be seen; on promotion
# everything that was wanted starts by itself.
use strict;
use warnings;
use Test::More;
use SxCluster;

my $primary = SxCluster->new('primary');
$primary->start;
$primary->sql("CREATE EXTENSION streamx; CREATE FOREIGN TABLE s (a int) SERVER streamx; CREATE TABLE t (a int)");
$primary->sql("SELECT start_query('q', 'SELECT a FROM s', 't')");
$primary->sql("SELECT create_query('idle', 'SELECT a FROM s', 'noop')");
$primary->sql("SELECT start_query('c', 'SELECT a % 3 AS k, count(*) AS n FROM s GROUP BY a % 3', 'c', 'update')");
$primary->sql("CREATE FOREIGN TABLE e (a int, ts timestamptz OPTIONS (watermark '1 minute')) SERVER streamx");
$primary->sql("SELECT start_query('w', 'SELECT session(ts, ''5 seconds'') AS w, a, count(*) AS n FROM e GROUP BY w, a', 'w')");
$primary->sql("CREATE FUNCTION h(key int, rows e[], timer timestamptz) RETURNS SETOF int LANGUAGE sql AS 'SELECT state_list_append(''l'', cardinality(rows)); SELECT key'");
$primary->sql("SELECT start_query('h', 'SELECT x FROM e, transform_with_state(''h'', e.a, e, NULL::int, state => ARRAY[list_state(''l'', NULL::int)]) x', 'h')");
$primary->sql("INSERT INTO s VALUES (1)");
$primary->sql("INSERT INTO e VALUES (1, '2026-01-15 10:00:01Z')");
$primary->sql("SELECT process_all_available(name, '30 s') FROM unnest('{q,c,w,h}'::text[]) name");

my $standby = $primary->base_backup('standby', standby => 1);
$standby->start;
$primary->sql("INSERT INTO e VALUES (1, '2026-01-15 10:00:04Z'), (1, '2026-01-15 10:00:30Z')");
$primary->sql("SELECT process_all_available(name, '30 s') FROM unnest('{w,h}'::text[]) name");
$primary->sql("INSERT INTO s VALUES (10), (3)");
$primary->sql("SELECT process_all_available(name, '30 s') FROM unnest('{q,c}'::text[]) name");
ok($standby->poll("SELECT sum(a) FROM t", '14', 30), 'the standby follows');
is($standby->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'streamx%'"), '0', 'nothing of ours runs there');
is($standby->sql("SELECT string_agg(concat_ws(' ', name, state, waits_for), ', ' ORDER BY name) FROM streamx.queries"),
	'c starting the end of recovery, h starting the end of recovery, idle created, q starting the end of recovery, w starting the end of recovery', 'the view says why');
isnt($standby->sql("SELECT last_progress('q')"), '', 'progress can be read');
ok($standby->poll("SELECT sum(n) FROM c", '3', 30), 'and results of a query with state');
is($standby->sql("SELECT string_agg(concat_ws(' ', s.key, s.value, c.n), ', ' ORDER BY c.k) FROM streamx.state('c') s JOIN c ON c.k = (s.key ->> 'k')::int"),
	'{"k": 0} {"count": 1} 1, {"k": 1} {"count": 2} 2', 'its state can be read, too');
is($standby->sql("SELECT count(*) FROM streamx.state('c', batch_id => 0)"), '1', 'also an older one');
is($standby->sql("SELECT string_agg(concat_ws(' ', batch_id, change_type, value ->> 'count'), ', ' ORDER BY batch_id, value) FROM streamx.state_changes('c', 1)"),
	'1 update 1, 1 update 2', 'and its changes');
is($standby->sql("SELECT string_agg(extract(second FROM upper((key ->> 'w')::tstzrange))::int || ' ' || (value ->> 'count'), ', ' ORDER BY key ->> 'w') FROM streamx.state('w')"),
	'9 2, 35 1', 'open sessions');
is($standby->sql("SELECT count(*) FROM streamx.state('w', batch_id => 0)"), '1', 'and older ones');
is($standby->sql("SELECT value FROM streamx.state('h', store => 'l', flatten => false)"), '{"list_value": [1, 2]}', 'and what a handler keeps');
is($standby->sql("SELECT batch_id || change_type FROM streamx.state_changes('h', 1, store => 'l')"), '2update', 'with its changes');
for my $sql ("SELECT start_query('idle')", "SELECT stop_query('q')", "SELECT drop_query('q')", "SELECT alter_query('q', trigger => '1 s')",
	"SELECT create_query('n', 'SELECT a FROM s', 'noop')", "SELECT process_all_available('q')")
{
	my ($rc, $out, $err) = $standby->try_sql($sql);
	like($err, qr/during recovery|read-only transaction/, "refused: $sql");
}

$primary->stop('immediate');
$standby->promote;
ok($standby->poll("SELECT state FROM streamx.queries WHERE name = 'q'", 'running', 30), 'on promotion the query starts');
$standby->sql("INSERT INTO s VALUES (100)");
$standby->sql("SELECT process_all_available('q', '30 s')");
is($standby->sql("SELECT sum(a) FROM t"), '114', 'and goes on where the primary was');
is($standby->sql("SELECT state FROM streamx.queries WHERE name = 'idle'"), 'created', 'the other one does not');
done_testing();
