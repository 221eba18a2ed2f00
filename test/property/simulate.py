"""What a query's sink must hold, worked out from its batches without PostgreSQL.

A stage takes the rows of a batch and gives rows, as dictionaries. Event times are
microseconds from 1970; None where there is none, or it is not finite ("odd" says which). A window is a
pair of them. Keys that PostgreSQL takes for equal have one value here (values.py).

Two watermarks act in a batch: rows are late by the one of the batch before, groups
are closed by the batch's own; both compare with <=, and None means unset.
"""
import collections


def text_of(value):
    """As PostgreSQL writes it, but for times and windows."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "{%s}" % ",".join("NULL" if v is None else text_of(v) for v in value)
    if isinstance(value, tuple):
        return "%d,%d" % value
    return str(value)


def present(values):
    return [v for v in values if v is not None]


def xor(values):
    result = 0
    for v in present(values):
        result ^= v
    return result


# SQL over column {c} (an integer), and the same over its values in a group
AGGREGATES = {
    "count(*)": len,
    "count({c})": lambda vs: len(present(vs)),
    "sum({c})": lambda vs: sum(present(vs)) if present(vs) else None,
    "min({c})": lambda vs: min(present(vs), default=None),
    "max({c})": lambda vs: max(present(vs), default=None),
    "count(DISTINCT {c})": lambda vs: len(set(present(vs))),
    "array_agg({c} ORDER BY {c})": lambda vs: sorted(present(vs)) + [None] * (len(vs) - len(present(vs))),
    "bool_or({c} > 3)": lambda vs: any(v > 3 for v in present(vs)) if present(vs) else None,
    "count(*) FILTER (WHERE {c} > 3)": lambda vs: len([v for v in present(vs) if v > 3]),
    "uncombined({c}::int)": xor,
}
PLAIN_AGGREGATES = ("count(*)", "sum({c})", "max({c})", "count({c})", "min({c})")


class Stage:
    """A part of the query: SQL, the columns it gives, and what it does with a batch."""

    columns = ()                # names
    time = None                 # name of the column that carries the watermark
    stateful = False
    counts_rows = True          # state_rows() is what progress shows
    late = duplicates = 0

    def prepare(self):
        """What must be there for the query: statements that may be repeated."""
        return self.source.prepare() if hasattr(self, "source") else ()

    def forget(self):
        """Statements that undo prepare()."""
        return self.source.forget() if hasattr(self, "source") else ()

    def windows(self):
        """Columns that are windows."""
        return ()

    def passes(self, mark):
        """The watermark for whoever takes this one's rows."""
        return self.source.passes(mark)

    def event_time(self, row):
        """Of a window, its last instant, as window_time() has it."""
        at = row[self.time]
        return at[1] - 1 if isinstance(at, tuple) else at


class Scan(Stage):
    columns = ("id", "k", "g", "v", "gap", "ts")

    def __init__(self, stream, where=None):
        self.stream, self.where = stream, where
        self.time = "ts"
        self.watermarked = stream.delay is not None

    def sql(self):
        return "SELECT %s FROM %s%s" % (", ".join(self.columns), self.stream.name, " WHERE " + self.where[0] if self.where else "")

    def scans(self):
        return [self]

    def passes(self, mark):
        return mark

    def batch(self, inputs, late, evict):
        return [r for r in inputs[self] if not self.where or self.where[1](r)]


class StaticJoin(Stage):
    """With the table dim (g, label); a row of the stream may find several."""

    def __init__(self, source, dim, outer):
        self.source, self.dim, self.outer = source, dim, outer
        self.columns = tuple(source.columns) + ("label",)
        self.time, self.watermarked = source.time, source.watermarked

    def sql(self):
        return "SELECT j.*, d.label FROM (%s) j %sJOIN dim d ON d.g = j.g" % (self.source.sql(), "LEFT " if self.outer else "")

    def windows(self):
        return self.source.windows()

    def scans(self):
        return self.source.scans()

    def batch(self, inputs, late, evict):
        out = []
        for row in self.source.batch(inputs, late, evict):
            labels = [label for g, label in self.dim if g == row["g"]] if row["g"] is not None else []
            out += [dict(row, label=label) for label in labels or ([None] if self.outer else [])]
        return out


