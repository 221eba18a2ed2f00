# session_windows.pl
#		Session windows, as a property: whatever gaps and keys are drawn, wherever the
#		batches are cut and the query is restarted or killed, the sink holds what
#		merging by gaps and islands gives, and the state counts the open sessions.
#
# The reference goes step by step: the sessions that are open and the rows that are
# not late are merged, then those that the watermark has passed are set apart. It
# knows sessions by the ids of their rows, so that the aggregates are the server's.
#
# A step is one transaction and, unless batches are small, one batch; its rows are
# judged by the watermark that the batch before it evicted by.
#
#	SX_WINDOWS=n	queries to draw (8)		SX_SEED=n	the seed, printed
use strict;
use warnings;

use FindBin;
use Test::More;

use lib $FindBin::Bin;
use SxCluster;

my $wanted = $ENV{SX_WINDOWS} || 8;
my $seed = $ENV{SX_SEED} || int(rand(1 << 30));
srand($seed);
diag("SX_SEED=$seed");

my $node = SxCluster->new('sessions');
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
-- strict, without a first value: NULL once a negative number came, and for good
CREATE FUNCTION spoiled(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT CASE WHEN a >= 0 AND b >= 0 THEN a + b END';
CREATE AGGREGATE spoil_sum(int) (SFUNC = spoiled, STYPE = int, COMBINEFUNC = spoiled, PARALLEL = SAFE);
CREATE AGGREGATE uncombined(int) (SFUNC = int4xor, STYPE = int, INITCOND = '0');

CREATE TABLE came (q text, step int, id int, key jsonb, ts timestamptz, until timestamptz);
CREATE TABLE session (q text, key jsonb, st timestamptz, en timestamptz, ids int[], closed bool);
CREATE TABLE late (q text, n bigint);

CREATE FUNCTION take_step(this text, number int, late_upto timestamptz, closed_upto timestamptz) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
	INSERT INTO late SELECT this, count(*) FROM came r WHERE r.q = this AND r.step = number AND until <= late_upto;
	CREATE TEMP TABLE part ON COMMIT DROP AS
		SELECT key, st, en, ids FROM session s WHERE s.q = this AND NOT closed
		UNION ALL
		SELECT key, ts, until, ARRAY[id] FROM came r
		WHERE r.q = this AND r.step = number AND (late_upto IS NULL OR until > late_upto);
	DELETE FROM session s WHERE s.q = this AND NOT closed;
	INSERT INTO session
		SELECT this, key, min(st), max(en), array_agg(i), coalesce(max(en) <= closed_upto, false) FROM (
			SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY key ORDER BY st, en, ids) AS island FROM (
				SELECT *, coalesce(st > max(en) OVER (PARTITION BY key ORDER BY st, en, ids ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS starts
				FROM part) p) g, unnest(ids) i
		GROUP BY key, island;
	DROP TABLE part;
END $f$;
SQL

sub pick { return $_[ int(rand(@_)) ]; }
sub literal { my ($text) = @_; $text =~ s/'/''/g; return "'$text'"; }

# The values of a session, in SQL; the last ones keep their arguments or have no combine function.
my @combined = (
	'count(*)', 'count(v)', 'sum(v)', 'sum(v::int8)', 'avg(v::int8)', 'avg(v)::numeric(20,6)', 'min(v)', 'max(name)',
	'sum(n)::text', 'avg(n)::numeric(20,6)', 'stddev(n)::numeric(20,6)', 'bool_and(v > 2)', 'bool_or(v > 2)', 'bit_or(v)',
	'max(ts)', 'count(*) FILTER (WHERE v > 3)', 'sum(v) FILTER (WHERE name IS NULL)', 'spoil_sum(v)', 'range_agg(int4range(v, v + 1))',
	'corr(v, v * 2)::numeric(10,4)', 'sum(v::float8)::numeric(20,6)');
my @listed = ('count(DISTINCT v)', 'array_agg(v ORDER BY v)', 'percentile_disc(0.5) WITHIN GROUP (ORDER BY v)', 'uncombined(v)', "string_agg(DISTINCT name, ',' ORDER BY name)");

# What a query is made of.
sub draw
{
	my %d;
	$d{many} = rand() < 0.2;	# open sessions of a key: they lie in pieces
	$d{unit} = pick(1, 1000, 1000000, 1000000, 60000000);	# microseconds
	$d{own} = rand() < 0.4;		# a gap for each row
	$d{gap} = $d{own} ? pick("v * interval '$d{unit} microseconds'", "CASE WHEN name = 'a' THEN interval '" . 3 * $d{unit} . " microseconds' ELSE v * interval '$d{unit} microseconds' END")
	  : "interval '" . (1 + int(rand(9))) * $d{unit} . " microseconds'";
	$d{mode} = pick('append', 'append', 'update', 'update', 'update', 'complete');
	$d{small} = $d{mode} ne 'append' && rand() < 0.3;	# small batches: then nothing may be late
	$d{delay} = $d{small} ? '30000 days' : int(rand($d{many} ? 5000 : 30)) * $d{unit} . ' microseconds';
	$d{watermark} = $d{mode} eq 'append' || rand() < 0.8;
	$d{keys} = pick([], ['k'], ['k'], ['k', 'name'], ['name'], ['v % 2'], ['n']);
	$d{window} = pick('w', 'w', 'upper(w)');
	my %seen;
	my @values = grep { !$seen{$_}++ } map { pick(@combined) } 1 .. 1 + int(rand(4));
	push @values, pick(@listed) if rand() < 0.3;
	$d{values} = \@values;
	$d{having} = rand() < 0.3 ? ' HAVING count(*) ' . pick('> 2', '< 4') : '';
	$d{where} = rand() < 0.2 ? ' WHERE v IS DISTINCT FROM 5' : '';
	$d{store} = pick('rocksdb', 'table');
	$d{memory} = pick('1MB', '64MB');
	$d{nested} = rand() < 0.5;
	return \%d;
}

sub select_list
{
	my ($d, $window, @keys) = @_;
	my $i = 0;
	return join ', ', "$window AS w0", (map { "$_ AS key" . ++$i } @keys), map { "$_ AS value" . ++$i } @{ $d->{values} };
}

# The continuous query: the window in a subquery or beside the aggregates.
sub query_of
{
	my ($d) = @_;
	my $call = "session(ts, $d->{gap})";
	my $window = $d->{nested} ? $d->{window} : $d->{window} eq 'w' ? $call : "upper($call)";
	my $from = $d->{nested} ? "(SELECT $call AS w, * FROM s) x" : 's';
	return 'SELECT ' . select_list($d, $window, @{ $d->{keys} }) . " FROM $from$d->{where} GROUP BY "
	  . join(', ', $d->{nested} ? 'w' : $call, @{ $d->{keys} }) . $d->{having};
}

# What the sink must hold, from the reference's sessions.
sub wanted_of
{
	my ($d, $q) = @_;
	my $window = $d->{window} eq 'w' ? 'tstzrange(st, en)' : 'en';
	return 'SELECT ' . select_list($d, $window, map { "(array_agg($_))[1]" } @{ $d->{keys} })
	  . " FROM (SELECT *, row_number() OVER () AS number FROM session WHERE q = '$q'" . ($d->{mode} eq 'append' ? ' AND closed' : '')
	  . ") f, unnest(ids) AS i (id) JOIN ref_$q USING (id) GROUP BY number, st, en$d->{having}";
}

# Rows around a clock that moves on, in microseconds from the epoch of the case.
sub rows
{
	my ($d, $clock, $n) = @_;
	my @rows;
	for (1 .. $n)
	{
		my $ts = rand() < 0.03 ? pick('NULL', "'infinity'", "'-infinity'")
		  : "timestamptz '$d->{epoch}' + " . (int($clock / $d->{unit}) + int((rand() - 0.8) * ($d->{many} ? 5000 : pick(10, 30, 100)))) * $d->{unit} . " * interval '1 microsecond'";
		push @rows, '(' . join(', ', pick('NULL', 0 .. 3), pick('NULL', "'a'", "'b'", "'" . 'c' x 300 . "'"),
			pick('NULL', -3 .. 9), pick('NULL', '1', '1.0', '1.00', '2', '2.50'), $ts) . ')';
	}
	return join ', ', @rows;
}

my ($number, $bad) = (0, 0);

sub check
{
	my ($d, $q, $what, $got, $want) = @_;
	return if $got eq $want;
	$bad++;
	diag("$q, $what: got $got, wanted $want; " . join(', ', map { "$_ => $d->{$_}" } qw(mode delay store memory small watermark)) . '; ' . query_of($d));
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
	my $cols = $node->sql("SELECT string_agg(CASE WHEN atttypid = 'numeric'::regtype THEN format('trim_scale(%I)::text', attname) ELSE format('%I::text', attname) END, ', ' ORDER BY attnum)"
		. " FROM pg_attribute WHERE attrelid = 'out_$q'::regclass AND attnum > 0");
	my $out = "SELECT $cols FROM out_$q";
	my $want = "SELECT $cols FROM (" . wanted_of($d, $q) . ") z";
	check($d, $q, 'rows', $node->sql(
		"SELECT concat_ws('; ', (SELECT 'missing ' || count(*) || ' ' || min(m::text) FROM ($want EXCEPT ALL $out) m HAVING count(*) > 0),"
		. " (SELECT 'extra ' || count(*) || ' ' || min(m::text) FROM ($out EXCEPT ALL $want) m HAVING count(*) > 0))"), '');
	check($d, $q, 'state rows',
		$node->sql("SELECT last_progress('$q') -> 'stateOperators' -> 0 ->> 'numRowsTotal'"),
		$node->sql("SELECT count(*) FROM session WHERE q = '$q' AND NOT closed"));
	check($d, $q, 'late rows',
		$node->sql("SELECT coalesce(sum((p -> 'stateOperators' -> 0 ->> 'numRowsDroppedByWatermark')::int), 0) FROM recent_progress('$q') p"),
		$node->sql("SELECT coalesce(sum(n), 0) FROM late WHERE q = '$q'"));
}

while ($number < $wanted)
{
	my $d = draw();
	my $q = 'q' . ++$number;
	my $clock = 0;
	my $first = 1;
	my $key = @{ $d->{keys} } ? 'jsonb_build_array(' . join(', ', @{ $d->{keys} }) . ')' : "'[]'::jsonb";
	my $judges = $d->{watermark} && $d->{mode} ne 'complete';
	$d->{epoch} = pick('2026-01-01 00:00:00+00', '1969-12-31 23:59:50+00', '1900-03-01 12:00:00.000007+00');
	$node->sql("CREATE TABLE ref_$q (id int PRIMARY KEY, k int, name text, v int, n numeric, ts timestamptz);"
		. "CREATE FOREIGN TABLE s (k int, name text, v int, n numeric, ts timestamptz"
		. ($d->{watermark} ? " OPTIONS (watermark '$d->{delay}')" : '') . ") SERVER streamx;"
		. "SELECT start_query('$q', " . literal(query_of($d)) . ", sink => 'out_$q', output_mode => '$d->{mode}', options => '"
		. "{\"state_store\": \"$d->{store}\", \"state_memory\": \"$d->{memory}\", \"max_future_skew\": \"off\""
		. ($d->{small} ? ', "batch_rows": 7' : '') . "}')");
	for my $step (1 .. 3 + int(rand(8)))
	{
		$clock += int(rand() * pick(0, 1, 1, 2, 10) * 10) * $d->{unit};
		my $n = 1 + int(rand($d->{many} ? 300 : 60));
		my $rows = rows($d, $clock, $n);
		my $late = last_watermark($q);
		$node->sql("BEGIN; CREATE TEMP TABLE now_in ON COMMIT DROP AS SELECT $first + row_number() OVER () AS id, k::int, name, v::int, n::numeric, ts::timestamptz FROM (VALUES $rows) AS r (k, name, v, n, ts);"
			. " INSERT INTO s SELECT k, name, v, n, ts FROM now_in;"
			. " INSERT INTO ref_$q SELECT * FROM now_in;"
			. " INSERT INTO came SELECT '$q', $step, id, $key, ts, ts + gap FROM (SELECT *, $d->{gap} AS gap FROM now_in$d->{where}) g WHERE isfinite(ts) AND gap > '0'; COMMIT");
		$first += $n;
		$node->sql("SELECT process_all_available('$q', '60 s')");
		my $mark = last_watermark($q);
		$node->sql("SELECT take_step('$q', $step, " . join(', ', map { $judges && $_ ne '' ? "'$_'" : 'NULL' } $d->{small} ? '' : $late, $mark) . ')');
		compare($d, $q) if rand() < 0.5;
		$node->sql("SELECT stop_query('$q', '60 s'); SELECT start_query('$q')") if rand() < 0.3;
		if (rand() < 0.03) { $node->kill9; $node->start; }
	}
	compare($d, $q);
	$node->sql("SELECT drop_query('$q'); DROP TABLE out_$q, ref_$q; DROP FOREIGN TABLE s CASCADE");
}
is($bad, 0, "$number random session queries give the sessions of the reference whatever the batches");
cmp_ok($node->sql('SELECT count(*) FROM session WHERE closed AND cardinality(ids) > 1'), '>', 0, 'sessions of several rows have closed');
done_testing();
