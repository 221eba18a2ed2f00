# Topics of a real Kafka broker as streams: where a query begins, how far a batch
# goes, what is loss and what is not, and what happens when the broker, the worker
# or the topic goes away.
use strict;
use warnings;

use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::Bin;
use SxCluster;
use KafkaBroker;

my $started = time;
my $kafka = KafkaBroker->new(properties => [ 'log.cleaner.backoff.ms=200' ]);
my $node = SxCluster->new('kafka', conf => [ 'max_connections = 40' ]);
$node->start;
$node->sql('CREATE EXTENSION streamx');
my $address = $kafka->address;
$node->sql("CREATE SERVER broker FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers '$address')");

# ---- short forms

sub error { my ($rc, $out, $err) = $node->try_sql(@_); return $rc == 0 ? 'no error' : $err; }

my $json = 'id int, part int OPTIONS (metadata \'partition\'), off bigint OPTIONS (metadata \'offset\')';

# A stream of JSON records {"id": n}; options as given.
sub stream
{
	my ($name, $options, $columns) = @_;
	$columns //= $json;
	$node->sql("CREATE FOREIGN TABLE $name ($columns) SERVER broker OPTIONS ("
		  . ($options =~ /format/ ? '' : "format 'json', ") . "$options)");
}

# A query that copies a stream into table NAME_out.
sub query
{
	my ($name, $stream, %args) = @_;
	my $select = $args{select} // "SELECT * FROM $stream";
	my $trigger = $args{trigger} // 'default';
	my $options = $args{options} // '{}';
	$node->sql("SELECT create_query('$name', \$q\$$select\$q\$, sink => '${name}_out', trigger => '$trigger', options => '$options')");
	$node->sql("SELECT start_query('$name')");
}

sub process { my ($name) = @_; $node->sql("SELECT process_all_available('$name', '60 s')"); }
sub finish { my ($name) = @_; return $node->sql("SELECT await_termination('$name', '60 s')"); }
sub ids { my ($name) = @_; return $node->sql("SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM ${name}_out"); }
sub offsets { my ($name) = @_; return $node->sql("SELECT last_progress('$name')->'sources'->0->'endOffset'"); }
sub state_of { my ($name) = @_; return $node->sql("SELECT state FROM streamx.queries WHERE name = '$name'"); }
sub wait_state { my ($name, $state) = @_; return $node->poll("SELECT state = '$state' FROM streamx.queries WHERE name = '$name'"); }
sub rows { my ($first, $last) = @_; return map { "{\"id\":$_}" } $first .. $last; }
sub drop { my ($name) = @_; $node->sql("SELECT drop_query('$name')"); }

# Rows (part, first, last) spread over named partitions.
sub rows_in { my ($partition, $first, $last) = @_; return map { { value => "{\"id\":$_}", partition => $partition } } $first .. $last; }

# ---- beginnings