class Union(Stage):
    def __init__(self, *sources):
        self.sources = sources
        self.columns, self.time = sources[0].columns, sources[0].time
        self.watermarked = all(s.watermarked for s in sources)

    def sql(self):
        return " UNION ALL ".join("(%s)" % s.sql() for s in self.sources)

    def windows(self):
        return self.sources[0].windows()

    def scans(self):
        return [x for s in self.sources for x in s.scans()]

    def passes(self, mark):
        return min(present([s.passes(mark) for s in self.sources]), default=None)

    def batch(self, inputs, late, evict):
        return [r for s in self.sources for r in s.batch(inputs, late, evict)]


class Dedup(Stage):
    """DISTINCT (keys are all columns), DISTINCT ON (keys), or within the watermark."""

    stateful = True

    def __init__(self, source, keys, on=True, within=False):
        self.source, self.keys, self.on, self.within = source, keys, on, within
        self.columns = source.columns if on else keys
        self.time = source.time if source.time in self.columns else None
        self.watermarked = source.watermarked
        self.seen = {}

    def sql(self):
        keys = ", ".join(self.keys)
        if not self.on:
            return "SELECT DISTINCT %s FROM (%s) d" % (keys, self.source.sql())
        return "SELECT DISTINCT ON (%s) * FROM (%s) d" % ("within_watermark(%s)" % keys if self.within else keys, self.source.sql())

    def windows(self):
        return [w for w in self.source.windows() if w in self.columns]

    def scans(self):
        return self.source.scans()

    def expiry(self, row, at):
        if self.within:
            return (0 if at is None else at) + self.scans()[0].stream.delay
        return at if self.watermarked and self.source.time in self.keys else None

    def batch(self, inputs, late, evict):
        out = []
        rows = self.source.batch(inputs, late, evict)
        late, evict = self.source.passes(late), self.source.passes(evict)
        for row in rows:
            at = row[self.source.time] if self.source.time else None
            at = at[1] if isinstance(at, tuple) else at
            if self.watermarked and at is not None and late is not None and at <= late:
                self.late += 1
                continue
            key = tuple(row[k] for k in self.keys)
            if key in self.seen:
                self.duplicates += 1
                continue
            self.seen[key] = self.expiry(row, at)
            out.append({c: row[c] for c in self.columns})
        if evict is not None:
            self.seen = {k: e for k, e in self.seen.items() if e is None or e > evict}
        return out

    def state_rows(self):
        return len(self.seen)


