# source_positions.pl
#		What could make a query pass over rows: storage that is rewritten while the
#		query waits for it, and a first batch that fails.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib $FindBin::Bin;
use SxCluster;

my $node = SxCluster->new('positions');
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE FOREIGN TABLE s (id bigint) SERVER streamx;
CREATE TABLE out (id bigint);

-- holds up a batch: the query waits in its sink until the lock is given back
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(1);
	RETURN NULL;
END $$;
CREATE TRIGGER hold AFTER INSERT ON out FOR EACH STATEMENT EXECUTE FUNCTION hold();

-- a default that makes the rewrite of a stream take long
CREATE FUNCTION slow() RETURNS int VOLATILE LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(0.0005);
	RETURN 1;
END $$;
SELECT create_query('q', 'SELECT id FROM s', sink => 'out');
SQL

# ---- ALTER of a stream whose query is in a batch: the next one waits for the ALTER ----
sub in_background
{
	my ($sql) = @_;
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;
	my ($rc) = $node->try_sql($sql);
	POSIX::_exit($rc);
}

sub waits
{
	my ($who, $for) = @_;
	$node->poll("SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT granted AND locktype = '$for' AND $who", 't')
	  or die "nobody waits for $for";
}

my $holder = in_background("SELECT pg_advisory_lock(1); SELECT pg_sleep(60)");
$node->poll("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted", 1) or die 'not held';
$node->sql("SELECT start_query('q'); INSERT INTO s VALUES (0)");
waits("application_name = 'streamx: q'", 'advisory');
$node->sql("INSERT INTO s SELECT generate_series(1, 2000)");
my $alter = in_background("ALTER FOREIGN TABLE s ADD COLUMN extra int DEFAULT slow()");
waits("query LIKE 'ALTER%'", 'relation');
$node->sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()");
waitpid $holder, 0;
waitpid $alter, 0;
is($? >> 8, 0, 'a stream is altered while its query runs');
$node->sql("INSERT INTO s VALUES (2001)");
$node->sql("SELECT process_all_available('q', '60 s')");
is($node->sql("SELECT count(*), count(DISTINCT id) FROM out"), '2002|2002', 'every row from before it is read once');
$node->sql("SELECT drop_query('q')");

# ---- "latest" is the first start, not the first success ----
$node->sql(<<'SQL');
CREATE FOREIGN TABLE l (id bigint) SERVER streamx;
INSERT INTO l VALUES (0);
CREATE TABLE small (id bigint, CONSTRAINT small CHECK (id < 100));
SELECT create_query('late', 'SELECT id FROM l', sink => 'small', options => '{"starting_offsets": "latest"}');
SELECT start_query('late');
SELECT process_all_available('late', '60 s');
INSERT INTO l VALUES (100);
SQL
ok($node->poll("SELECT state FROM streamx.queries WHERE name = 'late'", 'failed'), 'the first batch fails for good');
$node->sql("INSERT INTO l VALUES (1); ALTER TABLE small DROP CONSTRAINT small; SELECT start_query('late'); SELECT process_all_available('late', '60 s')");
is($node->sql("SELECT string_agg(id::text, ',' ORDER BY id) FROM small"), '1,100', 'what it failed on is not passed over, what was there before the start is');
is($node->sql("SELECT min(batch_id) FROM streamx.progress WHERE query = 'late'"), '0', 'batches count from 0');
is($node->sql("SELECT count(*) FROM recent_progress('late')"), '1', 'the start is no batch');

done_testing();
