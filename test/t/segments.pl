# segments.pl
#		The law of segments, as a property: whatever stateless query is drawn,
#		and wherever the batches are cut, the sink holds what the batch query
#		says about all rows.  Then plans that don't read the stream as a whole:
#		offsets, watermark and counts must not care.
#
#	SX_SEGMENTS=n	queries to draw (500)		SX_SEED=n	the seed, printed
use strict;
use warnings;
use Test::More;
use SxCluster;

my $wanted = $ENV{SX_SEGMENTS} || 500;
my $seed = $ENV{SX_SEED} || int(rand(1 << 30));
srand($seed);
diag("SX_SEED=$seed");

my $node = SxCluster->new('segments');
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE FOREIGN TABLE s (id bigint, k text, v int, ts timestamptz OPTIONS (watermark '10 seconds'), tags text[]) SERVER streamx;
CREATE FOREIGN TABLE u (id bigint, k text, v int, ts timestamptz OPTIONS (watermark '10 seconds'), tags text[]) SERVER streamx;
CREATE TABLE dim (k text, name text, n int);
INSERT INTO dim VALUES ('a', 'alpha', 1), ('b', 'beta', 2), ('b', 'beta again', 3), ('x', NULL, NULL), (NULL, 'nil', 0);
CREATE TABLE empty (LIKE dim);
CREATE VIEW sv AS SELECT id, k, v * 2 AS v, ts, tags FROM s WHERE v IS NOT NULL;
CREATE FUNCTION twice(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN i * 2; END';
SQL

sub pick { return $_[ int(rand(@_)) ]; }

# A scalar expression over the stream row (alias t).
sub expression
{
	return pick(
		't.id', 't.k', 't.v', 't.ts', 't.v + 1', "t.k || '!'", 'coalesce(t.v, -1)',
		"CASE WHEN t.v > 3 THEN 'hi' WHEN t.v IS NULL THEN 'none' ELSE 'lo' END",
		'twice(t.v)', 't.ts + interval \'1 minute\'', 't.tags[1]', 'cardinality(t.tags)',
		'(SELECT count(*) FROM dim WHERE dim.k = t.k)',
		'(SELECT max(d.n) FROM dim d WHERE d.n < t.v)',
		'row_to_json(t)->>\'k\'', 'nullif(t.k, \'a\')', 't.v::numeric / 3',
		'EXISTS (SELECT 1 FROM dim WHERE dim.k = t.k)');
}

sub condition
{
	return pick(
		'true', 'false', 't.v > 2', "t.k <> 'a'", 't.v IS NULL', 't.v IS NOT NULL AND t.id % 2 = 0',
		"t.k IN ('a', 'c')", 't.k IN (SELECT k FROM dim WHERE k IS NOT NULL)',
		'NOT EXISTS (SELECT 1 FROM dim WHERE dim.k = t.k)', 't.ts > \'2026-01-01 00:00:20+00\'',
		't.id BETWEEN 3 AND 60', "'red' = ANY (t.tags)", 't.v = (SELECT min(n) FROM dim)');
}

# FROM clauses whose row type has id, k, v, ts, tags under alias t.
sub base
{
	my ($depth) = @_;
	my @choice = ('s', 's', 'u', 'sv');
	push @choice, 'union', 'sub', 'cte' if $depth < 2;
	my $what = pick(@choice);
	return "(SELECT * FROM " . base($depth + 1) . " t WHERE " . condition() . ")" if $what eq 'sub';
	return "(SELECT * FROM " . base($depth + 1) . " a UNION ALL SELECT * FROM " . base($depth + 1) . " b)"
	  if $what eq 'union';
	return "(WITH c AS (SELECT * FROM " . base($depth + 1) . " t WHERE " . condition() . ") SELECT * FROM c)"
	  if $what eq 'cte';
	return $what;
}

sub draw
{
	my $from = base(0) . ' t';
	my @select = map { expression() . " AS c$_" } 1 .. 1 + int(rand(3));
	my $join = pick('', '', '', 'inner', 'left', 'right', 'cross', 'lateral', 'limit', 'empty', 'values', 'unnest');
	if ($join eq 'inner') { $from .= ' JOIN dim d ON d.k = t.k'; push @select, 'd.name'; }
	if ($join eq 'left') { $from .= ' LEFT JOIN dim d ON d.k = t.k AND d.n > 1'; push @select, 'd.name'; }
	if ($join eq 'right') { $from = "dim d RIGHT JOIN $from ON d.k = t.k"; push @select, 'd.n'; }
	if ($join eq 'cross') { $from .= ', dim d'; push @select, 'd.n'; }
	if ($join eq 'lateral') { $from .= ', LATERAL (SELECT t.v + d.n AS x FROM dim d WHERE d.k = t.k) d'; push @select, 'd.x'; }
	if ($join eq 'limit') { $from .= ' LEFT JOIN LATERAL (SELECT d.name FROM dim d WHERE d.k = t.k ORDER BY d.n DESC LIMIT 1) d ON true'; push @select, 'd.name'; }
	if ($join eq 'empty') { $from .= ' ' . pick('JOIN', 'LEFT JOIN') . ' empty d ON d.k = t.k'; push @select, 'd.name'; }
	if ($join eq 'values') { $from .= ' JOIN (VALUES (1, \'one\'), (2, \'two\')) d(v, word) ON d.v = t.v'; push @select, 'd.word'; }
	push @select, 'unnest(t.tags) AS tag' if $join eq 'unnest';
	return 'SELECT ' . join(', ', @select) . " FROM $from WHERE " . condition();
}

sub literal { my ($x) = @_; return 'NULL' unless defined $x; $x =~ s/'/''/g; return "'$x'"; }

sub rows
{
	my ($n) = @_;
	return join ', ', map {
		sprintf('(%d, %s, %s, %s, %s)', int(rand(100)),
			literal(pick('a', 'b', 'c', 'x', undef)), pick(0 .. 6, 'NULL'),
			literal(pick(undef, map { sprintf '2026-01-01 00:00:%02d+00', int(rand(60)) } 1 .. 9)),
			pick('NULL', "'{}'", "'{red}'", "'{red,green,NULL}'"))
	} 1 .. $n;
}

# Many queries run at a time over the same rows.
my $group = 25;
my ($number, $bad) = (0, 0);
while ($number < $wanted)
{
	my @query;
	my $sql = '';
	for (1 .. $group)
	{
		last if $number >= $wanted;
		my $text = draw();
		$number++;
		my $name = "seg$number";
		push @query, [ $name, $text ];
		$sql .= "SELECT start_query('$name', " . literal($text) . ", sink => 'out_$name');\n";
	}
	$node->sql($sql);
	for my $batch (1 .. 3)
	{
		$node->sql("INSERT INTO " . pick('s', 's', 'u') . " VALUES " . rows(1 + int(rand(40))));
		$node->sql(join '', map { "SELECT process_all_available('$_->[0]', '60 s');\n" } @query);
	}
	for my $q (@query)
	{
		my ($name, $text) = @$q;
		my $cols = $node->sql("SELECT string_agg(quote_ident(attname) || '::text', ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'out_$name'::regclass AND attnum > 0 AND NOT attisdropped");
		my $diff = $node->sql("SELECT count(*) FROM ((SELECT $cols FROM out_$name EXCEPT ALL SELECT $cols FROM streamx_query.$name)"
			. " UNION ALL (SELECT $cols FROM streamx_query.$name EXCEPT ALL SELECT $cols FROM out_$name)) d");
		if ($diff ne '0')
		{
			$bad++;
			diag("$name differs in $diff rows: $text");
		}
	}
	# a fresh pair of streams for the next group
	$node->sql(join('', map { "SELECT drop_query('$_->[0]'); DROP TABLE out_$_->[0];\n" } @query)
		. "DROP FOREIGN TABLE s, u CASCADE;\n"
		. "CREATE FOREIGN TABLE s (id bigint, k text, v int, ts timestamptz OPTIONS (watermark '10 seconds'), tags text[]) SERVER streamx;\n"
		. "CREATE FOREIGN TABLE u (id bigint, k text, v int, ts timestamptz OPTIONS (watermark '10 seconds'), tags text[]) SERVER streamx;\n"
		. "CREATE VIEW sv AS SELECT id, k, v * 2 AS v, ts, tags FROM s WHERE v IS NOT NULL;\n");
}
is($bad, 0, "$number random segments give the batch answer whatever the batches");

# Plans that read the stream not at all, in part, or again and again.
my @odd = (
	[ 'where_false', 'SELECT id FROM s WHERE false', 0 ],
	[ 'empty_inner', 'SELECT s.id FROM s JOIN empty e ON e.k = s.k', 0 ],
	[ 'empty_outer_loop', 'SELECT e.name, s.id FROM empty e, s', 0 ],
	[ 'rescanned', 'SELECT d.k, x.id FROM dim d, LATERAL (SELECT id FROM s WHERE s.k = d.k) x', undef ],
	[ 'nested_loop', 'SELECT d.n, s.id FROM dim d JOIN s ON s.v > d.n', undef ],
	[ 'limit_in_lateral', 'SELECT s.id, d.name FROM s, LATERAL (SELECT name FROM dim WHERE dim.n <= s.v LIMIT 1) d', undef ],
	[ 'twice', 'SELECT id FROM s UNION ALL SELECT -id FROM s', undef ]);
$node->sql(join '', map {
	"SELECT start_query('$_->[0]', " . literal($_->[1]) . ", sink => 'odd_$_->[0]');\n"
} @odd);
my $total = 0;
for my $batch (1 .. 3)
{
	my $n = 10 * $batch;
	$node->sql("SET enable_hashjoin = off; INSERT INTO s SELECT g, chr(97 + g % 4), g % 7, '2026-01-01 00:00+00'::timestamptz + ($total + g) * interval '1 s', '{}' FROM generate_series(1, $n) g");
	$total += $n;
	$node->sql(join '', map { "SELECT process_all_available('$_->[0]', '60 s');\n" } @odd);
}
for my $q (@odd)
{
	my ($name, $text, $count) = @$q;
	my $refs = $name eq 'twice' ? 2 : 1;
	is($node->sql("SELECT sum((p->>'numInputRows')::int) FROM recent_progress('$name') p"), $total * $refs, "$name: every row of the range counts as read");
	is($node->sql("SELECT extract(epoch FROM watermark - '2026-01-01 00:00+00') FROM streamx.queries WHERE name = '$name'"),
		sprintf('%d.000000', $total - 10), "$name: the watermark saw every row");
	is($node->sql("SELECT count(*) FROM ((SELECT * FROM odd_$name EXCEPT ALL SELECT * FROM streamx_query.$name) UNION ALL (SELECT * FROM streamx_query.$name EXCEPT ALL SELECT * FROM odd_$name)) d"),
		0, "$name: the sink holds the batch answer");
}
done_testing();