$kafka->create_topic('begin', 2);
$kafka->produce('begin', rows_in(0, 1, 3), rows_in(1, 11, 13));
{
	stream('begin_default', "topic 'begin'");
	query('begin_latest', 'begin_default');
	wait_state('begin_latest', 'running');
	process('begin_latest');
	$kafka->produce('begin', rows_in(0, 4, 4));
	process('begin_latest');
	is(ids('begin_latest'), '4', 'a stream begins at its end unless it says otherwise');
	drop('begin_latest');

	stream('begin_json', "topic 'begin', starting_offsets '{\"begin\":{\"0\":1,\"1\":-2}}'");
	query('begin_json_q', 'begin_json', trigger => 'available_now');
	finish('begin_json_q');
	is(ids('begin_json_q'), '2 3 4 11 12 13', 'offsets by partition; -2 is the beginning');
	is(offsets('begin_json_q'), '{"begin": {"0": 4, "1": 3}}', 'an offset prints as Spark prints it');

	stream('begin_short', "topic 'begin', starting_offsets '{\"begin\":{\"0\":1}}'");
	query('begin_short_q', 'begin_short');
	ok(wait_state('begin_short_q', 'failed'), 'starting offsets must name all partitions');
	like($node->sql("SELECT last_error FROM streamx.queries WHERE name = 'begin_short_q'"),
		qr/must name all its partitions/, 'and the error says so');
	drop('begin_short_q');

	like(error("CREATE FOREIGN TABLE x ($json) SERVER broker OPTIONS (topic 'begin', subscribe 'begin', format 'json')"),
		qr/names its topics twice/, 'topics are named once');
	like(error("CREATE FOREIGN TABLE x ($json) SERVER broker OPTIONS (topic 'begin', format 'json', starting_offsets 'soon')"),
		qr/Legal values: earliest, latest, or offsets/, 'a wrong starting point is refused with what is legal');
	like(error("CREATE FOREIGN TABLE x ($json) SERVER broker OPTIONS (topic 'begin', format 'json', min_offsets_per_trigger '5', max_offsets_per_trigger '4')"),
		qr/greater than/, 'a minimum above the maximum is refused');
	stream('begin_ending', "topic 'begin', ending_offsets 'latest'");
	query('begin_ending_q', 'begin_ending');
	ok(wait_state('begin_ending_q', 'failed'), 'a continuous query has no ending offsets');
	drop('begin_ending_q');

	$kafka->create_topic('timed', 1);
	$kafka->produce('timed', map { { value => "{\"id\":$_}", timestamp => $_ * 1000 } } 1 .. 5);
	stream('timed_from', "topic 'timed', starting_timestamp '3000'");
	query('timed_q', 'timed_from', trigger => 'available_now');
	finish('timed_q');
	is(ids('timed_q'), '3 4 5', 'a starting time is that of the first record at or after it');
	stream('timed_late', "topic 'timed', starting_offsets_by_timestamp '{\"timed\":{\"0\":9000}}'");
	query('timed_late_q', 'timed_late');
	ok(wait_state('timed_late_q', 'failed'), 'no record so late is an error');
	drop('timed_late_q');
	stream('timed_end', "topic 'timed', starting_offsets_by_timestamp '{\"timed\":{\"0\":9000}}', starting_offsets_by_timestamp_strategy 'latest'");
	query('timed_end_q', 'timed_end', trigger => 'available_now');
	finish('timed_end_q');
	is(ids('timed_end_q'), '', 'unless the strategy is to begin at the end');
}

# ---- a plain SELECT

{
	stream('plain', "topic 'begin'");
	is($node->sql('SELECT string_agg(id::text, \' \' ORDER BY part, off) FROM plain'), '1 2 3 4 11 12 13',
		'a SELECT reads all that is there');
	is($node->sql('SELECT string_agg(id::text, \' \') FROM plain WHERE part = 1 AND off BETWEEN 1 AND 1'), '12',
		'partition and offset');
	like($node->sql('EXPLAIN (COSTS OFF) SELECT id FROM plain WHERE part = 1 AND off >= 1 AND id > 0'),
		qr/Reads Only: .*part = 1/, 'EXPLAIN shows what is read');
	unlike($node->sql('EXPLAIN (COSTS OFF) SELECT id FROM plain WHERE id > 0'), qr/Reads Only/, 'and nothing that is not');
	is($node->sql('SELECT count(*) FROM plain a JOIN plain b USING (id)'), '7', 'twice in one statement');
	is($node->sql('SELECT count(*) FROM generate_series(1, 3) g CROSS JOIN LATERAL (SELECT id + g FROM plain OFFSET 0) p'), '21',
		'and again and again');
	stream('plain_end', "topic 'begin', starting_offsets '{\"begin\":{\"0\":1,\"1\":1}}', ending_offsets '{\"begin\":{\"0\":2,\"1\":-1}}'");
	is($node->sql('SELECT string_agg(id::text, \' \' ORDER BY id) FROM plain_end'), '2 12 13', 'from here to there');
	stream('plain_time', "topic 'timed'", 'id int, ts timestamptz OPTIONS (metadata \'timestamp\')');
	is($node->sql("SELECT string_agg(id::text, ' ') FROM plain_time WHERE ts >= '1970-01-01 00:00:04Z'"), '4 5', 'from a time on');
	$node->sql('CREATE FOREIGN TABLE raw (key text, value bytea, topic text, "partition" int, "offset" bigint, "timestamp" timestamptz, "timestampType" int, headers jsonb)'
		  . " SERVER broker OPTIONS (topic 'heads')");
	$kafka->create_topic('heads', 1);
	$kafka->produce('heads', { key => 'k', value => 'v', timestamp => 1000, headers => [ [ 'a', 'x' ], [ 'b', undef ] ] }, { value => 'w', timestamp => 2000 });
	is($node->sql('SELECT key, convert_from(value, \'UTF8\'), topic, "partition", "offset", extract(epoch FROM "timestamp")::int, "timestampType", headers FROM raw'),
		"k|v|heads|0|0|1|0|[{\"key\": \"a\", \"value\": \"x\"}, {\"key\": \"b\", \"value\": null}]\n|w|heads|0|1|2|0|",
		'everything that a record has');
	like(error("CREATE FOREIGN TABLE nowhere (id int) SERVER broker OPTIONS (topic 'not_there', format 'json'); SELECT * FROM nowhere"),
		qr/not_there/, 'a topic that is not there is named');
}

