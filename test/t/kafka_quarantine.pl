# kafka_quarantine.pl
#		Malformed records of a topic: into the quarantine once, whatever dies, and back
#		(CASE-25, CASE-27, CASE-28). On a real broker.
use strict;
use warnings;

use File::Basename;
use lib dirname(__FILE__);
use KafkaBroker;
use SxCluster;
use Test::More;

my $kafka = KafkaBroker->shared;
my $node = SxCluster->new('kafka_quarantine');
$node->start;
$node->sql('CREATE EXTENSION streamx');
$node->sql("CREATE SERVER broker FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers '" . $kafka->address . "')");

sub stream
{
	my ($name, $columns, $options) = @_;
	$kafka->create_topic($name);
	$node->sql("CREATE FOREIGN TABLE $name ($columns) SERVER broker OPTIONS (topic '$name', format 'json', starting_offsets 'earliest'" . ($options ? ", $options" : '') . ')');
}

# CASE-27: one malformed record and one that does not fit; the server dies in mid-batch.
stream('poison', "id int, key text OPTIONS (metadata 'key'), o bigint OPTIONS (metadata 'offset')");
$kafka->produce('poison', '{"id":1}', { key => 'k', value => '{"id":2,' }, '{"id":"x"}', '{"id":4}');
$node->sql("SELECT create_query('q', 'SELECT id, key, o, CASE WHEN id = 4 THEN pg_sleep(3) END IS NULL AS slept FROM poison', sink => 'out', options => '{\"on_error\": \"quarantine\"}'); SELECT start_query('q')");
ok($node->poll("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"), 'a batch is running');
$node->kill9;
$node->wait_down;
$node->start;
$node->sql("SELECT process_all_available('q', '60 s')");
is($node->sql('SELECT string_agg(id::text, \',\' ORDER BY id) FROM out'), '1,4', 'good records are in the sink once');
is($node->sql("SELECT string_agg(convert_from(record, 'UTF8') || ' ' || (record_position ->> 'offset') || ' ' || batch_id || ' ' || message, E'\\n' ORDER BY id) FROM streamx.quarantine"),
	"{\"id\":2, 1 0 invalid JSON at byte 9: unexpected end\n{\"id\":\"x\"} 2 0 column \"id\": integer expected: \"x\"", 'the others in quarantine, with bytes, offset, batch and reason, once');
is($node->sql("SELECT (last_progress('q') ->> 'numInputRows') || ' ' || (last_progress('q') ->> 'numQuarantinedRows') || ' ' || (last_progress('q') #>> '{sink,numOutputRows}')"), '4 2 2', 'rows in are rows out and rows put aside');

# Back: one with better bytes, one with a row.
$node->sql("SELECT requeue('q', ARRAY[id], record => '{\"id\":2}') FROM streamx.quarantine WHERE record_position ->> 'offset' = '1'");
$node->sql("SELECT requeue('q', ARRAY[id], data => '{\"id\": 3, \"o\": 2}') FROM streamx.quarantine WHERE record_position ->> 'offset' = '2'");
$node->sql("SELECT process_all_available('q', '60 s')");
is($node->sql("SELECT string_agg(concat_ws(':', id, key, o), ',' ORDER BY id) FROM out"), '1:0,2:k:1,3:2,4:3', 'records given back are rows, with key and offset');
is($node->sql('SELECT count(*) FROM streamx.quarantine'), '0', 'and gone from the quarantine');
$kafka->produce('poison', '[');
$node->sql("SELECT process_all_available('q', '60 s'); SELECT requeue('q')");
$node->sql("SELECT process_all_available('q', '60 s')");
is($node->sql("SELECT count(*) || ' ' || bool_or(requeued) FROM streamx.quarantine"), '1 false', 'one that is malformed still waits on');

# A limit.
$node->sql("SELECT alter_query('q', options => '{\"quarantine_limit\": 2}'); SELECT start_query('q')");
$kafka->produce('poison', '{', '}');
my (undef, undef, $error) = $node->try_sql("SELECT process_all_available('q', '60 s')");
like($error, qr/quarantine_limit/, 'more than the limit fail the query');
$node->sql("SELECT drop_query('q')");

