#!/usr/bin/env bash
# kafka.sh: a private Apache Kafka broker (KRaft, one node) for tests, demo and bench.
#
#	kafka.sh fetch					downloads the broker once, into the cache; prints its folder
#	kafka.sh start DIR [option...]	starts a broker that keeps everything in DIR
#	kafka.sh stop DIR [-9]			ends it, by its pid; its data stays, a start goes on with it
#	kafka.sh address DIR [LISTENER]	where it listens: plaintext, ssl, sasl_plaintext, sasl_ssl
#	kafka.sh tool DIR arg...		runs kafkatool (topics, records) on the broker
#
# Options of start:
#	--port N		listens on N (and N+1 for the controller; N+2 to N+4 if secure);
#					without it free ports are found, and kept for later starts
#	--secure		also listens with TLS and SASL; makes certificates in DIR/tls;
#					users are those of --user; OAUTHBEARER takes any token, also without signature
#	--user NAME:PASSWORD	a user of SASL (SCRAM-SHA-256, SCRAM-SHA-512 and PLAIN); repeatable
#	--heap SIZE		memory of the broker, default 512m
#	--wait SECONDS	until it answers, default 90
#	NAME=VALUE		a property of the broker
#
# SX_KAFKA_VERSION is the version of the broker, SX_KAFKA_CACHE a folder of downloads to take
# it from.  Several brokers may run, each in its folder.  Works as root and as another user.
# A broker that does not come up is an error, shown with the end of its log.
set -u

VERSION=${SX_KAFKA_VERSION:-4.2.0}
CACHE=${SX_KAFKA_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/streamx}
JARS=$CACHE/kafka-$VERSION
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# KRaft wants an id; brokers never meet, so all have the same.
CLUSTER_ID=c3RyZWFteC10ZXN0cy0wMQ

fail() { printf 'kafka: %s\n' "$*" >&2; exit 1; }

# ---------------------------------------------------------------- the program

# slf4j-simple is what makes the broker say on stderr why it does not start.
have_jars() { [ -f "$JARS/kafka_2.13-$VERSION.jar" ] && ls "$JARS"/slf4j-simple-*.jar >/dev/null 2>&1; }

# Whoever comes first downloads, into a folder of its own that takes the name when complete.
fetch()
{
	local work log

	have_jars && return 0
	[ -z "${SX_KAFKA_CACHE:-}" ] || fail "no broker in $JARS"
	command -v mvn >/dev/null 2>&1 || fail "mvn is missing: install package maven"
	mkdir -p "${JARS%/*}" || fail "cannot write ${JARS%/*}"
	exec 8>"$JARS.lock"
	flock 8
	if ! have_jars; then
		work=$(mktemp -d "$JARS.XXXXXX") || fail "cannot write ${JARS%/*}"
		log=$work/mvn.log
		cat >"$work/pom.xml" <<-XML
		<project>
		  <modelVersion>4.0.0</modelVersion>
		  <groupId>streamx</groupId><artifactId>broker</artifactId><version>1</version>
		  <packaging>pom</packaging>
		  <dependencies>
		    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$VERSION</version></dependency>
		    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
		  </dependencies>
		</project>
		XML
		if ! (cd "$work" && mvn -q -B -f pom.xml dependency:copy-dependencies \
			-DincludeScope=runtime -DoutputDirectory="$work/jars") >"$log" 2>&1 8>&-
		then
			tail -5 "$log" >&2
			rm -rf "$work"
			fail "mvn could not download org.apache.kafka:kafka_2.13:$VERSION"
		fi
		rm -rf "$JARS"
		mv "$work/jars" "$JARS" && rm -rf "$work"
		chmod -R a+rX "$JARS"
	fi
	flock -u 8
	exec 8>&-
	have_jars || fail "the download is not complete: $JARS"
}