# ---- a query of a topic that is not there yet

{
	$node->sql("CREATE FOREIGN TABLE unknown ($json) SERVER broker OPTIONS (topic 'unknown', format 'json', starting_offsets 'earliest')");
	query('unknown_q', 'unknown');
	ok(wait_state('unknown_q', 'failed'), 'a query of an unknown topic fails');
	like($node->sql("SELECT last_error || ' ' || hint FROM streamx.queries WHERE name = 'unknown_q'"), qr/unknown.*Create the topic/, 'with a hint');
	$kafka->create_topic('unknown', 1);
	$kafka->produce('unknown', rows(1, 3));
	$node->sql("SELECT start_query('unknown_q')");
	process('unknown_q');
	is(ids('unknown_q'), '1 2 3', 'once it is made, and the query started, all is read');
	drop('unknown_q');
}

# ---- CASE-20: transactions; read_committed sees neither markers nor aborted records

{
	$kafka->create_topic('tx', 1);
	$kafka->produce_with({ transaction => 'tx1' }, 'tx', rows(1, 3));
	$kafka->produce_with({ transaction => 'tx1', abort => 1 }, 'tx', rows(4, 5));
	stream('tx', "topic 'tx', starting_offsets 'earliest', \"kafka.isolation.level\" 'read_committed'");
	query('tx_q', 'tx', trigger => 'available_now');
	finish('tx_q');
	is(ids('tx_q'), '1 2 3', 'CASE-20: committed records only');
	is(offsets('tx_q'), '{"tx": {"0": 7}}', 'CASE-20: the end is a position behind the markers');
	is($node->sql("SELECT last_progress('tx_q')->'sources'->0->'metrics'->>'maxOffsetsBehindLatest'"), '0', 'CASE-20: no lag');
	my $begin = time;
	$node->sql("SELECT start_query('tx_q')");
	finish('tx_q');
	is(ids('tx_q'), '1 2 3', 'CASE-20: a second run has no rows');
	cmp_ok(time - $begin, '<', 10, 'CASE-20: and ends at once');
	is($node->sql('SELECT count(*) FROM tx'), '3', 'CASE-20: a SELECT as well');
	stream('tx_all', "topic 'tx', starting_offsets 'earliest'");
	is($node->sql('SELECT count(*) FROM tx_all'), '5', 'read_uncommitted sees the aborted ones');
}

# ---- CASE-21: gaps are no loss; a log that begins behind the wanted offset is

