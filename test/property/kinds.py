"""The kinds of queries: each draws one, as a stage (simulate.py) and an output mode.

A new kind is a function here that takes a Draw, and a line in KINDS.
"""
import handlers
import simulate as s


class Draw:
    def __init__(self, rng, name, streams, dim, unit, keys, start):
        self.rng, self.name, self.streams, self.dim, self.unit, self.of_keys, self.start = rng, name, streams, dim, unit, keys, start
        self.watermarked = all(x.delay is not None for x in streams)
        self.calls = None                       # kind of a join whose rows a handler shows call by call

    # ---- parts

    def where(self):
        return self.rng.choice((
            None, None, None, ("v IS DISTINCT FROM 5", lambda r: r["v"] != 5),
            ("v > 0", lambda r: r["v"] is not None and r["v"] > 0), ("id % 3 <> 0", lambda r: r["id"] % 3 != 0),
            ("g IS NOT NULL", lambda r: r["g"] is not None)))

    def scan(self, number=0):
        return s.Scan(self.streams[number], self.where())

    def source(self):
        """One or two streams, or one twice, or joined with a table."""
        which = self.rng.random()
        if which < 0.6:
            return self.scan()
        if which < 0.8:
            return s.Union(self.scan(), self.scan(len(self.streams) - 1))
        return s.StaticJoin(self.scan(), self.dim, self.rng.random() < 0.5)

    def keys(self, source, least=0):
        columns = [c for c in ("k", "g", "v", "label") if c in source.columns]
        n = self.rng.choice((0, 1, 1, 1, 2))
        chosen = self.rng.sample(columns, min(len(columns), max(n, least)))
        return ["k"] if chosen and self.rng.random() < 0.5 else chosen

    def values(self, from_all=s.AGGREGATES):
        return self.rng.sample(sorted(from_all), self.rng.randint(1, 4))

    def having(self):
        return self.rng.choice((None, None, ("count(*) > 1", lambda n: n > 1), ("count(*) < 3", lambda n: n < 3)))

    def tumble(self):
        size = self.rng.randint(1, 12) * self.unit
        return ("tumble", size, self.rng.choice((0, 0, self.rng.randint(0, 12) * self.unit % size)))

    def hop(self):
        slide = self.rng.randint(1, 5) * self.unit
        return ("hop", self.rng.choice((slide * self.rng.randint(1, 4), slide + self.rng.randint(0, 9) * self.unit)), slide)

    def session_of_all(self):
        """With a gap that needs no column."""
        gap = self.rng.randint(1, 9) * self.unit
        return ("session", "interval '%d microseconds'" % gap, lambda r: gap)

    def session(self):
        if self.rng.random() < 0.6:
            return self.session_of_all()
        unit = self.unit
        return self.rng.choice((
            ("session", "gap", lambda r: r["gap"]),
            ("session", "v * interval '%d microseconds'" % unit, lambda r: None if r["v"] is None else r["v"] * unit)))

    def mode(self, watermark=True):
        return self.rng.choice(("append", "append", "update", "complete") if watermark else ("update", "complete"))


def aggregate(d, window, source=None, mode=None):
    source = source or d.source()
    mode = mode or d.mode(source.watermarked and window is not None)
    return s.Aggregate(source, window, d.keys(source, 0 if window else 1), d.values(), "v", d.having(), mode), mode


def tumbling(d):
    return aggregate(d, d.tumble())


def sliding(d):
    return aggregate(d, d.hop())


def sessions(d):
    return aggregate(d, d.session())


def grouped(d):
    return aggregate(d, None)


def copied(d):
    return d.source(), "append"


def distinct(d):
    source = d.source()
    # which row of a key is the first is certain only in a stream
    if d.rng.random() < 0.5 or not isinstance(source, s.Scan):
        return s.Dedup(source, d.keys(source, 1), on=False), "append"
    keys = d.keys(source, 1)
    return s.Dedup(source, keys + (["ts"] if d.rng.random() < 0.5 else [])), "append"


def within_watermark(d):
    source = d.scan()
    if not source.watermarked:
        return distinct(d)
    return s.Dedup(source, d.keys(source, 1), within=True), "append"


def distinct_then_aggregate(d):
    source = d.scan()
    keys = d.keys(source, 1) + ["ts"]
    first = s.Dedup(source, keys, within=source.watermarked and d.rng.random() < 0.3)
    if not source.watermarked:
        return aggregate(d, None, first, "update")
    return aggregate(d, d.rng.choice((d.tumble, d.hop, d.session))(), first, "append")


