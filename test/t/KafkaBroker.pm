# KafkaBroker.pm
#		A real Kafka broker for a test: private, or the one that the suite started.
#
#	my $kafka = KafkaBroker->new;						its own, with a folder of its own
#	my $kafka = KafkaBroker->new(secure => 1, users => ['alice:secret'], properties => ['a.b=c']);
#	my $kafka = KafkaBroker->new(version => '3.9.1');	an older one
#	my $kafka = KafkaBroker->shared;					the suite's (SX_KAFKA_DIR), or its own
#
#	$kafka->create_topic('t', 4, 'cleanup.policy=compact');
#	$kafka->produce('t', 'a value', { key => 'k', value => 'v', headers => [ [ 'n', 'x' ] ], partition => 1, timestamp => 0 });
#	$kafka->produce_with({ transaction => 'id', abort => 1 }, 't', ...);
#	my @records = $kafka->consume('t');					hashes with the same keys, and topic, offset
#
# Broker and orders are test/harness/kafka.sh and kafkatool. What dies in here ends the test.
package KafkaBroker;

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use SxCluster;

my $harness = abs_path(dirname(__FILE__) . '/../harness');
my @all;
my $number = 0;

sub new
{
	my ($class, %args) = @_;
	my $dir = SxCluster::base_dir() . '/kafka.' . ++$number;
	my $self = bless { dir => $dir, owned => 1, version => $args{version} }, $class;
	mkdir $dir;
	push @all, $self;
	my @options = (
		($args{secure} ? ('--secure') : ()),
		($args{port} ? ('--port', $args{port}) : ()),
		(map { ('--user', $_) } @{ $args{users} || [] }),
		@{ $args{properties} || [] });
	$self->start(@options) unless defined $args{start} && !$args{start};
	return $self;
}

sub shared
{
	my ($class) = @_;
	return $class->new unless $ENV{SX_KAFKA_DIR};
	return bless { dir => $ENV{SX_KAFKA_DIR}, owned => 0 }, $class;
}

# (status, stdout, stderr); the input is given as one string
sub run
{
	my ($self, $input, @command) = @_;
	my ($in, $out, $err) = map { SxCluster::base_dir() . "/kafka.$_.$$" } qw(in out err);
	open my $f, '>:raw', $in or die "$in: $!";
	print $f $input;
	close $f;
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		$ENV{SX_KAFKA_VERSION} = $self->{version} if $self->{version};
		open STDIN, '<', $in;
		open STDOUT, '>', $out;
		open STDERR, '>', $err;
		exec @command or exit 127;
	}
	waitpid $pid, 0;
	my ($rc, $o, $e) = ($? >> 8, SxCluster::slurp($out), SxCluster::slurp($err));
	unlink $in, $out, $err;
	return ($rc, $o, $e);
}

sub must
{
	my ($self, $input, @command) = @_;
	my ($rc, $out, $err) = $self->run($input, @command);
	die "@command: $err" if $rc != 0;
	return $out;
}

sub script { my ($self, $order, @args) = @_; return $self->must('', "$harness/kafka.sh", $order, $self->{dir}, @args); }

sub start { my ($self, @options) = @_; $self->script('start', @options); }
sub stop { my ($self) = @_; $self->script('stop'); }
sub kill9 { my ($self) = @_; $self->script('stop', '-9'); }

sub address
{
	my ($self, $listener) = @_;
	my $address = $self->script('address', $listener || 'plaintext');
	chomp $address;
	return $address;
}

# A file of the folder tls, as text: ca.pem, client.crt, client.key, client.protected.key.
sub tls { my ($self, $name) = @_; return SxCluster::slurp("$self->{dir}/tls/$name"); }

sub tool_command { my ($self, @args) = @_; return ("$harness/kafka.sh", 'tool', $self->{dir}, @args); }
sub tool { my ($self, @args) = @_; return $self->must('', $self->tool_command(@args)); }

sub create_topic { my ($self, $topic, $partitions, @settings) = @_; $self->tool('create', $topic, $partitions || 1, @settings); }
sub set_topic { my ($self, $topic, @settings) = @_; $self->tool('set', $topic, @settings); }
sub delete_topic { my ($self, $topic) = @_; $self->tool('delete', $topic); }
sub add_partitions { my ($self, $topic, $total) = @_; $self->tool('partitions', $topic, $total); }
sub delete_records { my ($self, $topic, $partition, $before) = @_; $self->tool('delete-records', $topic, $partition, $before); }

