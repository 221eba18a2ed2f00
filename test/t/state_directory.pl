# state_directory.pl
#		The directory of a RocksDB store is a cache: whatever somebody takes from it,
#		the query goes on with the right state, or says so and mends it.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib $FindBin::Bin;
use SxCluster;

my $node = SxCluster->new('directory');
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE FOREIGN TABLE s (k int) SERVER streamx;
SELECT create_query('q', 'SELECT k, count(*) AS n FROM s GROUP BY k', sink => 'out', output_mode => 'update',
	options => '{"state_memory": "1MB"}');
SQL

my $rounds = 0;

sub one_more_round
{
	my ($what) = @_;
	$rounds++;
	$node->sql("INSERT INTO s SELECT generate_series(1, 40000)");
	# what cannot be read is told and tried again
	my $right = $node->poll("SELECT count(*) || ' ' || min(n) || ' ' || max(n) FROM out", "40000 $rounds $rounds", 60);
	ok($right, $what);
	$node->sql("SELECT stop_query('q')");
}

sub files
{
	my ($directory) = glob "$node->{data}/streamx/pgsql_tmp_*" or die 'no store';
	return grep { -f $_ } glob "$directory/*";
}

$node->sql("SELECT start_query('q')");
one_more_round('a state larger than memory');
ok(scalar(grep { /mark$/ } files()), 'a clean stop leaves a mark');

unlink grep { !/mark$/ } files();
$node->sql("SELECT start_query('q')");
one_more_round('all but the mark was removed');

unlink grep { /\.sst$/ } files();
$node->sql("SELECT start_query('q')");
one_more_round('the data were removed');

for my $file (grep { /\.sst$/ } files())
{
	open my $f, '+<', $file or die "$file: $!";
	seek $f, 100, 0;
	print $f 'damaged' x 20;
	close $f;
}
$node->sql("SELECT start_query('q')");
one_more_round('the data were damaged');

# The scheduler stays for another query: it must not be the next one that cleans up.
$node->sql("SELECT start_query('idle', 'SELECT k FROM s', sink => 'noop')");
$node->sql("SELECT start_query('q')");
$node->poll("SELECT count(*) = 2 FROM streamx.queries WHERE state = 'running'", 't');
$node->sql("SELECT drop_query('q')");
my @left;
for (1 .. 100)
{
	@left = glob "$node->{data}/streamx/pgsql_tmp_*" or last;
	select undef, undef, undef, 0.1;
}
is("@left", '', 'the store goes with its query while other queries run');
is($node->sql("SELECT state FROM streamx.queries"), 'running', 'and they run on');

done_testing();
