#!/usr/bin/env bash
# suite.sh name: one suite of check.sh, as the server's user, in the copied tree.
# Ends with "SUITE passed failed skipped"; check.sh adds them up.
set -u
. "$(dirname "$0")/lib.sh"
unset PGHOST PGPORT PGUSER PGDATABASE PGDATA PGOPTIONS PGSERVICE
find_pg_config
cd "$top" || exit 1
pgxs=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")	# .../pgxs/src
export LC_ALL=C.UTF-8 PATH="$PG_BIN:$PATH"

names() { local f; for f in "$@"; do [ -e "$f" ] && basename "${f%.*}"; done; }

# Counts the lines of TAP in files; indented subtests belong to their test.
count_tap()
{
	cat "$@" 2>/dev/null | awk '
		/^not ok/ && /# *TODO/ { skip++; next }
		/^ok [0-9].*# *[Ss][Kk][Ii][Pp]/ { skip++; next }
		/^ok [0-9]/ { ok++ } /^not ok/ { bad++ }
		END { print ok+0, bad+0, skip+0 }'
}

# What pg_regress found: a pgTAP file counts as its assertions, others as one.
count_regress()
{
	local out=$1 diffs=$2 name p=0 f=0 s=0 a b c
	shift 2
	for name in "$@"; do
		read -r a b c < <(sed 's/^ //' "$out/results/$name.out" 2>/dev/null | count_tap /dev/stdin)
		if grep -qE "(^|/)$name\.out" "$diffs" 2>/dev/null || [ ! -f "$out/results/$name.out" ]; then
			[ "$b" = 0 ] && b=1
			echo "FAIL $name"
		elif [ $((a + b + c)) = 0 ]; then
			a=1
		fi
		p=$((p + a)) f=$((f + b)) s=$((s + c))
	done
	echo "SUITE $p $f $s"
}

# The server's own program, or Debian's where that is missing or does not start (the
# wheel's of 18 crashes): they only run initdb, postgres and psql of $PG_BIN.
tester()
{
	local p

	for p in "$pgxs/test/$1" "/usr/lib/postgresql/15/lib/pgxs/src/test/$1"; do
		"$p" --version >/dev/null 2>&1 && break
	done
	echo "$p"
}

# Under the sanitizer: more time for a script, and palloc() that it can look into.
if [ -n "${SX_ASAN:-}" ]; then
	export SX_TEST_LIMIT=3000 SX_PRELOAD=streamx_memory_test
	sed -i "s/^shared_preload_libraries = '/&$SX_PRELOAD, /" test/streamx.conf
fi

suite_lint()
{
	test/lint/run --tap | tee lint.out
	echo "SUITE $(count_tap lint.out)"
}

