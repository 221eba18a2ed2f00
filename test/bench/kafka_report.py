"""Records and tables of the comparison with Spark."""
from report import median, spread, table, verdict


def rows_of(runs, field):
    return [r[field] for r in runs if r.get(field) is not None]


def middle(runs, field):
    return median(rows_of(runs, field))


def compare(workload, sink, memory, wanted, ours, spark, rows):
    """One record: medians of streamx's runs and of Spark's warm ones."""
    warm = [r for r in spark if not r["cold"]]
    cold = [r for r in spark if r["cold"]]
    rate, spark_rate = middle(ours, "rows_per_s"), middle(warm, "rows_per_s")
    cpu, spark_cpu = middle(ours, "rows_per_cpu_s"), middle(warm, "rows_per_cpu_s")
    record = {"workload": workload, "sink": sink}
    if memory:
        record["state_memory"] = memory
    record.update({
        "rows": rows, "rows_per_s": rate, "spark_rows_per_s": spark_rate,
        "ratio": round(rate / spark_rate, 2) if rate and spark_rate else None,
        "rows_per_cpu_s": cpu, "spark_rows_per_cpu_s": spark_cpu,
        "cpu_ratio": round(cpu / spark_cpu, 2) if cpu and spark_cpu else None,
        "wanted_ratio": wanted,
        "rss_mb": max(rows_of(ours, "rss_mb"), default=None), "spark_rss_mb": max(rows_of(spark, "rss_mb"), default=None),
        "out_rows": middle(ours, "out_rows"), "spark_out_rows": middle(spark, "out_rows"),
        "equal": all(r["equal"] for r in ours + spark),
        "spark_cold_rows_per_s": middle(cold, "rows_per_s"),
        "rows_per_s_of_runs": rows_of(ours, "rows_per_s"), "spark_rows_per_s_of_runs": rows_of(warm, "rows_per_s"),
        # without the server's part in writing the table
        "spark_rows_per_own_cpu_s": middle(warm, "rows_per_spark_cpu_s"),
        "broker_cpu_s": middle(ours, "broker_cpu_s"), "spark_broker_cpu_s": middle(warm, "broker_cpu_s"),
        "batches": middle(ours, "batches"), "spark_batches": middle(warm, "batches"), "wal_mb": middle(ours, "wal_mb"),
        "foreign_cores": max(rows_of(ours + warm, "foreign_cores"), default=None), "load": max(rows_of(ours + warm, "load"), default=None)})
    return record


def run_line(workload, sink, system, memory, record):
    kind = f"{system} {memory}" if memory else system
    if record["cold"]:
        kind += ", cold"
    rest = " ".join(f"{k}={record[k]}" for k in ("wall_s", "rows_per_s", "rows_per_cpu_s", "cpu_s", "rss_mb", "out_rows", "batches",
                                                  "equal", "foreign_cores", "load") if k in record)
    return f"{workload} into {sink}, {kind}: {rest}"


def throughput(records):
    rows = []
    for r in records:
        if "ratio" not in r:
            continue
        ours = [{"x": v} for v in r["rows_per_s_of_runs"]]
        spark = [{"x": v} for v in r["spark_rows_per_s_of_runs"]]
        rows.append((r["workload"], r["sink"], r.get("state_memory"), spread(ours, "x"), spread(spark, "x"), r["ratio"], r["wanted_ratio"],
                     thousands(r["rows_per_cpu_s"]), thousands(r["spark_rows_per_cpu_s"]), r["cpu_ratio"], r["rss_mb"], r["spark_rss_mb"],
                     r["out_rows"], "yes" if r["equal"] else "NO", r["foreign_cores"]))
    limit = [r for r in records if r["workload"] == "consume"]
    for r in limit:
        rows.append(("limit", "one librdkafka consumer, nothing else", None, thousands(r["rows_per_s"]), None, None, None,
                     thousands(r["rows_per_cpu_s"]), None, None, None, None, None, None, None))
    return table(("", "sink", "state_memory", "streamx rows/s", "Spark rows/s, warm", "ratio", "wanted", "streamx rows per CPU s",
                  "Spark rows per CPU s", "ratio", "worker RSS MB", "Spark RSS MB", "result rows", "both right", "foreign cores"), rows) if rows else ""


def thousands(value):
    return None if value is None else f"{round(value / 1e3):,}k"


def others(records):
    result = []
    for w in ("latency", "recovery"):
        chosen = [r for r in records if r["workload"] == w]
        fields = [k for k in dict.fromkeys(k for r in chosen for k in r) if k not in ("workload", "suite", "client_cpu_s", "rows")]
        if chosen:
            result.append(table([w] + fields, [[""] + [r.get(k) for k in fields] for r in chosen]))
    return "\n".join(result)


def targets(records):
    rows = []
    for r in records:
        if "ratio" in r:
            name = f"{r['workload']} into {r['sink']}" + (f", {r['state_memory']}" if r.get("state_memory") else "")
            verdict(rows, f"{name}: streamx / Spark, rows/s", r["ratio"], r["wanted_ratio"])
            verdict(rows, f"{name}: the same per CPU s", r["cpu_ratio"], r["wanted_ratio"])
            verdict(rows, f"{name}: worker RSS MB", r["rss_mb"], 250 if r.get("state_memory") == "32MB" else 600, less=True)
        elif r["workload"] == "latency":
            verdict(rows, f"{r['case']}: produced to committed, p99 ms", r["p99_ms"], 50, less=True)
        elif r["workload"] == "recovery":
            memory = f", {r['state_memory']}"
            verdict(rows, f"kill -9 of {r['killed']} to the next commit, {r['sink']}{memory}: s", r["to_next_commit_s"], 2, less=True)
    return table(("figure", "measured", "wanted", "reached"), rows) if rows else ""


def tables(records):
    return "\n".join(p for p in (throughput(records), others(records), targets(records)) if p)
