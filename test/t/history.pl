# PostgreSQL's own time machines: a promoted standby, one that lagged, recovery to
# a point in the middle of a run, and a state store that belongs to a history which
# was lost. After each, sinks equal the batch query over the rows below their
# offsets, and the queries go on: nothing lost, nothing doubled.
use strict;
use warnings;

use FindBin;
use Test::More;
use Time::HiRes qw(sleep);

use lib $FindBin::Bin;
use SxCluster;
use StreamCheck;

srand($ENV{SX_SEED} || 20260115);

sub running_primary
{
	my ($name, $store, @conf) = @_;
	my $node = SxCluster->new($name, conf => [ 'wal_keep_size = 256MB', 'max_connections = 40', @conf ]);
	$node->start;
	StreamCheck::set_up($node, state_store => $store, state_memory => '4MB');
	StreamCheck::start_all($node);
	$node->sql('SELECT write_rows(30000)');		# more than fits in memory: the store is used
	$node->{writer} = $node->background('CALL write_for_a_while(200, 0.03)');
	return $node;
}

sub more_batches
{
	my ($node, $n) = @_;
	my $from = StreamCheck::batches($node);
	ok($node->poll("SELECT coalesce(sum(batch + 1), 0) >= $from + $n FROM upto", 't', 60), "$node->{name}: $n more batches");
}

# The node is up with streamx.enabled = off: right as it stands, right when it goes on.
sub goes_on
{
	my ($node, $what) = @_;
	is(StreamCheck::all_differences($node), '', "$what: right before the first new batch");
	$node->set('streamx.enabled', 'on');
	$node->reload;
	my $from = StreamCheck::batches($node);
	$node->sql('CALL write_for_a_while(20, 0.01)');
	ok($node->poll("SELECT coalesce(sum(batch + 1), 0) >= $from + 3 FROM upto", 't', 60), "$what: the queries run again");
	is(StreamCheck::final_differences($node), '', "$what: goes on, and equals the batch answer at the end");
}

sub workers { my ($node) = @_; return $node->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'streamx.*(query|worker)'"); }

# ---------------------------------------------------------------- standbys
{
	my $primary = running_primary('primary', 'rocksdb');
	my $standby = $primary->base_backup('standby', standby => 1);
	$standby->start;
	my $lagging = $primary->base_backup('lagging', standby => 1);
	$lagging->start;
	more_batches($primary, 20);
	is(workers($standby), '0', 'no query runs on a standby');
	ok($lagging->poll("SELECT count(*) > 0 FROM upto"), 'the standby that will lag has some batches');
	$lagging->stop;
	more_batches($primary, 20);
	$primary->stop_background($primary->{writer});
	$primary->kill9;

	for my $node ($standby, $lagging)
	{
		$node->stop if $node->is_up;
		$node->set('streamx.enabled', 'off');
		$node->start;
		$node->promote;
		ok($node->poll('SELECT NOT pg_is_in_recovery()'), "$node->{name} is promoted");
		goes_on($node, "promoted $node->{name}");
		$node->remove;
	}
	$primary->remove;
}

# ---------------------------------------------------------------- a point in time
{
	my $archive = SxCluster::base_dir() . '/archive';
	mkdir $archive;
	chown((getpwnam('postgres'))[ 2, 3 ], $archive) if $> == 0;
	my $node = running_primary('archived', 'rocksdb', 'archive_mode = on', "archive_command = 'cp %p $archive/%f'");
	StreamCheck::set_up_outside($node);
	$node->sql("SELECT start_query('outside')");
	more_batches($node, 10);
	my $restored = $node->base_backup('restored');
	more_batches($node, 15);
	$node->sql("SELECT pg_create_restore_point('mid')");
	more_batches($node, 15);
	$node->sql('SELECT pg_switch_wal()');
	$node->stop_background($node->{writer});
	$node->stop;

	$restored->append_conf("archive_mode = off", "restore_command = 'cp $archive/%f %p'", "recovery_target_name = 'mid'",
		"recovery_target_action = 'promote'", "streamx.enabled = off");
	open my $f, '>', "$restored->{data}/recovery.signal";
	close $f;
	chown((getpwnam('postgres'))[ 2, 3 ], "$restored->{data}/recovery.signal") if $> == 0;
	$restored->start;
	ok($restored->poll('SELECT NOT pg_is_in_recovery()'), 'recovery to the point in mid-run ends');
	cmp_ok(StreamCheck::batches($restored), '<', 'inf', 'the restored server has a checkpoint');
	goes_on($restored, 'point-in-time recovery');

	# the files did not go back: they are ahead of the checkpoint
	my $list = sub { join ' ', sort map { s{.*/}{}r } glob("$node->{outside}/*") };
	my $files = $list->();
	ok($restored->poll("SELECT state = 'sink_ahead' FROM streamx.queries WHERE name = 'outside'", 't', 30),
		'a sink outside that is ahead of the checkpoint stops its query');
	$restored->sql('CALL write_for_a_while(10, 0.01)');
	is($list->(), $files, 'and nothing is written to it');
	$restored->remove;
	$node->remove;
}

# ---------------------------------------------------------------- a store of a lost history
for my $store ('rocksdb')
{
	my $node = running_primary('history', $store);
	my $stores = "$node->{data}/streamx";
	more_batches($node, 10);
	$node->stop_background($node->{writer});
	StreamCheck::stop_all($node);
	$node->stop;
	is(system('cp', '-a', $node->{data}, "$node->{dir}/then"), 0, 'a cold copy is taken');

	# the history that will be lost: its stores are kept
	$node->start;
	StreamCheck::start_all($node);
	$node->sql('CALL write_for_a_while(60, 0.01)');
	StreamCheck::drain($node);
	my $lost = StreamCheck::batches($node);
	StreamCheck::stop_all($node);
	$node->stop;
	ok(-d $stores, 'the stores lie in the data directory');
	is(system('cp', '-a', $stores, "$node->{dir}/stores_of_lost_history"), 0, 'its stores are kept');

	# back to the copy, another history with at least as many batches, and the wrong stores beneath it
	system('rm', '-rf', $node->{data});
	rename "$node->{dir}/then", $node->{data} or die "rename: $!";
	$node->start;
	StreamCheck::start_all($node);
	until (StreamCheck::batches($node) >= $lost)
	{
		$node->sql('CALL write_for_a_while(10, 0)');
		StreamCheck::drain($node);
	}
	StreamCheck::stop_all($node);
	$node->stop;
	system('rm', '-rf', $stores);
	is(system('cp', '-a', "$node->{dir}/stores_of_lost_history", $stores), 0, 'the stores of the lost history lie there now');
	$node->set('streamx.enabled', 'off');
	$node->start;
	StreamCheck::start_all($node);
	goes_on($node, "$store of a lost history");

	# and no store at all
	StreamCheck::stop_all($node);
	$node->stop;
	system('rm', '-rf', $stores);
	$node->set('streamx.enabled', 'off');
	$node->start;
	StreamCheck::start_all($node);
	goes_on($node, "deleted $store");
	$node->remove;
}

done_testing();