def aggregate_then_aggregate(d):
    source = d.source()
    if not source.watermarked:
        return grouped(d)
    windows = (d.tumble, d.hop, d.session)
    first = s.Aggregate(source, d.rng.choice(windows)(), d.keys(source), ["count(*)"] + d.values(s.PLAIN_AGGREGATES), "v", d.having())
    window = d.rng.choice((d.tumble, d.hop, d.session_of_all))()
    keys = d.rng.sample(list(first.keys), d.rng.randint(0, len(first.keys)))
    return s.Aggregate(first, window, keys, d.values(s.PLAIN_AGGREGATES), first.aliases[0], d.having()), "append"


def aggregate_then_distinct(d):
    source = d.source()
    if not source.watermarked:
        return grouped(d)
    first = s.Aggregate(source, d.rng.choice((d.tumble, d.session))(), d.keys(source), ["count(*)"], "v")
    return s.Dedup(first, [first.name] + first.aliases, on=False), "append"


def union_of_windows(d):
    """Each branch with a state of its own."""
    if not d.watermarked:
        return grouped(d)
    keys, values = d.keys(d.scan()), d.values()
    one, other = (s.Aggregate(d.scan(n), d.rng.choice((d.session, d.session, d.tumble))(), keys, values, "v", d.having())
                  for n in (0, len(d.streams) - 1))
    return s.Union(one, other), "append"


def join(d, chosen=("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")):
    if not d.watermarked:
        return copied(d)
    lowest = d.rng.randint(-5, 3) * d.unit
    extra = d.rng.choice((None, None, ("l.v <= r.v", lambda l, r: l["v"] is not None and r["v"] is not None and l["v"] <= r["v"])))
    keys = d.rng.choice((["k"], ["k"], ["g"], ["k", "g"]))
    return s.Join(d.scan(), d.scan(len(d.streams) - 1), d.rng.choice(chosen), keys, lowest, lowest + d.rng.randint(0, 9) * d.unit, extra), "append"


def join_then_aggregate(d):
    if not d.watermarked:
        return grouped(d)
    return aggregate(d, d.rng.choice((d.tumble, d.hop, d.session_of_all))(), join(d, ("INNER", "LEFT", "SEMI"))[0], "append")


def handler(d, timed=False):
    """With state of its own: over streams, deduplicated or joined ones."""
    source = d.source()
    if source.watermarked and d.rng.random() < 0.3:
        source = d.rng.choice((lambda: join(d, ("INNER", "LEFT"))[0], lambda: s.Dedup(d.scan(), ["k", "ts"])))()
    form = d.rng.choice(("event", "event", "event", "groups", "none", "processing") if source.watermarked else ("none", "processing"))
    form = "event" if timed else form
    key = d.rng.choice((("k",), ("k",), ("g",), ("v",), ("k", "g")))
    operations = [o for o in handlers.OPERATIONS if d.rng.random() < 0.6]
    pieces = form == "event" and d.rng.random() < 0.2
    d.calls = source.kind if isinstance(source, s.Join) and not pieces else None
    if form in ("none", "processing") and "rows" not in operations:
        operations.append("rows")
    known = ()
    if form != "groups" and key == ("g",) and d.rng.random() < 0.5 and not timed:
        known = [(d.rng.choice((None, "a", "b", "elsewhere")), d.rng.randint(1, 9), d.start + d.rng.randint(-20, 60) * d.unit) for _ in range(3)]
    types = {"k": d.of_keys.type_of, "g": lambda full=False: d.of_keys.type_of(full) if full else "text",
             "v": lambda full=False: d.of_keys.type_of(full) if full else "int"}
    return handlers.Handler(source, d.name, key, types[key[0]], form, operations, d.rng.randint(0, 9) * d.unit, d.rng.randint(1, 5) * d.unit,
                            known, timed, pieces), "append"


def handler_then_aggregate(d):
    if not d.watermarked:
        return handler(d)
    first = handler(d, timed=True)[0]
    keys = d.rng.sample(list(first.key), d.rng.randint(0, len(first.key)))
    return s.Aggregate(first, d.rng.choice((d.tumble, d.hop, d.session_of_all))(), keys, d.values(s.PLAIN_AGGREGATES), "n", d.having()), "append"


KINDS = (tumbling, sliding, sessions, sessions, grouped, copied, distinct, within_watermark,
         distinct_then_aggregate, aggregate_then_aggregate, aggregate_then_distinct, union_of_windows,
         join, join, join_then_aggregate, handler, handler, handler_then_aggregate)
