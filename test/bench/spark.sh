#!/usr/bin/env bash
# spark.sh: Apache Spark for the comparison, kept in the cache: pyspark in a Python
# environment of its own, and the connectors for Kafka and PostgreSQL.
#
#	spark.sh fetch		downloads it once (pip and mvn), about 700 MB
#	spark.sh python		prints the Python to run Spark's programs with
#	spark.sh jars		prints the connectors, separated by commas
set -u

VERSION=4.2.0
JDBC=42.7.8
HOME_OF_SPARK=${SX_SPARK:-${XDG_CACHE_HOME:-$HOME/.cache}/streamx/spark-$VERSION}

fail() { printf 'spark: %s\n' "$*" >&2; exit 1; }

complete() { [ -f "$HOME_OF_SPARK/complete" ]; }

dependency() # group artifact version exclusion...
{
	local group=$1 artifact=$2 version=$3 e
	shift 3

	echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version><exclusions>"
	for e in "$@"; do
		echo "<exclusion><groupId>${e%%:*}</groupId><artifactId>${e##*:}</artifactId></exclusion>"
	done
	echo "</exclusions></dependency>"
}

# What pyspark brings itself is left out: two versions of one library in a JVM bite.
fetch_connectors()
{
	local work=$1 jars=$1/jars own j

	{
		echo "<project><modelVersion>4.0.0</modelVersion><groupId>streamx</groupId><artifactId>spark</artifactId>"
		echo "<version>1</version><packaging>pom</packaging><dependencies>"
		dependency org.apache.spark spark-sql-kafka-0-10_2.13 $VERSION 'org.scala-lang:*' 'org.apache.hadoop:*' \
			'org.slf4j:*' org.apache.spark:spark-sql_2.13 org.apache.spark:spark-tags_2.13
		dependency org.postgresql postgresql $JDBC '*:*'
		echo "</dependencies></project>"
	} >"$work/pom.xml"
	(cd "$work" && mvn -q -B -f pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$jars") \
		>"$work/mvn.log" 2>&1 || { tail -5 "$work/mvn.log" >&2; return 1; }
	own=$(echo "$work"/venv/lib/python3*/site-packages/pyspark/jars)
	[ -d "$own" ] || return 1
	ls "$own" | sed -E 's/-[0-9][0-9A-Za-z.-]*\.jar$//' | sort -u >"$work/own"
	for j in "$jars"/*.jar; do
		basename "$j" | sed -E 's/-[0-9][0-9A-Za-z.-]*\.jar$//' | grep -qxFf "$work/own" && rm "$j"
	done
	ls "$jars"/spark-sql-kafka-*.jar "$jars"/postgresql-*.jar >/dev/null
}

# Whoever comes first downloads; a download that ended half-way is begun anew.
fetch()
{
	complete && return 0
	[ -z "${SX_SPARK:-}" ] || fail "no Spark in SX_SPARK=$SX_SPARK"
	command -v mvn >/dev/null 2>&1 || fail "mvn is missing: install package maven"
	mkdir -p "${HOME_OF_SPARK%/*}" || fail "cannot write ${HOME_OF_SPARK%/*}"
	exec 8>"$HOME_OF_SPARK.lock"
	flock 8
	if ! complete; then
		rm -rf "$HOME_OF_SPARK"
		mkdir "$HOME_OF_SPARK" || fail "cannot write ${HOME_OF_SPARK%/*}"
		{
			/usr/bin/python3 -m venv "$HOME_OF_SPARK/venv" &&
			"$HOME_OF_SPARK/venv/bin/pip" install -q "pyspark==$VERSION"
		} >"$HOME_OF_SPARK/pip.log" 2>&1 8>&- || { tail -5 "$HOME_OF_SPARK/pip.log" >&2; fail "pip could not install pyspark $VERSION"; }
		fetch_connectors "$HOME_OF_SPARK" 8>&- || fail "mvn could not download Spark's connectors"
		touch "$HOME_OF_SPARK/complete"
	fi
	flock -u 8
}

case ${1:-} in
	fetch)  fetch ;;
	python) echo "$HOME_OF_SPARK/venv/bin/python" ;;
	jars)   ls "$HOME_OF_SPARK"/jars/*.jar | paste -sd, ;;
	*)      sed -n '2,/^set -u/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
