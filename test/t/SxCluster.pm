# SxCluster.pm
#		A private PostgreSQL for one test: made, started, killed, copied and removed.
#
# The programs are those of PG_BIN, or of PG_CONFIG, or of the PATH. Everything
# lies under SX_TMP (or a temporary folder) and listens on a socket there only.
# As root the server runs as user postgres. What dies in here ends the test.
package SxCluster;

use strict;
use warnings;

use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep time);

# A server of the developer's own is none of our business.
delete @ENV{qw(PGHOST PGPORT PGUSER PGDATABASE PGDATA PGOPTIONS PGSERVICE)};

my ($base, $owner_pid, $bin, @all);
my $number = 0;

sub bin_dir
{
	return $bin if $bin;
	my $config = $ENV{PG_CONFIG} || 'pg_config';
	$bin = $ENV{PG_BIN} || `$config --bindir`;
	chomp $bin;
	return $bin;
}

sub base_dir
{
	return $base if $base;
	my $parent = $ENV{SX_TMP} || '/tmp';
	make_path($parent);
	chown((getpwnam('postgres'))[ 2, 3 ], $parent) if $> == 0 && $ENV{SX_TMP};
	$base = tempdir('sxt.XXXXXX', DIR => $parent);
	$owner_pid = $$;
	chmod 0755, $base;
	chown((getpwnam('postgres'))[ 2, 3 ], $base) if $> == 0;
	return $base;
}

# The command as the server's user.
sub as_server
{
	my @command = @_;
	return $> == 0 ? ('runuser', '-u', 'postgres', '--', @command) : @command;
}

sub run_quietly
{
	my ($log, @command) = @_;
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		chdir '/';
		open STDIN, '<', '/dev/null';
		open STDOUT, '>>', $log;
		open STDERR, '>&', \*STDOUT;
		exec as_server(@command) or exit 127;
	}
	waitpid $pid, 0;
	return $? >> 8;
}

# new(name, conf => [lines], initdb => bool, initdb_args => [options])
sub new
{
	my ($class, $name, %args) = @_;
	my $dir = base_dir() . "/" . ++$number;
	mkdir $dir;
	chown((getpwnam('postgres'))[ 2, 3 ], $dir) if $> == 0;
	my $self = bless {
		name => $name, dir => $dir, data => "$dir/data", log => "$dir/server.log",
		port => 5432, db => 'postgres', bin => $args{bin} || bin_dir()
	}, $class;
	push @all, $self;
	return $self if defined $args{initdb} && !$args{initdb};

	run_quietly("$dir/initdb.log", "$self->{bin}/initdb", '-D', $self->{data}, '-U', 'postgres',
		'-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync', @{ $args{initdb_args} || [] }) == 0
	  or die "initdb failed: " . slurp("$dir/initdb.log");
	my $preload = join(',', grep { $_ } $ENV{SX_PRELOAD}, $args{preload} // 'streamx');
	$self->append_conf(
		"listen_addresses = ''", "port = $self->{port}", "unix_socket_directories = '$dir'",
		"shared_preload_libraries = '$preload'", "max_worker_processes = 40",
		"timezone = 'UTC'", "log_timezone = 'UTC'", "log_line_prefix = '%m [%p] %b '",
		"fsync = off", "max_wal_senders = 5", "wal_level = replica", @{ $args{conf} || [] });
	return $self;
}

sub slurp
{
	my ($path) = @_;
	open my $f, '<', $path or return '';
	local $/;
	return scalar(<$f>) // '';
}

# Clock ticks of CPU that a process has used, 100 a second
sub ticks
{
	my ($pid) = @_;
	my @fields = split ' ', slurp("/proc/$pid/stat") =~ s/.*\) //r;
	return $fields[11] + $fields[12];
}

sub append_conf
{
	my ($self, @lines) = @_;
	open my $f, '>>', "$self->{data}/postgresql.conf" or die "postgresql.conf: $!";
	print $f "$_\n" for @lines;
	close $f;
}

# Like ALTER SYSTEM, but also while the server is down: the last line wins.
sub set { my ($self, $name, $value) = @_; $self->append_conf("$name = '$value'"); }

sub pg_ctl
{
	my ($self, @args) = @_;
	return run_quietly("$self->{dir}/pg_ctl.log", "$self->{bin}/pg_ctl", '-D', $self->{data},
		'-l', $self->{log}, '-w', '-t', '60', @args);
}

# Processes of the server, also those whose postmaster is gone: pid, what it waits for, name.
sub processes
{
	my ($self) = @_;
	my @found = grep { (readlink("$_/cwd") // '') eq $self->{data} } glob('/proc/[0-9]*');
	return join('', map { join(' ', m{(\d+)$}, slurp("$_/wchan"), slurp("$_/cmdline") =~ tr/\0/ /r) . "\n" } @found);
}

# Tries again for a while: after kill -9 of the postmaster its children need a moment to notice.
sub start
{
	my ($self) = @_;
	my $end = time + 60;
	while (1)
	{
		return if $self->pg_ctl('start') == 0;
		die "$self->{name} does not start:\n" . $self->log_tail(10) . $self->processes if time > $end;
		sleep 0.3;
	}
}

sub stop { my ($self, $mode) = @_; return $self->pg_ctl('-m', $mode || 'fast', 'stop') == 0; }
sub restart { my ($self) = @_; $self->stop; $self->start; }
sub reload { my ($self) = @_; $self->pg_ctl('reload'); }
sub promote { my ($self) = @_; $self->pg_ctl('promote') == 0 or die "no promotion"; }

sub postmaster_pid
{
	my ($self) = @_;
	return slurp("$self->{data}/postmaster.pid") =~ /^(\d+)/ ? $1 : undef;
}

sub is_up
{
	my ($self) = @_;
	my $pid = $self->postmaster_pid or return 0;
	return kill(0, $pid) && slurp("/proc/$pid/stat") !~ /\) Z/;
}

# kill -9 of the postmaster, as a power cut of the process would be.
sub kill9
{
	my ($self) = @_;
	my $pid = $self->postmaster_pid or return;
	kill 9, $pid;
	my $end = time + 20;
	sleep 0.05 while kill(0, $pid) && slurp("/proc/$pid/stat") !~ /\) Z/ && time < $end;
}

