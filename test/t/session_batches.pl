# session_batches.pl
#		Batches of a session after its COMMIT, in the middle of its transaction's rows: a crash, a rewrite of the
#		stream and of its heaps, and a worker that goes on: nothing lost, nothing doubled.
use strict;
use warnings;
use Test::More;
use FindBin;
use POSIX ();
use lib $FindBin::Bin;
use SxCluster;

my $node = SxCluster->new('session_batches');
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE FOREIGN TABLE s (k int, v int) SERVER streamx;
SELECT create_query('q_' || store, 'SELECT k, count(*) AS n, sum(v) AS v FROM s GROUP BY k', sink => 'out_' || store,
	output_mode => 'update', options => jsonb_build_object('state_store', store)) FROM unnest('{rocksdb,table}'::text[]) store;
CREATE VIEW differences AS
	SELECT count(*) FROM ((TABLE out_rocksdb EXCEPT ALL TABLE streamx_query.q_rocksdb) UNION ALL (TABLE streamx_query.q_rocksdb EXCEPT ALL TABLE out_rocksdb)
		UNION ALL (TABLE out_table EXCEPT ALL TABLE streamx_query.q_table) UNION ALL (TABLE streamx_query.q_table EXCEPT ALL TABLE out_table)) d;
SQL

# The first half of the transaction's rows is in batches of the session, the second is not.
sub session
{
	my ($how) = @_;
	$node->sql(<<"SQL");
BEGIN;
INSERT INTO s SELECT i % 7, 1 FROM generate_series(1, 1000) i;
SELECT run_batch('q_rocksdb'), run_batch('q_table');
SAVEPOINT a;
INSERT INTO s SELECT i % 7, 2 FROM generate_series(1, 500) i;
SELECT run_batch('q_rocksdb'), run_batch('q_table');
ROLLBACK TO a;
INSERT INTO s SELECT i % 7, 3 FROM generate_series(1, 300) i;
SELECT run_batch('q_rocksdb');
INSERT INTO s SELECT i % 7, 4 FROM generate_series(1, 200) i;
$how;
SQL
}

sub worker_goes_on
{
	my ($what, $rows) = @_;
	is($node->sql('SELECT count(*) FROM s'), $rows, "$what: the rows that should be there");
	$node->sql("SELECT start_query('q_rocksdb'), start_query('q_table')");
	$node->sql("SELECT process_all_available('q_rocksdb', '60 s'), process_all_available('q_table', '60 s')");
	is($node->sql('TABLE differences'), '0', "$what: the worker's result is the batch answer");
	$node->sql("SELECT stop_query('q_rocksdb'), stop_query('q_table')");
}

session('COMMIT');
$node->kill9;
$node->start;
worker_goes_on('a crash right after the commit', 1500);

session('ROLLBACK');
worker_goes_on('a rollback', 1500);

session('COMMIT');
$node->sql('ALTER FOREIGN TABLE s ADD COLUMN w int DEFAULT 5');
worker_goes_on('a rewrite of the stream', 3000);

session('COMMIT');
$node->sql("VACUUM (FULL, FREEZE) $_") for split /\n/, $node->sql("SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND relname LIKE 'stream\\_%' AND relnamespace = 'streamx_data'::regnamespace");
worker_goes_on('a rewrite of its heaps', 4500);

# a crash in the middle of the session's transaction
my $session = fork() // die "fork: $!";
if (!$session)
{
	$node->try_sql("BEGIN; INSERT INTO s VALUES (1, 1); SELECT run_batch('q_rocksdb'), run_batch('q_table'); SELECT pg_sleep(600)");
	POSIX::_exit(0);
}
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'", '1', 60), 'batches of a transaction that does not end');
$node->kill9;
waitpid $session, 0;
$node->start;
worker_goes_on('a crash before the commit', 4500);
is($node->sql('SELECT count(*) FROM streamx.failures'), '0', 'nothing failed');

done_testing();
