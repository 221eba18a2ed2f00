"""
The workloads as a Spark user writes them; runs in Spark's own Python.

spark_job.py BROKERS JDBC_URL WORKLOAD SINK: says "@ready" with the JVM's pid; a line
on its input, "run" or "count", then has it say "@prepared", the next one starts the
query, and "@done" comes when it has ended.  The second run in one process is warm.
"""
import json
import os
import shutil
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

BROKERS, JDBC_URL, WORKLOAD, SINK = sys.argv[1:5]
DELAY = os.environ["DELAY"]
MAX_OFFSETS = 500000
BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time BIGINT, extra STRING"
AUCTION = ("id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time BIGINT, expires BIGINT,"
           " seller BIGINT, category INT, extra STRING")
AD = "user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, event_time BIGINT, ip_address STRING"
WORK = tempfile.mkdtemp(prefix="spark.", dir=os.environ["WORK"])
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def say(what, **values):
    print(f"@{what} {json.dumps(values)}", flush=True)


def session():
    builder = SparkSession.builder.master("local[2]").appName(f"{WORKLOAD} {SINK}")
    settings = {
        "spark.jars": os.environ["SPARK_JARS"],
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={WORK}",
        "spark.local.dir": WORK,
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.streaming.numRecentProgressUpdates": 10000,
        "spark.sql.streaming.stateStore.providerClass": PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def records(spark, topic, columns, max_offsets=MAX_OFFSETS):
    value = F.from_json(F.col("value").cast("string"), columns).alias("j")
    return (spark.readStream.format("kafka").option("kafka.bootstrap.servers", BROKERS).option("subscribe", topic)
            .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", max_offsets).load()
            .select(value).select("j.*"))


def bids(spark):
    return records(spark, "bids", BID).withColumn("ts", F.timestamp_millis("date_time"))


def many_keys(spark):
    return records(spark, "keys", "k BIGINT, v BIGINT").groupBy("k").agg(F.count("*").alias("n"), F.max("v").alias("newest"))


def windows(rows, *window):
    return (rows.withWatermark("ts", DELAY).groupBy(F.window("ts", *window).alias("w"), "auction")
            .agg(F.count("*").alias("n"), F.sum("price").alias("total"))
            .select(F.col("w.start").alias("wstart"), "auction", "n", "total"))


def query(spark):
    """(result, output mode)"""
    if WORKLOAD == "KEYS":
        return many_keys(spark), "update"
    rows = bids(spark)
    if WORKLOAD == "W1":
        return (rows.where("price >= 10000")
                .select("auction", "bidder", (F.col("price") * 0.908).alias("price_eur"), "channel", "url", "ts"), "append")
    if WORKLOAD == "W2":
        return windows(rows, "10 seconds"), "append"
    if WORKLOAD == "W3":
        return windows(rows, "10 seconds", "2 seconds"), "append"
    if WORKLOAD == "W7":
        return rows.groupBy("bidder", "auction").agg(F.count("*").alias("n")), "update"
    if WORKLOAD == "W4":
        return (rows.withWatermark("ts", DELAY).groupBy(F.session_window("ts", "10 seconds").alias("w"), "bidder")
                .agg(F.count("*").alias("n")).select(F.col("w.start").alias("wstart"), F.col("w.end").alias("wend"), "bidder", "n"), "append")
    if WORKLOAD in ("W5i", "W5l"):
        auctions = (records(spark, "auctions", AUCTION, MAX_OFFSETS // 10).withColumn("ats", F.timestamp_millis("date_time"))
                    .withWatermark("ats", DELAY).select("id", "ats", "seller", "category"))
        return (rows.withWatermark("ts", DELAY)
                .join(auctions, F.expr("auction = id AND ts >= ats AND ts <= ats + interval 20 seconds"),
                      "inner" if WORKLOAD == "W5i" else "leftOuter")
                .select("auction", "bidder", "price", "ts", "seller", "category"), "append")
    if WORKLOAD in ("W6w", "W6d"):
        rows = rows.withWatermark("ts", DELAY).select("auction", "bidder", "price", "ts", "channel")
        keys = ["auction", "bidder", "price", "ts"]
        return (rows.dropDuplicatesWithinWatermark(keys) if WORKLOAD == "W6w" else rows.dropDuplicates(keys)), "append"
    if WORKLOAD == "W8":
        campaigns = (spark.read.format("jdbc").option("url", JDBC_URL).option("driver", "org.postgresql.Driver").option("user", "postgres")
                     .option("dbtable", "campaigns").load().cache())
        return (records(spark, "ads", AD).where("event_type = 'view'").select("ad_id", F.timestamp_millis("event_time").alias("ts"))
                .join(F.broadcast(campaigns), "ad_id").withWatermark("ts", DELAY)
                .groupBy(F.window("ts", "10 seconds").alias("w"), "campaign_id").agg(F.count("*").alias("n"))
                .select(F.col("w.start").alias("wstart"), "campaign_id", "n"), "append")
    raise SystemExit(f"unknown workload {WORKLOAD}")


def into_table(batch, _):
    (batch.write.format("jdbc").option("url", JDBC_URL).option("driver", "org.postgresql.Driver").option("user", "postgres")
     .option("dbtable", f"spark_{WORKLOAD.lower()}").option("batchsize", 10000).mode("append").save())


def run(spark, number, count):
    result, mode = query(spark)
    if count:
        result = result.observe("result", F.count(F.lit(1)).alias("n"))
    checkpoint = os.path.join(WORK, f"checkpoint-{number}")
    writer = result.writeStream.outputMode(mode).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer = writer.foreachBatch(into_table) if SINK == "table" else writer.format("noop")
    say("prepared")
    sys.stdin.readline()
    started = writer.start()
    started.awaitTermination()
    say("done")
    progress = [json.loads(p.json) for p in started.recentProgress]
    states = [o for p in progress for o in p.get("stateOperators") or []]
    facts = {"rows": sum(p["numInputRows"] for p in progress),
             "batches": sum(1 for p in progress if p["numInputRows"]),
             "state_rows": sum(o["numRowsTotal"] for o in progress[-1].get("stateOperators") or []),
             "late_rows": sum(o.get("numRowsDroppedByWatermark", 0) for o in states)}
    if count:
        facts["out_rows"] = sum((p.get("observedMetrics") or {}).get("result", {}).get("n", 0) for p in progress)
    say("facts", **facts)
    shutil.rmtree(checkpoint, ignore_errors=True)


def main():
    spark = session()
    say("ready", jvm=int(spark._jvm.java.lang.ProcessHandle.current().pid()), version=spark.version)
    number = 0
    for line in sys.stdin:
        number += 1
        run(spark, number, line.strip() == "count")
    spark.stop()


try:
    main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