{
	$kafka->create_topic('lossy', 1);
	$kafka->produce('lossy', rows(0, 7));
	for my $fail ('true', 'false')
	{
		stream("lossy_$fail", "topic 'lossy', starting_offsets '{\"lossy\":{\"0\":2}}', fail_on_data_loss '$fail'");
	}
	$kafka->delete_records('lossy', 0, 5);
	query('lossy_true_q', 'lossy_true');
	ok(wait_state('lossy_true_q', 'failed'), 'CASE-21: lost records stop the query');
	my $error = $node->sql("SELECT message || ' ' || detail FROM streamx.failures WHERE query = 'lossy_true_q' ORDER BY at DESC LIMIT 1");
	like($error, qr/partition 0 of topic "lossy"/, 'CASE-21: the error names topic and partition');
	like($error, qr/wants offset 2, .* begins at 5: at most 3 rows are lost/, 'CASE-21: the offsets, and how much is lost');
	query('lossy_false_q', 'lossy_false');
	process('lossy_false_q');
	is(ids('lossy_false_q'), '5 6 7', 'CASE-21: without fail_on_data_loss it goes on at the log start');
	is($node->sql("SELECT count(*) FROM streamx.failures WHERE query = 'lossy_false_q' AND sqlstate = 'SX002'"), '1',
		'CASE-21: and one incident is written down');
	drop('lossy_false_q');

	$kafka->create_topic('compact', 1, 'cleanup.policy=compact', 'segment.ms=100', 'min.cleanable.dirty.ratio=0.01', 'min.compaction.lag.ms=0', 'delete.retention.ms=100');
	$kafka->produce('compact', map { { key => $_->[0], value => "{\"id\":$_->[1]}" } } [ 'a', 0 ], [ 'b', 1 ], [ 'b', 2 ], [ 'b', 3 ], [ 'c', 4 ], [ 'c', 5 ], [ 'c', 6 ], [ 'c', 7 ]);
	sleep 0.3;
	$kafka->produce('compact', { key => 'z', value => '{"id":100}' });
	my $gaps = 0;
	for (1 .. 100)
	{
		my @left = $kafka->consume('compact');
		$gaps = @left < 9;
		last if $gaps;
		sleep 0.3;
	}
	ok($gaps, 'the topic is compacted');
	for my $fail ('true', 'false')
	{
		stream("compact_$fail", "topic 'compact', starting_offsets 'earliest', fail_on_data_loss '$fail'");
		query("compact_${fail}_q", "compact_$fail", trigger => 'available_now');
		finish("compact_${fail}_q");
		is(ids("compact_${fail}_q"), join(' ', sort { $a <=> $b } map { /(\d+)/ } $kafka->values_of('compact')),
			"CASE-21: gaps of compaction are no loss (fail_on_data_loss $fail)");
		is($node->sql("SELECT count(*) FROM streamx.failures WHERE query = 'compact_${fail}_q'"), '0', 'CASE-21: and no incident');
	}
}

# ---- CASE-23: a new partition is read from its beginning

{
	$kafka->create_topic('grow', 2);
	$kafka->produce('grow', rows_in(0, -1000, -1), rows_in(1, -2000, -1001));
	stream('grow', "topic 'grow', discovery_interval '500 ms'");
	query('grow_q', 'grow');
	wait_state('grow_q', 'running');
	process('grow_q');
	$kafka->add_partitions('grow', 3);
	$kafka->produce('grow', rows_in(2, 1001, 1005));
	ok($node->poll("SELECT count(*) = 5 FROM grow_q_out"), 'CASE-23: the records of a new partition come');
	$kafka->produce('grow', rows_in(0, 2000, 2000), rows_in(2, 1006, 1006));
	ok($node->poll("SELECT count(*) = 7 FROM grow_q_out"), 'CASE-23: all goes on');
	is(ids('grow_q'), '1001 1002 1003 1004 1005 1006 2000', 'CASE-23: exactly these');
	drop('grow_q');
}

# ---- topics by pattern, found while the query runs

{
	$kafka->create_topic('pat-a', 1);
	$kafka->create_topic('other-pat-a', 1);
	$kafka->produce('pat-a', rows(1, 2));
	$kafka->produce('other-pat-a', rows(666, 666));
	stream('pattern', "subscribe_pattern 'pat-.*', starting_offsets 'earliest', discovery_interval '500 ms'");
	query('pattern_q', 'pattern');
	process('pattern_q');
	is(ids('pattern_q'), '1 2', 'a pattern is for the whole name');
	$kafka->create_topic('pat-b', 2);
	$kafka->produce('pat-b', rows(3, 6));
	ok($node->poll("SELECT count(*) = 6 FROM pattern_q_out"), 'a topic that comes later is found');
	is(ids('pattern_q'), '1 2 3 4 5 6', 'and read from its beginning');
	drop('pattern_q');
	stream('assigned', "assign '{\"begin\":[1]}', starting_offsets 'earliest'");
	is($node->sql('SELECT string_agg(id::text, \' \' ORDER BY id) FROM assigned'), '11 12 13', 'assigned partitions and no others');
}

# ---- CASE-25: tombstones and missing keys are rows

