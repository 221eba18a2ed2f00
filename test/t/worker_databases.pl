# Queries in several databases, and statements that concern a database as a
# whole: copy, rename, drop, DROP EXTENSION, each with queries running in it.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep time);
use SxCluster;

my $node = SxCluster->new('databases', conf => ['max_prepared_transactions = 5']);
$node->start;

sub make_database
{
	my ($db) = @_;
	$node->sql("CREATE DATABASE $db");
	$node->sql("CREATE EXTENSION streamx; CREATE FOREIGN TABLE s (a int) SERVER streamx; CREATE TABLE t (a int);
		SELECT create_query('q', 'SELECT a FROM s', 't')", db => $db);
	$node->sql("SELECT start_query('q')", db => $db);
}

# Inserts n and returns the sum of what arrived.
sub feed
{
	my ($db, $n) = @_;
	$node->sql("INSERT INTO s VALUES ($n)", db => $db);
	$node->sql("SELECT process_all_available('q', '30 s')", db => $db);
	return $node->sql("SELECT sum(a) FROM t", db => $db);
}

sub workers
{
	my ($db) = @_;
	return $node->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'streamx %' AND datname = '$db'");
}

make_database($_) for qw(one two);
is(feed('one', 1), '1', 'a query of the first database');
is(feed('two', 10), '10', 'one of the same name and id in the second');
is($node->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'streamx scheduler'"), '2', 'each has its scheduler');
is($node->sql("SELECT count(*) FROM streamx.queries", db => 'one'), '1', 'each sees its own');
$node->sql("CREATE DATABASE three; ");
sleep 0.5;
is(workers('three'), '0', 'nothing runs in a database without queries');

# --- restart of the server
$node->restart;
is(feed('one', 2), '3', 'after a restart the first goes on');
is(feed('two', 20), '30', 'and the second');

# --- stores that belong to nobody
my $stores = "$node->{data}/streamx";
my $oid = $node->sql("SELECT oid FROM pg_database WHERE datname = 'one'");
my $live = $node->sql("SELECT incarnation FROM streamx.query", db => 'one');
my $dead = '00000000-0000-4000-8000-000000000000';
$node->stop;
my @directories = ("pgsql_tmp_${oid}_$live", "pgsql_tmp_${oid}_$dead", "pgsql_tmp_4294967295_$dead", "other");
system(SxCluster::as_server('mkdir', '-p', map { "$stores/$_" } @directories));
$node->start;
is(feed('one', 0), '3', 'a start with directories of stores');
is(join(' ', map { -d "$stores/$_" ? 1 : 0 } @directories), '1 0 0 1',
	'removes those of queries and databases that are gone, and no others');

# --- a copy
my $start = time;
my ($rc, $out, $err) = $node->try_sql("CREATE DATABASE copy TEMPLATE one");
is($rc, 0, 'a database with a running query can be copied') or diag($err);
ok(time - $start < 5, 'soon');
is($node->sql("SELECT state FROM streamx.queries", db => 'copy'), 'created', 'the query of the copy was never started');
is(feed('one', 3), '6', 'that of the original goes on');
is($node->sql("SELECT sum(a) FROM t", db => 'copy'), '3', 'the copy has the rows of before');
my $old = $node->sql("SELECT incarnation FROM streamx.query", db => 'copy');
$node->sql("SELECT start_query('q')", db => 'copy');
ok(feed('copy', 100) >= 100, 'started, it begins anew');
isnt($node->sql("SELECT incarnation FROM streamx.query", db => 'copy'), $old, 'as another incarnation');
is($node->sql("SELECT min(batch) FROM streamx.batch", db => 'copy'), '0', 'without the checkpoint of the original');

# --- a rename, taken back and not
$node->sql("BEGIN; ALTER DATABASE two RENAME TO deux; ROLLBACK");
is(feed('two', 30), '60', 'after a rename that was rolled back the query goes on');
$node->sql("ALTER DATABASE two RENAME TO deux");
is(feed('deux', 40), '100', 'and after one that was not');

# --- somebody without rights
$node->sql("CREATE ROLE nobody LOGIN");
my $pid = $node->sql("SELECT pid FROM streamx.queries", db => 'deux');
($rc, $out, $err) = $node->try_sql("DROP DATABASE deux", user => 'nobody');
like($err, qr/must be owner/, 'a stranger cannot drop it');
is($node->sql("SELECT pid FROM streamx.queries", db => 'deux'), $pid, 'nor disturb its queries by trying');

# --- drop
$start = time;
($rc, $out, $err) = $node->try_sql("DROP DATABASE deux");
is($rc, 0, 'a database with a running query can be dropped') or diag($err);
ok(time - $start < 5, 'soon');
is(feed('one', 4), '10', 'others go on');

$node->sql("SELECT process_all_available('q', '30 s')", db => 'one');
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'streamx query'", '2', 20), 'only those of databases that are left run');

# --- slots of a database that is gone
my $few = SxCluster->new('few', conf => ['streamx.max_queries = 1']);
$few->start;
for my $db ('first', 'second')
{
	$few->sql("CREATE DATABASE $db");
	$few->sql("CREATE EXTENSION streamx; CREATE FOREIGN TABLE s (a int) SERVER streamx;
		SELECT create_query('q', 'SELECT a FROM s', 't'); INSERT INTO s VALUES (1)", db => $db);
	$few->sql("SELECT start_query('q')", db => $db);
	($rc, $out, $err) = $few->try_sql("SELECT process_all_available('q', '20 s')", db => $db);
	is($rc, 0, "the query of the $db database gets the only slot") or diag($err);
	$few->sql("DROP DATABASE $db WITH (FORCE)");
}
$few->remove;

# --- DROP EXTENSION, and a second life
$node->sql("BEGIN; DROP EXTENSION streamx CASCADE; ROLLBACK", db => 'one');
is(feed('one', 5), '15', 'after a DROP EXTENSION that was rolled back the query goes on');
$start = time;
($rc, $out, $err) = $node->try_sql("DROP EXTENSION streamx CASCADE", db => 'one');
is($rc, 0, 'DROP EXTENSION with a running query') or diag($err);
ok(time - $start < 5, 'soon');
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'streamx %' AND datname = 'one'", '0', 20), 'nothing of ours is left in the database');
$node->sql("CREATE EXTENSION streamx; CREATE FOREIGN TABLE s (a int) SERVER streamx; TRUNCATE t;
	SELECT create_query('q', 'SELECT a FROM s', 't')", db => 'one');
$node->sql("SELECT start_query('q')", db => 'one');
is(feed('one', 7), '7', 'a new extension in the same database');

# --- DROP SCHEMA and DROP OWNED under running queries
$node->sql("GRANT USAGE ON FOREIGN SERVER streamx TO PUBLIC; CREATE ROLE owner LOGIN; CREATE SCHEMA o AUTHORIZATION owner", db => 'one');
$node->sql("CREATE FOREIGN TABLE o.s (a int) SERVER streamx; CREATE TABLE o.t (a int);
	SELECT create_query('mine', 'SELECT a FROM o.s', 'o.t')", db => 'one', user => 'owner');
$node->sql("SELECT start_query('mine')", db => 'one', user => 'owner');
$node->sql("INSERT INTO o.s VALUES (1)", db => 'one', user => 'owner');
$node->sql("SELECT process_all_available('mine', '20 s')", db => 'one', user => 'owner');
$node->sql("BEGIN; DROP SCHEMA o CASCADE; ROLLBACK", db => 'one');
$node->sql("INSERT INTO o.s VALUES (2)", db => 'one', user => 'owner');
$node->sql("SELECT process_all_available('mine', '20 s')", db => 'one', user => 'owner');
is($node->sql("SELECT sum(a) FROM o.t", db => 'one'), '3', 'DROP SCHEMA rolled back: the query goes on');
$node->sql("DROP OWNED BY owner", db => 'one');
is($node->sql("SELECT string_agg(name, ',') FROM streamx.queries", db => 'one'), 'q', 'DROP OWNED drops the query with its view');
is($node->sql("SELECT count(*) FROM streamx.batch b WHERE NOT EXISTS (SELECT FROM streamx.query q WHERE q.id = b.query)", db => 'one'), '0', 'and its checkpoint');
ok($node->poll("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamx: mine'", '0', 10), 'and ends its worker');
$node->sql("DROP ROLE owner", db => 'one');
is(feed('one', 8), '15', 'other queries of the database go on');

# --- PREPARE TRANSACTION
$node->sql("SELECT stop_query('q')", db => 'one');
for my $sql ("SELECT start_query('q')", "SELECT drop_query('q')", "SELECT alter_query('q', trigger => '1 second')")
{
	($rc, $out, $err) = $node->try_sql("BEGIN; $sql; PREPARE TRANSACTION 'x'", db => 'one');
	like($err, qr/cannot PREPARE/, "refused in a prepared transaction: $sql");
}
is($node->sql("SELECT state FROM streamx.queries WHERE name = 'q'", db => 'one'), 'stopped', 'and nothing has happened');
done_testing();
