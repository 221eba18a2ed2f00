"""Functions under 120 lines, files under 1000."""
import os
import re
import subprocess
import sys

MAX_FUNCTION, MAX_FILE = 120, 1000


def files_of(top):
    """Tracked files, or all in a tree without git."""
    try:
        out = subprocess.run(["git", "-C", top, "ls-files", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, text=True, check=True).stdout
        found = [f for f in out.split("\n") if f]
    except (subprocess.CalledProcessError, OSError):
        found = []
    if not found:
        for folder, dirs, names in os.walk(top):
            dirs[:] = [d for d in dirs if d not in (".git", "results", "output_iso", "log", "__pycache__")]
            found += [os.path.relpath(os.path.join(folder, n), top) for n in names]
    return sorted(f for f in found if os.path.isfile(os.path.join(top, f)))


def functions(lines):
    """(name, first line, length) of C functions: an opening brace in column one to its closing one."""
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{") and start is None:
            start = number
        elif line.startswith("}") and start is not None:
            head = next((lines[i] for i in range(start - 2, max(start - 12, -1), -1)
                         if re.match(r"[A-Za-z_]\w*\(", lines[i])), "")
            if head:
                yield head.split("(")[0], start, number - start + 1
            start = None


def check(top):
    for name in files_of(top):
        if not name.endswith((".c", ".h", ".cc", ".py", ".sh", ".pm", ".pl")):
            continue
        with open(os.path.join(top, name), encoding="utf-8", errors="replace") as f:
            lines = f.read().split("\n")
        if len(lines) > MAX_FILE:
            yield "%s: %d lines, more than %d" % (name, len(lines), MAX_FILE)
        if name.endswith((".c", ".cc")):
            for function, line, length in functions(lines):
                if length > MAX_FUNCTION:
                    yield "%s:%d: %s has %d lines, more than %d" % (name, line, function, length, MAX_FUNCTION)


if __name__ == "__main__":
    print("\n".join(check(sys.argv[1])), end="")
