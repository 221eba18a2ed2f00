"""The server sees only the names of streamx.exports, and what is not static begins with sx_."""
import fnmatch
import os
import re
import subprocess
import sys

SERVER = ["Pg_magic_func", "_PG_init", "pg_finfo_*"]


def symbols(path, *options):
    out = subprocess.run(["nm", *options, path], capture_output=True, text=True, check=True).stdout
    for line in out.split("\n"):
        parts = line.split()
        if len(parts) == 3 and parts[1] in "TDBRVW":
            yield parts[2]


def allowed(top):
    with open(os.path.join(top, "src", "streamx.exports"), encoding="utf-8") as f:
        text = f.read().split("local:")[0]
    return re.findall(r"^\s*([\w*]+);", text, re.M)


def check(top):
    library = os.path.join(top, "streamx.so")
    if not os.path.exists(library):
        return                          # nothing was built here; make check builds first
    names = allowed(top)
    for name in symbols(library, "-D", "--defined-only"):
        if not any(fnmatch.fnmatchcase(name, p) for p in names):
            yield "streamx.so exports %s" % name
    for folder, _, files in os.walk(os.path.join(top, "src")):
        for file in sorted(files):
            if not file.endswith(".o") or not os.path.exists(os.path.join(folder, file[:-2] + ".c")):
                continue
            if os.path.basename(folder) == "syntax":
                continue
            for name in symbols(os.path.join(folder, file), "-g", "--defined-only"):
                if not name.startswith("sx_") and not any(fnmatch.fnmatchcase(name, p) for p in SERVER):
                    yield "%s defines %s: global names begin with sx_" % (file, name)


if __name__ == "__main__":
    print("\n".join(check(sys.argv[1])), end="")
