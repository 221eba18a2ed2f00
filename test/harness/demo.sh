#!/usr/bin/env bash
# demo.sh: from an empty Debian 12 to a running continuous query, to look at.
# With KAFKA=1 its rows come as JSON from a topic of a private Kafka broker.
# Ctrl-C removes the server and its folder.  Without a terminal it shows a few
# refreshes and ends by itself.
set -u
. "$(dirname "$0")/lib.sh"
unset PGHOST PGPORT PGUSER PGDATABASE PGDATA PGOPTIONS PGSERVICE

kafka=
case ${KAFKA:-} in ''|0|no) ;; *) kafka=$top/test/harness/kafka.sh ;; esac

writer=
finish()
{
	trap '' INT TERM HUP
	[ -z "$writer" ] || kill -- "$writer" 2>/dev/null
	clean_up
}
trap 'finish; printf "\nThe server is stopped and its folder removed.\n"; exit 0' INT TERM HUP
trap finish EXIT

say "streamx demo"
need_packages $BUILD_PACKAGES ${kafka:+$KAFKA_PACKAGES}
find_pg_config
if [ -n "$kafka" ]; then
	say "Kafka: downloading the broker, if it is not there"
	"$kafka" fetch >/dev/null || fail "there is no broker to show"
fi

# One at a time: two demos, or a demo and a check, may run in one tree.
exec 9>"$top/.build.lock"
flock 9
say "building for $("$PG_CONFIG" --version)"
build_log=$(mktemp)
if ! make -s -C "$top" -j2 all PG_CONFIG="$PG_CONFIG" >"$build_log" 2>&1 9>&-; then
	tail -30 "$build_log" >&2
	rm -f "$build_log"
	fail "the build failed"
fi
say "installing into $("$PG_CONFIG" --pkglibdir)"
if ! as_root make -s -C "$top" install PG_CONFIG="$PG_CONFIG" >"$build_log" 2>&1 9>&-; then
	tail -30 "$build_log" >&2
	rm -f "$build_log"
	fail "the installation failed"
fi
rm -f "$build_log"
exec 9>&-

make_work demo
say "starting a private PostgreSQL in $WORK"
start_cluster "$WORK" "shared_buffers = 64MB" || fail "PostgreSQL does not start"
sql() { "$PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 "$@"; }

if [ -n "$kafka" ]; then
	say "starting a private Kafka broker in $WORK/broker"
	"$kafka" start "$WORK/broker" && "$kafka" tool "$WORK/broker" create clicks 4 || fail "Kafka does not start"
	stream="CREATE SERVER broker FOREIGN DATA WRAPPER streamx_kafka
    OPTIONS (bootstrap_servers '$("$kafka" address "$WORK/broker")');

CREATE STREAM clicks (
    user_id bigint, url text, ts timestamptz,
    WATERMARK FOR ts AS ts - INTERVAL '2 seconds')
    SERVER broker OPTIONS (topic 'clicks', format 'json', starting_offsets 'earliest');"
else
	stream="CREATE STREAM clicks (
    user_id bigint, url text, ts timestamptz,
    WATERMARK FOR ts AS ts - INTERVAL '2 seconds');"
fi
statements=$(cat <<SQL
CREATE EXTENSION streamx;

$stream

SELECT create_query('clicks_per_url', \$\$
    SELECT tumble(ts, '10 seconds') AS w, url, count(*) AS n, count(DISTINCT user_id) AS users
    FROM clicks GROUP BY w, url \$\$,
    sink => 'clicks_per_url', output_mode => 'update');

SELECT start_query('clicks_per_url');
SQL
)
say ""
say "$statements" | sed 's/^/    /'
PGOPTIONS='-c client_min_messages=warning' sql -o /dev/null <<<"$statements" || fail "the query could not be made"

# People clicking: some hundred rows a second.
write_sql()		# in small transactions
{
	sql <<'SQL'
CREATE PROCEDURE click(seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + seconds * interval '1 second';
BEGIN
	WHILE clock_timestamp() < until LOOP
		INSERT INTO clicks
		SELECT (random() * 500)::bigint, '/' || (ARRAY['home', 'docs', 'blog', 'cart'])[1 + floor(random() * random() * 4)::int],
			clock_timestamp() - random() * interval '1 second'
		FROM generate_series(1, 10 + (random() * 30)::int);
		COMMIT;
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
SQL
	while [ -d "$WORK" ]; do sql -c "CALL click(5)" >/dev/null 2>&1 || sleep 1; done
}

write_kafka()	# as JSON into the topic, keyed by the user
{
	perl -e '
		use Time::HiRes qw(time sleep); use POSIX qw(strftime);
		$| = 1;
		while (1) {
			for (1 .. 10 + rand 30) {
				my ($user, $t) = (int(rand 500), time - rand);
				printf "%d\t{\"user_id\":%d,\"url\":\"/%s\",\"ts\":\"%s.%03dZ\"}\n", $user, $user,
					(qw(home docs blog cart))[rand() * rand() * 4], strftime("%Y-%m-%dT%H:%M:%S", gmtime $t), 1000 * ($t - int $t);
			}
			sleep 0.05;
		}' | "$kafka" tool "$WORK/broker" produce -t clicks -k "$(printf '\t')" >/dev/null 2>&1
}

set -m			# a group of its own, to be ended as a whole
if [ -n "$kafka" ]; then write_kafka & else write_sql & fi
writer=-$!
set +m

screen()
{
	sql -P pager=off -P footer=off <<'SQL' 2>&1
\echo SELECT * FROM clicks_per_url: the last windows, always consistent
SELECT to_char(lower(w), 'HH24:MI:SS') AS from, to_char(upper(w), 'HH24:MI:SS') AS until, url, n, users
FROM clicks_per_url ORDER BY w DESC, n DESC LIMIT 8;
\echo streamx.queries: the query, as it runs
SELECT name, state, batch_id AS batch, to_char(watermark, 'HH24:MI:SS') AS watermark, input_rows,
	round(extract(epoch FROM batch_duration) * 1000) AS "ms/batch",
	state_rows AS state, late_rows AS late, last_error
FROM streamx.queries;
SQL
	[ -z "$kafka" ] || say "records in the topic: $("$kafka" tool "$WORK/broker" offsets clicks | awk '{ n += $3 - $2 } END { print n }')"
	say "Another terminal:  $PG_BIN/psql -h $WORK -U postgres"
}

if [ -t 1 ]; then
	while :; do
		text=$(screen)
		printf '\033[H\033[J%s\nCtrl-C ends the demo and removes everything.\n' "$text"
		sleep 1 & wait $!
	done
else
	for i in 1 2 3 4; do
		sleep 2 & wait $!
		say ""
		say "--- refresh $i of 4"
		text=$(screen)
		say "$text"
	done
	state=$(sql -At -c "SELECT state FROM streamx.queries WHERE name = 'clicks_per_url'")
	rows=$(sql -At -c "SELECT count(*) FROM clicks_per_url")
	[ "$state" = running ] && [ "$rows" -gt 0 ] || fail "the query is $state with $rows result rows"
	say ""
	say "The query ran; the server is stopped and its folder removed."
fi
