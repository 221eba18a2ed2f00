# sliding_windows.pl
#		Sliding windows, as a property: whatever size, slide and offset are drawn,
#		wherever the batches are cut and the query is restarted, a window's result
#		is that of the batch query over the rows that were not late for it, and the
#		state counts the windows by key that are open.
#
# A step is one transaction and, unless batches are small, one batch; its rows are
# judged by the watermark that the batch before it evicted by.
#
#	SX_WINDOWS=n	queries to draw (40)		SX_SEED=n	the seed, printed
use strict;
use warnings;

use FindBin;
use Test::More;

use lib $FindBin::Bin;
use SxCluster;

my $wanted = $ENV{SX_WINDOWS} || 40;
my $seed = $ENV{SX_SEED} || int(rand(1 << 30));
srand($seed);
diag("SX_SEED=$seed");

my $node = SxCluster->new('sliding');
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
-- strict, without a first value: NULL once a negative number came, and for good
CREATE FUNCTION spoiled(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT CASE WHEN a >= 0 AND b >= 0 THEN a + b END';
CREATE AGGREGATE spoil_sum(int) (SFUNC = spoiled, STYPE = int, COMBINEFUNC = spoiled, PARALLEL = SAFE);
CREATE AGGREGATE list(text) (SFUNC = array_append, STYPE = text[], INITCOND = '{}');
SQL

sub pick { return $_[ int(rand(@_)) ]; }
sub literal { my ($text) = @_; $text =~ s/'/''/g; return "'$text'"; }

# The values of a group, in SQL; the last ones keep their arguments or have no combine function.
my @combined = (
	'count(*)', 'count(v)', 'sum(v)', 'sum(v::int8)', 'avg(v::int8)', 'avg(v)::numeric(20,6)', 'min(v)', 'max(name)',
	'sum(n)::text', 'avg(n)::numeric(20,6)', 'stddev(n)::numeric(20,6)', 'bool_and(v > 2)', 'bool_or(v > 2)', 'bit_or(v)',
	'max(ts)', 'count(*) FILTER (WHERE v > 3)', 'sum(v) FILTER (WHERE name IS NULL)', 'spoil_sum(v)', 'range_agg(int4range(v, v + 1))',
	'corr(v, v * 2)::numeric(10,4)', 'sum(v::float8)::numeric(20,6)');
my @listed = ('count(DISTINCT v)', 'array_agg(v ORDER BY v)', 'percentile_disc(0.5) WITHIN GROUP (ORDER BY v)', 'cardinality(list(name))');

# What a query is made of.
sub draw
{
	my %d;
	my $unit = pick(1, 1000, 1000000, 1000000, 1000000, 60000000);	# microseconds
	my $size = 2 + int(rand(20));
	my $slide = pick(map { $size % $_ == 0 ? ($_) x 3 : $_ } 1 .. $size - 1);
	my $offset = int(rand(2 * $slide - 1)) - ($slide - 1);
	$d{unit} = $unit;
	$d{size} = $size * $unit;
	$d{slide} = $slide * $unit;
	$d{span} = "'" . $size * $unit . " microseconds', '" . $slide * $unit . " microseconds', '" . $offset * $unit . " microseconds'";
	$d{mode} = pick('append', 'append', 'update', 'update', 'complete');
	$d{small} = $d{mode} ne 'append' && rand() < 0.3;	# small batches: then nothing may be late
	$d{delay} = $d{small} ? '30000 days' : int(rand(3 * $size)) * $unit . ' microseconds';
	$d{watermark} = $d{mode} eq 'append' || rand() < 0.8;
	$d{keys} = pick([], ['k'], ['k'], ['k', 'name'], ['name'], ['v % 2']);
	my %seen;
	my @values = grep { !$seen{$_}++ } map { pick(@combined) } 1 .. 1 + int(rand(4));
	push @values, pick(@listed) if rand() < 0.15;
	$d{values} = \@values;
	$d{having} = rand() < 0.25 ? ' HAVING count(*) > 2' : '';
	$d{where} = rand() < 0.2 ? ' WHERE v IS DISTINCT FROM 5' : '';
	$d{store} = pick('rocksdb', 'table');
	$d{memory} = pick('1MB', '64MB');
	return \%d;
}

# SELECT over a relation; "expanded" rows have a window for each row.
sub query_over
{
	my ($d, $from, $condition) = @_;
	my $i = 0;
	my @keys = map { "$_ AS key" . ++$i } @{ $d->{keys} };
	my @select = ('w', @keys, map { "$_ AS value" . ++$i } @{ $d->{values} });
	my $where = join ' AND ', grep { $_ } $condition, $d->{where} =~ /WHERE (.*)/;
	return 'SELECT ' . join(', ', @select)
	  . " FROM (SELECT hop(ts, $d->{span}) AS w, * FROM $from) x"
	  . ($where ? " WHERE $where" : '') . ' GROUP BY w' . join('', map { ", $_" } @{ $d->{keys} }) . $d->{having};
}

# Rows around a clock that moves on, in microseconds from the epoch of the case.
sub rows
{
	my ($d, $clock, $n) = @_;
	my @rows;
	for (1 .. $n)
	{
		my $ts = rand() < 0.03 ? pick('NULL', "'infinity'", "'-infinity'")
		  : "timestamptz '$d->{epoch}' + " . int($clock + (rand() - 0.8) * pick(1, 1, 4) * $d->{size}) . " * interval '1 microsecond'";
		push @rows, '(' . join(', ', pick('NULL', 0 .. 3), pick('NULL', "'a'", "'b'", "'" . 'c' x 300 . "'"),
			pick('NULL', -3 .. 9), pick('NULL', map { sprintf '%.2f', rand(100) } 1 .. 4), $ts) . ')';
	}
	return join ', ', @rows;
}

my ($number, $bad) = (0, 0);

sub check
{
	my ($d, $q, $what, $got, $want) = @_;
	return if $got eq $want;
	$bad++;
	diag("$q, $what: got $got, wanted $want; " . join(', ', map { "$_ => $d->{$_}" } qw(span mode delay store small watermark)) . '; '
		. query_over($d, 's', ''));
}

sub last_watermark
{
	my ($q) = @_;
	return $node->sql("SELECT b.watermark FROM streamx.batch b JOIN streamx.query q ON q.id = b.query WHERE q.name = '$q' ORDER BY b.batch DESC LIMIT 1");
}

# Sink, state rows and late rows as they must be now.
sub compare
{
	my ($d, $q) = @_;
	my $mark = last_watermark($q);
	my $closed = $mark eq '' ? 'false' : "upper(w) <= '$mark'";
	my $open = $d->{watermark} && $d->{mode} ne 'complete' ? "NOT ($closed)" : 'true';
	my $judged = $d->{watermark} && $d->{mode} ne 'complete' ? '(late IS NULL OR upper(w) > late)' : '';
	my $want = query_over($d, "ref_$q", $judged);
	$want = "SELECT * FROM ($want) y WHERE $closed" if $d->{mode} eq 'append';
	my $cols = $node->sql("SELECT string_agg(quote_ident(attname) || '::text', ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'out_$q'::regclass AND attnum > 0");
	my $out = "SELECT $cols FROM out_$q";
	$want = "SELECT $cols FROM ($want) z";
	check($d, $q, 'rows', $node->sql(
		"SELECT concat_ws('; ', (SELECT 'missing ' || count(*) || ' ' || min(m::text) FROM ($want EXCEPT ALL $out) m HAVING count(*) > 0),"
		. " (SELECT 'extra ' || count(*) || ' ' || min(m::text) FROM ($out EXCEPT ALL $want) m HAVING count(*) > 0))"), '');
	my %plain = (%$d, values => ['count(*)'], having => '');
	check($d, $q, 'state rows',
		$node->sql("SELECT last_progress('$q') -> 'stateOperators' -> 0 ->> 'numRowsTotal'"),
		$node->sql("SELECT count(*) FROM (" . query_over(\%plain, "ref_$q", $judged) . ") y WHERE $open"));
	return if $judged eq '';
	my $where = $d->{where} || ' WHERE true';
	check($d, $q, 'late rows',
		$node->sql("SELECT coalesce(sum((p -> 'stateOperators' -> 0 ->> 'numRowsDroppedByWatermark')::int), 0) FROM recent_progress('$q') p"),
		$node->sql("SELECT count(*) FROM ref_$q$where AND (SELECT max(upper(w)) FROM hop(ts, $d->{span}) w) <= late"));
}

while ($number < $wanted)
{
	my $d = draw();
	my $q = 'q' . ++$number;
	my $clock = 0;
	$d->{epoch} = pick('2026-01-01 00:00:00+00', '1969-12-31 23:59:50+00', '1900-03-01 12:00:00.000007+00');
	$node->sql("CREATE TABLE ref_$q (k int, name text, v int, n numeric, ts timestamptz, late timestamptz);"
		. "CREATE FOREIGN TABLE s (k int, name text, v int, n numeric, ts timestamptz"
		. ($d->{watermark} ? " OPTIONS (watermark '$d->{delay}')" : '') . ") SERVER streamx;"
		. "SELECT start_query('$q', " . literal(query_over($d, 's', '')) . ", sink => 'out_$q', output_mode => '$d->{mode}', options => '"
		. "{\"state_store\": \"$d->{store}\", \"state_memory\": \"$d->{memory}\", \"max_future_skew\": \"off\""
		. ($d->{small} ? ', "batch_rows": 7' : '') . "}')");
	for my $step (1 .. 3 + int(rand(6)))
	{
		$clock += int(rand() * pick(0, 1, 1, 2, 30) * $d->{size});
		my $rows = rows($d, $clock, 1 + int(rand(60)));
		my $late = last_watermark($q);
		$late = $late eq '' || $d->{small} ? 'NULL' : "'$late'";
		$node->sql("BEGIN; CREATE TEMP TABLE now_in ON COMMIT DROP AS SELECT * FROM (VALUES $rows) AS r (k, name, v, n, ts);"
			. " INSERT INTO s SELECT k::int, name, v::int, n::numeric, ts::timestamptz FROM now_in;"
			. " INSERT INTO ref_$q SELECT k::int, name, v::int, n::numeric, ts::timestamptz, $late FROM now_in; COMMIT");
		$node->sql("SELECT process_all_available('$q', '60 s')");
		compare($d, $q) if rand() < 0.5;
		$node->sql("SELECT stop_query('$q', '60 s'); SELECT start_query('$q')") if rand() < 0.3;
		if (rand() < 0.03) { $node->kill9; $node->start; }
	}
	compare($d, $q);
	$node->sql("SELECT drop_query('$q'); DROP TABLE out_$q, ref_$q; DROP FOREIGN TABLE s CASCADE");
}
is($bad, 0, "$number random sliding windows give the batch answer whatever the batches");
done_testing();
