"""Every object that the install scripts make has a COMMENT ON it."""
import glob
import os
import re
import sys

KINDS = "FUNCTION|PROCEDURE|AGGREGATE|VIEW|TABLE|UNLOGGED TABLE|TYPE|DOMAIN|SCHEMA|FOREIGN DATA WRAPPER|SERVER|OPERATOR"


def plain(text):
    """Without comments, string and dollar-quoted bodies, so that only statements are left."""
    text = re.sub(r"--[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"(\$\w*\$).*?\1", "''", text, flags=re.S)
    return re.sub(r"'(?:[^']|'')*'", "''", text)


def bare(name):
    return name.replace("@extschema@.", "").replace('"', "").lower()


def check(top):
    made, said = {}, {}
    for path in sorted(glob.glob(os.path.join(top, "sql", "install", "*.sql"))):
        with open(path, encoding="utf-8") as f:
            text = plain(f.read())
        for m in re.finditer(r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(%s)\s+([\w.@\"]+)" % KINDS.replace(" ", r"\s+"), text, re.I):
            kind = re.sub(r"\s+", " ", m.group(1)).upper().replace("UNLOGGED ", "")
            made.setdefault((kind, bare(m.group(2))), []).append(os.path.relpath(path, top))
        for m in re.finditer(r"\bCOMMENT\s+ON\s+(%s)\s+([\w.@\"]+)" % KINDS.replace(" ", r"\s+"), text, re.I):
            key = (re.sub(r"\s+", " ", m.group(1)).upper(), bare(m.group(2)))
            said[key] = said.get(key, 0) + 1
    for key, places in sorted(made.items()):
        if said.get(key, 0) < len(places):
            yield "%s: %d of %d %s %s without COMMENT ON" % (
                ", ".join(sorted(set(places))), len(places) - said.get(key, 0), len(places), key[0].lower(), key[1])


if __name__ == "__main__":
    print("\n".join(check(sys.argv[1])), end="")
