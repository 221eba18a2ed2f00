# lib.sh: what the demo and the tests share: packages, a private server, cleaning up.
# Sourced by bash scripts that have set -u; nothing here starts anything by itself.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say()  { printf '%s\n' "$*"; }
fail() { printf 'streamx: %s\n' "$*" >&2; exit 1; }

# ---------------------------------------------------------------- rights

# as_root cmd...: for apt-get and make install
as_root()
{
	if [ "$(id -u)" = 0 ]; then "$@"
	elif command -v sudo >/dev/null 2>&1; then sudo "$@"
	else fail "'$1' needs root: run this as root or install sudo"
	fi
}

# as_server cmd...: PostgreSQL refuses to run as root
as_server()
{
	if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$@")
	else "$@"
	fi
}

server_user() { if [ "$(id -u)" = 0 ]; then echo postgres; else id -un; fi; }

# ---------------------------------------------------------------- packages

# The one that the package python3-psycopg2 is for; others may come first in PATH.
export PYTHON=/usr/bin/python3

BUILD_PACKAGES="build-essential postgresql-15 postgresql-server-dev-15 librocksdb-dev libzstd-dev librdkafka-dev libcurl4-openssl-dev"
TEST_PACKAGES="postgresql-15-pgtap libipc-run-perl python3 python3-psycopg2 binutils git"
# a real broker: only for what reads or writes Kafka (test/harness/kafka.sh)
KAFKA_PACKAGES="openjdk-17-jre-headless maven openssl"

# need_packages pkg...: installs what is not there, and says so.  No cluster of
# Debian's own is made on the way: nothing shall run afterwards that did not before.
need_packages()
{
	local missing="" p dropin=/etc/postgresql-common/createcluster.d/streamx-setup.conf
	local rc=0

	[ -z "${SX_NO_PACKAGES:-}" ] || return 0
	for p in "$@"; do
		dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^ii' ||
			missing="$missing $p"
	done
	if [ -z "$missing" ]; then
		say "packages: all there"
		return 0
	fi
	say "packages: installing$missing (and what they need)"
	as_root mkdir -p "${dropin%/*}"
	echo "create_main_cluster = false" | as_root tee "$dropin" >/dev/null
	{
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update &&
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
			-o DPkg::Lock::Timeout=300 --no-install-recommends install $missing
	} >"${SX_APT_LOG:-/dev/null}" 2>&1 </dev/null || rc=1
	as_root rm -f "$dropin"
	as_root rmdir "${dropin%/*}" 2>/dev/null
	if [ $rc != 0 ]; then
		[ -n "${SX_APT_LOG:-}" ] && tail -20 "$SX_APT_LOG" >&2
		fail "apt-get could not install:$missing"
	fi
}

# The server to build for: PG_CONFIG if given, else 15 as Debian has it.
find_pg_config()
{
	[ -z "${PG_CONFIG:-}" ] || [ "$PG_CONFIG" = pg_config ] || [ -x "$PG_CONFIG" ] ||
		fail "PG_CONFIG=$PG_CONFIG is not there"
	if [ -z "${PG_CONFIG:-}" ] || [ "$PG_CONFIG" = pg_config ]; then
		PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config
		[ -x "$PG_CONFIG" ] || PG_CONFIG=$(command -v pg_config) ||
			fail "no pg_config: install postgresql-server-dev-15 or set PG_CONFIG"
	fi
	export PG_CONFIG
	PG_BIN=$("$PG_CONFIG" --bindir)
	[ -x "$PG_BIN/postgres" ] || fail "no server in $PG_BIN: install postgresql-15"
}

# ---------------------------------------------------------------- folders

# make_work name: a folder of this run, removed by clean_up.  Others that were
# left behind by a killed run are removed too: they say in "owner" who made them.
make_work()
{
	local old pid start

	for old in /tmp/streamx-"$1".??????; do
		[ -f "$old/owner" ] || continue
		read -r pid start <"$old/owner"
		[ "$(process_start "$pid")" = "$start" ] && continue
		remove_work "$old"
	done
	WORK=$(mktemp -d /tmp/streamx-"$1".XXXXXX) || fail "no temporary folder"
	echo "$$ $(process_start $$)" >"$WORK/owner"
	chmod 755 "$WORK"
	[ "$(id -u)" != 0 ] || chown postgres "$WORK"
}

# When a process was started, in clock ticks: pids come back, this does not.
process_start() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