find_java()
{
	local j

	for j in "${JAVA_HOME:-/usr/lib/jvm/java-17-openjdk-amd64}/bin/java" "$(command -v java)"; do
		[ -x "$j" ] && { JAVA=$j; return; }
	done
	fail "java is missing: install package openjdk-17-jre-headless"
}

# A short life is not worth the second compiler.
java_short() { "$JAVA" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xmx128m -cp "$JARS/*" "$@"; }

# ---------------------------------------------------------------- where it listens

is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Five neighbours below the range from which the system gives ports to clients.
find_ports()
{
	local try base p ok

	for try in $(seq 50); do
		base=$((10000 + (RANDOM % 4000) * 5))
		# two that start at once must not choose the same ones
		mkdir "/tmp/streamx-kafka-port.$base" 2>/dev/null || {
			# left behind by one who was killed
			[ -n "$(find "/tmp/streamx-kafka-port.$base" -maxdepth 0 -mmin +2 2>/dev/null)" ] &&
				rmdir "/tmp/streamx-kafka-port.$base" 2>/dev/null
			continue
		}
		RESERVED=/tmp/streamx-kafka-port.$base
		ok=1
		for p in 0 1 2 3 4; do is_free $((base + p)) || ok=; done
		[ -n "$ok" ] && { PORT=$base; return; }
		rmdir "$RESERVED"; RESERVED=
	done
	fail "no free ports"
}

# ---------------------------------------------------------------- certificates

# DIR/tls: ca.pem, broker.pem (key, certificate, authority), client.pem and client.key.
make_certificates()
{
	local tls=$1 name

	[ -f "$tls/broker.pem" ] && return 0
	mkdir -p "$tls"
	{
		openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=streamx test authority" \
			-keyout "$tls/ca.key" -out "$tls/ca.pem" &&
		for name in broker client; do
			openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$tls/$name.key" -out "$tls/$name.csr" &&
			openssl x509 -req -days 2 -in "$tls/$name.csr" -CA "$tls/ca.pem" -CAkey "$tls/ca.key" -CAcreateserial \
				-extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1") -out "$tls/$name.crt" || exit 1
		done
		# a key whose password is "opensesame", to be told apart from one without
		openssl pkcs8 -topk8 -in "$tls/client.key" -out "$tls/client.protected.key" -passout pass:opensesame
	} >"$tls/openssl.log" 2>&1 || { tail -5 "$tls/openssl.log" >&2; fail "openssl could not make certificates"; }
	cat "$tls/broker.key" "$tls/broker.crt" "$tls/ca.pem" >"$tls/broker.pem"
}

# ---------------------------------------------------------------- start

jaas_plain()
{
	local u

	printf 'org.apache.kafka.common.security.plain.PlainLoginModule required'
	# once for the line of JAAS, once for the file of properties
	for u in "${USERS[@]}"; do printf ' user_%s="%s"' "${u%%:*}" "$(sed 's/["\\]/\\\\&/g' <<<"${u#*:}")"; done
	printf ';'
}

