# What leaves the server: pg_dump and restore carry definitions only, pg_upgrade
# carries everything but the stores, DROP EXTENSION and copied databases take or
# leave queries as they should.
#
# pg_upgrade is tested when SX_OLD_BIN names the programs of an older server.
use strict;
use warnings;

use FindBin;
use Test::More;

use lib $FindBin::Bin;
use SxCluster;
use StreamCheck;

my $node = SxCluster->new('first', conf => ['max_connections = 40']);
$node->start;

# By the programs of $node, also where another server has the database.
sub dump_of
{
	my ($db, $from) = @_;
	$from ||= $node;
	my $file = "$from->{dir}/$db.sql";
	SxCluster::run_quietly("$from->{dir}/dump.log", "$node->{bin}/pg_dump", '-h', $from->{dir}, '-U', 'postgres', '-f', $file, $db) == 0
	  or die SxCluster::slurp("$from->{dir}/dump.log");
	return $file;
}

# Without what changes from dump to dump.
sub comparable
{
	my $text = SxCluster::slurp($_[0]);
	# a restored query is another incarnation, of no database yet, never started
	$text =~ s{^(COPY streamx\.query \(.*?\) FROM stdin;\n)(.*?)^\\\.$}{
		my ($head, $rows) = ($1, $2);
		my @columns = $head =~ /\((.*)\)/ ? split /, /, $1 : ();
		my @drop = grep { $columns[$_] =~ /^(incarnation|database|cluster|wanted|layout)$/ } 0 .. $#columns;
		$head . join('', map { my @v = split /\t/, $_, -1; $v[$_] = '-' for @drop; join("\t", @v) . "\n" } split /\n/, $rows);
	}mse;
	$text =~ s/^\\(un)?restrict .*$//mg;
	# where a query ran and whether it should: a restored one was never started
	if ($text =~ /^COPY streamx\.query \(([^)]*)\)/m)
	{
		my @columns = split /, /, $1;
		my @blank = grep { $columns[$_] =~ /^(database|cluster|wanted|layout|ended_at)$/ } 0 .. $#columns;
		$text =~ s{^(COPY streamx\.query \(.*?\n)(.*?)^\\\.$}{
			my ($head, $rows) = ($1, $2);
			$head . join('', sort map { my @f = split /\t/, $_, -1; @f[@blank] = ('') x @blank; join("\t", @f) . "\n" } split /\n/, $rows) . '\\.'
		}mse;
	}
	return $text;
}

# (status, log) of pg_upgrade
sub upgrade
{
	my ($from, $to) = @_;
	my $log = "$to->{dir}/upgrade.log";
	my $status = SxCluster::run_quietly($log, 'sh', '-c', "cd $to->{dir} && exec \"\$@\"", 'sh', "$to->{bin}/pg_upgrade",
		'-b', $from->{bin}, '-B', $to->{bin}, '-d', $from->{data}, '-D', $to->{data}, '-U', 'postgres', '-s', $to->{dir});
	return ($status, $log);
}

# ---------------------------------------------------------------- dump and restore
$node->sql('CREATE DATABASE one');
$node->sql('CREATE ROLE reader; CREATE ROLE runner LOGIN');
$node->{db} = 'one';
StreamCheck::set_up($node, state_store => 'table');
$node->sql(q{
	COMMENT ON FOREIGN TABLE s IS 'what is written';
	GRANT SELECT ON s TO reader;
	GRANT INSERT ON s TO runner;
	CREATE SCHEMA "Odd Name";
	SELECT create_stream('"Odd Name"."Str eam"', '("Col A" int, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''1 minute'')');
	SELECT create_query('odd query', $q$ SELECT "Col A", ts FROM "Odd Name"."Str eam" WHERE "Col A" > 0 $q$, sink => '"Odd Name"."Out"');
});
StreamCheck::start_all($node);
$node->sql('CALL write_for_a_while(30, 0)');
is(StreamCheck::final_differences($node), '', 'the queries ran before the dump');

my $file = dump_of('one');
unlike(SxCluster::slurp($file), qr/COPY streamx\.(batch|intent|failure)/, 'a dump has no checkpoints');
$node->sql('CREATE DATABASE two');
my ($rc, $out, $err) = $node->try_sql(SxCluster::slurp($file), db => 'two');
is($rc, 0, 'the dump restores without an error') or diag($err);
is(comparable(dump_of('two')), comparable($file), 'a dump of the restored database is the same dump');
is($node->sql('SELECT DISTINCT state FROM streamx.queries', db => 'two'), 'created', 'restored queries were never started');
is($node->sql('SELECT count(*) FROM s', db => 'two'), '0', 'the rows of a stream are not in the dump');

# ---------------------------------------------------------------- two databases with queries
$node->sql('TRUNCATE ref, ' . join(', ', map { "${_}_sink" } StreamCheck::names()), db => 'two');
$node->{db} = 'two';
StreamCheck::start_all($node);
my %mine = map { $_ => 1 } split /\n/, $node->sql("SELECT incarnation FROM streamx.query WHERE name <> 'odd query'", db => 'one');
is(scalar(grep { $mine{$_} } split /\n/, $node->sql("SELECT incarnation FROM streamx.query WHERE name <> 'odd query'", db => 'two')),
	0, 'started, they have incarnations of their own');
$node->sql('CALL write_for_a_while(30, 0)');
is(StreamCheck::final_differences($node), '', 'the restored queries run and are right');
$node->{db} = 'one';
$node->sql('CALL write_for_a_while(10, 0)');
is(StreamCheck::final_differences($node), '', 'beside those of the first database');