{
	$kafka->create_topic('cdc', 1);
	$kafka->produce('cdc', { key => 'k1', value => '{"v":1}' }, { key => 'k2', value => '{"v":2}' }, { key => 'k1', value => undef }, { value => '{"v":5}' });
	$node->sql("CREATE FOREIGN TABLE cdc (k text OPTIONS (metadata 'key'), v int, off bigint OPTIONS (metadata 'offset')) SERVER broker OPTIONS (topic 'cdc', format 'json', starting_offsets 'earliest')");
	query('cdc_q', 'cdc', trigger => 'available_now');
	finish('cdc_q');
	is($node->sql("SELECT string_agg(coalesce(k, '-') || '=' || coalesce(v::text, '-'), ' ' ORDER BY off) FROM cdc_q_out"), 'k1=1 k2=2 k1=- -=5',
		'CASE-25: four rows, NULL where there is no key or value');

	$node->sql("CREATE TYPE cdc_value AS (v int); CREATE FOREIGN TABLE cdc_raw (key text, value text, \"offset\" bigint) SERVER broker OPTIONS (topic 'cdc', starting_offsets 'earliest')");
	query('cdc_raw_q', 'cdc_raw', trigger => 'available_now', select => 'SELECT from_json(value, NULL::cdc_value) AS r, "offset" AS off FROM cdc_raw');
	finish('cdc_raw_q');
	is($node->sql("SELECT string_agg(CASE WHEN r IS NOT DISTINCT FROM NULL THEN 'NULL' ELSE r::text END, ' ' ORDER BY off) FROM cdc_raw_q_out"), '(1) (2) NULL (5)',
		'CASE-25: from_json of a tombstone is NULL');
}

# ---- CASE-25: a table kept by the record's key: tombstones delete, records without a key are put aside

{
	$node->sql("CREATE FOREIGN TABLE kept (k text OPTIONS (metadata 'key'), v int, value bytea OPTIONS (metadata 'value')) SERVER broker OPTIONS (topic 'cdc', format 'json', starting_offsets 'earliest')");
	my $options = '"key_columns": "k", "delete_when": "gone"';
	$node->sql("SELECT create_query('kept_q', 'SELECT k, v, value IS NULL AS gone FROM kept', sink => 'kept_out', output_mode => 'update',
		options => '{$options, \"on_error\": \"quarantine\"}'); SELECT start_query('kept_q')");
	process('kept_q');
	my $table = sub { return $node->sql("SELECT coalesce(string_agg(k || '=' || coalesce(v::text, '-'), ' ' ORDER BY k), '') FROM kept_out"); };
	is($table->(), 'k2=2', 'CASE-25: the table holds only k2');
	is($node->sql("SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'kept_out'::regclass AND attnum > 0"), 'k v', 'the table has no column for deletions');
	is($node->sql("SELECT concat_ws(' ', record_position ->> 'topic', record_position ->> 'partition', record_position ->> 'offset', convert_from(record, 'UTF8'), sqlstate) FROM streamx.quarantine WHERE query = 'kept_q'"),
		'cdc 0 3 {"v":5} 23502', 'CASE-25: the record without a key is in quarantine with topic, partition and offset');
	is($node->sql("SELECT sum((p ->> 'numInputRows')::int) - sum((p #>> '{sink,numOutputRows}')::int) - sum((p ->> 'numQuarantinedRows')::int) FROM recent_progress('kept_q') p"), '0',
		'CASE-25: no row was dropped without a trace');

	# several changes of a key in one batch; NULL that is a value; an unchanged row
	$kafka->produce('cdc', { key => 'k1', value => '{"v":10}' }, { key => 'k1', value => undef }, { key => 'k1', value => '{"v":11}' },
		{ key => 'k3', value => '{"v":30}' }, { key => 'k3', value => undef }, { key => 'k4', value => '{"v":null}' }, { key => 'k2', value => '{"v":2}' }, { key => 'never', value => undef });
	my $was = $node->sql("SELECT xmin FROM kept_out WHERE k = 'k2'");
	process('kept_q');
	is($table->(), 'k1=11 k2=2 k4=-', 'the last change of each key counts, and NULL is a value');
	is($node->sql("SELECT xmin FROM kept_out WHERE k = 'k2'"), $was, 'a row that stays as it is is not written');
	$node->kill9;
	$node->wait_down(20);
	$kafka->produce('cdc', { key => 'k4', value => undef }, { key => 'k5', value => '{"v":50}' });
	$node->start;
	process('kept_q');
	is($table->(), 'k1=11 k2=2 k5=50', 'the same after a crash');
	drop('kept_q');

	# a table of the user, of other types; without the quarantine the query fails
	$node->sql("CREATE TABLE mine (id serial, k varchar(10) UNIQUE NOT NULL, v text, at timestamptz DEFAULT now()); INSERT INTO mine (k, v) VALUES ('k2', 'old'), ('k9', 'own')");
	$node->sql("SELECT create_query('mine_q', 'SELECT k, v, value IS NULL AS gone FROM kept WHERE k IS NOT NULL', sink => 'mine', output_mode => 'update', options => '{$options}'); SELECT start_query('mine_q')");
	process('mine_q');
	is($node->sql("SELECT string_agg(k || '=' || v, ' ' ORDER BY k) FROM mine"), 'k1=11 k2=2 k5=50 k9=own', 'a table that was there is kept true, too');
	drop('mine_q');
	$node->sql("SELECT create_query('strict_q', 'SELECT k, v FROM kept', sink => 'strict_out', output_mode => 'update', options => '{\"key_columns\": \"k\"}'); SELECT start_query('strict_q')");
	ok(wait_state('strict_q', 'failed'), 'without the quarantine a record without a key fails the query');
	like($node->sql("SELECT last_error || hint FROM streamx.queries WHERE name = 'strict_q'"), qr/has no key.*quarantine/, 'and it says what to do');
	drop('strict_q');

	# a compacted topic, read from its beginning: what compaction has left gives the same table
	$node->sql("CREATE FOREIGN TABLE compacted (k text OPTIONS (metadata 'key'), id int) SERVER broker OPTIONS (topic 'compact', format 'json', starting_offsets 'earliest')");
	$node->sql("SELECT create_query('compacted_q', 'SELECT k, id FROM compacted', sink => 'compacted_out', output_mode => 'update', trigger => 'available_now', options => '{\"key_columns\": \"k\"}'); SELECT start_query('compacted_q')");
	finish('compacted_q');
	is($node->sql("SELECT string_agg(k || '=' || id, ' ' ORDER BY k) FROM compacted_out"), 'a=0 b=3 c=7 z=100', 'a compacted topic is its newest records');
}