class Join(Stage):
    """Of two streams by keys, with times from each other by lowest to highest: r.ts - l.ts.

    A row that is not late finds every row of the other side that was not late: what has
    been forgotten cannot be matched any more. Those without a match come out when
    they are forgotten.
    """

    stateful = True
    counts_rows = False
    LEFT = ("id", "k", "g", "v", "ts")
    RIGHT = ("rid", "rv", "rts")

    def __init__(self, left, right, kind, keys, lowest, highest, extra=None):
        self.sides, self.kind, self.keys = (left, right), kind, keys
        self.lowest, self.highest, self.extra = lowest, highest, extra
        self.columns = self.LEFT if kind in ("SEMI", "ANTI") else self.LEFT + self.RIGHT
        self.time, self.watermarked = "ts", left.watermarked and right.watermarked
        self.by_key = (collections.defaultdict(list), collections.defaultdict(list))    # [row, was it matched]

    def sql(self):
        us = "interval '%d microseconds'"
        on = " AND ".join(["l.%s = r.%s" % (k, k) for k in self.keys] + ["r.ts BETWEEN l.ts + %s AND l.ts + %s" % (us % self.lowest, us % self.highest)]
                          + ([self.extra[0]] if self.extra else []))
        left = ", ".join("l." + c for c in self.LEFT)
        if self.kind in ("SEMI", "ANTI"):
            return "SELECT %s FROM (%s) l WHERE %sEXISTS (SELECT FROM (%s) r WHERE %s)" % (
                left, self.sides[0].sql(), "NOT " if self.kind == "ANTI" else "", self.sides[1].sql(), on)
        return "SELECT %s, r.id AS rid, r.v AS rv, r.ts AS rts FROM (%s) l %s JOIN (%s) r ON %s" % (
            left, self.sides[0].sql(), self.kind, self.sides[1].sql(), on)

    def scans(self):
        return [x for s in self.sides for x in s.scans()]

    def limits(self, mark):
        """Rows up to these are forgotten, by side: a BETWEEN leaves a millisecond, as in Spark."""
        return (None, None) if mark is None else (mark - self.highest - 1000, mark + self.lowest - 1000)

    def passes(self, mark):
        return min(present((mark,) + self.limits(mark)), default=None)

    def in_range(self, left, right):
        if left["ts"] is None or right["ts"] is None:       # infinity is as far from itself as one likes
            return left["ts"] is right["ts"] and left["odd"] is not None and left["odd"] == right["odd"]
        return self.lowest <= right["ts"] - left["ts"] <= self.highest

    def match(self, left, right):
        return (all(left[k] is not None and left[k] == right[k] for k in self.keys) and self.in_range(left, right)
                and (not self.extra or self.extra[1](left, right)))

    def pair(self, left, right):
        row = {c: left[c] if left else None for c in self.LEFT}
        row.update((("rid", right and right["id"]), ("rv", right and right["v"]), ("rts", right and right["ts"])))
        return {c: row[c] for c in self.columns}

    def forget_passed(self, side, limit, key, kept, out):
        for row, matched in kept:
            if not matched and row["ts"] is not None and row["ts"] <= limit:
                out.append(self.pair(row, None) if side == 0 else self.pair(None, row))
        kept[:] = [one for one in kept if one[0]["ts"] is None or one[0]["ts"] > limit]
        if not kept:
            del self.by_key[side][key]

    def batch(self, inputs, late, evict):
        out = []
        for side in (0, 1):
            for row in self.sides[side].batch(inputs, late, evict):
                if late is not None and row["ts"] is not None and row["ts"] <= late:
                    self.late += 1
                    continue
                mine = [row, False]
                key = tuple(row[k] for k in self.keys)
                for other in self.by_key[1 - side][key]:
                    left, right = (mine, other) if side == 0 else (other, mine)
                    if not self.match(left[0], right[0]):
                        continue
                    if self.kind == "SEMI" and not left[1]:
                        out.append(self.pair(left[0], None))
                    elif self.kind not in ("SEMI", "ANTI"):
                        out.append(self.pair(left[0], right[0]))
                    left[1] = right[1] = True
                self.by_key[side][key].append(mine)
        outer = {"LEFT": (0,), "RIGHT": (1,), "FULL": (0, 1), "ANTI": (0,)}.get(self.kind, ())
        for side, limit in enumerate(self.limits(evict)):
            if limit is not None:
                for key, kept in list(self.by_key[side].items()):
                    self.forget_passed(side, limit, key, kept, out if side in outer else [])
        return out


class Group:
    """The rows of a group; of a session also where it was when the batch began."""

    def __init__(self, key, window):
        self.key, self.window = key, window
        self.rows = []
        self.touched = False
        self.shown = None


