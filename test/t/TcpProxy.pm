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
#	error API CODE N	... of Kafka: the next N answers to requests of that key say that error,
#			whatever the broker said; 0: it has happened (see left)
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

# Listens on port if given; kafka: knows that protocol, which takes time.
sub new
{
	my ($class, $target, $port, %args) = @_;
	my $listener = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1', LocalPort => $port || 0, ReuseAddr => 1)
	  or die "no proxy: $!";
	my $self = bless { port => $listener->sockport, order => SxCluster::base_dir() . '/proxy.' . ++$number, maker => $$, kafka => $args{kafka} }, $class;
	$self->order('pass');
	$self->{pid} = fork() // die "fork: $!";
	if ($self->{pid} == 0)
	{
		$SIG{TERM} = $SIG{INT} = 'DEFAULT';
		$SIG{PIPE} = 'IGNORE';
		eval { $self->serve($listener, $target) };
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

# After be('error ...'): how many answers are still to be changed
sub left { my ($self) = @_; my $n = SxCluster::slurp("$self->{order}.left"); return $n eq '' ? undef : $n; }

# From when this returns it is so.
sub be { my ($self, $mode) = @_; $self->order($mode); sleep 0.15; }

# ---- Kafka's protocol: a length of four bytes, then a request or its answer

my %asked;		# by file number of the client: [[correlation id, key, version], ...]
my %partial;	# by file number: bytes of an answer that is not whole

sub note_requests
{
	my ($client, $bytes) = @_;
	my $buffer = \$partial{ fileno $client };
	$$buffer .= $bytes;
	while (length($$buffer) >= 12)
	{
		my ($size, $key, $version, $id) = unpack 'N n n N', $$buffer;
		last if length($$buffer) < 4 + $size;
		push @{ $asked{ fileno $client } }, [ $id, $key, $version ];
		substr($$buffer, 0, 4 + $size) = '';
	}
}

# A number in groups of seven bits, lowest first, as pack's BER number has it: highest first
sub reverse_groups
{
	my ($bytes) = @_;
	my ($groups) = $bytes =~ /^([\x80-\xff]*[\x00-\x7f])/s or return "\0";
	my @groups = reverse map { ord($_) & 127 } split //, $groups;
	return join '', map { chr($groups[$_] | ($_ < $#groups ? 128 : 0)) } 0 .. $#groups;
}

# Where the (first) error code is behind the correlation id, by key of the request.
sub error_place
{
	my ($key, $version, $body) = @_;
	my %flexible = (9 => 6, 22 => 2, 24 => 3, 25 => 3, 26 => 3, 10 => 3, 28 => 3, 0 => 9);
	my $new = defined $flexible{$key} && $version >= $flexible{$key};
	my $at = $new ? 1 : 0;		# tags of the header
	return $at + 4 if $key == 22 || $key == 25 || $key == 26 || $key == 10;
	# arrays of topics with arrays of partitions; a name is a length and bytes
	$at += 4 if $key == 24 || $key == 28 || $key == 9;		# throttle time
	my $name = $new ? unpack('C', substr($body, $at + 1, 1)) - 1 : unpack('n', substr($body, $at + 4, 2));
	$at += $new ? 1 + 1 + $name + 1 : 4 + 2 + $name + 4;
	return if $at + 6 > length $body;
	return $at + 4 unless $key == 9;
	# offset, leader's epoch and metadata stand between
	$at += 4 + 8 + ($version >= 5 ? 4 : 0);
	my $text = $new ? unpack('w', reverse_groups(substr($body, $at, 5))) - 1 : unpack('s>', substr($body, $at, 2));
	return $at + ($new ? ($text + 1 > 127 ? 2 : 1) : 2) + ($text < 0 ? 0 : $text);
}

# The bytes of a server, as its client shall see them
sub change_answers
{
	my ($self, $server, $client, $bytes) = @_;
	my $buffer = \$partial{ fileno $server };
	my $out = '';
	$$buffer .= $bytes;
	while (length($$buffer) >= 8)
	{
		my ($size, $id) = unpack 'N N', $$buffer;
		last if length($$buffer) < 4 + $size;
		my $answer = substr($$buffer, 0, 4 + $size, '');
		my ($request) = grep { $_->[0] == $id } @{ $asked{ fileno $client } };
		@{ $asked{ fileno $client } } = grep { $_ != $request } @{ $asked{ fileno $client } } if $request;
		if ($request && $self->{wanted} && $self->{wanted}[2] > 0 && $request->[1] == $self->{wanted}[0])
		{
			my $at = error_place($request->[1], $request->[2], substr($answer, 8));
			if (defined $at)
			{
				substr($answer, 8 + $at, 2) = pack('n', $self->{wanted}[1]);
				$self->tell_left(--$self->{wanted}[2]);
			}
		}
		$out .= $answer;
	}
	return $out;
}

sub tell_left
{
	my ($self, $n) = @_;
	open my $f, '>', "$self->{order}.left.new" or die;
	print $f $n;
	close $f;
	rename "$self->{order}.left.new", "$self->{order}.left";
}

# ---- the process

my %peer;		# by file number: the other end
my %waiting;	# by file number: [time, bytes] that are to be written to it
my $select;

sub end_pair
{
	my ($socket) = @_;
	return unless defined fileno $socket;
	my $other = delete $peer{ fileno $socket } or return;
	delete $peer{ fileno $other };
	for my $it ($socket, $other)
	{
		delete $waiting{ fileno $it };
		delete $asked{ fileno $it };
		delete $partial{ fileno $it };
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
	my ($self, $listener, $target) = @_;
	my $mode = 'pass';
	my %is_server;
	$select = IO::Select->new($listener);
	while (1)
	{
		my @ready = $mode eq 'hang' ? () : $select->can_read(0.02);
		sleep 0.02 if $mode eq 'hang';
		my $new = SxCluster::slurp($self->{order});
		if ($new ne '' && $new ne $mode)
		{
			my $all = $new eq 'cut' || $mode eq 'deaf';
			$mode = $new;
			$self->{wanted} = $mode =~ /^error (\d+) (-?\d+) (\d+)/ ? [ $1, $2, $3 ] : undef;
			$self->tell_left($self->{wanted}[2]) if $self->{wanted};
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
			if ($self->{kafka} && $is_server{ fileno $socket }) { $bytes = $self->change_answers($socket, $other, $bytes); }
			elsif ($self->{kafka}) { note_requests($socket, $bytes); }
			next if $bytes eq '';
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
