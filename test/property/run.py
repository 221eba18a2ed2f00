#!/usr/bin/python3
"""Random queries over random rows, in random batches, through random trouble (see README.md here).

  run.py [--runs N] [--seed S] [--only RUN] [-v]

Needs a running server with streamx preloaded and crash points built in, found by PGHOST, PGPORT and PGUSER, which it
kills now and then; makes and drops databases of its own. Status 1 if a run failed.
"""
import argparse
import queue
import random
import sys
import threading
import time

import psycopg2

import case
import server


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runs", type=int, default=100)
    ap.add_argument("--seed", default="", help="printed; the same one draws the same runs")
    ap.add_argument("--only", type=int, help="number of a run")
    ap.add_argument("--kind", default="", help="only runs of this kind of query")
    ap.add_argument("--jobs", type=int, default=4, help="runs at the same time")
    ap.add_argument("--quiet", action="store_true", help="no trouble: nothing is killed, nothing fails")
    ap.add_argument("--seconds", type=float, help="no run begins after so many")
    ap.add_argument("--first", action="store_true", help="no run begins after one failed")
    ap.add_argument("--suite", action="store_true", help="also print the line that check.sh adds up")
    ap.add_argument("-v", "--verbose", action="store_true", help="a line for every run")
    return ap.parse_args()


class Tally:
    def __init__(self):
        self.lock = threading.Lock()
        self.passed = self.failed = self.refused = self.checked = 0
        self.kinds, self.trouble = {}, {}

    def add(self, counts, name):
        with self.lock:
            counts[name] = counts.get(name, 0) + 1


def lane(number, jobs, options, tally, end):
    place = server.Server("property_%d" % number)
    place.make()
    while (end is None or time.time() < end) and not (options.first and tally.failed):
        try:
            run = jobs.get_nowait()
        except queue.Empty:
            break
        one = case.Case(place, run, random.Random("%s/%d" % (options.seed, run)), options)
        try:
            verdict = one.verdict()
        except (case.Wrong, psycopg2.Error, server.Lost) as e:
            verdict = "%s: %s" % (type(e).__name__, str(e).strip())
        with tally.lock:
            tally.checked += one.checked
            if verdict is None:
                tally.passed += 1
            elif verdict == "refused":
                tally.refused += 1
            else:
                tally.failed += 1
                print("not ok - run %d, repeated by --seed %s --only %d\n%s\n%s" % (run, options.seed, run, one.tell(), verdict), flush=True)
            if options.verbose and verdict in (None, "refused"):
                print("%s - run %d\n%s" % ("ok" if verdict is None else "refused", run, one.tell()), flush=True)
        tally.add(tally.kinds, one.kind)
        for name in one.trouble:
            tally.add(tally.trouble, name)
        one.remove()
    place.drop()


def main():
    options = arguments()
    options.seed = options.seed or "%08x" % random.SystemRandom().getrandbits(32)
    begin = time.time()
    print("seed %s" % options.seed, flush=True)
    tally, jobs = Tally(), queue.Queue()
    for run in range(options.runs) if options.only is None else [options.only]:
        if not options.kind or case.kind_of(random.Random("%s/%d" % (options.seed, run))) == options.kind:
            jobs.put(run)
    end = begin + options.seconds if options.seconds else None
    lanes = [threading.Thread(target=lane, args=(i, jobs, options, tally, end)) for i in range(options.jobs)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    print("kinds: %s" % ", ".join("%s %d" % x for x in sorted(tally.kinds.items())))
    print("trouble: %s" % (", ".join("%s %d" % x for x in sorted(tally.trouble.items())) or "none"))
    print("%d runs in %d s: %d passed (%d of them by verify(), too), %d failed, %d refused by create_query" % (
        tally.passed + tally.failed + tally.refused, time.time() - begin, tally.passed, tally.checked, tally.failed, tally.refused))
    if not jobs.empty():
        print("%d runs were not begun" % jobs.qsize())
    if tally.passed == 0 or not jobs.empty() and end is None and not options.first:
        tally.failed += 1               # a lane died
    if options.suite:
        print("SUITE %d %d 0" % (tally.passed, tally.failed))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
