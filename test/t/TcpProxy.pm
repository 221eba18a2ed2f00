# TcpProxy.pm
#		Between clients and a server of 127.0.0.1; misbehaves when told to.
#
#	my $proxy = TcpProxy->new($port);		forwards to that port; listens on $proxy->port
#	$proxy->be('hang');						until the next be()
#
#	pass	hands on what comes, in both directions
#	hang	keeps connections, takes new ones, and hands on nothing
#	deaf	hands on what clients say; what the server answers is lost, as their connections
#			are, when the mode changes
#	cut		closes all connections, and new ones at once
#	N		hands on everything N milliseconds later
package TcpProxy;

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use POSIX ();
use SxCluster;
use Time::HiRes qw(time sleep);

my @all;
my $number = 0;

# Listens on port if given.
sub new
{
	my ($class, $target, $port) = @_;
	my $listener = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1', LocalPort => $port || 0, ReuseAddr => 1)
	  or die "no proxy: $!";
	my $self = bless { port => $listener->sockport, order => SxCluster::base_dir() . '/proxy.' . ++$number, maker => $$ }, $class;
	$self->order('pass');
	$self->{pid} = fork() // die "fork: $!";
	if ($self->{pid} == 0)
	{
		$SIG{TERM} = $SIG{INT} = 'DEFAULT';
		$SIG{PIPE} = 'IGNORE';
		eval { serve($listener, $target, $self->{order}) };
		POSIX::_exit(0);
	}
	close $listener;
	push @all, $self;
	return $self;
}

sub port { my ($self) = @_; return $self->{port}; }

sub order
{
	my ($self, $mode) = @_;
	open my $f, '>', "$self->{order}.new" or die "$self->{order}: $!";
	print $f $mode;
	close $f;
	rename "$self->{order}.new", $self->{order};
}

# From when this returns it is so.
sub be { my ($self, $mode) = @_; $self->order($mode); sleep 0.15; }

# ---- the process

my %peer;		# by file number: the other end
my %waiting;	# by file number: [time, bytes] that are to be written to it
my $select;

sub end_pair
{
	my ($socket) = @_;
	my $other = delete $peer{ fileno $socket } or return;
	delete $peer{ fileno $other };
	for my $it ($socket, $other)
	{
		delete $waiting{ fileno $it };
		$select->remove($it);
	}
	close $_ for $socket, $other;
}

sub write_due
{
	my ($socket) = @_;
	my $queue = $waiting{ fileno $socket };
	while ($queue && @$queue && $queue->[0][0] <= time)
	{
		my $n = syswrite $socket, $queue->[0][1];
		return if !defined $n && $!{EAGAIN};
		return end_pair($socket) unless defined $n;
		substr($queue->[0][1], 0, $n) = '';
		shift @$queue if $queue->[0][1] eq '';
	}
}

sub serve
{
	my ($listener, $target, $order) = @_;
	my $mode = 'pass';
	my %is_server;
	$select = IO::Select->new($listener);
	while (1)
	{
		my @ready = $mode eq 'hang' ? () : $select->can_read(0.02);
		sleep 0.02 if $mode eq 'hang';
		my $new = SxCluster::slurp($order);
		if ($new ne '' && $new ne $mode)
		{
			my $all = $new eq 'cut' || $mode eq 'deaf';
			$mode = $new;
			if ($all) { end_pair($_) for map { $_->[0] } values %{ { map { fileno($_) => [$_] } grep { $_ != $listener } $select->handles } }; }
			next;
		}
		for my $socket (@ready)
		{
			if ($socket == $listener)
			{
				my $client = $listener->accept or next;
				my $server = $mode eq 'cut' ? undef : IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $target);
				unless ($server) { close $client; next; }
				$_->blocking(0) for $client, $server;
				($peer{ fileno $client }, $peer{ fileno $server }) = ($server, $client);
				$is_server{ fileno $client } = 0;
				$is_server{ fileno $server } = 1;
				$select->add($client, $server);
				next;
			}
			next unless defined fileno $socket && $peer{ fileno $socket };
			my $other = $peer{ fileno $socket };
			my $n = sysread $socket, my $bytes, 65536;
			next if !defined $n && $!{EAGAIN};
			unless ($n) { end_pair($socket); next; }
			next if $mode eq 'deaf' && $is_server{ fileno $socket };
			push @{ $waiting{ fileno $other } }, [ time + ($mode =~ /^\d+$/ ? $mode / 1000 : 0), $bytes ];
		}
		next if $mode eq 'hang';
		for my $socket ($select->handles)
		{
			write_due($socket) if defined fileno $socket && $socket != $listener;
		}
	}
}

END
{
	my $status = $?;
	for my $self (@all)
	{
		next if $self->{maker} != $$;
		kill 9, $self->{pid};
		waitpid $self->{pid}, 0;
	}
	$? = $status;
}

1;
