"""docs/reference names every function, view, setting, option and SQLSTATE that there is;
the installation page names the packages that the harness builds with."""
import glob
import os
import re
import sys

from comments import bare, plain

INTERNAL = re.compile(r"streamx\.|_handler$|_validator$")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def things(top):
    """(kind, name, where it is defined)"""
    for path in sorted(glob.glob(os.path.join(top, "sql", "install", "*.sql"))):
        text, where = plain(read(path)), os.path.relpath(path, top)
        for m in re.finditer(r"\bCREATE\s+(?:OR\s+REPLACE\s+)?FUNCTION\s+([\w.@\"]+)", text, re.I):
            if not INTERNAL.search(bare(m.group(1))):
                yield "function", bare(m.group(1)), where
        for m in re.finditer(r"\bCREATE\s+VIEW\s+streamx\.(\w+)", text, re.I):
            yield "view", m.group(1), where
    path = os.path.join(top, "src", "base", "settings.c")
    if os.path.exists(path):
        for m in re.finditer(r'DefineCustom\w+\("(streamx\.\w+)"', read(path)):
            yield "setting", m.group(1), "src/base/settings.c"
    path = os.path.join(top, "src", "registry", "query_options.c")
    if os.path.exists(path):
        for m in re.finditer(r'^\t\{"(\w+)", "[^"\n]*.*, set_\w+\},', read(path), re.M):
            yield "query option", m.group(1), "src/registry/query_options.c"
    path = os.path.join(top, "src", "base", "errors.h")
    if os.path.exists(path):
        for m in re.finditer(r"MAKE_SQLSTATE\('S','X','(.)','(.)','(.)'\)", read(path)):
            yield "SQLSTATE", "SX" + "".join(m.groups()), "src/base/errors.h"


def check(top):
    pages = "\n".join(read(p) for p in glob.glob(os.path.join(top, "docs", "reference", "*.md")))
    for kind, name, where in things(top):
        if not re.search(r"(?<!\w)%s(?!\w)" % re.escape(name), pages):
            yield "%s: %s %s is not in docs/reference" % (where, kind, name)


    script, page = (os.path.join(top, *p) for p in (("test", "harness", "lib.sh"), ("docs", "how-to", "install.md")))
    if os.path.exists(script) and os.path.exists(page):
        wanted = set(re.search(r'^BUILD_PACKAGES="([^"]*)"', read(script), re.M).group(1).split())
        named = set(re.search(r"apt-get install -y ([^\n]*)", read(page)).group(1).split()) - {"git", "make"}
        for name in sorted(wanted ^ named):
            yield "docs/how-to/install.md: package %s: the page and test/harness/lib.sh differ" % name


if __name__ == "__main__":
    print("\n".join(check(sys.argv[1])), end="")
