# Thousands of keys that are due at once go in several batches; the server is killed
# between them, and within one. Every row comes out once, also above a chain.
use strict;
use warnings;

use FindBin;
use Test::More;

use lib $FindBin::Bin;
use SxCluster;

my $node = SxCluster->new('due_keys', conf => [ 'restart_after_crash = off', 'max_worker_processes = 20', 'streamx.batch_rows = 200' ]);
$node->start;
$node->sql('CREATE EXTENSION streamx');

my $windows = "(SELECT w, k, count(*) AS n FROM (SELECT tumble(ts, '10 minutes') AS w, k FROM s) d GROUP BY w, k)";
my %queries = (
	windows => "SELECT lower(w) AS start, k, n FROM $windows x",
	chain => "SELECT lower(w2) AS start, k, sum(n) AS n FROM (SELECT tumble(window_time(w), '1 hour') AS w2, k, n FROM $windows x) y GROUP BY w2, k",
	sessions => "SELECT lower(w) AS start, k, count(*) AS n FROM (SELECT session(ts, '1 minute') AS w, k FROM s) d GROUP BY w, k",
	unmatched => "SELECT a.ts AS start, a.k, b.k AS n FROM s a LEFT JOIN other b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '1 minute'");

$node->sql("SELECT create_stream('$_', 'k int, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''10 seconds''')") for 's', 'other';
for my $name (sort keys %queries)
{
	my $store = rand() < 0.5 ? 'rocksdb' : 'table';
	$node->sql("SELECT start_query('$name', \$\$$queries{$name}\$\$, sink => '${name}_sink', options => '{\"state_store\": \"$store\", \"state_memory\": \"1MB\"}')");
}
$node->sql("INSERT INTO other VALUES (-9, '2026-01-01Z')");
$node->sql("INSERT INTO s SELECT g, '2026-01-01Z' FROM generate_series(1, 4000) g");
$node->sql("SELECT process_all_available('$_', '60 s')") for sort keys %queries;
is($node->sql("SELECT string_agg(rows::text, ' ') FROM (SELECT (SELECT count(*) FROM windows_sink) + (SELECT count(*) FROM sessions_sink) AS rows) x"),
	'0', 'all keys are open');

# Queries held back while the watermark jumps, so that each dies on its way through what is due.
sub die_at
{
	my ($point) = @_;
	my $from = length(SxCluster::slurp($node->{log}));
	$node->set('streamx.enabled', 'on');
	$node->set('streamx.crash_point', $point);
	$node->pg_ctl('start');		# once: it may be dead before it is seen to be up
	$node->wait_down(60) or diag($node->sql('SELECT json_agg(q) FROM streamx.queries q') . $node->log_tail(30));
	$node->set('streamx.crash_point', '');
	$node->set('streamx.enabled', 'off');
	$node->start;
	like(substr(SxCluster::slurp($node->{log}), $from), qr/crash point "[^"]+" kills this process/, "killed at $point");
	my $left = $node->sql('SELECT count(*) FROM (SELECT DISTINCT ON (query) due FROM streamx.batch ORDER BY query, batch DESC) b WHERE due IS NOT NULL');
	cmp_ok($left, '>', 0, "$left of the queries have come to a part of what is due");
	$node->stop;
}

$node->stop;
$node->set('streamx.enabled', 'off');
$node->start;
$node->sql("INSERT INTO s VALUES (0, '2026-01-01 12:00:00Z'); INSERT INTO other VALUES (0, '2026-01-01 12:00:00Z')");
$node->stop;
die_at('after-commit:kill:6');
die_at('before-commit:kill:5');
die_at('prepare:kill:7');
$node->set('streamx.enabled', 'on');
$node->start;
$node->sql("INSERT INTO s VALUES (-1, '2026-01-02 12:00:00Z'); INSERT INTO other VALUES (-1, '2026-01-02 12:00:00Z')");
for my $name (sort keys %queries)
{
	$node->sql("SELECT process_all_available('$name', '60 s')");
	is($node->sql("SELECT count(*), count(DISTINCT k) FROM ${name}_sink WHERE k >= 0"), '4001|4001', "$name: each key comes out once");
	cmp_ok($node->sql("SELECT count(*) FROM streamx.batch b JOIN streamx.query q ON q.id = b.query WHERE q.name = '$name' AND due IS NOT NULL"), '>', 5, 'in several batches');
}
is($node->sql('SELECT count(*) FROM streamx.late_rows WHERE rows > 0'), 0, 'no row was late');
is($node->sql('SELECT count(*) FROM streamx.conservation WHERE NOT balanced'), 0, 'every row is accounted for');
done_testing();