sub wait_down
{
	my ($self, $seconds) = @_;
	my $end = time + $seconds;
	while (time < $end)
	{
		return 1 unless $self->is_up;
		sleep 0.05;
	}
	return 0;
}

sub log_tail
{
	my ($self, $lines) = @_;
	my @l = split /\n/, slurp($self->{log});
	@l = @l[ -$lines .. -1 ] if @l > $lines;
	return join("\n", @l) . "\n";
}

sub psql_command
{
	my ($self, %args) = @_;
	return ("$self->{bin}/psql", '-X', '-A', '-t', '-q', '-h', $self->{dir}, '-p', $self->{port},
		'-U', $args{user} || 'postgres', '-d', $args{db} || $self->{db}, '-v', 'ON_ERROR_STOP=1');
}

# (status, stdout, stderr)
sub try_sql
{
	my ($self, $sql, %args) = @_;
	my ($in, $out, $err) = map { "$self->{dir}/$_.$$" } qw(in out err);
	open my $f, '>:utf8', $in or die "$in: $!";
	print $f $sql;
	close $f;
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<', $in;
		open STDOUT, '>', $out;
		open STDERR, '>', $err;
		exec $self->psql_command(%args) or exit 127;
	}
	waitpid $pid, 0;
	my ($rc, $o, $e) = ($? >> 8, slurp($out), slurp($err));
	unlink $in, $out, $err;
	chomp $o;
	return ($rc, $o, $e);
}

# The result of one or several statements; dies with the error.
sub sql
{
	my ($self, $sql, %args) = @_;
	my ($rc, $out, $err) = $self->try_sql($sql, %args);
	die "$self->{name}: $err\nin: $sql\n" if $rc != 0;
	return $out;
}

# Waits until the query gives the value; false after the time.
sub poll
{
	my ($self, $sql, $wanted, $seconds) = @_;
	$wanted //= 't';
	my $end = time + ($seconds || 60);
	my $last = '';
	while (time < $end)
	{
		my ($rc, $out, $err) = $self->try_sql($sql);
		$last = $rc == 0 ? $out : $err;
		return 1 if $rc == 0 && $out eq $wanted;
		sleep 0.1;
	}
	print STDERR "# poll: last result \"$last\" of: $sql\n";
	return 0;
}

# A child process that runs SQL again and again until told to stop; survives
# restarts of the server. Returns its pid for stop_background.
sub background
{
	my ($self, $sql) = @_;
	my $flag = "$self->{dir}/stop." . ++$number;
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		open STDERR, '>', '/dev/null';
		until (-e $flag)
		{
			my ($rc) = $self->try_sql($sql);
			sleep 0.2 if $rc != 0;
		}
		POSIX::_exit(0);
	}
	$self->{background}{$pid} = $flag;
	return $pid;
}

sub stop_background
{
	my ($self, $pid) = @_;
	my $flag = delete $self->{background}{$pid} or return;
	open my $f, '>', $flag;
	close $f;
	waitpid $pid, 0;
}

# A physical copy of a running server.
sub base_backup
{
	my ($self, $name, %args) = @_;
	my $copy = SxCluster->new($name, initdb => 0, bin => $self->{bin});
	run_quietly("$copy->{dir}/backup.log", "$self->{bin}/pg_basebackup", '-h', $self->{dir}, '-p', $self->{port},
		'-U', 'postgres', '-D', $copy->{data}, '-c', 'fast', '--no-sync', '-X', $args{wal} || 'stream',
		$args{standby} ? ('-R') : ()) == 0
	  or die "pg_basebackup failed: " . slurp("$copy->{dir}/backup.log");
	$copy->append_conf("unix_socket_directories = '$copy->{dir}'");
	return $copy;
}

sub remove
{
	my ($self) = @_;
	$self->stop_background($_) for keys %{ $self->{background} || {} };
	$self->stop('immediate') if $self->is_up;
	remove_tree($self->{dir});
}

END
{
	if ($owner_pid && $owner_pid == $$)
	{
		my $status = $?;
		for my $node (@all)
		{
			kill 9, keys %{ $node->{background} || {} };
			$node->stop('immediate') if $node->is_up;
			if ($status && -s $node->{log})
			{
				print STDERR "# server log of $node->{name}:\n" . join('', map { "#   $_\n" } split /\n/, $node->log_tail(40));
			}
		}
		remove_tree($base) if $base && !$ENV{SX_KEEP};
		$? = $status;
	}
}

# A Ctrl-C runs the END block too.
$SIG{INT} = $SIG{TERM} = sub { exit 130 };

1;
