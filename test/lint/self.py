"""Gives every check something wrong; a check that stays silent is reported."""
import os
import shutil
import subprocess
import tempfile

import comments
import exports
import includes
import lengths
import paths
import reference


def put(top, name, text):
    path = os.path.join(top, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main():
    top = tempfile.mkdtemp(prefix="streamx-lint.")
    try:
        put(top, "src/exec/exec.h", "")
        put(top, "src/state/store.c", '#include "postgres.h"\n#include "exec/exec.h"\n')
        put(top, "src/state/long.c", "void\nlong_one(void)\n{\n" + "\tx++;\n" * 130 + "}\n" + "\n" * 1000)
        put(top, "docs/page.md", "see /" + "home/somebody/notes\n")
        put(top, "sql/install/10_x.sql", "CREATE FUNCTION @extschema@.a(x int) RETURNS int LANGUAGE sql AS $$SELECT 1$$;\n"
            "CREATE FUNCTION @extschema@.b() RETURNS int LANGUAGE sql AS $$SELECT 1$$;\n"
            "COMMENT ON FUNCTION @extschema@.b() IS 'Says; one.';\n")
        put(top, "src/streamx.exports", "{\nglobal:\n\t_PG_init;\nlocal:\n\t*;\n};\n")
        put(top, "src/base/leak.c", "int leak = 1;\n")
        for command in (["gcc", "-c", "-fPIC", "src/base/leak.c", "-o", "src/base/leak.o"],
                        ["gcc", "-shared", "src/base/leak.o", "-o", "streamx.so"]):
            subprocess.run(command, cwd=top, check=True)
        put(top, "src/base/errors.h", "MAKE_SQLSTATE('S','X','9','9','9')\n")
        put(top, "docs/reference/all.md", "a()\n")
        put(top, "test/harness/lib.sh", 'BUILD_PACKAGES="one two"\n')
        put(top, "docs/how-to/install.md", "apt-get install -y git make two three\n")
        wanted = {reference: 4, includes: 1, lengths: 2, paths: 1, comments: 1, exports: 2}
        for module, count in wanted.items():
            found = list(module.check(top))
            if len(found) != count:
                print("%s found %d of %d mistakes: %s" % (module.__name__, len(found), count, found))
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    main()
