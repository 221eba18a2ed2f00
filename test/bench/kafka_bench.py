"""
kafka_bench.py: streamx and Spark over Kafka; started by run.sh, on the cluster of
PGHOST and the broker of BROKERS.

ONLY  comma list of w1, w2, w3, w4, w5i, w5l, w6w, w6d, w7, w8, klatency, krecovery (default: these), keys20m
RUNS  warm runs of each system (default 3)
ROWS  rows of the topic (default 2,000,000), for trying things out
SYSTEMS  comma list of streamx, spark (default: both)
"""
import json
import os
import signal
import sys
import time
import traceback

import kafka
import kafka_latency
import kafka_recovery
import kafka_report
import many_keys
import side_by_side
from server import WORK, connect, connect_when_up, sql

THROUGHPUT = ("w1", "w2", "w3", "w4", "w5i", "w5l", "w6w", "w6d", "w7", "w8")
ALL = THROUGHPUT + ("klatency", "krecovery")
ONLY = [w for w in (os.environ.get("ONLY") or ",".join(ALL)).split(",") if w]
RUNS = int(os.environ.get("RUNS") or 3)
SYSTEMS = [s for s in (os.environ.get("SYSTEMS") or "streamx,spark").split(",") if s]
BROKER = int(os.environ["BROKER_PID"])


class Bench:
    def __init__(self):
        self.records = []
        self.failed = []
        self.connection = connect()

    def save(self):
        with open(os.path.join(WORK, "results.kafka.json"), "w") as f:
            json.dump(self.records, f)

    def note(self, record):
        self.records.append(record)
        self.save()

    def attempt(self, what, function):
        """An error is reported and the rest goes on."""
        try:
            function()
        except Exception:
            self.failed.append(what)
            print(f"FAILED {what}\n{traceback.format_exc()}", flush=True)
            self.connection.close()
            self.connection, _ = connect_when_up()
            if "streamx" in SYSTEMS:
                kafka.clean(self.connection)

    def fill(self):
        kafka.make_topic("bids")
        filled = kafka.topic("fill", "bids", kafka.ROWS)
        print(f"topic: {filled['rows']} rows of {filled['mb'] * 1e6 / filled['rows']:.0f} bytes, "
              f"{filled['wall_s']:.0f} s, load average {os.getloadavg()[0]:.1f}", flush=True)
        kafka.make_reference(self.connection)
        wanted = {t for name, w in kafka.WORKLOADS.items() if name.lower() in ONLY for t in w.topics}
        for name in sorted(wanted & set(kafka.OTHER_COLUMNS)):
            kafka.make_topic(name)
            kafka.topic("fill", name, kafka.ROWS, name)
            kafka.make_other_reference(self.connection, name)

    def consume(self):
        runs = sorted((kafka.topic("consume", "bids") for _ in range(3)), key=lambda r: r["rows_per_s"])
        limit = {"workload": "consume", "sink": "none", **runs[1]}
        print("raw consume: " + " ".join(f"{k}={v}" for k, v in limit.items()), flush=True)
        self.note(limit)

    def throughput(self, name, sink):
        """A workload with one sink, with each of the memories asked for."""
        cases = {memory: wanted for w, s, memory, wanted in side_by_side.CASES if (w, s) == (name, sink)}
        runs = []

        def note(system, memory, cold, record):
            runs.append(dict(record, system=system, memory=memory, cold=cold))
            print(kafka_report.run_line(name, sink, system, memory, runs[-1]), flush=True)
            if not record["equal"]:
                print(f"    wrong: {json.dumps(record)}, wanted {kafka.WORKLOADS[name].expected(self.connection)}", flush=True)

        try:
            side_by_side.case(self.connection, name, sink, list(cases), RUNS, BROKER, SYSTEMS, note)
        finally:
            spark = [r for r in runs if r["system"] == "spark"]
            for memory, wanted in cases.items():
                ours = [r for r in runs if r["system"] == "streamx" and r["memory"] == memory]
                if ours or spark:
                    self.note(kafka_report.compare(name, sink, memory, wanted, ours, spark, kafka.WORKLOADS[name].rows))

    def many_keys(self):
        for record in many_keys.run(self.connection, BROKER, SYSTEMS):
            print(" ".join(f"{k}={v}" for k, v in record.items()), flush=True)
            self.note(record)

    def latency(self):
        def one_case(case):
            record = case(self.connection)
            print(" ".join(f"{k}={v}" for k, v in record.items()), flush=True)
            self.note(record)

        for case in kafka_latency.CASES:
            self.attempt(f"latency {case.__name__}", lambda case=case: one_case(case))

    def recovery(self):
        def one_kill(killed, sink, memory):
            self.connection, record = kafka_recovery.once(self.connection, killed, sink, memory)
            print(" ".join(f"{k}={v}" for k, v in record.items()), flush=True)
            self.note(record)

        for killed, sink, memory in (("worker", "noop", "256MB"), ("postmaster", "noop", "256MB"), ("worker", "table", "256MB"),
                                     ("worker", "noop", "32MB")):
            self.attempt(f"recovery {killed} {sink} {memory}", lambda k=killed, s=sink, m=memory: one_kill(k, s, m))


def main():
    unknown = set(ONLY) - set(ALL) - {"keys20m"}
    if unknown:
        sys.exit(f"bench: unknown workload {', '.join(sorted(unknown))}; there are {', '.join(ALL)}, keys20m")
    # so that Spark is not left behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    started = time.time()
    bench = Bench()
    if "streamx" in SYSTEMS:
        sql(bench.connection, "CREATE EXTENSION IF NOT EXISTS streamx")
    if set(ONLY) & set(ALL):
        bench.fill()
    if "keys20m" in ONLY:
        bench.attempt("20 million keys", bench.many_keys)
    if set(ONLY) & set(THROUGHPUT):
        bench.attempt("raw consume", bench.consume)
    for name, sink in dict.fromkeys((w, s) for w, s, _, _ in side_by_side.CASES if w.lower() in ONLY):
        bench.attempt(f"{name} into {sink}", lambda name=name, sink=sink: bench.throughput(name, sink))
    if "streamx" in SYSTEMS and "klatency" in ONLY:
        bench.latency()
    if "streamx" in SYSTEMS and "krecovery" in ONLY:
        bench.recovery()
    print("\n" + kafka_report.tables(bench.records))
    print(f"({time.time() - started:.0f} s; load average now {os.getloadavg()[0]:.1f})")
    for what in bench.failed:
        print(f"failed: {what}")
    wrong = [r for r in bench.records if r.get("equal") is False]
    for record in wrong:
        print(f"wrong result: {json.dumps(record)}")
    sys.exit(1 if bench.failed or wrong else 0)


if __name__ == "__main__":
    main()