write_properties()
{
	local dir=$1 port=$PORT mechanism listener
	local listeners=PLAINTEXT://127.0.0.1:$port advertised

	[ -z "$SECURE" ] ||
		listeners="$listeners,SSL://127.0.0.1:$((port + 2)),SASL_PLAINTEXT://127.0.0.1:$((port + 3)),SASL_SSL://127.0.0.1:$((port + 4))"
	advertised=$listeners
	cat <<-P
	process.roles=broker,controller
	node.id=1
	controller.quorum.voters=1@127.0.0.1:$((port + 1))
	controller.listener.names=CONTROLLER
	listeners=$listeners,CONTROLLER://127.0.0.1:$((port + 1))
	advertised.listeners=$advertised
	inter.broker.listener.name=PLAINTEXT
	listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
	log.dirs=$dir/data
	num.partitions=4
	offsets.topic.replication.factor=1
	offsets.topic.num.partitions=4
	transaction.state.log.replication.factor=1
	transaction.state.log.min.isr=1
	transaction.state.log.num.partitions=4
	log.retention.hours=-1
	log.segment.bytes=268435456
	auto.create.topics.enable=false
	group.initial.rebalance.delay.ms=0
	num.network.threads=2
	num.io.threads=2
	P
	if [ -n "$SECURE" ]; then
		cat <<-P
		ssl.keystore.type=PEM
		ssl.keystore.location=$dir/tls/broker.pem
		ssl.truststore.type=PEM
		ssl.truststore.location=$dir/tls/ca.pem
		ssl.client.auth=requested
		sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
		P
		# OAUTHBEARER: by default the broker takes tokens without a signature
		for listener in sasl_plaintext sasl_ssl; do
			echo "listener.name.$listener.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
			echo "listener.name.$listener.plain.sasl.jaas.config=$(jaas_plain)"
			for mechanism in scram-sha-256 scram-sha-512; do
				echo "listener.name.$listener.$mechanism.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;"
			done
		done
	fi
	for listener in "${PROPERTIES[@]}"; do echo "$listener"; done
}

running()	# DIR: is its broker alive?  A pid may be another's by now.
{
	local pid

	read -r pid 2>/dev/null <"$1/broker.pid" || return 1
	[ -d "/proc/$pid" ] && tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$1/server.properties"
}

# The first error says why, the last lines what became of it.
show_log() { { grep -m1 -A4 -E ' (ERROR|FATAL) |Error|Exception' "$1/broker.log"; echo ...; tail -5 "$1/broker.log"; } | sed 's/^/    /' >&2; }

# Without users all folders are alike, so the first one is kept for the next ones: the
# program that makes it takes longer than the broker itself.
format()
{
	local dir=$1 u scram=() made=$JARS.formatted

	[ -f "$dir/data/meta.properties" ] && return
	if [ ${#USERS[@]} = 0 ] && [ -f "$made/meta.properties" ]; then
		rm -rf "$dir/data" && cp -r "$made" "$dir/data" && return
		rm -rf "$dir/data"
	fi
	for u in "${USERS[@]}"; do
		scram+=(--add-scram "SCRAM-SHA-256=[name=${u%%:*},password=${u#*:}]"
			--add-scram "SCRAM-SHA-512=[name=${u%%:*},password=${u#*:}]")
	done
	java_short kafka.tools.StorageTool format -t $CLUSTER_ID -c "$dir/server.properties" "${scram[@]}" \
		>"$dir/format.log" 2>&1 || { tail -5 "$dir/format.log" >&2; fail "the broker's folder could not be made"; }
	if [ ${#USERS[@]} = 0 ] && [ -w "${JARS%/*}" ]; then
		cp -r "$dir/data" "$made.$$" 2>/dev/null && mv -T "$made.$$" "$made" 2>/dev/null || rm -rf "$made.$$"
	fi
}

start()
{
	local dir=$1 heap=512m wait=90 pid begin i
	shift

	PORT= SECURE= USERS=() PROPERTIES=() RESERVED=
	while [ $# != 0 ]; do
		case $1 in
			--port)   PORT=$2; shift ;;
			--secure) SECURE=1 ;;
			--user)   USERS+=("$2"); shift ;;
			--heap)   heap=$2; shift ;;
			--wait)   wait=$2; shift ;;
			*=*)      PROPERTIES+=("$1") ;;
			*)        fail "unknown option of start: $1" ;;
		esac
		shift
	done
	fetch
	find_java
	mkdir -p "$dir" || fail "cannot write $dir"
	running "$dir" && return 0
	if [ -f "$dir/server.properties" ] && [ -z "$PORT$SECURE${USERS[*]}${PROPERTIES[*]}" ]; then
		PORT=$(cat "$dir/port")		# goes on as it was
	else
		[ -n "$PORT" ] || { [ -f "$dir/port" ] && PORT=$(cat "$dir/port"); } || find_ports
		[ -z "$SECURE" ] || make_certificates "$dir/tls"
		write_properties "$dir" >"$dir/server.properties" || fail "cannot write $dir"
		chmod 600 "$dir/server.properties"
		echo "$PORT" >"$dir/port"
	fi
	format "$dir"

	# one that was killed may still be letting go of the port
	for i in $(seq 100); do is_free "$PORT" && break; sleep 0.1; done
	is_free "$PORT" || { [ -z "$RESERVED" ] || rmdir "$RESERVED"; fail "port $PORT is in use"; }

	# in a session of its own: a Ctrl-C at the test must not kill it before its data is closed
	(cd "$dir" && exec setsid "$JAVA" -Xms"$heap" -Xmx"$heap" -XX:+UseG1GC -XX:TieredStopAtLevel=${SX_KAFKA_TIER:-4} \
		-Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true \
		-cp "$JARS/*" kafka.Kafka "$dir/server.properties") >"$dir/broker.log" 2>&1 </dev/null 9>&- &
	pid=$!
	echo "$pid" >"$dir/broker.pid"
	begin=$SECONDS
	while is_free "$PORT"; do
		if ! kill -0 "$pid" 2>/dev/null; then
			[ -z "$RESERVED" ] || rmdir "$RESERVED"
			show_log "$dir"
			fail "the broker ended while starting; its log is $dir/broker.log"
		fi
		if [ $((SECONDS - begin)) -ge "$wait" ]; then
			[ -z "$RESERVED" ] || rmdir "$RESERVED"
			kill -9 "$pid"
			show_log "$dir"
			fail "the broker did not come up within $wait s; its log is $dir/broker.log"
		fi
		sleep 0.2
	done
	[ -z "$RESERVED" ] || rmdir "$RESERVED"
	return 0
}

