# engine_memory.pl
#		A worker's memory is flat over 10,000 batches, whatever the sink, and so is
#		what the operating system gives it: libraries don't ask the server for memory.
use strict;
use warnings;

use File::Basename;
use lib dirname(__FILE__);
use SxCluster;
use Test::More;

plan skip_all => "the sanitizer's memory is not ours" if $ENV{SX_ASAN};

my $node = SxCluster->new('memory', conf => ['temp_buffers = 1MB']);
$node->start;
my $out = "$node->{dir}/out";
mkdir $out;
chown((getpwnam('postgres'))[ 2, 3 ], $out) if $> == 0;

$node->sql(<<"SQL");
CREATE EXTENSION streamx;
SELECT create_stream('s', 'k int, ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_stream('copied', 'k int, n bigint');
CREATE TABLE log (batch bigint, rows bigint);
CREATE FUNCTION each(batch_id bigint) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO log SELECT batch_id, count(*) FROM batch;
END \$\$;
SELECT create_query('append', 'SELECT k, w, count(*) AS n FROM (SELECT k, tumble(ts, ''10 seconds'') AS w FROM s) s GROUP BY k, w', sink => 'appended');
SELECT create_query('update', 'SELECT k, count(*) AS n FROM s GROUP BY k HAVING count(*) % 10 <> 0', sink => 'updated', output_mode => 'update');
SELECT create_query('complete', 'SELECT k, count(*) AS n FROM s GROUP BY k', sink => 'completed', output_mode => 'complete');
SELECT create_query('each', 'SELECT k, count(*) AS n FROM s GROUP BY k', output_mode => 'update', foreach_batch => 'each(bigint)');
-- two rows of 20 keys a batch, of which the watermark takes as many; every tenth key has no partner
SELECT create_query('joined', 'SELECT a.k, a.ts, b.k AS partner FROM s a LEFT JOIN s b ON a.k = b.k AND b.k % 10 <> 0 AND b.ts BETWEEN a.ts AND a.ts + interval ''30 seconds''', sink => 'noop');
SELECT create_query('stream', 'SELECT k, 1 AS n FROM s', sink => 'copied');
SELECT create_query('directory', 'SELECT k FROM s', sink => 'directory', options => '{"directory": "$out"}');
-- more state than memory, so that parts go to the store and come back
SELECT create_stream('wide', 'k int, t text');
SELECT create_query('spilled_' || store, 'SELECT k, count(*) AS n, max(t) AS t FROM wide GROUP BY k', sink => 'noop', output_mode => 'update',
	options => jsonb_build_object('state_store', store, 'state_memory', '1MB')) FROM unnest('{rocksdb,table}'::text[]) store;
INSERT INTO wide SELECT k, 'some text' FROM generate_series(1, 30000) k;
SELECT start_query(name) FROM streamx.queries;
SQL
my @queries = split /\n/, $node->sql('SELECT name FROM streamx.queries ORDER BY name');

# Every row is a batch (and moves the watermark, so a no-data batch follows where one can).
sub run_rows
{
	my ($from, $to) = @_;
	$node->sql(<<"SQL");
DO \$\$
BEGIN
	FOR i IN $from .. $to LOOP
		INSERT INTO s VALUES (i % 20, '2024-01-01Z'::timestamptz + i * interval '1 second');
		INSERT INTO wide VALUES (i * 7919 % 30000, 'some text');
		COMMIT;
		PERFORM process_all_available(name, '60 s') FROM streamx.queries;
		COMMIT;
	END LOOP;
END \$\$;
SQL
}

# Used bytes of all contexts of a worker but its local buffers, which temp_buffers bounds.
my %reports;

sub memory
{
	my ($query) = @_;
	my $pid = $node->sql("SELECT pid FROM streamx.queries WHERE name = '$query'");
	my $number = $reports{$pid}++;
	$node->sql("SELECT pg_log_backend_memory_contexts($pid)");
	for (1 .. 100)
	{
		my @lines = grep { /\[$pid\]/ } split /\n/, SxCluster::slurp($node->{log});
		my ($report, $used) = (0, 0);
		for (@lines)
		{
			$used = 0 if /level: [01]; TopMemoryContext/;	# 18 counts from 1
			$used += $1 if /level: \d+;.* (\d+) used$/ && !/LocalBufferContext/;
			return $used if /Grand total/ && $report++ == $number;
		}
		select undef, undef, undef, 0.1;
	}
	die "no memory contexts of $query in the log";
}

# Anonymous pages in kB and open files of every process of streamx, by name or kind.
sub processes
{
	my %found;
	for (split /\n/, $node->sql(q(SELECT pid, coalesce(name, backend_type) FROM pg_stat_activity
		LEFT JOIN streamx.queries USING (pid) WHERE backend_type LIKE 'streamx%')))
	{
		my ($pid, $name) = split /\|/;
		my ($anonymous) = SxCluster::slurp("/proc/$pid/status") =~ /^RssAnon:\s*(\d+)/m;
		my @files = glob "/proc/$pid/fd/*";
		$found{$name} = { anonymous => $anonymous, files => scalar @files };
	}
	return \%found;
}

run_rows(1, 500);
my %before = map { $_ => memory($_) } @queries;
my $old = processes();
run_rows(501, 5500);
for my $query (grep { !/^spilled/ } @queries)
{
	my $growth = memory($query) - $before{$query};
	cmp_ok($growth, '<', 65536, "$query: used memory grew by $growth bytes");
}
my $new = processes();
is(join(',', sort keys %$new), join(',', sort keys %$old), 'the same processes');
for my $name (sort keys %$new)
{
	my $growth = $new->{$name}{anonymous} - $old->{$name}{anonymous};
	my $files = $new->{$name}{files} - $old->{$name}{files};
	cmp_ok($growth, '<', 2048, "$name: the process grew by $growth kB");
	cmp_ok($files, '<', 20, "$name: it has $files more open files");
}
cmp_ok($node->sql("SELECT batch_id FROM streamx.queries WHERE name = 'append'"), '>=', 10000, 'over 10,000 batches');
is($node->sql("SELECT max(count) <= 201 FROM (SELECT count(*) FROM streamx.batch GROUP BY query) c"), 't', 'old batch records are deleted');
# nine queries keep 100 to 200 records of about 1.5 kB each; autovacuum would come once a minute
my $size = $node->sql("SELECT pg_relation_size('streamx.batch') / 1024");
cmp_ok($size, '<', 7 * 1024, "and their space is used again: $size kB");
is($node->sql('SELECT count(*) FROM streamx.intent'), 0, 'published intents too');
is($node->sql("SELECT (last_progress('joined') #>> '{stateOperators,0,numRowsTotal}')::int BETWEEN 1 AND 100"), 't', 'a join keeps the rows that can match');

# what a join needs for a batch doesn't grow with the batch: its rows are in the state, and once
$node->sql(<<'SQL');
SELECT create_stream('many_l', 'k int, v bigint, ts timestamptz, WATERMARK FOR ts AS ts'), create_stream('many_r', 'k int, v bigint, ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_query('many', 'SELECT l.k, l.v, r.v AS w FROM many_l l JOIN many_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval ''20 seconds''', sink => 'noop', options => '{"batch_rows": 1000000}');
SQL
sub many
{
	my ($rows) = @_;
	$node->sql(<<"SQL");
INSERT INTO many_l SELECT i, i, '2024-01-01Z'::timestamptz + i * interval '1 millisecond' FROM generate_series(1, $rows) i;
INSERT INTO many_r SELECT i, i, '2024-01-01Z'::timestamptz + i * interval '1 millisecond' FROM generate_series(1, $rows) i;
SELECT start_query('many');
SELECT process_all_available('many', '120 s');
SQL
	my ($pid) = $node->sql("SELECT pid FROM streamx.queries WHERE name = 'many'");
	my ($peak, $mapped) = map { SxCluster::slurp("/proc/$pid/status") =~ /^$_:\s*(\d+)/m } qw(VmHWM RssShmem);
	$node->sql("SELECT stop_query('many')");
	return $peak - $mapped;
}
my $few = many(1000);
my $more = many(100000) - $few;
# a row, its key's entry and the one that says when it goes: 200 bytes; a batch keeps those that the one before had until it commits
cmp_ok($more, '<', 100 * 1024, "a batch of 200,000 rows takes $more kB");

# starting and stopping leaves nothing in the processes that stay, dropping nothing on disk
sub stores { return grep { -d } glob "$node->{data}/streamx/*"; }

$node->sql("SELECT stop_query('spilled_rocksdb')");
$old = processes();
for my $i (1 .. 30)
{
	$node->sql("SELECT start_query('spilled_rocksdb')");
	$node->sql("INSERT INTO wide VALUES ($i, 'again'); SELECT process_all_available('spilled_rocksdb', '60 s')");
	$node->sql("SELECT stop_query('spilled_rocksdb')");
}
$new = processes();
for my $name ('streamx launcher', 'streamx scheduler')
{
	my $files = $new->{$name}{files} - $old->{$name}{files};
	cmp_ok($files, '<', 5, "$name: $files more open files after 30 starts");
	cmp_ok($new->{$name}{anonymous} - $old->{$name}{anonymous}, '<', 256, "$name: and no more memory");
}
cmp_ok(scalar(stores()), '>', 0, 'there are stores on disk');
$node->sql("SELECT drop_query(name) FROM streamx.queries");
for (1 .. 100)
{
	last unless stores();
	select undef, undef, undef, 0.1;
}
is(join(' ', stores()), '', 'dropping the queries removes them');

done_testing();