# CASE-28: what PostgreSQL's text cannot hold.
my @texts = ('{"id":1,"n":"a\u0000b"}', '{"id":2,"n":"ok"}', '{"id":3,"n":"\ud800"}', "\xC3\x28", "{\"id\":5,\"n\":\"\xF0\x9F\x98\x80\"}");
stream('texts', 'id int, n text');
stream('replaced', 'id int, n text', "invalid_text 'replace'");
$kafka->produce($_, map { { value => $_ } } @texts) for 'texts', 'replaced';
for my $stream ('texts', 'replaced')
{
	$node->sql("SELECT create_query('$stream', 'SELECT id, n FROM $stream', sink => 'out_$stream', options => '{\"on_error\": \"quarantine\"}'); SELECT start_query('$stream'); ");
	$node->sql("SELECT process_all_available('$stream', '60 s')");
}
is($node->sql("SELECT string_agg(id || encode(convert_to(n, 'UTF8'), 'hex'), ' ' ORDER BY id) FROM out_texts"), '26f6b 5f09f9880', 'text that can be held is in the sink');
is($node->sql("SELECT string_agg(encode(record, 'hex'), ' ' ORDER BY id) FROM streamx.quarantine WHERE query = 'texts'"), join(' ', map { unpack 'H*', $_ } @texts[ 0, 2, 3 ]), 'what cannot is in quarantine, byte by byte');
is($node->sql("SELECT string_agg(id || encode(convert_to(n, 'UTF8'), 'hex'), ' ' ORDER BY id) FROM out_replaced"), '161efbfbd62 26f6b 3efbfbd 5f09f9880', 'or has U+FFFD instead');

# Modes of the stream; CASE-25: tombstones and missing keys are rows.
stream('modes', "id int, n text, key text OPTIONS (metadata 'key')");
stream('kept', 'id int, broken bytea', "column_name_of_corrupt_record 'broken'");
$kafka->produce('modes', { key => 'k1', value => '{"id":1}' }, { key => 'k2', value => undef }, { value => '{"id":3}' }, '{"id":"x","n":"y"}');
$kafka->produce('kept', '{"id":1}', 'bad');
is($node->sql("SELECT string_agg(concat_ws(':', coalesce(id::text, '-'), coalesce(n, '-'), coalesce(key, '-')), ' ' ORDER BY key, id) FROM modes"), '1:-:k1 -:-:k2 3:-:- -:y:-', 'permissive: rows with NULLs; tombstones and missing keys are rows');
is($node->sql("SELECT string_agg(concat_ws(':', coalesce(id::text, '-'), coalesce(convert_from(broken, 'UTF8'), '-')), ' ') FROM kept"), '1:- -:bad', 'the corrupt-record column has the bytes');
$node->sql("ALTER FOREIGN TABLE modes OPTIONS (ADD mode 'dropmalformed')");
is($node->sql('SELECT count(*) FROM modes WHERE id IS NOT NULL OR key IS NOT NULL'), '3', 'dropmalformed leaves them out');
$node->sql("SELECT create_query('modes', 'SELECT id, key FROM modes WHERE id IS NULL UNION ALL SELECT id, key FROM modes', sink => 'out_modes'); SELECT start_query('modes')");
$node->sql("SELECT process_all_available('modes', '60 s')");
is($node->sql('SELECT count(*) FROM out_modes'), '4', 'of a query, too');
is($node->sql("SELECT last_progress('modes') ->> 'numInputRows'"), '6', 'rows in, for each time that the query reads the stream');
is($node->sql("SELECT concat_ws(' ', p ->> 'numDroppedMalformedRows', p #>> '{sources,0,numDroppedMalformedRows}', p #>> '{totals,dropped}') FROM last_progress('modes') p"), '2 2 2', 'what was left out is counted');
is($node->sql("SELECT concat_ws(' ', rows_in, rows_out, filtered, dropped, balanced) FROM streamx.conservation WHERE query = 'modes'"), '8 4 2 2 t', 'and balances');
is($node->sql("SELECT count(*) FROM streamx.verify('modes')"), '0', 'the topic gives the same again');
$node->sql('DELETE FROM out_modes WHERE id = 3');
is($node->sql("SELECT concat_ws(' ', kind, expected ->> 'id') FROM streamx.verify('modes')"), 'missing 3', 'and what is missing is found');
is($node->sql("SELECT concat_ws(' ', rows_in, rows_out, quarantined, balanced) FROM streamx.conservation WHERE query = 'texts'"), '5 2 3 t', 'as do records in quarantine');
$node->sql("ALTER FOREIGN TABLE modes OPTIONS (SET mode 'failfast')");
(undef, undef, $error) = $node->try_sql('SELECT id FROM modes');
like($error, qr/malformed record at topic "modes", partition 0, offset 3/, 'failfast names the place');

$node->stop;
done_testing();
