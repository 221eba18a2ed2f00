# worker_idle.pl
#		A query without rows waits: whatever its trigger, its worker sleeps. Rows that
#		come without a wake-up are found all the same.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep);
use SxCluster;

my $node = SxCluster->new('idle', conf => ['max_prepared_transactions = 2']);
$node->start;
my %trigger = (by_default => 'default', each_second => '1 second', each_hour => '1 hour');
$node->sql(<<'SQL' . join '', map { "SELECT start_query(name => '$_', query => 'SELECT tumble(ts, ''1 s'') AS w, count(*) AS n FROM s GROUP BY w', sink => 'noop', trigger => '$trigger{$_}');\n" } sort keys %trigger);
CREATE EXTENSION streamx;
CREATE FOREIGN TABLE s (ts timestamptz OPTIONS (watermark '1 second')) SERVER streamx;
INSERT INTO s VALUES ('2026-01-01 00:00+00');
SQL
$node->poll("SELECT count(*) = 3 FROM streamx.queries WHERE state = 'running' AND batch_id >= 0");

# Ticks of CPU that a process and its start have used.
sub ticks { my @f = split ' ', (SxCluster::slurp("/proc/$_[0]/stat") =~ /.*\) (.*)/s)[0]; return $f[11] + $f[12]; }

my %pid = map { split /\|/ } split /\n/, $node->sql('SELECT name, pid FROM streamx.queries');
my %before = map { $_ => ticks($pid{$_}) } keys %pid;
sleep 4;
for my $name (sort keys %trigger)
{
	my $used = ticks($pid{$name}) - $before{$name};
	cmp_ok($used, '<', 20, "a query with trigger $trigger{$name} uses next to nothing while no rows come ($used ticks of 400)");
}

# COMMIT PREPARED wakes nobody
my $before = $node->sql("SELECT batch_id FROM streamx.queries WHERE name = 'by_default'");
$node->sql("BEGIN; INSERT INTO s VALUES ('2026-01-01 00:10+00'); PREPARE TRANSACTION 'rows'");
sleep 6;
is($node->sql("SELECT batch_id FROM streamx.queries WHERE name = 'by_default'"), $before, 'a prepared row is not there yet');
$node->sql("COMMIT PREPARED 'rows'");
ok($node->poll("SELECT batch_id > $before FROM streamx.queries WHERE name = 'by_default'"), 'committed by somebody else, it is found by a look that nobody asked for');
done_testing();