# ---- limits: shares in proportion, minimum, delay

{
	$kafka->create_topic('share', 3);
	$kafka->produce('share', rows_in(0, 1, 90), rows_in(1, 101, 110), rows_in(2, 201, 201));
	stream('share', "topic 'share', starting_offsets 'earliest', max_offsets_per_trigger '10'");
	query('share_q', 'share', trigger => 'available_now');
	finish('share_q');
	is($node->sql("SELECT p->'sources'->0->'endOffset' FROM recent_progress('share_q') p WHERE (p->>'batchId')::int = 0"),
		'{"share": {"0": 8, "1": 1, "2": 1}}', 'shares of 8.91, 0.99 and 0.099 are 8, 1 and 1');
	is($node->sql('SELECT count(*), count(DISTINCT id) FROM share_q_out'), '101|101', 'and all comes in the end, once');
	cmp_ok($node->sql("SELECT max((p->>'numInputRows')::int) FROM recent_progress('share_q') p"), '<=', 12, 'no batch is much larger');

	$kafka->create_topic('least', 1);
	stream('least', "topic 'least', starting_offsets 'earliest', min_offsets_per_trigger '5', max_trigger_delay '3 s'");
	query('least_q', 'least');
	$kafka->produce('least', rows(1, 1));
	ok($node->poll('SELECT count(*) = 1 FROM least_q_out'), 'the first batch does not wait for the minimum');
	$kafka->produce('least', rows(2, 3));
	sleep 1;
	is(ids('least_q'), '1', 'the next one does');
	$kafka->produce('least', rows(4, 6));
	ok($node->poll('SELECT count(*) = 6 FROM least_q_out'), 'and runs when enough is there');
	$kafka->produce('least', rows(7, 7));
	ok($node->poll('SELECT count(*) = 7 FROM least_q_out'), 'or when it has waited for long');
	drop('least_q');
}

# ---- deleted and made again

