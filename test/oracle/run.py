#!/usr/bin/python3
"""Replays the recorded cases of Spark on streamx and compares (see README.md here).

  run.py [options] [folder or case.json ...]      default: the cases beside this file

Needs a running server with streamx preloaded, found by PGHOST, PGPORT, PGUSER or --dsn; makes and drops a database
of its own. Ends with "N passed, N failed, N skipped"; status 1 if any failed.
"""
import argparse
import collections
import os
import queue
import sys
import threading

import psycopg2

import case as cases_of
import replay

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("paths", nargs="*", default=[os.path.join(HERE, "cases")])
    ap.add_argument("--dsn", default="", help="connection string; the default is libpq's environment")
    ap.add_argument("--store", default="rocksdb,table", help="state stores, by comma")
    ap.add_argument("--only", default="", help="names or areas, by comma; a part of the name is enough")
    ap.add_argument("--jobs", type=int, default=3, help="cases at the same time")
    ap.add_argument("--restart-between-steps", action="store_true", help="stop and start before every step")
    ap.add_argument("--reverse", action="store_true",
                    help="rows of a batch in reverse order; without the cases whose answer depends on it")
    ap.add_argument("--state-memory", default="", help="option state_memory of every query, e.g. 4MB")
    ap.add_argument("--sink", choices=["foreach_batch", "table"], default="foreach_batch",
                    help="foreach_batch shows every batch; table compares what the table holds after each step")
    ap.add_argument("--strict", action="store_true", help='"not yet" counts as failed')
    ap.add_argument("--keep", action="store_true", help="keep the objects of failed cases and the database")
    ap.add_argument("--suite", action="store_true", help="also print the line that check.sh adds up")
    ap.add_argument("-v", "--verbose", action="store_true", help="a line for every case")
    return ap.parse_args()


class Database:
    """A database of this run, with the extension in it."""

    def __init__(self, dsn):
        self.name = "oracle_%d" % os.getpid()
        self.admin = psycopg2.connect(dsn or "dbname=postgres")
        self.admin.autocommit = True
        self.execute(self.admin, "CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'" % self.name)
        self.dsn = psycopg2.extensions.make_dsn(dsn, dbname=self.name)
        connection = psycopg2.connect(self.dsn)
        connection.autocommit = True
        self.execute(connection, "CREATE EXTENSION streamx")
        preloaded = self.execute(connection, "SHOW shared_preload_libraries")[0][0]
        self.syntax = "streamx_syntax" in preloaded
        connection.close()

    @staticmethod
    def execute(connection, text):
        with connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall() if cursor.description else None

    def drop(self):
        self.execute(self.admin, "DROP DATABASE IF EXISTS %s WITH (FORCE)" % self.name)
        self.admin.close()


class Tally:
    """Verdicts by area, printed as they come."""

    def __init__(self, verbose):
        self.verbose, self.lock = verbose, threading.Lock()
        self.areas = collections.OrderedDict()
        self.total = collections.Counter()

    def add(self, area, label, verdict, text=""):
        with self.lock:
            self.areas.setdefault(area, collections.Counter())[verdict] += 1
            self.total[verdict] += 1
            if verdict == "failed":
                print("FAIL %s" % label)
                print("".join("     %s\n" % line for line in text.split("\n")[:12]), end="", flush=True)
            elif self.verbose:
                print("%-7s %s%s" % (verdict, label, "  (needs %s)" % text if text else ""), flush=True)

    def report(self):
        print("%-12s %8s %8s %8s" % ("area", "passed", "failed", "not yet"))
        for area in sorted(self.areas):
            n = self.areas[area]
            print("%-12s %8d %8d %8d" % (area, n["passed"], n["failed"], n["not yet"]))


def worker(jobs, database, options, tally):
    while True:
        try:
            number, case, store = jobs.get_nowait()
        except queue.Empty:
            return
        label = "%s/%s [%s]" % (case.area, case.name, store)
        one = None
        try:
            one = replay.Replay(database.dsn, case, number, store, options)
            one.verdict()
            tally.add(case.area, label, "passed", ", ".join(case.rules))
            failed = False
        except replay.NotYet as e:
            tally.add(case.area, label, "failed" if options.strict else "not yet", str(e))
            failed = False
        except replay.Failed as e:
            tally.add(case.area, label, "failed", str(e))
            failed = True
        except Exception as e:          # the runner's own mistake, or the server went away: a failure too
            tally.add(case.area, label, "failed", "%s: %s" % (type(e).__name__, str(e).strip()))
            failed = True
        if one is not None and not (failed and options.keep):
            one.remove()


def main():
    options = arguments()
    wanted = [w for w in options.only.split(",") if w]
    cases = [c for c in cases_of.load(options.paths)
             if not wanted or any(w in c.name or w == c.area for w in wanted)]
    if options.reverse:
        cases = [c for c in cases if not c.order_matters()]
    if not cases:
        sys.exit("no case found")
    database = Database(options.dsn)
    options.syntax = database.syntax
    tally = Tally(options.verbose)
    jobs = queue.Queue()
    for store in options.store.split(","):
        for number, case in enumerate(cases):
            jobs.put((number, case, store))
    threads = [threading.Thread(target=worker, args=(jobs, database, options, tally)) for _ in range(options.jobs)]
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        if not options.keep:
            database.drop()
    tally.report()
    n = tally.total
    if options.suite:
        print("SUITE %d %d %d" % (n["passed"], n["failed"], n["not yet"]))
    print("%d passed, %d failed, %d skipped" % (n["passed"], n["failed"], n["not yet"]))
    return 1 if n["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