# ---------------------------------------------------------------- databases come and go
($rc, $out, $err) = $node->try_sql('CREATE DATABASE copy TEMPLATE two', db => 'postgres');
is($rc, 0, 'a database with running queries can be a template') or diag($err);
is($node->sql('SELECT DISTINCT state FROM streamx.queries', db => 'copy'), 'created', 'queries of a copied database are not started');
ok($node->poll("SELECT bool_and(state = 'running') FROM streamx.queries WHERE name <> 'odd query'", 't', 30), 'those of the original still run');
($rc, $out, $err) = $node->try_sql('DROP DATABASE two', db => 'postgres');
is($rc, 0, 'a database with running queries can be dropped') or diag($err);

# ---------------------------------------------------------------- DROP EXTENSION
($rc, $out, $err) = $node->try_sql('DROP EXTENSION streamx');
isnt($rc, 0, 'DROP EXTENSION is refused while streams depend on it');
($rc, $out, $err) = $node->try_sql('DROP EXTENSION streamx CASCADE');
is($rc, 0, 'DROP EXTENSION CASCADE works with running queries') or diag($err);
ok($node->poll("SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'one' AND backend_type ~ 'streamx.*(query|worker)'", 't', 30),
	'no worker of its queries is left');
is($node->sql("SELECT count(*) FROM ref", db => 'one') > 0, 1, 'ordinary tables stay');
$node->sql('CREATE EXTENSION streamx');
is($node->sql('SELECT count(*) FROM streamx.queries'), '0', 'a new extension begins empty');
ok($node->is_up, 'the server is up');
$node->remove;

# ---------------------------------------------------------------- from an older server
SKIP:
{
	skip 'no second server (make check16, make check18)', 6 unless $ENV{SX_OLD_BIN};
	my $old = SxCluster->new('dumped', bin => $ENV{SX_OLD_BIN});
	$old->start;
	StreamCheck::set_up($old, state_store => 'rocksdb');
	StreamCheck::start_all($old);
	$old->sql('CALL write_for_a_while(30, 0)');
	is(StreamCheck::final_differences($old), '', 'the queries ran on the older server');
	my $text = SxCluster::slurp(dump_of('postgres', $old));
	my $new = SxCluster->new('restored');
	$new->start;
	($rc, $out, $err) = $new->try_sql($text);
	is($rc, 0, 'the dump of an older server restores without an error') or diag($err);
	is($new->sql('SELECT DISTINCT state FROM streamx.queries'), 'created', 'its queries were never started here');
	my $definitions = 'SELECT name, sink_kind, sink_name, output_mode, trigger, options, settings FROM streamx.query ORDER BY name';
	is($new->sql($definitions), $old->sql($definitions), 'they are the same ones');
	$old->remove;
	$new->sql('TRUNCATE ref, ' . join(', ', map { "${_}_sink" } StreamCheck::names()));
	StreamCheck::start_all($new);
	$new->sql('CALL write_for_a_while(30, 0)');
	is(StreamCheck::final_differences($new), '', 'they run and are right');
	ok($new->poll("SELECT bool_and(state = 'running') FROM streamx.queries", 't', 30), 'and go on running');
	$new->remove;
}

# ---------------------------------------------------------------- pg_upgrade
SKIP:
{
	skip 'no second server (make check16, make check18)', 4 unless $ENV{SX_OLD_BIN};
	# 18 makes checksums unless told not to, and pg_upgrade wants both servers alike
	my @alike = `$node->{bin}/initdb --help` =~ /--no-data-checksums/ ? (initdb_args => ['--no-data-checksums']) : ();
	my $plain = SxCluster->new('plain', bin => $ENV{SX_OLD_BIN}, preload => '');
	$plain->start;
	$plain->sql('CREATE TABLE plain (a int)');
	$plain->stop;
	# Debian's 15.20 writes an attribute option that 16.14 does not know
	skip 'these two servers cannot even upgrade a plain table', 4
	  if (upgrade($plain, SxCluster->new('plain_new', preload => '', @alike)))[0] != 0;

	my $old = SxCluster->new('old', bin => $ENV{SX_OLD_BIN});
	$old->start;
	StreamCheck::set_up($old, state_store => 'rocksdb');
	StreamCheck::start_all($old);
	$old->sql('CALL write_for_a_while(40, 0)');
	is(StreamCheck::final_differences($old), '', 'the queries ran on the old server');
	$old->sql('CALL write_for_a_while(10, 0)');
	StreamCheck::stop_all($old);
	$old->stop;

	my $new = SxCluster->new('new', @alike);
	chdir '/';
	my $log;
	($rc, $log) = upgrade($old, $new);
	is($rc, 0, 'pg_upgrade works')
	  or diag(SxCluster::slurp($log), map { my @l = split /\n/, SxCluster::slurp($_); join("\n", "$_:", @l[ -(@l > 8 ? 8 : @l) .. -1 ]) . "\n" } glob("$new->{data}/pg_upgrade_output.d/*/log/pg_upgrade_dump_*.log"));
	$new->start;
	StreamCheck::start_all($new);
	$new->sql('CALL write_for_a_while(10, 0)');
	is(StreamCheck::final_differences($new), '', 'the queries go on on the new server');
	ok($new->poll("SELECT bool_and(state = 'running') FROM streamx.queries", 't', 30), 'and run');
}

done_testing();
