"""Handlers with state: what one does is drawn, written in PL/pgSQL, and done here once more in Python.

A handler counts the rows of its key (value state), keeps the last ids (list state) and counts by v (map state, with keys that
are equal and look different); it sets timers for its rows, and with a timer it shows what it has and forgets some of it. What
it shows must not depend on the order of a key's rows in a batch, so it goes through them by id.
"""
import collections

import simulate

US = "interval '%d microseconds'"

# what can be drawn; each is in the SQL and in the simulation
OPERATIONS = ("list", "map", "remove", "rows", "clear", "again", "sole", "catch")


class Handler(simulate.Stage):
    """form: none, event, processing (transform_with_state by that time mode), or groups (flat_map_groups_with_state by event time).

    timed: column "at" is the event time of what is above. pieces: a key's rows come in calls of two at most, so only timers show something.
    """

    stateful = True
    counts_rows = False                         # of the state: an entry is not a row
    ROW = ("id", "g", "v", "ts")

    def __init__(self, source, name, key, key_type, form, operations, delay, step, known=(), timed=False, pieces=False):
        self.source, self.name, self.key, self.key_type = source, name, key, key_type
        self.form, self.ops, self.delay, self.step = form, operations, delay, step
        self.known, self.timed, self.pieces = known, timed, pieces
        self.columns = tuple(key) + ("what", "at", "n", "ids", "entries", "timers")
        self.time = "at" if timed else None
        self.watermarked = timed
        self.groups, self.event = form == "groups", form in ("event", "groups")
        self.count = "state" if self.groups else "n"
        self.batches = 0
        self.n, self.ids, self.entries = {}, collections.defaultdict(list), collections.defaultdict(dict)
        self.timers = collections.defaultdict(dict)             # key -> time -> first batch in which it may fire

    def scans(self):
        return self.source.scans()

    # ---------------------------------------------------------------- as SQL

    def has(self, operation):
        if operation == "remove" and "map" not in self.ops:
            return False
        return operation in self.ops and not (self.groups and operation in ("list", "map", "remove", "sole")) and not (
            self.pieces and operation in ("rows", "remove", "sole", "catch"))

    def key_sql(self):
        return "t.%s" % self.key[0] if len(self.key) == 1 else "ROW(t.%s)::%s_key" % (", t.".join(self.key), self.name)

    def key_name(self):
        return self.key_type() if len(self.key) == 1 else "%s_key" % self.name

    def prepare(self):
        """Statements that may be repeated."""
        types = {"out": "what text, at timestamptz, n bigint, ids int[], entries text, timers int",
                 "row": "id int, g text, v int, ts timestamptz", "key": "k %s, g text" % self.key_type(True)}
        for name, columns in types.items():
            yield "DO $do$ BEGIN CREATE TYPE %s_%s AS (%s); EXCEPTION WHEN duplicate_object THEN NULL; END $do$" % (self.name, name, columns)
        yield "CREATE OR REPLACE FUNCTION %s_handler(key %s, rows %s_row[], timer timestamptz) RETURNS SETOF %s_out LANGUAGE plpgsql AS $f$%s$f$" % (
            self.name, self.key_name(), self.name, self.name, self.body())
        if self.known:
            yield "CREATE TABLE IF NOT EXISTS %s_known (key text, n bigint, at timestamptz)" % self.name
            yield "TRUNCATE %s_known" % self.name
            yield "INSERT INTO %s_known VALUES %s" % (self.name, ", ".join("(%s, %d, %s)" % (
                "NULL" if key is None else "'%s'" % key, n, "timestamptz 'epoch' + %s" % (US % at)) for key, n, at in self.known))
            yield ("CREATE OR REPLACE FUNCTION %s_begin(key text, rows %s_known[]) RETURNS void LANGUAGE plpgsql AS $f$ BEGIN "
                   "PERFORM state_put('n', (SELECT sum(n)::bigint FROM unnest(rows)))%s; END $f$" % (
                       self.name, self.name, "; PERFORM timer_set(r.at) FROM unnest(rows) r" if self.event else ""))

    def forget(self):
        """Statements that undo prepare()."""
        yield "DROP FUNCTION IF EXISTS %s_handler, %s_begin" % (self.name, self.name)
        yield "DROP TABLE IF EXISTS %s_known" % self.name
        for name in ("out", "row", "key"):
            yield "DROP TYPE IF EXISTS %s_%s" % (self.name, name)

    def body(self):
        entries = ("(SELECT string_agg(trim_scale(x)::text || ':' || state_map_get('m', x * 1.00, NULL::bigint), ',' ORDER BY x) "
                   "FROM unnest(state_map_keys('m', NULL::numeric)) x)" if self.has("map") else "NULL")
        ids = "state_list_get('l', NULL::int)" if self.has("list") else "NULL::int[]"
        if self.pieces and self.has("list"):
            ids = "(SELECT array_agg(x ORDER BY x) FROM unnest(%s) x)" % ids
        show = "RETURN NEXT ('%%s', %%s, n, %s, %s, %s)::%s_out; " % (
            ids, entries, "cardinality(timer_list())" if self.event and not self.groups and not self.pieces else "0", self.name)
        text = "DECLARE r %s_row; n bigint := state_get('%s', NULL::bigint); BEGIN IF timer IS NULL THEN " % (self.name, self.count)
        text += "FOR r IN SELECT * FROM unnest(rows) ORDER BY id, v LOOP n := coalesce(n, 0) + 1; "
        if self.has("list"):
            text += "PERFORM state_list_append('l', r.id); "
        if self.has("map"):
            text += ("PERFORM state_map_put('m', round(coalesce(r.v, 99)::numeric, abs(r.id) % 3), coalesce(state_map_get('m', "
                     "coalesce(r.v, 99) * 1.0, NULL::bigint), 0) + 1); ")
        if self.event and not self.groups:
            text += "IF r.ts IS NOT NULL AND r.id % 3 <> 0 THEN PERFORM timer_set(r.ts + " + US % self.delay + "); END IF; "
        text += "END LOOP; PERFORM state_put('%s', n); " % self.count
        if self.has("catch"):               # undone with the block
            text += "BEGIN PERFORM state_put('%s', -5::bigint)%s%s; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END; " % (
                self.count, ", state_list_append('l', -5)" if self.has("list") else "", ", state_map_put('m', -5.0, -5::bigint)" if self.has("map") else "")
        if self.has("list") and not self.pieces:
            text += "IF state_list_length('l') > 5 THEN PERFORM state_list_put('l', (state_list_get('l', NULL::int))[4:]); END IF; "
        if self.has("remove"):
            text += "IF n % 4 = 0 THEN PERFORM state_map_remove('m', 3.00); END IF; "
        if self.has("sole"):
            text += "IF n % 5 = 0 AND cardinality(timer_list()) > 1 THEN PERFORM timer_delete(x) FROM unnest((timer_list())[2:]) x; END IF; " if self.event else ""
        if self.groups:
            text += "IF EXISTS (SELECT FROM unnest(rows) x WHERE x.ts IS NOT NULL) THEN PERFORM timeout_set(greatest((SELECT max(x.ts) FROM unnest(rows) x) + " + US % self.delay + ", current_watermark())); END IF; "
        if self.form == "processing":           # in the same batch
            text += "PERFORM timer_set(current_processing_time() - interval '1 second'); "
        if self.has("rows"):
            text += show % ("rows", "(SELECT max(x.ts) FROM unnest(rows) x)")
        text += "ELSE " + show % ("timer", "timer" if not self.timed and self.event else
                                  "current_watermark() + interval '1 microsecond'" if self.event else "NULL::timestamptz")
        if self.has("clear"):
            text += "PERFORM state_clear('%s')%s%s; " % (
                self.count, ", state_clear('l')" if self.has("list") else "", ", state_clear('m')" if self.has("map") else "")
        if self.has("again") and self.event:
            again = "timer + " + US % self.step
            text += "IF n % 3 = 1 THEN " + ("PERFORM state_put('%s', n + 1), " % self.count) + (
                "timeout_set(greatest(%s, current_watermark()))" if self.groups else "timer_set(%s)") % again + "; END IF; "
        return text + "END IF; END "

    def sql(self):
        row = "ROW(%s)::%s_row" % (", ".join("t." + c for c in self.ROW), self.name)
        arguments = ["'%s_handler'" % self.name, self.key_sql(), row, "NULL::%s_out" % self.name]
        if self.groups:
            call = "flat_map_groups_with_state"
            arguments += ["state => NULL::bigint", "timeout => 'event'"]
        else:
            call = "transform_with_state"
            ttl = ", ttl => '1000 days'" if self.form == "processing" else ""
            state = ["value_state('n', NULL::bigint%s)" % ttl]
            state += ["list_state('l', NULL::int%s)" % ttl] if self.has("list") else []
            state += ["map_state('m', NULL::numeric, NULL::bigint%s)" % ttl] if self.has("map") else []
            arguments += ["time_mode => '%s'" % self.form, "state => ARRAY[%s]" % ", ".join(state)]
            arguments += ["initial_state => '%s_known'" % self.name, "initial_handler => '%s_begin'" % self.name] if self.known else []
        arguments += ["event_time_column => 'at'"] if self.timed else []
        arguments += ["max_rows => 2"] if self.pieces else []
        keys = [self.key_sql() + " AS " + self.key[0]] if len(self.key) == 1 else ["(%s).%s AS %s" % (self.key_sql(), c, c) for c in self.key]
        return "SELECT %s, h.* FROM (%s) t CROSS JOIN LATERAL %s(%s) h" % (", ".join(keys), self.source.sql(), call, ", ".join(arguments))

    # ---------------------------------------------------------------- in Python

    def show(self, key, what, at):
        timers = len(self.timers[key]) if self.event and not self.groups and not self.pieces else 0
        ids = list(self.ids[key]) if self.has("list") else None
        if ids is not None and self.pieces:
            ids = sorted(ids) or None           # array_agg() of nothing
        entries = sorted(self.entries[key].items())
        row = dict(zip(self.key, key))
        row.update(what=what, at=at, n=self.n.get(key), ids=ids, timers=timers,
                   entries=",".join("%d:%d" % e for e in entries) if self.has("map") and entries else None)
        return row

    def rows_of(self, key, rows, evict, out):
        times = simulate.present([r["ts"] for r in rows])
        if self.groups:
            self.timers[key].clear()
        for row in sorted(rows, key=lambda r: r["id"]):
            self.n[key] = (self.n.get(key) or 0) + 1
            if self.has("list"):
                self.ids[key].append(row["id"])
            if self.has("map"):
                v = 99 if row["v"] is None else row["v"]
                self.entries[key][v] = self.entries[key].get(v, 0) + 1
            if self.event and not self.groups and row["ts"] is not None and row["id"] % 3 != 0:
                self.timers[key].setdefault(row["ts"] + self.delay, 0)
        if self.has("list") and not self.pieces and len(self.ids[key]) > 5:
            self.ids[key] = self.ids[key][3:]
        if self.has("remove") and self.n[key] % 4 == 0:
            self.entries[key].pop(3, None)
        if self.has("sole") and self.event and self.n[key] % 5 == 0:
            for at in sorted(self.timers[key])[1:]:
                del self.timers[key][at]
        if self.groups and times:
            self.timers[key][max(simulate.present([max(times) + self.delay, evict]))] = 0
        if self.has("rows"):
            out.append(self.show(key, "rows", max(times, default=None)))
        if self.form == "processing":
            self.timers[key][None] = 0

    def timer_of(self, key, at, evict, out):
        if self.groups:
            self.timers[key].clear()
        n = self.n.get(key)
        out.append(self.show(key, "timer", (evict + 1 if self.timed else at) if self.event else None))
        if self.has("clear"):
            self.n.pop(key, None)
            self.ids.pop(key, None)
            self.entries.pop(key, None)
        if self.has("again") and self.event and n is not None and n % 3 == 1:
            self.n[key] = n + 1
            again = max(at + self.step, evict) if self.groups else at + self.step
            self.timers[key].setdefault(again, self.batches + 1)
        if not self.groups:
            self.timers[key].pop(at, None)

    def due(self, evict):
        """(time, key) of the timers that this batch fires."""
        if self.form == "processing":
            return [(None, key) for key, timers in self.timers.items() if timers]
        if not self.event or evict is None:
            return []
        until = evict - 1 if self.groups else evict
        return sorted(((at, key) for key, timers in self.timers.items() for at, first in timers.items()
                       if at <= until and first <= self.batches), key=lambda d: d[0])

    def batch(self, inputs, late, evict):
        rows = self.source.batch(inputs, late, evict)
        late, evict = self.source.passes(late), self.source.passes(evict)
        self.batches += 1
        out, of_key = [], collections.defaultdict(list)
        if self.batches == 1:
            for key, n, at in self.known:
                self.n[(key,)] = self.n.get((key,), 0) + n
                if self.event:
                    self.timers[(key,)][at] = 0
        for row in rows:
            if self.event and late is not None and row["ts"] is not None and row["ts"] <= late:
                self.late += 1
            else:
                of_key[tuple(row[c] for c in self.key)].append(row)
        for key, rows in of_key.items():
            self.rows_of(key, rows, evict, out)
        for at, key in self.due(evict):
            if at in self.timers[key]:
                self.timer_of(key, at, evict, out)
        return out
