# source_server.pl
#		Streams and whole servers: transaction ids past 2^32, a crash, dump and
#		restore, a server that doesn't preload the library, DROP EXTENSION.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib $FindBin::Bin;
use SxCluster;

my $node = SxCluster->new('streams', conf => ['autovacuum = off']);
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE FOREIGN TABLE s (id bigint, note text) SERVER streamx;
INSERT INTO s VALUES (1, 'before');
SELECT create_query('q', 'SELECT id FROM s', sink => 'out');
SELECT start_query('q');
SELECT process_all_available('q', '60 s');
SQL

sub out_is
{
	my ($wanted, $what) = @_;
	$node->sql("SELECT process_all_available('q', '60 s')");
	is($node->sql("SELECT string_agg(id::text, ',' ORDER BY id) FROM out"), $wanted, $what);
}

sub resetwal
{
	my (@args) = @_;
	SxCluster::run_quietly("$node->{dir}/resetwal.log", "$node->{bin}/pg_resetwal", @args, '-D', $node->{data}) == 0
	  or die SxCluster::slurp("$node->{dir}/resetwal.log");
}

# ---- CASE-42: ids of 32 bits come round, those in positions and rows don't ----
# Some steps, each less than half the way round, with everything frozen in between.
$node->sql("UPDATE pg_database SET datallowconn = true");
for my $xid (1500000000, 3000000000, 4294967280)
{
	$node->sql("SELECT stop_query('q')");
	$node->sql("VACUUM FREEZE", db => $_) for 'template0', 'template1', 'postgres';
	$node->stop;
	resetwal('-x', $xid);
	my $segment = sprintf('%s/pg_xact/%04X', $node->{data}, int($xid / 1048576));
	open my $f, '>', $segment or die "$segment: $!";
	print $f "\0" x (256 * 1024);
	close $f;
	chown((getpwnam('postgres'))[ 2, 3 ], $segment) if $> == 0;
	$node->start;
	$node->sql("SELECT start_query('q')");
}
$node->sql("INSERT INTO s VALUES ($_, 'around')") for 2 .. 21;
out_is(join(',', 1 .. 21), 'rows on both sides of the wraparound are read once');
cmp_ok($node->sql("SELECT pg_current_xact_id()"), '>', 4294967296, 'it was crossed');
is($node->sql("SELECT count(*) FROM s"), 21, 'a plain SELECT sees them all');
$node->sql("VACUUM FREEZE", db => $_) for 'template0', 'template1', 'postgres';
$node->restart;
$node->sql("INSERT INTO s VALUES (22, 'after')");
out_is(join(',', 1 .. 22), 'and none again after freezing and a restart');
$node->stop;
resetwal('--epoch', 7);
$node->start;
$node->sql("INSERT INTO s VALUES (23, 'later')");
out_is(join(',', 1 .. 23), 'nor some epochs later');

# ---- a crash: blocks at the end of the storage may be gone ----
$node->sql("SELECT stop_query('q')");
$node->sql("CHECKPOINT");
my $session = fork() // die "fork: $!";
if ($session == 0)
{
	$node->try_sql("BEGIN; INSERT INTO s SELECT 1000, repeat('x', 500) FROM generate_series(1, 3000); SELECT pg_sleep(60)");
	POSIX::_exit(0);
}
$node->poll("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND state = 'active' AND wait_event = 'PgSleep'", 1)
  or die 'no long transaction';
$node->sql("SELECT start_query('q')");
$node->sql("INSERT INTO s VALUES (24, 'beside')");
out_is(join(',', 1 .. 24), 'a row behind those of a long transaction');
$node->kill9;
waitpid $session, 0;
$node->start;
$node->sql("INSERT INTO s VALUES (25, 'crashed')");
out_is(join(',', 1 .. 25), 'after a crash the next row is read, and none again');
is($node->sql("SELECT count(*) FROM s WHERE id = 1000"), 0, 'the long transaction is gone');

# ---- dump and restore ----
my $dump = "$node->{dir}/dump.sql";
is(system("$node->{bin}/pg_dump -h $node->{dir} -p $node->{port} -U postgres -f $dump postgres"), 0, 'pg_dump');
my $text = SxCluster::slurp($dump);
like($text, qr/CREATE FOREIGN TABLE public\.s/, 'the dump has the stream');
unlike($text, qr/streamx_data|around/, 'but neither its storage nor its rows');
$node->sql("CREATE DATABASE restored");
is(system("$node->{bin}/psql -X -q -v ON_ERROR_STOP=1 -h $node->{dir} -p $node->{port} -U postgres -d restored -f $dump >/dev/null"), 0, 'it can be restored');
is($node->sql("SELECT count(*) FROM s", db => 'restored'), 0, 'the restored stream is empty');
$node->sql("INSERT INTO s VALUES (1, 'again')", db => 'restored');
is($node->sql("SELECT count(*) FROM s", db => 'restored'), 1, 'and takes rows');

# ---- DROP EXTENSION ----
$node->sql("DROP EXTENSION streamx CASCADE", db => 'restored');
is($node->sql("SELECT count(*) FROM pg_class WHERE relname LIKE 'stream\\_%' OR relname = 's'", db => 'restored'), 0, 'DROP EXTENSION leaves nothing');
is($node->sql("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'streamx%'", db => 'restored'), 0, 'no schema either');
$node->sql("CREATE TABLE t (a int); DROP TABLE t; CREATE EXTENSION streamx; CREATE FOREIGN TABLE s (a int) SERVER streamx; INSERT INTO s VALUES (1)", db => 'restored');
is($node->sql("SELECT count(*) FROM s", db => 'restored'), 1, 'it can be created again');

# ---- without preloading ----
$node->sql("SELECT stop_query('q')");
$node->set('shared_preload_libraries', '');
$node->restart;
is($node->sql("SELECT count(*) FROM s"), 25, 'without preloading a stream can be read');
$node->sql("CREATE FOREIGN TABLE n (a int) SERVER streamx; ALTER FOREIGN TABLE n ADD COLUMN b int");
my ($rc, $out, $err) = $node->try_sql("INSERT INTO n VALUES (1)");
like($err, qr/streamx is not loaded at server start.*HINT:.*shared_preload_libraries/s, 'but not written');
$node->set('shared_preload_libraries', 'streamx');
$node->restart;
$node->sql("INSERT INTO n VALUES (1, 2)");
is($node->sql("SELECT b FROM n"), 2, 'what was created then is usable');

# ---- storage of a stream that no query reads ----
$node->set('streamx.stream_segment_size', '1MB');
$node->restart;
$node->sql("CREATE FOREIGN TABLE g (a int, pad text) SERVER streamx OPTIONS (retention '0 s')");
$node->sql("INSERT INTO g SELECT i, repeat('x', 500) FROM generate_series(1, 2000) i") for 1 .. 3;
ok($node->poll("SELECT max(generation) > 1 FROM streamx.stream WHERE stream = 'g'::regclass", 't', 30),
	'its writers call for somebody to look after it');

done_testing;
