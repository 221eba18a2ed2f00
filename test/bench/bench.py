"""
bench.py: the whole benchmark on the cluster of PGHOST; started by run.sh.

ONLY  comma list of p2, p7, latency, cost, recovery (default: these), keycost, recover1g, due5m
RUNS  runs of each main figure (default 3); hand-made ones that are never the best: 1
LONG  1: also 200,000 tiny batches, and every peer RUNS times
ROWS  rows of the data set (default 2,000,000), for trying things out
SYSTEMS  comma list of streamx, copy, staging, trigger, batch, oneshot (default: all)

The hand-made solutions and streamx take turns, so that what disturbs the machine
disturbs both.  Every figure goes to results.json at once.
"""
import json
import os
import sys
import time
import traceback

import cost
import large_state
import latency
import peers
import recovery
import report
import streams
from server import WORK, connect, connect_when_up, sql
from workload import lines, make_reference

ALL = ("p2", "p7", "latency", "cost", "recovery")
LARGE = ("keycost", "recover1g", "due5m")
ONLY = [w for w in (os.environ.get("ONLY") or ",".join(ALL)).split(",") if w]
RUNS = int(os.environ.get("RUNS") or 3)
LONG = bool(os.environ.get("LONG"))
HAVE = [s for s in (os.environ.get("SYSTEMS") or ",".join(("oneshot", "streamx") + peers.PEERS)).split(",") if s]

records = []
failed = []


def note(record, run=None):
    if run is not None:
        record["run"] = run
    records.append(record)
    print(report.line(record), flush=True)
    with open(os.path.join(WORK, "results.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n")


class Bench:
    def __init__(self):
        self.connection = connect()

    def attempt(self, what, function, *args, run=None, **options):
        """One figure; an error is reported and the rest goes on."""
        try:
            result = function(self.connection, *args, **options)
            for record in result if isinstance(result, list) else [result]:
                note(record, run)
        except Exception:
            failed.append(what)
            print(f"FAILED {what}\n{traceback.format_exc()}", flush=True)
            self.connection.close()
            self.connection, _ = connect_when_up()
            if "streamx" in HAVE:
                streams.clean(self.connection)

    def peer(self, *args, run):
        if args[0] in HAVE:
            self.attempt(f"{args}", peers.throughput, *args, run=run)

    def stream(self, *args, run, **options):
        if "streamx" in HAVE:
            self.attempt(f"streamx {args} {options}", streams.end_to_end, *args, run=run, **options)

    def alone(self, *args, run, **options):
        if "streamx" in HAVE:
            self.attempt(f"streamx alone {args} {options}", streams.alone, *args, run=run, **options)

    def throughput(self, w):
        for run in range(RUNS):
            for sessions in (1, 2):
                for chunk in (10000, 100000):
                    for peer in peers.PEERS:
                        if run == 0 or peer == "staging" or LONG:
                            self.peer(peer, w, chunk, sessions, run=run)
                    self.stream(w, chunk, sessions, run=run)
            if "oneshot" in HAVE:
                self.attempt(f"oneshot {w}", peers.oneshot, w, run=run)
        for options in ({"memory": "32MB"}, {"store": "table"}, {"store": "table", "memory": "32MB"}, {"sink": "noop"}):
            self.stream(w, 100000, 1, run=0, **options)
        if w == "p2":
            self.stream(w, 100000, 1, run=0, mode="append")

    def query_alone(self, w):
        for run in range(RUNS):
            self.alone(w, "noop", run=run)
            self.alone(w, "noop", run=run, memory="32MB")
            if run == 0 or LONG:
                self.alone(w, "table", run=run)
                self.alone(w, "noop", run=run, store="table")
                self.alone(w, "noop", run=run, store="table", memory="32MB")
            if w == "p2":
                self.alone(w, "table", run=run, mode="append")

    def latency(self):
        for peer in ("staging", "trigger"):
            if peer in HAVE:
                self.attempt(f"latency {peer}", latency.by_hand, peer)
        if "streamx" in HAVE:
            self.attempt("latency streamx", latency.streamx)
            self.attempt("latency streamx, table store", latency.streamx, store="table", seconds=10)

    def cost(self):
        self.attempt("idle queries", cost.idle)
        for store in ("rocksdb", "table"):
            self.attempt("one-row batches", cost.tiny, store, 10000 if store == "rocksdb" else 2000)
        self.attempt("changing keys", cost.changing_keys)
        if LONG:
            self.attempt("changing keys, table store", cost.changing_keys, "table")
            self.attempt("many batches", cost.long_run)

    def recovery(self):
        for store, memory in (("rocksdb", "256MB"), ("table", "256MB"), ("rocksdb", "32MB"), ("table", "32MB")):
            self.attempt(f"recovery {store} {memory}", self.recover, store, memory)
            self.connection.close()
            self.connection, _ = connect_when_up()
            make_reference(self.connection)

    @staticmethod
    def recover(connection, store, memory):
        result, fresh = recovery.streamx(connection, store, memory)
        fresh.close()
        return result


    def large_state(self):
        """Each connection is given back: the server dies in between."""
        def lost(function, *args):
            def once(connection):
                record, self.connection = function(connection, *args)
                return record
            return once

        if "keycost" in ONLY:
            for keys in (10000, large_state.KEYS // 20, large_state.KEYS):
                self.attempt(f"cost per batch, {keys} keys", large_state.batch_cost, keys)
            self.attempt("recovery with as many keys", lost(large_state.recover, f"{large_state.KEYS} keys, counted",
                                                            lambda c: large_state.state_rows(c) == large_state.KEYS + 1))
            large_state.clean(self.connection)
        if "recover1g" in ONLY:
            self.attempt("recovery of 1 GB", lost(large_state.recovery))
        if "due5m" in ONLY:
            for what in large_state.CASES:
                self.attempt(f"due at once: {what}", large_state.due, what)


def main():
    unknown = set(ONLY) - set(ALL) - set(LARGE)
    if unknown:
        sys.exit(f"bench: unknown workload {', '.join(sorted(unknown))}; there are {', '.join(ALL + LARGE)}")
    started = time.time()
    bench = Bench()
    if "streamx" in HAVE:
        sql(bench.connection, "CREATE EXTENSION IF NOT EXISTS streamx")
    if set(ONLY) & set(ALL):
        print(f"data: {len(lines())} rows, load average {os.getloadavg()[0]:.1f}", flush=True)
        make_reference(bench.connection)
    for w in ("p2", "p7"):
        if w in ONLY:
            bench.throughput(w)
            bench.query_alone(w)
    if "latency" in ONLY:
        bench.latency()
    if "streamx" in HAVE:
        if "cost" in ONLY:
            bench.cost()
        if "recovery" in ONLY:
            bench.recovery()
    if "streamx" in HAVE:
        bench.large_state()
    wrong = [r for r in records if r.get("equal") is False and not report.may_be_wrong(r)]
    print("\n" + report.tables(records))
    print(f"({time.time() - started:.0f} s; load average now {os.getloadavg()[0]:.1f})")
    for what in failed:
        print(f"failed: {what}")
    for record in wrong:
        print(f"wrong result: {json.dumps(record)}")
    sys.exit(1 if failed or wrong else 0)


if __name__ == "__main__":
    main()
