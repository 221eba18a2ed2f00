#!/usr/bin/python3
"""Runs the SQL examples of the documentation: run.py page.md ...

Each page's ```sql blocks run in order, in a fresh database with the extension, as one psql session; a page without a
block is left out. A block is marked in its first line:

    ```sql error        every statement of it must fail
    ```sql no-run       shown only (needs a broker, a second server, ...)
    ```sql needs-X      run where the server has extension X

Prints TAP, a test per page. PGHOST, PGPORT and PGUSER say where.
"""
import os
import re
import subprocess
import sys


def blocks(text):
    """(line number, marks, body) of each SQL block."""
    for m in re.finditer(r"^```sql([^\n]*)\n(.*?)^```", text, re.M | re.S):
        yield text.count("\n", 0, m.start()) + 2, m.group(1).split(), m.group(2)


def psql(database, script):
    return subprocess.run(["psql", "-X", "-q", "-d", database, "-v", "ON_ERROR_STOP=0"],
                          input=script, capture_output=True, text=True, timeout=180)


def lacks(marks):
    """An extension that the server does not have."""
    wanted = [mark[len("needs-"):] for mark in marks if mark.startswith("needs-")]
    return wanted and psql("postgres", "\\pset tuples_only\nSELECT count(*) FROM pg_available_extensions WHERE name = ANY ('{%s}');"
                           % ",".join(wanted)).stdout.split()[-1:] != [str(len(wanted))]


def script_of(page, text):
    """One script; markers in stderr say which block an error belongs to."""
    script, n = ["SET client_min_messages = warning;", "SET statement_timeout = '60s';"], 0
    for line, marks, body in blocks(text):
        if "no-run" in marks or lacks(marks):
            continue
        n += 1
        script.append("\\warn BLOCK %s:%d %s" % (page, line, "error" if "error" in marks else "ok"))
        script.append(body)
    return "\n".join(script), n


def judge(stderr):
    """What is wrong with a page: errors in blocks that should work, silence in those that should not."""
    problems, block, should_fail, failed = [], None, False, False
    for line in stderr.split("\n") + ["BLOCK end ok"]:
        m = re.match(r"BLOCK (\S+) (\w+)$", line)
        if m:
            if should_fail and not failed:
                problems.append("%s: no error came" % block)
            block, should_fail, failed = m.group(1), m.group(2) == "error", False
        elif re.search(r"\b(ERROR|FATAL|PANIC):|server closed the connection|invalid command", line):
            failed = True
            if not should_fail:
                problems.append("%s: %s" % (block, line))
    return problems


def main():
    number = 0
    for page in sys.argv[1:]:
        with open(page, encoding="utf-8") as f:
            script, count = script_of(page, f.read())
        if count == 0:
            continue
        number += 1
        database = "docs_%d_%d" % (os.getpid(), number)
        psql("postgres", "CREATE DATABASE %s TEMPLATE template0;" % database)
        made = psql(database, "CREATE EXTENSION streamx;")
        try:
            problems = ["no extension: %s" % made.stderr.strip()] if made.stderr else judge(psql(database, script).stderr)
        except subprocess.TimeoutExpired:
            problems = ["took longer than three minutes"]
        psql("postgres", "DROP DATABASE IF EXISTS %s WITH (FORCE);" % database)
        print("%s %d - %s (%d blocks)" % ("not ok" if problems else "ok", number, page, count))
        for p in problems:
            print("#   %s" % p)
        sys.stdout.flush()
    print("1..%d" % number)


if __name__ == "__main__":
    main()
