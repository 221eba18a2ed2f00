"""Includes point down only: a room may use rooms of a lower layer, never its neighbours, never upwards."""
import os
import re
import sys

# lowest first; rooms of one layer don't know each other
LAYERS = [
    ["base"],
    ["row", "time"],
    ["registry", "monitor"],
    ["format", "kafka", "lake", "state", "checkpoint"],
    ["source", "sink"],
    ["plan"],
    ["exec"],
    ["engine"],
    ["worker"],
    ["api"],
]
LEVEL = {room: i for i, layer in enumerate(LAYERS) for room in layer}
ALONE = {"syntax": {"base"}}            # a library of its own, and the headers that it may share
GUESTS = {"api": {"syntax"}}            # create_stream() has the grammar compiled in


def check(top):
    src = os.path.join(top, "src")
    for folder, _, files in sorted(os.walk(src)):
        room = os.path.relpath(folder, src).split(os.sep)[0]
        for name in sorted(files):
            if not name.endswith((".c", ".h", ".cc")) or room == ".":
                continue
            path = os.path.join(folder, name)
            where = os.path.relpath(path, top)
            if room not in LEVEL and room not in ALONE:
                yield "%s: room \"%s\" has no layer" % (where, room)
                continue
            with open(path, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    m = re.match(r'\s*#\s*include\s+"([a-z_]+)/([^"]+)"', line)
                    if m is None:
                        continue
                    target = m.group(1)
                    if target == room or not os.path.isdir(os.path.join(src, target)):
                        continue
                    if room in ALONE:
                        fine = target in ALONE[room]
                    else:
                        fine = target in GUESTS.get(room, ()) or \
                            target not in ALONE and LEVEL.get(target, 99) < LEVEL[room]
                    if not fine:
                        yield "%s:%d: %s must not include \"%s/%s\"" % (where, number, room, target, m.group(2))


if __name__ == "__main__":
    print("\n".join(check(sys.argv[1])), end="")
