"""
results.py SUITE NEW FILE: puts the records of NEW into FILE, a list of all suites'.

Records of the same suite and workload that were there before go: a part of the
benchmark that is run again replaces its own figures only.
"""
import json
import os
import sys


def read(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return json.load(f)


def merged(old, new, suite):
    new = [{"suite": suite, **r} for r in new]
    again = {r["workload"] for r in new}
    return [r for r in old if r.get("suite") != suite or r["workload"] not in again] + new


def main():
    suite, new, path = sys.argv[1:4]
    records = merged(read(path), read(new), suite)
    with open(path + ".new", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n")
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main()
