# engine_memory.pl
#		A worker's memory is flat over 10,000 batches, whatever the sink.
use strict;
use warnings;

use File::Basename;
use lib dirname(__FILE__);
use SxCluster;
use Test::More;

my $node = SxCluster->new('memory');
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
SELECT create_query('stream', 'SELECT k, 1 AS n FROM s', sink => 'copied');
SELECT create_query('directory', 'SELECT k FROM s', sink => 'directory', options => '{"directory": "$out"}');
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
			$used = 0 if /level: 0; TopMemoryContext/;
			$used += $1 if /level: \d+;.* (\d+) used$/ && !/LocalBufferContext/;
			return $used if /Grand total/ && $report++ == $number;
		}
		select undef, undef, undef, 0.1;
	}
	die "no memory contexts of $query in the log";
}

run_rows(1, 500);
my %before = map { $_ => memory($_) } @queries;
run_rows(501, 5500);
for my $query (@queries)
{
	my $growth = memory($query) - $before{$query};
	cmp_ok($growth, '<', 65536, "$query: used memory grew by $growth bytes");
}
cmp_ok($node->sql("SELECT batch_id FROM streamx.queries WHERE name = 'append'"), '>=', 10000, 'over 10,000 batches');
is($node->sql("SELECT max(count) <= 201 FROM (SELECT count(*) FROM streamx.batch GROUP BY query) c"), 't', 'old batch records are deleted');
is($node->sql('SELECT count(*) FROM streamx.intent'), 0, 'published intents too');

done_testing();