{
	for my $fail ('true', 'false')
	{
		$kafka->create_topic("again_$fail", 1);
		$kafka->produce("again_$fail", rows(1, 10));
		stream("again_$fail", "topic 'again_$fail', starting_offsets 'earliest', fail_on_data_loss '$fail', discovery_interval '1 s'");
		query("again_${fail}_q", "again_$fail");
		process("again_${fail}_q");
		$node->sql("SELECT stop_query('again_${fail}_q')");
		$kafka->delete_topic("again_$fail");
		sleep 1;
		$kafka->create_topic("again_$fail", 1);
		$kafka->produce("again_$fail", rows(21, 23));
		$node->sql("SELECT start_query('again_${fail}_q')");
	}
	ok(wait_state('again_true_q', 'failed'), 'a topic that was made again stops the query');
	like($node->sql("SELECT message FROM streamx.failures WHERE query = 'again_true_q' ORDER BY at DESC LIMIT 1"),
		qr/ends before the offset where stream/, 'and it says why');
	process('again_false_q');
	is(offsets('again_false_q'), '{"again_false": {"0": 3}}', 'without fail_on_data_loss the offset goes back to the new end');
	$kafka->produce('again_false', rows(24, 24));
	ok($node->poll("SELECT count(*) = 11 FROM again_false_q_out"), 'and the query goes on from there');
	is($node->sql('SELECT max(id) FROM again_false_q_out'), '24', 'with what is new');

	$kafka->delete_topic('again_false');
	ok($node->poll("SELECT count(*) = 2 FROM streamx.failures WHERE query = 'again_false_q'"), 'a topic that is gone is an incident');
	is(state_of('again_false_q'), 'running', 'and the query waits for it to come back');
	drop('again_false_q');
}

# ---- what the client lets wait

# One bound follows from another, which may be as large or as small as it takes.
{
	$kafka->create_topic('queue', 1);
	$kafka->produce('queue', rows(1, 3));
	for my $kbytes (1, 2000000)
	{
		stream("queue_$kbytes", "topic 'queue', \"kafka.queued.max.messages.kbytes\" '$kbytes'");
		is($node->sql("SELECT count(*) FROM queue_$kbytes"), '3', "a queue of at most $kbytes kB");
	}
}

# ---- the broker and the worker go away

{
	$kafka->create_topic('away', 2);
	$kafka->produce('away', rows(1, 1000));
	stream('away', "topic 'away', starting_offsets 'earliest', discovery_interval '1 s'");
	query('away_q', 'away');
	process('away_q');
	$kafka->stop;
	ok(wait_state('away_q', 'retrying'), 'without a broker the query is retrying');
	my $begin = time;
	is($node->sql("SELECT stop_query('away_q')"), 't', 'it can be stopped all the same');
	cmp_ok(time - $begin, '<', 3, 'at once');
	$node->sql("SELECT start_query('away_q')");
	ok(wait_state('away_q', 'retrying'), 'a start without a broker is a retry as well');
	isnt($node->sql("SELECT coalesce(hint, '') FROM streamx.failures WHERE query = 'away_q' ORDER BY at DESC LIMIT 1"), '', 'with a hint');
	$kafka->start;
	$kafka->produce('away', rows(1001, 2000));
	ok($node->poll('SELECT count(*) = 2000 FROM away_q_out', 't', 90), 'when the broker is back all comes');
	is($node->sql('SELECT count(DISTINCT id) FROM away_q_out'), '2000', 'once');
	my $pid = $node->sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'streamx query' AND application_name = 'streamx: away_q'");
	$kafka->produce('away', rows(2001, 5000));
	kill 9, $pid;
	$node->poll('SELECT true');
	ok($node->poll('SELECT count(*) = 5000 FROM away_q_out', 't', 90), 'a killed worker loses nothing');
	is($node->sql('SELECT count(DISTINCT id) FROM away_q_out'), '5000', 'and repeats nothing');
	drop('away_q');
}

# ---- catching up makes nothing late, though one partition is delivered at a tenth of the speed

