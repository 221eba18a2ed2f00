"""Lines and tables of the results, and what the figures were meant to be."""

HAND_MADE = ("staging", "trigger", "batch")


def median(values):
    values = sorted(v for v in values if v is not None)
    return values[len(values) // 2] if values else None


def may_be_wrong(record):
    """By hand with a last id, two writers lose rows: known, and shown."""
    return record["system"] == "batch" and record.get("sessions", 1) > 1


def thousands(value):
    return "-" if value is None else f"{round(value / 1e3):,}k"


def line(record):
    """A record on one line, while the benchmark runs."""
    name = " ".join(str(record[k]) for k in ("workload", "system", "measure", "sink", "mode", "state_memory", "state_store", "killed")
                    if k in record)
    if "chunk" in record:
        name += f" {record['sessions']}x{record['chunk']}"
    rest = " ".join(f"{k}={v}" for k, v in record.items()
                    if k in ("wall_s", "rows_s", "rows_s_from_first_batch", "rows_per_cpu_s", "wal_mb", "rss_private_mb", "rss_highest_mb",
                             "equal", "late_rows", "foreign_cores", "batches")
                    or k.endswith(("_ms", "_percent", "_per_batch", "_s", "_mb", "_kb", "running")) and k not in ("cpu_s", "client_cpu_s"))
    return f"{name}: {rest}"


def groups_of(records, *names):
    """Records by the values of these fields, in order of appearance."""
    result = {}
    for r in records:
        result.setdefault(tuple(r.get(n) for n in names), []).append(r)
    return result


def table(heads, rows):
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
                     + ["| " + " | ".join("-" if c is None else str(c) for c in row) + " |" for row in rows]) + "\n"


def spread(records, field):
    values = [r[field] for r in records if r.get(field) is not None]
    if not values:
        return "-"
    if len(values) == 1:
        return thousands(values[0])
    return f"{thousands(median(values))} [{thousands(min(values))}..{thousands(max(values))}]"


def kind(record):
    if record["system"] != "streamx":
        return record["system"]
    return f"streamx {record['mode']} into {record['sink']}, {record['state_memory']} {record['state_store']}"


def end_to_end(records):
    rows = []
    chosen = [r for r in records if "chunk" in r]
    for (w, sessions, chunk), part in sorted(groups_of(chosen, "workload", "sessions", "chunk").items()):
        for name, l in groups_of([dict(r, kind=kind(r)) for r in part], "kind").items():
            m = {k: median([r.get(k) for r in l]) for k in ("cpu_s", "wal_mb", "rss_private_mb", "rss_highest_mb", "chunk_p50_ms")}
            equal = "-" if "equal" not in l[0] else "yes" if all(r["equal"] for r in l) else "NO"
            rows.append((w.upper(), f"{sessions} x {chunk}", name[0], len(l), spread(l, "rows_s"), spread(l, "rows_per_cpu_s"), m["cpu_s"],
                         m["wal_mb"], m["chunk_p50_ms"], m["rss_private_mb"], m["rss_highest_mb"], equal))
    return table(("", "sessions x chunk", "system", "runs", "rows/s, first COPY to last result row", "rows per CPU s", "CPU s", "WAL MB",
                  "COPY p50 ms", "worker private MB", "VmHWM MB", "equals batch answer"), rows) if rows else ""


def alone(records):
    rows = []
    for (w, name), l in groups_of([dict(r, kind=kind(r)) for r in records if r.get("measure") == "alone"], "workload", "kind").items():
        m = {k: median([r.get(k) for r in l]) for k in ("cpu_s", "wal_mb", "rss_private_mb", "rss_highest_mb", "batches")}
        rows.append((w.upper(), name, len(l), spread(l, "rows_s"), spread(l, "rows_s_from_first_batch"), spread(l, "rows_per_cpu_s"), m["batches"],
                     m["wal_mb"], m["rss_private_mb"], m["rss_highest_mb"],
                     "yes" if all(r.get("equal", True) for r in l) else "NO"))
    return table(("", "query alone on a full stream", "runs", "rows/s from start_query", "from the first batch", "rows per CPU s", "batches", "WAL MB",
                  "worker private MB", "VmHWM MB", "equal"), rows) if rows else ""


