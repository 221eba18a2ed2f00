# source_concurrent.pl
#		Many writers, one query: whatever the order of commits, rollbacks,
#		savepoints, long transactions, prepared ones, rotations, ALTERs, a rewrite
#		of the storage and two crashes, every committed row is in the sink once.
#
#	SX_ROUNDS=n		transactions per writer and phase (40)	SX_SEED=n	the seed, printed
use strict;
use warnings;
use Test::More;
use FindBin;
use lib $FindBin::Bin;
use SxCluster;

my $rounds = $ENV{SX_ROUNDS} || 40;
my $seed = $ENV{SX_SEED} || int(rand(1 << 30));
srand($seed);
diag("SX_SEED=$seed");

my $node = SxCluster->new('concurrent', conf => [
	'max_prepared_transactions = 20', 'streamx.stream_segment_size = 1MB', 'max_connections = 60']);
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE FOREIGN TABLE s (id bigint, writer int, pad text) SERVER streamx;
-- what was committed, told by the writers' own transactions
CREATE TABLE told (id bigint);
CREATE SEQUENCE ids;
CREATE FUNCTION put(writer int, n int) RETURNS void LANGUAGE sql AS $$
	WITH i AS (INSERT INTO s SELECT nextval('ids'), writer, repeat('x', (random() * 200)::int) FROM generate_series(1, n) RETURNING id)
	INSERT INTO told SELECT id FROM i $$;
CREATE PROCEDURE work(writer int, rounds int, seed float8) LANGUAGE plpgsql AS $$
DECLARE dice float8;
BEGIN
	PERFORM setseed(seed);
	FOR i IN 1..rounds LOOP
		PERFORM put(writer, 1 + (random() * 20)::int);
		dice = random();
		IF dice < 0.3 THEN
			PERFORM pg_sleep(random() * 0.03);
			PERFORM put(writer, 1 + (random() * 1500)::int);
		ELSIF dice < 0.6 THEN
			BEGIN
				PERFORM put(writer, 1 + (random() * 20)::int);
				IF random() < 0.5 THEN RAISE division_by_zero; END IF;
			EXCEPTION WHEN division_by_zero THEN NULL;
			END;
		END IF;
		IF random() < 0.2 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
SELECT create_query('q', 'SELECT id, writer FROM s', sink => 'out', options => '{"batch_rows": 700}');
SELECT start_query('q');
SQL

# Each of these runs in a process of its own, at the same time.
sub at_once
{
	my @pids;
	for my $work (@_)
	{
		my $pid = fork() // die "fork: $!";
		if ($pid == 0)
		{
			srand($seed + $$);
			$work->();
			POSIX::_exit(0);
		}
		push @pids, $pid;
	}
	waitpid $_, 0 for @pids;
}

sub writers { return map { my $w = $_; sub { $node->try_sql("CALL work($w, $rounds, " . rand() . ")") } } 1 .. $_[0]; }

sub check
{
	my ($what) = @_;
	$node->sql("SELECT process_all_available('q', '120 s')");
	is($node->sql(<<'SQL'), '0|0|0', "$what: each committed row is there once");
SELECT (SELECT count(*) FROM told LEFT JOIN out USING (id) WHERE out.id IS NULL),
	(SELECT count(*) FROM out LEFT JOIN told USING (id) WHERE told.id IS NULL),
	(SELECT count(*) - count(DISTINCT id) FROM out)
SQL
	is($node->sql("SELECT count(*) > 0 FROM told"), 't', "$what: there were rows");
}

at_once(writers(8));
check('eight writers');

# one transaction lasts longer than all of the others, and is large
at_once(writers(4), sub {
	$node->try_sql("BEGIN; SELECT put(100, 20000); SELECT pg_sleep(1); SELECT put(100, 20000); SELECT pg_sleep(1); SELECT put(100, 10); COMMIT");
}, sub {
	$node->try_sql("BEGIN; SELECT put(101, 3000); SELECT pg_sleep(2); ROLLBACK");
});
check('a long transaction beside short ones');

# what the worker knew in memory is gone, the transaction is still there
at_once(writers(3), sub {
	$node->try_sql("BEGIN; SELECT put(102, 2000); SELECT pg_sleep(2.5); SELECT put(102, 2000); COMMIT");
}, sub {
	for my $i (1 .. 3)
	{
		select undef, undef, undef, 0.5;
		$node->sql("SELECT stop_query('q')");
		$node->sql("SELECT start_query('q')");
	}
});
check('a restart beside a long transaction');

at_once(writers(3), sub {
	for my $i (1 .. 10)
	{
		$node->try_sql("BEGIN; SELECT put(200, 100); PREPARE TRANSACTION 'p$i'");
		select undef, undef, undef, rand(0.1);
		$node->try_sql(rand() < 0.7 ? "COMMIT PREPARED 'p$i'" : "ROLLBACK PREPARED 'p$i'");
	}
});
check('prepared transactions');

at_once(writers(3), sub {
	for my $i (1 .. 8)
	{
		$node->try_sql("ALTER FOREIGN TABLE s ADD COLUMN extra$i int" . ($i % 2 ? " DEFAULT $i" : ''));
		$node->try_sql("SELECT streamx.rotate_streams()");
		select undef, undef, undef, rand(0.2);
	}
});
check('ALTER and rotation');

for my $crash (1 .. 2)
{
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		select undef, undef, undef, 0.5 + rand(1);
		$node->kill9;
		POSIX::_exit(0);
	}
	at_once(writers(4), sub { $node->try_sql("BEGIN; SELECT put(300, 5000); SELECT pg_sleep(3); COMMIT") });
	waitpid $pid, 0;
	$node->start;
	at_once(writers(3));
	check("crash $crash");
}

is($node->sql("SELECT count(*) > 3 FROM streamx.batch"), 't', 'it took several batches');
cmp_ok($node->sql("SELECT max(generation) FROM streamx.stream"), '>', 2, 'and the storage was used in turn');
is($node->sql("SELECT restarts FROM streamx.queries"), 0, 'without a failure of the query')
  or diag($node->sql("SELECT * FROM streamx.failures"));
done_testing;