class Aggregate(Stage):
    """GROUP BY keys and a window: ("tumble", size, offset), ("hop", size, slide), ("session", SQL, gap of a row) or None."""

    stateful = True

    def __init__(self, source, window, keys, values, over, having=None, mode="append"):
        self.source, self.window, self.keys, self.over = source, window, keys, over
        self.values, self.having, self.mode = values, having, mode
        self.name = "w%d" % (1 + sum(c.startswith("w") for c in source.columns))
        self.time = self.name if window else None
        self.watermarked = source.watermarked and bool(window)
        self.closes = self.watermarked and mode != "complete"
        self.aliases = ["%s_a%d" % (self.name, i) for i in range(len(values))]
        self.columns = tuple(([self.name] if window else []) + list(keys) + self.aliases)
        self.groups = collections.defaultdict(list)     # key -> groups; of sessions in order of time
        self.table = {}                                 # what a keyed sink holds

    def sql(self):
        at = self.source.time
        at = "window_time(%s)" % at if at in self.source.windows() else at
        us = "interval '%d microseconds'"
        call = {"tumble": lambda w: "tumble(%s, %s, %s)" % (at, us % w[1], us % w[2]),
                "hop": lambda w: "hop(%s, %s, %s)" % (at, us % w[1], us % w[2]),
                "session": lambda w: "session(%s, %s)" % (at, w[1])}
        shown = [call[self.window[0]](self.window) + " AS " + self.name] if self.window else []
        shown += self.keys
        shown += ["%s AS %s" % (v.format(c=self.over), a) for v, a in zip(self.values, self.aliases)]
        by = ([self.name] if self.window else []) + list(self.keys)
        return "SELECT %s FROM (%s) g%s%s" % (
            ", ".join(shown), self.source.sql(), " GROUP BY " + ", ".join(by) if by else "",
            " HAVING " + self.having[0] if self.having else "")

    def windows(self):
        return ([self.name] if self.window else [])

    def scans(self):
        return self.source.scans()

    # ---- rows into groups

    def windows_of(self, row):
        """The windows of a row; None where it has no time."""
        if not self.window:
            return [None]
        at = self.source.event_time(row)
        if at is None:
            return []
        if self.window[0] == "session":
            gap = self.window[2](row)
            return [(at, at + gap)] if gap is not None and gap > 0 else []
        size, slide, offset = self.window[1], self.window[1], 0
        if self.window[0] == "hop":
            slide = self.window[2]
        else:
            offset = self.window[2]
        start = (at - offset) // slide * slide + offset
        result = []
        while start + size > at:
            result.append((start, start + size))
            start -= slide
        return result

    def place(self, key, window):
        groups = self.groups[key]
        if self.window and self.window[0] == "session":
            return self.place_session(key, groups, window)
        for group in groups:
            if group.window == window:
                return group
        groups.append(Group(key, window))
        return groups[-1]

    def place_session(self, key, groups, window):
        touching = [g for g in groups if g.window[0] <= window[1] and g.window[1] >= window[0]]
        if not touching:
            groups.append(Group(key, window))
            return groups[-1]
        first = touching[0]
        for other in touching[1:]:
            first.rows += other.rows
            if other.shown is not None:
                self.table.pop((key, other.shown), None)
            groups.remove(other)
        starts = [window[0]] + [g.window[0] for g in touching]
        ends = [window[1]] + [g.window[1] for g in touching]
        first.window = (min(starts), max(ends))
        return first

    def take(self, rows, late):
        for row in rows:
            key = tuple(row[k] for k in self.keys)
            for window in self.windows_of(row):
                if self.closes and late is not None and window[1] <= late:
                    self.late += 1
                    continue
                group = self.place(key, window)
                group.rows.append(row)
                group.touched = True

    # ---- groups into rows

    def row_of(self, group):
        values = [row.get(self.over) for row in group.rows]
        row = dict(zip(self.keys, group.key))
        if self.window:
            row[self.name] = group.window
        row.update((a, AGGREGATES[v](values)) for v, a in zip(self.values, self.aliases))
        return row if not self.having or self.having[1](len(group.rows)) else None

    def batch(self, inputs, late, evict):
        rows = self.source.batch(inputs, late, evict)
        late, evict = self.source.passes(late), self.source.passes(evict)
        self.take(rows, late)
        everything = [g for groups in self.groups.values() for g in groups]
        for group in everything:
            if group.touched and self.mode == "update":
                self.table.pop((group.key, group.shown), None)
        out = []
        if self.mode == "complete":
            self.table = {}
        for group in everything:
            closed = self.closes and evict is not None and group.window[1] <= evict
            row = None
            if closed if self.mode == "append" else self.mode == "complete" or group.touched:
                row = self.row_of(group)
            if row is not None and self.mode == "append":
                out.append(row)
            elif row is not None:
                self.table[group.key, group.window] = row
            group.touched = False
            group.shown = group.window
            if closed:
                self.groups[group.key].remove(group)
        return out

    def state_rows(self):
        return sum(map(len, self.groups.values()))


class Watermark:
    """Of the query: the least of its inputs' ones, unset until each has shown a time."""

    def __init__(self, delays):
        self.delays = delays
        self.seen = [None] * len(delays)
        self.now = None

    def see(self, index, rows):
        times = [r["ts"] // 1000 * 1000 for r in rows if r["ts"] is not None]
        if times:
            self.seen[index] = max(times + present([self.seen[index]]))

    def step(self):
        marks = [s - d for s, d in zip(self.seen, self.delays) if s is not None and d is not None]
        wanted = [d for d in self.delays if d is not None]
        if wanted and len(marks) == len(wanted):
            self.now = max(present([self.now, min(marks)]))
        return self.now


def expected(stage, mode, batches):
    """Rows of the sink, the watermark of each batch, after batches: lists of rows by scan."""
    scans = stage.scans()
    watermark = Watermark([s.stream.delay for s in scans])
    late, rows, marks = None, [], []
    for inputs in batches:
        evict = watermark.step()
        rows += stage.batch(dict(zip(scans, inputs)), late, evict)
        marks.append(evict)
        late = evict
        for i, part in enumerate(inputs):
            watermark.see(i, part)
    if mode != "append":
        rows = list(stage.table.values())
    return rows, marks, watermark.step()