# A fetch brings so many bytes of each partition, and records of the last one are ten
# times as large.  SX_CRASH_LONG=1 has the backlog of 200,000 in each.
{
	my ($per_partition, $limit) = $ENV{SX_CRASH_LONG} ? (200000, 20000) : (20000, 2000);
	my @pad = ('x' x 70, 'x' x 70, 'x' x 70, 'x' x 1000);
	$kafka->create_topic('skew', 4);
	my @batch;
	for my $i (0 .. $per_partition - 1)
	{
		for my $p (0 .. 3)
		{
			push @batch, { value => sprintf('{"id":%d,"ts":%d,"pad":"%s"}', $i * 4 + $p, $i - ($i * 7919 + $p * 31) % 3000, $pad[$p]), partition => $p };
		}
		next if @batch < 80000 && $i < $per_partition - 1;
		$kafka->produce('skew', @batch);
		@batch = ();
	}
	$node->sql("CREATE FOREIGN TABLE skew (id int, ts timestamptz OPTIONS (watermark '5 seconds')) SERVER broker OPTIONS (topic 'skew', format 'json', epoch_unit 'milliseconds', starting_offsets 'earliest', max_offsets_per_trigger '$limit', \"kafka.max.partition.fetch.bytes\" '50000')");
	query('skew_q', 'skew', trigger => 'available_now', select => "SELECT lower(w) AS w, count(*) AS n FROM (SELECT tumble(ts, '1 second') AS w FROM skew) s GROUP BY s.w");
	finish('skew_q');
	is($node->sql("SELECT sum((o->>'numRowsDroppedByWatermark')::int) FROM recent_progress('skew_q') p, jsonb_array_elements(p->'stateOperators') o"), '0',
		'no row is late while the partitions catch up');
	cmp_ok($node->sql("SELECT max(abs((p->'sources'->0->'endOffset'->'skew'->>'3')::int - (p->'sources'->0->'endOffset'->'skew'->>'0')::int)) FROM recent_progress('skew_q') p"), '<=', 100,
		'they advance together');
	cmp_ok($node->sql("SELECT count(*) FROM recent_progress('skew_q') p WHERE (p->>'numInputRows')::int > 0"), '>=', $per_partition * 4 / $limit, 'batch by batch');
	is($node->sql("SELECT (p->'sources'->0->'endOffset'->'skew'->>'3')::int FROM last_progress('skew_q') p"), $per_partition, 'to the end');
}

# ---- offsets for lag tools

{
	$kafka->create_topic('told', 1);
	$kafka->produce('told', rows(1, 7));
	stream('told', "topic 'told', starting_offsets 'earliest', commit_group 'lag-of-told'");
	query('told_q', 'told');
	process('told_q');
	my %told;
	for (1 .. 60)
	{
		%told = $kafka->committed('lag-of-told', 'told');
		last if $told{0} && $told{0}[0] eq '7';
		$kafka->produce('told', rows(8, 8)) if $_ == 30;
		sleep 0.3;
	}
	is($told{0} ? $told{0}[0] : '', '7', 'committed offsets are told to the group');
	drop('told_q');
}

# ---- CASE-26: a record larger than what is fetched at once

{
	$kafka->create_topic('large', 1, 'max.message.bytes=5000000');
	my $large = '{"id":11,"n":"' . ('x' x 3_000_000) . '"}';
	$kafka->produce('large', rows(1, 10));
	$kafka->must($large, $kafka->tool_command('-X', 'message.max.bytes=5000000', 'produce', '-t', 'large'));
	$kafka->produce('large', rows(12, 21));
	stream('large', "topic 'large', starting_offsets 'earliest'");
	query('large_q', 'large', select => 'SELECT id FROM large', trigger => 'available_now');
	finish('large_q');
	is($node->sql('SELECT count(*) FROM large_q_out'), '21', 'CASE-26: a record of 3 MB comes with the default limits');
	stream('large_short', "topic 'large', starting_offsets 'earliest', \"kafka.receive.message.max.bytes\" '1000600', \"kafka.fetch.max.bytes\" '1000000', \"kafka.max.partition.fetch.bytes\" '800000'");
	query('large_short_q', 'large_short', select => 'SELECT id FROM large_short');
	ok(wait_state('large_short_q', 'failed'), 'CASE-26: with a limit that is too low the query fails');
	my $error = $node->sql("SELECT message || ' ' || coalesce(detail, '') || ' ' || coalesce(hint, '') FROM streamx.failures WHERE query = 'large_short_q' ORDER BY at DESC LIMIT 1");
	like($error, qr/partition 0 of topic "large".*offset 10/s, 'CASE-26: the error names partition and offset');
	like($error, qr/receive\.message\.max\.bytes/, 'CASE-26: and the setting');
	is($node->sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: large_short_q'"), '0', 'CASE-26: no process goes on trying');
}

$node->stop;
done_testing();
