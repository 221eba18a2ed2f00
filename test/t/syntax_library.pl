# The library streamx_syntax in whole servers: preloaded in any order or alone,
# loaded by a session, refused by the kernel; the extended protocol; what
# pg_stat_statements and event triggers see.
use strict;
use warnings;
use Test::More;
use File::Copy;
use POSIX ();
use SxCluster;

my $with_watermark = 'ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL \'1 s\'';

sub pgbench
{
	my ($node, $mode, $script) = @_;
	my $file = "$node->{dir}/script.sql";
	open my $f, '>', $file or die "$file: $!";
	print $f $script;
	close $f;
	return SxCluster::run_quietly("$node->{dir}/pgbench.log", "$node->{bin}/pgbench", '-n', '-M', $mode,
		'-t', 3, '-f', $file, '-h', $node->{dir}, '-p', $node->{port}, '-U', 'postgres', 'postgres');
}

# --- preloaded, the last but one of three
my $node = SxCluster->new('all', preload => 'streamx, streamx_syntax, pg_stat_statements',
	conf => ['pg_stat_statements.track_utility = on']);
$node->start;
unlike(SxCluster::slurp($node->{log}), qr/WARNING/, 'a server with the library starts without a warning');
$node->sql('CREATE EXTENSION streamx; CREATE EXTENSION pg_stat_statements');
$node->sql("CREATE TABLE ddl (tag text, identity text);
	CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS \$\$
	BEGIN
		INSERT INTO ddl SELECT command_tag, object_identity FROM pg_event_trigger_ddl_commands();
	END \$\$;
	CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION note()");

$node->sql('SELECT pg_stat_statements_reset()');
$node->sql("CREATE  STREAM s ( -- one\n$with_watermark )");
$node->sql("ALTER STREAM s DROP WATERMARK");
is($node->sql("SELECT string_agg(query, '|' ORDER BY query COLLATE \"C\") FROM pg_stat_statements WHERE query ~ 'STREAM'"),
	"ALTER STREAM s DROP WATERMARK|CREATE  STREAM s ( -- one\n$with_watermark )",
	'pg_stat_statements shows the text as it was written');
is($node->sql("SELECT string_agg(DISTINCT tag || ' ' || identity, '|') FROM ddl"),
	'ALTER FOREIGN TABLE public.s|CREATE FOREIGN TABLE public.s', 'event triggers see both');

# several statements in one message: psql sends a file by statements, \; keeps them together
$node->sql('SELECT pg_stat_statements_reset()');
$node->sql("CREATE TABLE t1 (a int)\\; CREATE STREAM s2 ($with_watermark)\\; CREATE TABLE t3 (a int)");
is($node->sql("SELECT string_agg(query, '|' ORDER BY query COLLATE \"C\") FROM pg_stat_statements WHERE query ~ '^CREATE'"),
	"CREATE STREAM s2 ($with_watermark)|CREATE TABLE t1 (a int)|CREATE TABLE t3 (a int)",
	'and cuts each one out of a string of several');

for my $mode (qw(simple extended prepared))
{
	is(pgbench($node, $mode, "CREATE STREAM IF NOT EXISTS p_$mode (a int, $with_watermark);\n"
			. "ALTER STREAM p_$mode SET WATERMARK FOR ts AS ts - INTERVAL '2 s';\n"
			. "CREATE STREAM again ($with_watermark);\nDROP STREAM again;\n"),
		0, "protocol $mode: again and again")
	  or diag(SxCluster::slurp("$node->{dir}/pgbench.log"));
	is($node->sql("SELECT attfdwoptions FROM pg_attribute WHERE attrelid = 'p_$mode'::regclass AND attname = 'ts'"),
		'{"watermark=2 s"}', "protocol $mode: the watermark is there");
}
is(pgbench($node, 'prepared', "\\set v 5\nCREATE TABLE IF NOT EXISTS stream (stream int);\n"
		. "INSERT INTO stream (stream) VALUES (:v);\nSELECT /* create stream */ stream FROM stream WHERE stream = :v;\n"),
	0, 'parameters beside the word');

my ($rc, $out, $err) = $node->try_sql("SET client_min_messages = log; SET log_parser_stats = on; SELECT 1");
like($err, qr/PARSER STATISTICS/, 'log_parser_stats still works');

($rc, $out, $err) = $node->try_sql("LOAD 'streamx_syntax'; LOAD 'streamx_syntax'; CREATE STREAM loaded (a int)");
is("$rc$err", '0', 'LOAD of what is preloaded does nothing');

my $copy = SxCluster::base_dir() . '/another_library.so';
my $libdir = `$node->{bin}/pg_config --pkglibdir`;
chomp $libdir;
copy("$libdir/streamx_syntax.so", $copy) or die "copy: $!";
chmod 0755, $copy;
($rc, $out, $err) = $node->try_sql("LOAD '$copy'; CREATE STREAM loaded2 (a int)");
is($rc, 0, 'a second library that wants the same function');
like($err, qr/WARNING:  CREATE STREAM is not available.*begins in an unknown way/s, 'is refused with a warning');
$node->stop;

# --- alone, and by a session
my $alone = SxCluster->new('alone', preload => 'streamx_syntax');
$alone->start;
($rc, $out, $err) = $alone->try_sql("CREATE STREAM s ($with_watermark)");
like($err, qr/server "streamx" does not exist.*CREATE EXTENSION streamx/s, 'without the extension there is a hint');
$alone->sql("CREATE FOREIGN DATA WRAPPER w; CREATE SERVER w FOREIGN DATA WRAPPER w; CREATE STREAM s ($with_watermark) SERVER w");
is($alone->sql("SELECT count(*) FROM pg_foreign_table"), 1, 'and any other server can be used');
$alone->set('shared_preload_libraries', '');
$alone->set('session_preload_libraries', 'streamx_syntax');
$alone->restart;
$alone->sql("CREATE STREAM s2 ($with_watermark) SERVER w");
pass('session_preload_libraries is enough');
$alone->set('session_preload_libraries', '');
$alone->reload;
$alone->poll("SELECT current_setting('session_preload_libraries')", '');
($rc, $out, $err) = $alone->try_sql("CREATE STREAM s3 ($with_watermark) SERVER w");
like($err, qr/syntax error at or near "STREAM"/, 'without the library it is a syntax error');
$alone->sql("LOAD 'streamx_syntax'; CREATE STREAM s3 ($with_watermark) SERVER w; DROP STREAM s2");
pass('LOAD is enough');
$alone->stop;

# --- where the kernel lets no memory become executable (PR_SET_MDWE, Linux 6.3)
SKIP:
{
	my $number = { x86_64 => 157, aarch64 => 167 }->{ (POSIX::uname())[4] };
	my $policy = sub { return syscall($number, 65, 1, 0, 0, 0) == 0 };
	my $probe = fork() // die "fork: $!";
	POSIX::_exit($number && $policy->() ? 0 : 1) if $probe == 0;
	waitpid $probe, 0;
	skip 'no PR_SET_MDWE', 6 if $? != 0;

	for my $preload ('streamx_syntax', '')
	{
		truncate $alone->{log}, 0;
		$alone->set('shared_preload_libraries', $preload);
		my $pid = fork() // die "fork: $!";
		if ($pid == 0)
		{
			$policy->();
			POSIX::_exit($alone->pg_ctl('start'));
		}
		waitpid $pid, 0;
		is($?, 0, 'a server under this policy starts' . ($preload ? ' with the library' : ''));
		if ($preload)
		{
			like(SxCluster::slurp($alone->{log}), qr/WARNING:  CREATE STREAM is not available.*does not allow changed code/s,
				'and warns in its log');
			($rc, $out, $err) = $alone->try_sql("CREATE STREAM s4 (a int) SERVER w");
			like($err, qr/syntax error at or near "STREAM"/, 'the statement is a syntax error');
		}
		else
		{
			($rc, $out, $err) = $alone->try_sql("LOAD 'streamx_syntax'; SELECT 'alive'; CREATE FOREIGN TABLE s5 (a int) SERVER w");
			like($err, qr/WARNING:  CREATE STREAM is not available/, 'LOAD warns');
			is("$rc $out", '0 alive', 'and the session goes on');
		}
		$alone->stop;
	}
}

done_testing();