suite_regress()
{
	local tests=$(names test/sql/*.sql)

	[ -n "$tests" ] || { echo "SUITE 0 0 0"; return; }
	"$(tester regress/pg_regress)" --bindir="$PG_BIN" --inputdir=test --outputdir=. \
		--temp-instance="$WORK/regress" --temp-config=test/streamx.conf --no-locale --encoding=UTF8 \
		--load-extension=pgtap --load-extension=streamx --dbname=contrib_regression $tests
	cat regression.diffs 2>/dev/null
	count_regress . regression.diffs $tests
}

suite_isolation()
{
	local tests=$(names test/specs/*.spec)

	[ -n "$tests" ] || { echo "SUITE 0 0 0"; return; }
	mkdir -p output_iso && ln -sfn ../expected output_iso/expected
	"$(tester isolation/pg_isolation_regress)" --bindir="$PG_BIN" --inputdir=test --outputdir=output_iso \
		--temp-instance="$WORK/isolation" --temp-config=test/streamx.conf --no-locale --encoding=UTF8 \
		--load-extension=streamx --dbname=isolation_regression $tests
	cat output_iso/regression.diffs 2>/dev/null
	count_regress output_iso output_iso/regression.diffs $tests
}

# Whole servers; each script has its own and may take five minutes.
run_perl()
{
	local out=$WORK/prove.$BASHPID

	[ $# != 0 ] || { echo "SUITE 0 0 0"; return; }
	PG_BIN=$PG_BIN SX_TMP=$WORK/tap prove -v --timer --merge -I test/t \
		--exec "timeout -k 10 ${SX_TEST_LIMIT:-300} perl -I test/t" "$@" 2>&1 | tee "$out"
	local rc=${PIPESTATUS[0]} p f s
	read -r p f s < <(sed 's/^\[[0-9:]*\] //' "$out" | count_tap /dev/stdin)
	# a script that died counts once, though none of its tests failed
	f=$((f + $(grep -cE '\(Wstat: [1-9].*Failed: 0\)' "$out")))
	[ "$rc" != 0 ] && [ "$f" = 0 ] && f=1
	echo "SUITE $p $f $s"
}

suite_upgrade() { run_perl test/t/dump_upgrade.pl; }

# All scripts, or those named in TESTS.
suite_tap()
{
	local wanted=${TESTS:-.*}

	run_perl $(ls test/t/*.pl 2>/dev/null | grep -v -e '/crash_matrix.pl$' -e '/kafka_' | grep -E "/(${wanted// /|})\.pl$")
}

# What needs a real broker; one is shared by the scripts that don't want their own.  They
# wait more than they work, so every other one goes into a second lane.
suite_kafka()
{
	local wanted=${TESTS:-.*} lane all=() pids=()

	export SX_KAFKA_DIR=$WORK/kafka SX_KAFKA_TIER=1
	test/harness/kafka.sh start "$SX_KAFKA_DIR" || exit 1
	# starting a broker takes its time on a small machine, and some scripts start several
	SX_TEST_LIMIT=${SX_TEST_LIMIT:-600}
	# the longest first
	all=($(ls -S test/t/kafka_*.pl 2>/dev/null | grep -E "/(${wanted// /|})\.pl$"))
	for lane in 0 1; do
		run_perl $(for ((i = lane; i < ${#all[@]}; i += 2)); do echo "${all[i]}"; done) >"$WORK/kafka.lane$lane" &
		pids+=($!)
	done
	wait "${pids[@]}"
	grep -hv '^SUITE ' "$WORK"/kafka.lane[01]
	test/harness/kafka.sh stop "$SX_KAFKA_DIR" -9
	awk '/^SUITE / { p += $2; f += $3; s += $4 } END { print "SUITE", p + 0, f + 0, s + 0 }' "$WORK"/kafka.lane[01]
}

suite_crash()
{
	[ -n "${SX_CRASH_LONG:-}" ] && SX_TEST_LIMIT=14000 || SX_TEST_LIMIT=${SX_TEST_LIMIT:-400}
	run_perl $(ls test/t/crash_matrix.pl ${SX_CRASH_LONG:+test/t/kafka_crash.pl} 2>/dev/null)
}

suite_oracle()
{
	mkdir -p "$WORK/oracle"
	start_cluster "$WORK/oracle" "fsync = off" "streamx.max_failures_in_a_row = 1" "max_connections = 50" || exit 1
	local form forms= p=0 f=0 s=0

	[ -z "${SX_ORACLE_LONG:-}" ] || forms="--restart-between-steps,--state-memory=1MB --reverse --sink=table"
	for form in --suite $forms; do
		echo "oracle: ${form//,/ }"
		"$PYTHON" test/oracle/run.py --jobs 4 --store "${STORES:-rocksdb,table}" --suite ${form//,/ } ${CASES:-test/oracle/cases} |
			tee oracle.out
		read -r passed failed skipped < <(sed -n 's/^SUITE //p' oracle.out)
		p=$((p + ${passed:-0})) f=$((f + ${failed:-1})) s=$((s + ${skipped:-0}))
		passed= failed= skipped=
	done
	echo "SUITE $p $f $s"
	[ $f = 0 ]
}

# Random queries and trouble: a hundred, or as many as fit into a minute.
suite_property()
{
	mkdir -p "$WORK/property"
	start_cluster "$WORK/property" "fsync = off" "max_connections = 50" "autovacuum = off" || exit 1
	"$PYTHON" test/property/run.py --suite ${SX_PROPERTY:---runs 100 --seconds 60}
}

suite_docs()
{
	mkdir -p "$WORK/docs"
	start_cluster "$WORK/docs" "fsync = off" || exit 1
	"$PYTHON" test/docs/run.py README.md $(find docs -name '*.md' | sort) | tee docs.out
	echo "SUITE $(count_tap docs.out)"
}

suite_valgrind() { bash test/harness/valgrind.sh; }

"suite_$1"
