# A query with nothing to do sleeps, whatever its trigger.
use strict;
use warnings;

use FindBin;
use Test::More;
use Time::HiRes qw(sleep);

use lib $FindBin::Bin;
use SxCluster;

my $node = SxCluster->new('idle');
$node->start;
$node->sql(q{
	CREATE EXTENSION streamx;
	SELECT create_stream('s', '(k int, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''1 second'')');
});
my %triggers = (every => 'default', often => '100 milliseconds', seldom => '1 second');
for my $name (sort keys %triggers)
{
	$node->sql("SELECT create_query('$name', 'SELECT k, count(*) AS n FROM s GROUP BY k', sink => '$name', "
		  . "output_mode => 'update', trigger => '$triggers{$name}'); SELECT start_query('$name')");
}
$node->sql("INSERT INTO s VALUES (1, '2026-01-15 10:00:00+00')");
$node->sql("SELECT process_all_available('$_', '60 s')") for sort keys %triggers;

my %pid = map { $_ => $node->sql("SELECT pid FROM streamx.queries WHERE name = '$_'") } keys %triggers;
my %before = map { $_ => SxCluster::ticks($pid{$_}) } keys %triggers;
sleep 5;
for my $name (sort keys %triggers)
{
	cmp_ok(SxCluster::ticks($pid{$name}) - $before{$name}, '<', 15, "trigger $triggers{$name}: at most 3 % of a core while nothing comes");
}
done_testing();