def ratios(records):
    """streamx against the best hand-made solution that gives the right answer."""
    rows = []
    chosen = [r for r in records if "chunk" in r]
    for (w, sessions, chunk), part in sorted(groups_of(chosen, "workload", "sessions", "chunk").items()):
        by_hand = {k[0]: l for k, l in groups_of(part, "system").items() if k[0] in HAND_MADE and all(r.get("equal") for r in l)}
        ours = [r for r in part if r["system"] == "streamx" and r["sink"] == "table" and r["mode"] == "update"
                and r["state_memory"] == "256MB" and r["state_store"] == "rocksdb"]
        if not by_hand or not ours:
            continue
        best = max(by_hand, key=lambda k: median([r["rows_s"] for r in by_hand[k]]))
        wall = median([r["rows_s"] for r in ours]) / median([r["rows_s"] for r in by_hand[best]])
        cpu = median([r["rows_per_cpu_s"] for r in ours]) / median([r["rows_per_cpu_s"] for r in by_hand[best]])
        rows.append((w.upper(), f"{sessions} x {chunk}", best, f"{wall:.2f}", f"{cpu:.2f}", "1.3", "yes" if wall >= 1.3 else "no"))
    return table(("", "sessions x chunk", "best by hand", "streamx / best, rows/s", "the same per CPU s", "wanted", "reached"), rows) if rows else ""


def pick(records, **wanted):
    return [r for r in records if all(r.get(k) == v for k, v in wanted.items())]


def verdict(rows, name, value, wanted, less=False, digits=2):
    if value is not None:
        ok = value <= wanted if less else value >= wanted
        rows.append((name, round(value, digits), f"{'at most' if less else 'at least'} {wanted}", "yes" if ok else "no"))


def targets(records):
    rows = []
    for w, memory, wanted in (("p2", "256MB", 0.8), ("p7", "256MB", 0.5), ("p2", "32MB", 0.25), ("p7", "32MB", 0.25)):
        l = pick(records, workload=w, measure="alone", sink="noop", state_memory=memory, state_store="rocksdb")
        rate = median([r["rows_s"] for r in l])
        verdict(rows, f"{w.upper()} query alone into noop, {memory}: million rows/s", rate and rate / 1e6, wanted)
        if memory == "32MB":
            verdict(rows, f"{w.upper()} worker private MB at {memory}", median([r["rss_private_mb"] for r in l]), 250, less=True)
    for r in pick(records, workload="latency", system="streamx"):
        verdict(rows, f"INSERT to visible p99 ms, {r['state_store']}", r["visible_p99_ms"], 20, less=True)
    for r in pick(records, workload="recovery"):
        verdict(rows, f"next commit after kill -9 of {r['killed']}, {r['state_store']} {r['state_memory']}: s", r["to_next_commit_s"],
                6 if "deleted" in r["killed"] else 2, less=True)
    for r in pick(records, workload="cost"):
        store = r.get("state_store")
        if r["measure"].startswith("1 %"):
            if r.get("changelog_kb_per_batch"):
                verdict(rows, f"WAL / changelog, {store}", r["wal_kb_per_batch"] / r["changelog_kb_per_batch"], 2.5, less=True)
            verdict(rows, f"flushes per batch, {store}", r["flushes_per_batch"], 1.1, less=True)
            if r.get("state_compressed_mb"):
                verdict(rows, f"log tables / compressed state, {store}", r["log_largest_mb"] / r["state_compressed_mb"], 4, less=True)
        elif r["measure"] == "one-row batches":
            verdict(rows, f"one-row batch CPU ms, {store}", r["worker_cpu_ms_per_batch"], 1, less=True, digits=3)
            verdict(rows, f"one-row batch WAL kB, {store}", r["wal_kb_per_batch"], 4, less=True)
        elif "idle" in r["measure"]:
            verdict(rows, "50 idle queries, % of a core", r["cpu_percent"], 1, less=True)
    return table(("figure", "measured", "wanted", "reached"), rows) if rows else ""


def others(records):
    """Latency, cost and recovery: a row per record, the fields as columns."""
    result = []
    for w in ("latency", "cost", "recovery"):
        for _, l in groups_of(pick(records, workload=w), "measure" if w == "cost" else "workload").items():
            fields = [k for k in dict.fromkeys(k for r in l for k in r) if k not in ("workload", "run", "client_cpu_s", "rows")]
            result.append(table(fields, [[r.get(k) for k in fields] for r in l]))
    return "\n".join(result)


def tables(records):
    parts = (end_to_end(records), alone(records), others(records), ratios(records), targets(records))
    return "\n".join(p for p in parts if p)