stop()
{
	local dir=$1 pid i

	running "$dir" || { rm -f "$dir/broker.pid"; return 0; }
	read -r pid <"$dir/broker.pid"
	if [ "${2:-}" != -9 ]; then
		kill "$pid" 2>/dev/null
		for i in $(seq 100); do running "$dir" || break; sleep 0.1; done
	fi
	kill -9 "$pid" 2>/dev/null
	for i in $(seq 50); do running "$dir" || break; sleep 0.1; done
	rm -f "$dir/broker.pid"
}

address()
{
	local port

	[ -f "$1/port" ] || fail "no broker in $1"
	port=$(cat "$1/port")
	case ${2:-plaintext} in
		plaintext)      echo "127.0.0.1:$port" ;;
		ssl)            echo "127.0.0.1:$((port + 2))" ;;
		sasl_plaintext) echo "127.0.0.1:$((port + 3))" ;;
		sasl_ssl)       echo "127.0.0.1:$((port + 4))" ;;
		*)              fail "unknown listener: $2" ;;
	esac
}

# Made by "make test-modules", too.
need_tool()
{
	[ "$here/kafkatool" -nt "$here/kafkatool.c" ] && return
	${CC:-cc} -O2 -Wall -o "$here/kafkatool.$$" "$here/kafkatool.c" -lrdkafka &&
		mv "$here/kafkatool.$$" "$here/kafkatool" || fail "kafkatool does not compile: install librdkafka-dev"
}

command=${1:-}
[ $# -gt 0 ] && shift
case $command in
	fetch)   fetch; echo "$JARS" ;;
	start)   [ $# -ge 1 ] || fail "start needs a folder"
	         mkdir -p "$1" && dir=$(cd "$1" && pwd) || fail "cannot write $1"
	         shift; start "$dir" "$@" ;;
	stop)    [ -d "${1:-}" ] || exit 0
	         stop "$(cd "$1" && pwd)" "${2:-}" ;;
	address) address "$@" ;;
	tool)    dir=$1; shift
	         address=$(address "$dir") || exit 1
	         need_tool
	         exec "$here/kafkatool" -b "$address" "$@" ;;
	*)       sed -n '2,/^set -u/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