remove_work()
{
	local pidfile

	for pidfile in $(find "$1" -name postmaster.pid 2>/dev/null); do
		stop_cluster "${pidfile%/*}"
	done
	for pidfile in $(find "$1" -name broker.pid 2>/dev/null); do
		"$top/test/harness/kafka.sh" stop "${pidfile%/*}" -9
	done
	rm -rf "$1" 2>/dev/null || as_root rm -rf "$1"
}

# For traps: leaves no process and no folder.
clean_up()
{
	[ -n "${WORK:-}" ] && [ -d "$WORK" ] && remove_work "$WORK"
	WORK=
}

# copy_tree dir: what is tracked, as it is now; a tree without git is copied whole.
copy_tree()
{
	if git -C "$top" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		(cd "$top" && git ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' f; do [ -e "$f" ] && printf '%s\0' "$f"; done |
			tar -cf - --null -T -) | tar -xf - -C "$1"
	else
		(cd "$top" && tar -cf - --exclude='*.o' --exclude='*.so' --exclude=.git .) | tar -xf - -C "$1"
	fi
}

# ---------------------------------------------------------------- server

# copy_server dir: a server of our own, so that a test build never becomes the
# installed release.  PostgreSQL finds its files relative to its programs.
copy_server()
{
	local opt dir

	for opt in bindir pkglibdir sharedir includedir; do
		dir=$("$PG_CONFIG" --$opt)
		mkdir -p "$1${dir%/*}"
		cp -a "$dir" "$1${dir%/*}/"
	done
	# a server that came as a Python wheel keeps its libraries beside the package
	for dir in "$("$PG_CONFIG" --bindir)"/../../../*.libs; do
		[ -d "$dir" ] || continue
		dir=$(cd "$dir" && pwd)
		mkdir -p "$1${dir%/*}"
		cp -a "$dir" "$1${dir%/*}/"
	done
	# one that brings its own libpq was built to live elsewhere
	dir=$1$("$PG_CONFIG" --libdir)
	[ ! -e "$dir/libpq.so.5" ] || export LD_LIBRARY_PATH=$dir
	PG_CONFIG=$1$PG_CONFIG
	PG_BIN=$1$PG_BIN
	export PG_CONFIG
}

# start_cluster dir [setting...]: initdb if need be, and start; listens on a socket in dir only.
# Sets PGHOST, PGPORT, PGUSER, PGDATABASE.
start_cluster()
{
	local data=$1/data sock=$1 s preload=streamx
	shift

	if [ ! -d "$data" ]; then
		as_server "$PG_BIN/initdb" -D "$data" -U postgres -A trust -E UTF8 \
			--locale=C.UTF-8 --no-sync >"$sock/initdb.log" 2>&1 ||
			{ tail -5 "$sock/initdb.log" >&2; return 1; }
		[ -f "$("$PG_CONFIG" --pkglibdir)/streamx_syntax.so" ] &&
			preload="streamx,streamx_syntax"
		{
			echo "listen_addresses = ''"
			echo "unix_socket_directories = '$sock'"
			echo "unix_socket_permissions = 0777"
			echo "port = 5432"
			echo "shared_preload_libraries = '$preload'"
			echo "max_worker_processes = 40"
			echo "timezone = 'UTC'"
			echo "log_timezone = 'UTC'"
			echo "log_line_prefix = '%m [%p] %b '"
			for s in "$@"; do echo "$s"; done
		} | as_server tee -a "$data/postgresql.conf" >/dev/null
	fi
	as_server "$PG_BIN/pg_ctl" -D "$data" -l "$sock/server.log" -w -t 60 start \
		>/dev/null 2>&1 || { tail -20 "$sock/server.log" >&2; return 1; }
	export PGHOST=$sock PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
}

# stop_cluster datadir: fast, then by force; only the server of that folder
stop_cluster()
{
	local pid

	[ -f "$1/postmaster.pid" ] || return 0
	pid=$(head -1 "$1/postmaster.pid")
	as_server "${PG_BIN:-/usr/lib/postgresql/15/bin}/pg_ctl" -D "$1" -m fast -w -t 20 stop >/dev/null 2>&1 && return 0
	as_server "${PG_BIN:-/usr/lib/postgresql/15/bin}/pg_ctl" -D "$1" -m immediate -w -t 20 stop >/dev/null 2>&1 && return 0
	[ -d "/proc/$pid" ] && as_server kill -9 "$pid" 2>/dev/null
	return 0
}
