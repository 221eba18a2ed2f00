"""One run: draws everything, lets it happen, and compares."""
import collections
import os
import signal
import time

import handlers
import kinds
import simulate
import values

# crash points that a batch of such a query passes; each can be told to raise an error
POINTS = ("operator", "sessions-close", "after-read", "after-sink-write", "before-commit", "after-commit", "prepare",
          "handler", "timer")
REFUSALS = ("0A000", "SX005", "SX006", "42P10")
STARTS = (1767225600 * 10**6, -10 * 10**6, -2203891200 * 10**6 + 7)     # 2026, just before 1970, 1900
END = "60 s"


class Wrong(Exception):
    """What was found is not what should be."""


class Stream:
    def __init__(self, name, delay):
        self.name, self.delay = name, delay
        self.rows = []


def kind_of(rng):
    return rng.choice(kinds.KINDS).__name__


class Case:
    def __init__(self, server, run, rng, options):
        self.server, self.run, self.rng, self.options = server, run, rng, options
        self.kind = kind_of(rng)
        self.name = "p%d" % run
        self.trouble, self.steps = [], []
        self.checked = False                    # by verify(), and without reservation
        self.batches, self.progress, self.marks, self.last = [], [], [], -1
        self.waiting = None                     # counts of a batch whose due rows are not all shown
        self.draw()

    # ---------------------------------------------------------------- drawing

    def draw(self):
        rng = self.rng
        self.unit = rng.choice((1, 1000, 10**6, 10**6, 60 * 10**6))
        self.wide = rng.random() < 0.05
        self.many = rng.random() < 0.15         # open windows of a key
        self.key_kind = rng.choice(sorted(values.KEY_TYPES))
        self.keys = values.Keys(rng, self.key_kind, self.wide)
        delays = [rng.choice((0, rng.randint(0, 30), rng.randint(0, 30), 3000 if self.many else 5)) * self.unit for _ in range(2)]
        if rng.random() < 0.15:
            delays = [None, None]
        self.streams = [Stream("%s_s%d" % (self.name, i), d) for i, d in enumerate(delays)][:rng.choice((1, 2))]
        self.dim = [("a", "one"), ("b", "two"), ("b", "too"), (None, "none")]
        self.schema = values.schema(rng)
        start = rng.choice(STARTS) // self.unit * self.unit
        draw = kinds.Draw(rng, self.name, self.streams, self.dim, self.unit, self.keys, start)
        self.stage, self.mode = getattr(kinds, self.kind)(draw)
        # NULL rows that are due may come in several batches (D25), very many rows of a key in several calls
        self.batch_rows = (200000,) * 4 if self.wide or draw.calls == "LEFT" else (7, 50, 200000, 200000)
        self.times = 40 if self.wide and not draw.calls else 1
        finite = any(word in self.kind for word in ("distinct", "within", "handler"))
        self.rows = values.Rows(rng, self.keys, self.unit, start, (4000,) if self.many else (10, 30, 100), not finite)
        self.store = rng.choice(("rocksdb", "table"))
        self.settings = {"state_store": self.store, "state_memory": rng.choice(("1MB", "64MB")), "max_future_skew": "off",
                         "batch_rows": rng.choice(self.batch_rows), "batches_to_retain": 1000}
        self.chunk = rng.choice((1, 2, 7, 100, 1024))

    def tell(self):
        return "   %s, %s, keys %s, columns %s, %s, chunks of %d\n   %s\n   steps: %s" % (
            self.kind, self.mode, self.keys.declared, " ".join(name for name, _ in self.schema), ", ".join("%s %s" % x for x in sorted(self.settings.items())),
            self.chunk, self.stage.sql(), "; ".join(self.steps))

    # ---------------------------------------------------------------- the run

    def verdict(self):
        """None: all is right. "refused": the query was. Else raises what is wrong."""
        if self.keys.kind in ("citext", "collated") and self.keys.kind not in self.server.kinds:
            self.keys.be_text()
        if not self.make():
            return "refused"
        steps = 3 if self.wide else self.rng.randint(2, 6)
        for step in range(steps):
            self.rows.move()
            self.step(step, self.rng.randint(1, self.rng.choice((60, 60, 60, 300))))
        if self.rng.random() < 0.7:             # past everything that is open
            self.rows.clock += 20000 * self.unit
            self.step(steps, 2, late=False)
        self.compare()
        return None

    def sql(self, text):
        return self.server.run(text)

    def make(self):
        columns = ", ".join("%s %s" % (name, self.keys.declared if name == "k" else kind) for name, kind in self.schema)
        self.keys.learn(self.sql)
        self.sql("ALTER DATABASE %s SET streamx.chunk_rows = %d" % (self.server.name, self.chunk))
        for stream in self.streams:
            self.sql("CREATE FOREIGN TABLE IF NOT EXISTS %s (%s) SERVER streamx" % (stream.name, columns if stream.delay is None else columns.replace(
                "ts timestamptz", "ts timestamptz OPTIONS (watermark '%d microseconds')" % stream.delay)))
            self.sql("ALTER FOREIGN TABLE %s DROP COLUMN IF EXISTS dropped" % stream.name)
        self.sql("TRUNCATE dim; INSERT INTO dim VALUES " + ", ".join(
            "(%s, %s)" % (values.quoted(g), values.quoted(label)) for g, label in self.dim))
        for statement in self.stage.prepare():
            self.sql(statement)
        try:
            self.sql("SELECT create_query('%s', $q$%s$q$, sink => '%s_sink', output_mode => '%s', options => '%s') WHERE NOT EXISTS (SELECT FROM streamx.queries WHERE name = '%s')" % (
                self.name, self.stage.sql(), self.name, self.mode, self.json(), self.name))
        except Exception as e:
            if getattr(e, "pgcode", None) in REFUSALS:
                self.steps.append("refused: %s" % str(e).strip())
                return False
            raise
        self.start()
        return True

    def json(self):
        return "{%s}" % ", ".join('"%s": "%s"' % x for x in sorted(self.settings.items()))

    def start(self):
        self.sql("SELECT start_query('%s')" % self.name)

    def stop(self):
        self.sql("SELECT stop_query('%s', '60 s')" % self.name)

    # ---------------------------------------------------------------- rows

    def step(self, number, n, late=True):
        parts = []
        for _ in range(n * self.times):
            stream = self.rng.choice(self.streams)
            row, text = self.rows.draw(sum(len(s.rows) for s in self.streams))
            if not late and row["ts"] is not None:
                row["ts"] = None
                text = text[:text.rindex(", ")] + ", NULL)"
            stream.rows.append(row)
            parts.append((stream, text))
        if not late:                            # moves the clock of every input
            for stream in self.streams:
                row, text = self.rows.draw(sum(len(s.rows) for s in self.streams))
                row["ts"] = self.rows.clock
                stream.rows.append(row)
                parts.append((stream, text[:text.rindex(", ")] + ", %s)" % values.quoted(values.instant(row["ts"]))))
        cuts = sorted(self.rng.sample(range(1, len(parts)), min(len(parts) - 1, self.rng.choice((0, 0, 1, 3))))) + [len(parts)]
        give_up = self.rng.random() < 0.2
        trouble = self.draw_trouble()
        self.steps.append("%d rows%s" % (len(parts), ", " + trouble[0] if trouble else ""))
        before = 0
        for cut in cuts:
            self.feed(number * 10 + cuts.index(cut), parts[before:cut], give_up)
            before = cut
        self.drain(trouble)

    def feed(self, number, parts, give_up):
        """One transaction, once, whatever happens to it."""
        statements = []
        for stream, text in parts:
            if statements and statements[-1][0] is stream:
                statements[-1][1].append(text)
            else:
                statements.append((stream, [text]))
        inserts = ["INSERT INTO %s (id, k, g, v, gap, ts) VALUES %s" % (stream.name, ", ".join(texts)) for stream, texts in statements]
        if give_up:
            inserts.insert(len(inserts) // 2, "SAVEPOINT a; %s; ROLLBACK TO a" % inserts[0])
        text = "BEGIN; %s; INSERT INTO fed VALUES (%d, %d); COMMIT" % ("; ".join(inserts), self.run, number)
        while True:
            if self.server.one("SELECT count(*) FROM fed WHERE run = %d AND step = %d" % (self.run, number)):
                return
            try:
                self.server.connect()
                self.server.once(text)
                return
            except Exception as e:
                if not hasattr(e, "pgcode") or not self.server.passes(e):
                    raise
                self.server.forget()
                time.sleep(0.05)

    # ---------------------------------------------------------------- trouble

    def draw_trouble(self):
        """What goes wrong while the step's rows are processed: (name, argument), or None."""
        rng = self.rng
        what = rng.choices((None, "restart", "error", "terminate", "cancel", "options", "kill"),
                           (40, 20, 20, 5, 3, 9, 2))[0]
        argument = {"error": "%s:error:%d" % (rng.choice(POINTS), rng.choice((1, 1, 2, 5))),
                    "options": {"state_memory": rng.choice(("1MB", "64MB")),
                                "batch_rows": rng.choice(self.batch_rows[:3])}}.get(what, rng.random() * 0.05)
        return (what, argument) if what and not self.options.quiet else None

    def restart_with(self, point):
        setting = "streamx.crash_point"
        self.stop()
        self.sql("ALTER DATABASE %s SET %s = '%s'" % (self.server.name, setting, point))
        self.start()
        self.wait_started()
        self.sql("ALTER DATABASE %s RESET %s" % (self.server.name, setting))

    def wait_started(self):
        end = time.time() + 60
        while self.pid() is None and time.time() < end:
            time.sleep(0.01)

    def pid(self):
        rows = self.sql("SELECT pid FROM streamx.queries WHERE name = '%s'" % self.name)
        return rows[0][0] if rows else None

    def make_trouble(self, what, argument):
        self.trouble.append(what)
        if what == "restart":
            self.stop()
            self.start()
        elif what == "error":
            self.restart_with(argument)
        elif what == "options":
            self.settings.update(argument)
            self.sql("SELECT alter_query('%s', options => '%s')" % (self.name, self.json()))
        else:
            self.wait_started()
            time.sleep(argument)
            pid = self.pid()
            if pid and what == "kill":
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            elif pid:
                self.sql("SELECT pg_%s_backend(%d)" % (what, pid))

    def drain(self, trouble):
        if trouble:
            self.make_trouble(*trouble)
        end = time.time() + 120
        while True:
            try:
                self.sql("SELECT process_all_available('%s', '%s')" % (self.name, END))
                break
            except Exception as e:
                state = self.sql("SELECT state, last_error FROM streamx.queries WHERE name = '%s'" % self.name)
                if not hasattr(e, "pgcode") or time.time() > end or not state or state[0][0] in ("failed", "finished"):
                    raise Wrong("process_all_available: %s; the query is %s" % (e, state))
                if state[0][0] == "stopped":    # the server was killed before the start was on disk
                    self.start()
                time.sleep(0.1)
        self.read_batches()

    # ---------------------------------------------------------------- comparing

    def read_batches(self):
        """Rows of each batch by input: an input is read in the order in which it was written."""
        scans = self.stage.scans()
        found = self.sql(
            "SELECT p.batch_id, p.progress, (extract(epoch FROM b.watermark) * 1000000)::bigint, b.due IS NOT NULL FROM streamx.progress p "
            "JOIN streamx.query q ON q.name = p.query JOIN streamx.batch b ON b.query = q.id AND b.batch = p.batch_id "
            "WHERE p.query = '%s' AND p.batch_id > %d ORDER BY p.batch_id" % (self.name, self.last))
        for batch_id, progress, mark, waits in found:
            if batch_id != self.last + 1:
                raise Wrong("batch %d comes after %d" % (batch_id, self.last))
            self.last = batch_id
            # one that is read twice is one source with twice the rows
            streams = collections.Counter(s.stream for s in scans)
            if len(progress["sources"]) != len(streams):
                raise Wrong("%d sources, %d streams" % (len(progress["sources"]), len(streams)))
            read = {x: source["numInputRows"] // streams[x] for x, source in zip(streams, progress["sources"])}
            counts = [read[s.stream] + before for s, before in zip(scans, self.waiting or [0] * len(scans))]
            self.progress.append(progress)
            # what is due may be shown in several batches, of which the last one has the watermark
            self.waiting = counts if waits else None
            if not waits:
                self.batches.append(counts)
                self.marks.append(mark)

    def inputs(self):
        scans = self.stage.scans()
        at = [0] * len(scans)
        for counts in self.batches:
            inputs = []
            for i, n in enumerate(counts):
                inputs.append(scans[i].stream.rows[at[i]:at[i] + n])
                at[i] += n
            yield inputs
        for i, scan in enumerate(scans):
            if at[i] != len(scan.stream.rows):
                raise Wrong("%d of %d rows of %s were read" % (at[i], len(scan.stream.rows), scan.stream.name))

    def shown(self):
        """The sink's rows as the simulation writes them."""
        columns = self.sql("SELECT attname, atttypid::regtype::text FROM pg_attribute "
                           "WHERE attrelid = '%s_sink'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum" % self.name)
        us = "(extract(epoch FROM %s) * 1000000)::bigint"
        texts = []
        for name, kind in columns:
            if kind == "tstzrange":
                texts.append("%s || ',' || %s" % (us % ("lower(%s)" % name), us % ("upper(%s)" % name)))
            elif kind == "timestamp with time zone":
                texts.append("CASE WHEN isfinite(%s) THEN (%s)::text END" % (name, us % name))
            elif name == "gap":
                texts.append("(%s)::text" % (us % name))
            else:
                texts.append("%s::text" % name)
        names = [name for name, _ in columns]
        if names != list(self.stage.columns):
            raise Wrong("columns %s, wanted %s" % (names, list(self.stage.columns)))
        rows = self.sql("SELECT %s FROM %s_sink" % (", ".join(texts), self.name))
        return [tuple(self.keys.classes.get(v, v) if n == "k" else v for n, v in zip(names, row)) for row in rows]

    def compare(self):
        rows, marks, owed = simulate.expected(self.stage, self.mode, self.inputs())
        want = collections.Counter(tuple(simulate.text_of(r[c]) for c in self.stage.columns) for r in rows)
        have = collections.Counter(self.shown())
        wrong = []
        for what, more, less in (("missing", want, have), ("extra", have, want)):
            rest = list((more - less).elements())
            if rest:
                wrong.append("%d of %d rows %s: %.2000s" % (len(rest), sum(more.values()), what, rest[:3]))
        if marks != self.marks:
            wrong.append("watermarks %s, wanted %s" % (self.marks, marks))
        wrong += self.compare_counters(owed) + self.ask_server()
        if wrong:
            raise Wrong("\n".join(wrong + ["batches: %s" % self.batches]))

    def compare_counters(self, owed):
        stage, wrong = self.stage, []
        operators = [p["stateOperators"] for p in self.progress]
        if stage.stateful and all(len(o) == 1 for o in operators):
            rows = [o[0]["numRowsTotal"] for o in operators][-1]
            if stage.counts_rows and rows != stage.state_rows():
                wrong.append("%d state rows, wanted %d" % (rows, stage.state_rows()))
            late = sum(o[0]["numRowsDroppedByWatermark"] for o in operators)
            if late != stage.late and not (isinstance(stage, simulate.Aggregate) and stage.window and stage.window[0] == "hop"):
                wrong.append("%d late rows, wanted %d" % (late, stage.late))
            dropped = sum(o[0].get("customMetrics", {}).get("numDroppedDuplicateRows", 0) for o in operators)
            if dropped != stage.duplicates:
                wrong.append("%d duplicates, wanted %d" % (dropped, stage.duplicates))
        closes = isinstance(stage, simulate.Aggregate) and stage.closes or isinstance(stage, handlers.Handler) and stage.event
        if closes and owed != (self.marks or [None])[-1]:
            wrong.append("a batch is owed for watermark %s" % owed)
        return wrong

    def ask_server(self):
        """What streamx says itself."""
        wrong = ["unbalanced: %s" % (row,) for row in self.sql(
            "SELECT * FROM streamx.conservation WHERE query = '%s' AND balanced IS NOT TRUE LIMIT 3" % self.name)]
        found = self.sql("SELECT kind, key::text, expected::text, found::text, detail FROM streamx.verify('%s')" % self.name)
        if not any(kind in ("not checked", "note") for kind, *_ in found):
            wrong += ["verify: %s" % (row,) for row in found[:3]]
        self.checked = not found
        return wrong

    def remove(self):
        """Never fails: the verdict is there."""
        try:
            self.sql("SELECT drop_query('%s', if_exists => true)" % self.name)
            self.sql("DROP TABLE IF EXISTS %s_sink" % self.name)
            for statement in self.stage.forget():
                self.sql(statement)
            for stream in self.streams:
                self.sql("DROP FOREIGN TABLE IF EXISTS %s CASCADE" % stream.name)
        except Exception as e:
            print("# run %d was not removed: %s" % (self.run, e), flush=True)
