"""Nothing tracked names a place of one machine: home folders, hosts, addresses."""
import os
import re
import sys

from lengths import files_of

PATTERNS = [
    (re.compile(r"(?<![\w./-])/(?:home|root|work|Users|mnt)/\w"), "a folder of one machine"),
    (re.compile(r"\b(?:10\.\d+|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b"), "a private address"),
    (re.compile(r"https?://[\w.-]*\b(?:internal|intranet|corp|proxy|artifactory|nexus)\b", re.I), "an internal host"),
]
SKIP = ("test/oracle/cases/", "test/lint/")  # recorded data; the patterns themselves


def check(top):
    for name in files_of(top):
        if name.startswith(SKIP) or name.endswith((".o", ".so")):
            continue
        with open(os.path.join(top, name), "rb") as f:
            data = f.read()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            for pattern, what in PATTERNS:
                m = pattern.search(line)
                if m:
                    yield "%s:%d: %s: %s" % (name, number, what, m.group(0))


if __name__ == "__main__":
    print("\n".join(check(sys.argv[1])), end="")
