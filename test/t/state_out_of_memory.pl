# state_out_of_memory.pl
#		A worker that gets no more memory, in RocksDB too, fails its batch and nothing
#		else: the server runs on, a fresh process goes on, no row is lost.
#
#	SX_SEED=n	the seed of the limits, printed
#	SX_LIMITS=n	how many limits are tried (3; more until one was too low)
use strict;
use warnings;
use Test::More;
use FindBin;
use List::Util qw(max);
use Time::HiRes qw(time);
use lib $FindBin::Bin;
use SxCluster;

my $seed = $ENV{SX_SEED} || int(time * 1000) ^ $$;
srand($seed);
diag("SX_SEED=$seed");

my $node = SxCluster->new('no_memory', conf => ['max_connections = 20', 'shared_buffers = 32MB']);
$node->start;
my ($has_crash_points) = $node->try_sql('SHOW streamx.crash_point');
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE FOREIGN TABLE s (k int, t text) SERVER streamx;
SELECT create_query('q', 'SELECT k, count(*) AS n, max(t) AS t FROM s GROUP BY k', sink => 'out', output_mode => 'update',
	options => '{"state_memory": "1MB", "state_store": "rocksdb"}');
SELECT start_query('q');
SQL

my ($rounds, $keys) = (0, 20000);

sub feed
{
	$rounds++;
	$node->sql("INSERT INTO s SELECT k, 'text ' || to_char($rounds, 'FM000') FROM generate_series(1, $keys) k");
}

sub is_right
{
	my ($what) = @_;
	ok($node->poll("SELECT count(*) || ' ' || min(n) || ' ' || max(n) || ' ' || min(t) FROM out",
			"$keys $rounds $rounds text " . sprintf('%03d', $rounds), 120), $what);
}

sub failures { return $node->sql("SELECT count(*) FROM streamx.failures WHERE query = 'q' AND sqlstate = '53200'"); }

# crashed processes of the server, by its log
sub crashes { return scalar(() = SxCluster::slurp($node->{log}) =~ /was terminated by signal|reinitializing/g); }

feed();
is_right('a state larger than memory');

SKIP:
{
	skip 'built without crash points', 16 if $has_crash_points != 0;

	# the n-th call of RocksDB: opening, reading, writing, the end of a run, closing
	for my $n (1, 2, 3, 10, 5000)
	{
		my $before = failures();
		my $pid = $node->sql("SELECT pid FROM streamx.queries WHERE name = 'q'");
		$node->sql("SELECT stop_query('q')");
		$node->sql("ALTER SYSTEM SET streamx.crash_point = 'store-memory:error:$n'; SELECT pg_reload_conf()");
		$node->sql("SELECT start_query('q')");
		feed();
		ok($node->poll("SELECT count(*) > $before FROM streamx.failures WHERE query = 'q' AND sqlstate = '53200'", 't', 60),
			"call $n of RocksDB gets no memory: the batch fails");
		$node->sql("ALTER SYSTEM RESET streamx.crash_point; SELECT pg_reload_conf()");
		is_right('a fresh process goes on with the right state');
		isnt($node->sql("SELECT pid FROM streamx.queries WHERE name = 'q'"), $pid, 'it is another one');
	}
	is(crashes(), 0, 'no process has crashed');
}

# What the operating system refuses, wherever it is asked: the server's own contexts,
# zstd, RocksDB.  Every process gets less than it needs for its state.
$keys = 100000;
$rounds = 0;
$node->sql("SELECT drop_query('q'); DROP TABLE out");
$node->sql("SELECT create_query('q', 'SELECT k, count(*) AS n, max(t) AS t FROM s GROUP BY k', sink => 'out', output_mode => 'update',
	options => '{\"state_memory\": \"32MB\", \"state_store\": \"rocksdb\", \"starting_offsets\": \"latest\"}')");
$node->sql("SELECT start_query('q')");
ok($node->poll("SELECT state = 'running' AND pid IS NOT NULL FROM streamx.queries WHERE name = 'q'", 't', 30), 'a larger query runs');
feed();
is_right('and is right');
my $limits = $ENV{SX_LIMITS} || 3;
for (my $i = 0; $i < $limits || (failures() == 0 && $i < $limits + 10); $i++)
{
	my $pid = $node->sql("SELECT pid FROM streamx.queries WHERE name = 'q'");
	my ($size) = SxCluster::slurp("/proc/$pid/status") =~ /^VmSize:\s*(\d+)/m;
	my $more = int(rand(24 * 1024) / (1 + 2 * max(0, $i - $limits + 1)));	# what a process has left over may be enough
	SxCluster::run_quietly("$node->{dir}/prlimit.log", 'prlimit', '--pid', $pid, '--as=' . ($size + $more) * 1024 . ':') == 0
	  or die SxCluster::slurp("$node->{dir}/prlimit.log");
	feed();
	is_right("a process that could grow by $more kB: its query is right in the end");
}
is(crashes(), 0, 'no process has crashed');
cmp_ok(failures(), '>', 0, 'there were failures, of class "out of memory"');
is($node->sql("SELECT count(*) FROM streamx.failures WHERE sqlstate !~ '^53'"), 0, 'and no other');
$node->sql("SELECT stop_query('q')");
ok($node->is_up, 'the server is up');

done_testing();