# name => number of partitions
sub topics { my ($self) = @_; return map { split / / } split /\n/, $self->tool('topics'); }

# [first, end] by partition
sub offsets
{
	my ($self, $topic) = @_;
	return map { my ($p, $low, $high) = split / /; [ $low, $high ] } split /\n/, $self->tool('offsets', $topic);
}

# partition => [offset, metadata] that a group committed
sub committed
{
	my ($self, $group, $topic) = @_;
	return map { my ($p, $o, $m) = split / /, $_, 3; $p => [ $o, $m ] } split /\n/, $self->tool('committed', $group, $topic);
}

sub escape
{
	my ($text) = @_;
	$text =~ s/\\/\\\\/g;
	$text =~ s/\t/\\t/g;
	$text =~ s/\n/\\n/g;
	$text =~ s/\r/\\r/g;
	$text =~ s/\0/\\x00/g;
	return $text;
}

sub unescape
{
	my ($text) = @_;
	$text =~ s/\\(?:x([0-9a-f]{2})|(.))/defined $1 ? chr(hex $1) : $2 eq 't' ? "\t" : $2 eq 'n' ? "\n" : $2 eq 'r' ? "\r" : $2/ge;
	return $text;
}

# A record as a line of kafkatool; a plain string is a value, undef no value.
sub line
{
	my ($record) = @_;
	$record = { value => $record } unless ref $record;
	my @fields;
	push @fields, 'topic=' . $record->{topic} if defined $record->{topic};
	push @fields, 'p=' . $record->{partition} if defined $record->{partition};
	push @fields, 't=' . $record->{timestamp} if defined $record->{timestamp};
	push @fields, 'k=' . escape($record->{key}) if defined $record->{key};
	push @fields, 'v=' . escape($record->{value}) if defined $record->{value};
	push @fields, "h=$_->[0]" . (defined $_->[1] ? ':' . escape($_->[1]) : '') for @{ $record->{headers} || [] };
	return join("\t", @fields) . "\n";
}

# Records in transactions: \'begin', \'commit', \'abort' stand between them.
sub produce_with
{
	my ($self, $options, $topic, @records) = @_;
	my @args = ('-F', '-t', $topic);
	push @args, '-p', $options->{partition} if defined $options->{partition};
	push @args, '-T', $options->{transaction} if defined $options->{transaction};
	push @args, '-A' if $options->{abort};
	my $input = join '', map { ref $_ eq 'SCALAR' ? "!$$_\n" : line($_) } @records;
	utf8::encode($input) if utf8::is_utf8($input);
	$self->must($input, $self->tool_command('produce', @args));
}

sub produce { my ($self, $topic, @records) = @_; $self->produce_with({}, $topic, @records); }

# From the first record to the present end; "uncommitted", "count" and "seconds" by name.
sub consume
{
	my ($self, $topic, %args) = @_;
	my @args;
	push @args, '-u' if $args{uncommitted};
	push @args, '-n', $args{count} if defined $args{count};
	push @args, '-w', $args{seconds} if defined $args{seconds};
	my @records;
	for my $text (split /\n/, $self->tool('consume', @args, $topic))
	{
		my %record;
		for (split /\t/, $text)
		{
			my ($name, $value) = split /=/, $_, 2;
			if ($name eq 'h')
			{
				my ($header, $bytes) = split /:/, $value, 2;
				push @{ $record{headers} }, [ $header, defined $bytes ? unescape($bytes) : undef ];
				next;
			}
			$record{ { k => 'key', v => 'value', p => 'partition', t => 'timestamp', o => 'offset' }->{$name} || $name } =
			  $name =~ /^[kv]$/ ? unescape($value) : $value;
		}
		push @records, \%record;
	}
	return @records;
}

sub values_of { my ($self, $topic, %args) = @_; return map { $_->{value} } $self->consume($topic, %args); }

END
{
	my $status = $?;
	for my $kafka (@all)
	{
		system("$harness/kafka.sh", 'stop', $kafka->{dir}, '-9') if $kafka->{owned} && -d $kafka->{dir};
	}
	$? = $status;
}

1;
