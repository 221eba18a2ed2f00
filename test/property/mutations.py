#!/usr/bin/python3
"""Breaks operators on purpose, one at a time, and counts the runs until the property test notices (see README.md here).

  mutations.py --install COMMAND --restart COMMAND [--only NAME] [--runs 300] [--seed S]

For a scratch copy of the tree, in whose top folder it runs: sources are changed, INSTALL builds and installs them for the server of
PGHOST and PGPORT, RESTART restarts that. Status 1 if one was not noticed.
"""
import argparse
import re
import subprocess
import sys

# name, file, what is there, what takes its place
MUTATIONS = (
    ("aggregate: late rows are not dropped", "src/exec/aggregate.c", "return expiry <= agg->late;", "return false;"),
    ("aggregate: a group closes a microsecond early", "src/exec/aggregate.c", "agg->evict = op->evict;", "agg->evict = op->evict + 1;"),
    ("update mode: what HAVING no longer holds for stays in the table", "src/exec/gone.c",
     "if (!sx_byte_set_has(gone->seen, gone->bytes.data, gone->bytes.len))", "if (false)"),
    ("session: two that a row bridges are not merged", "src/exec/session_key.c",
     "while (next < key->n && key->sessions[next]->start <= session->end)", "while (false)"),
    ("session: touching is not overlapping", "src/exec/session_key.c",
     "if (first == key->n || key->sessions[first]->start > end)", "if (first == key->n || key->sessions[first]->start >= end)"),
    ("session: a window that was merged is not taken back", "src/exec/session.c",
     "for (const SxSession *session = key->absorbed; session != NULL;", "for (const SxSession *session = NULL; session != NULL;"),
    ("join: rows are forgotten a millisecond early", "src/plan/join_condition.c", "(strict ? 0 : MILLISECOND)", "0"),
    ("join: the matched flag is not kept", "src/exec/join.c", "\trow->flags |= SX_ROW_MATCHED;", "\t;"),
    ("join: a late row is taken", "src/exec/join.c", "side->event_range, row) <= op->late)", "side->event_range, row) < op->late)"),
    ("join: a NULL row for what matched", "src/exec/join_due.c",
     "if (!comes_out(due) || (row->flags & SX_ROW_MATCHED))", "if (!comes_out(due))"),
    ("dedup: a key is forgotten a microsecond late", "src/exec/dedup.c",
     "!plan->within_watermark ? event : SX_STATE_NEVER", "!plan->within_watermark ? event + 1 : SX_STATE_NEVER"),
    ("dedup: within the watermark, a key is forgotten a microsecond late", "src/exec/dedup.c",
     "plan->within_watermark ? goes_at(plan, event) : 0", "plan->within_watermark ? goes_at(plan, event) + 1 : 0"),
    ("handler: timers fire strictly after their time", "src/exec/transform_timers.c", "return plan->groups ? clock - 1 : clock;", "return clock - 1;"),
    ("handler: a block's changes stay when its error is caught", "src/exec/transform_state.c",
     "if (undo == NULL || undo->n == 0 ||", "if (true || undo == NULL || undo->n == 0 ||"),
    ("handler: the last entry of a map is not moved when one goes", "src/exec/transform_values.c", "if (head->place != last)", "if (false)"),
    ("chain: the watermark reaches the upper operator without its lag", "src/exec/exec.c", "SX_TIME_UNSET : watermark - op->lag;", "SX_TIME_UNSET : watermark;"),
)


def run(command):
    return subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def try_one(options, name, path, old, new):
    with open(path) as f:
        text = f.read()
    if old not in text:
        return "not there: %s" % old
    try:
        with open(path, "w") as f:
            f.write(text.replace(old, new))
        for command in (options.install, options.restart):
            done = run(command)
            if done.returncode != 0:
                return "%s: %s" % (command, done.stdout[-500:])
        done = run("%s test/property/run.py --first --jobs 3 --runs %d --seed '%s'" % (sys.executable, options.runs, options.seed))
    finally:
        with open(path, "w") as f:
            f.write(text)
    counted = re.search(r"^(\d+) runs in", done.stdout, re.M)
    if not counted:
        return done.stdout[-500:]
    if done.returncode == 0:
        return "not noticed in %s runs" % counted.group(1)
    kind = re.search(r"^   (\w+), ", done.stdout, re.M)
    print("%4s runs  %s (%s)" % (counted.group(1), name, kind.group(1) if kind else "?"), flush=True)
    return None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--install", required=True)
    ap.add_argument("--restart", required=True)
    ap.add_argument("--only", default="")
    ap.add_argument("--runs", type=int, default=300)
    ap.add_argument("--seed", default="mutations")
    options = ap.parse_args()
    wrong = 0
    for mutation in MUTATIONS:
        if options.only in mutation[0]:
            problem = try_one(options, *mutation)
            if problem:
                wrong += 1
                print("NOT NOTICED  %s: %s" % (mutation[0], problem), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
