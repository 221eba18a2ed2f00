"""Drives streamx through one case and says where it differs."""
import decimal
import json

import psycopg2
import psycopg2.extras
from psycopg2 import sql

import values

# A refusal that tells the user that the query cannot run, as opposed to a crash or a missing function.
REFUSALS = ("0A000", "SX005", "SX006", "42803", "42P20", "22023", "42601", "42804", "42P10", "0B000")
NOT_BUILT = ("0A000", "SX006", "42883")
# What Spark calls handlers with state that are written in Python.
OPERATORS = {"transformWithStateInPySparkExec": "transformWithStateExec", "applyInPandasWithState": "flatMapGroupsWithState"}
CONFS = {"multipleWatermarkPolicy": "multiple_watermark_policy", "noDataMicroBatches.enabled": "no_data_batches"}


class Failed(Exception):
    """The case differs from what was recorded."""


class NotYet(Exception):
    """The case needs an operator that streamx refuses so far."""


def quoted(name):
    return sql.Identifier(name)


class Replay:
    def __init__(self, dsn, case, number, store, options):
        self.case, self.store, self.options = case, store, options
        self.label = "%s_%s" % (store, case.name)
        self.schema = ("o%d_%s_%s" % (number, store, case.name))[:60]
        self.name = self.schema
        self.seen = -1                  # last batch id looked at
        self.table_rows, self.by_key = [], {}
        self.by_function = number % 2 == 1 or not options.syntax
        self.connection = psycopg2.connect(dsn)
        self.connection.autocommit = True

    # ---------------------------------------------------------------- SQL

    def run(self, statement, *args):
        with self.connection.cursor() as cursor:
            cursor.execute(statement, args or None)
            return cursor.fetchall() if cursor.description else None

    def make_objects(self):
        self.run(sql.SQL("CREATE SCHEMA {}").format(quoted(self.schema)))
        self.run(sql.SQL("SET search_path = {}, public").format(quoted(self.schema)))
        self.run("SET statement_timeout = '90s'")
        self.run("SET timezone = %s", self.case.confs.get("spark.sql.session.timeZone", "UTC"))
        for stream in self.case.streams:
            self.make_stream(stream)
        for table in self.case.tables:
            columns = ", ".join('"%s" %s' % (c["name"], c["type"]) for c in table["columns"])
            self.run("CREATE TABLE %s (%s)" % (table["name"], columns))
            self.insert(table["name"], table["columns"], table["rows"])
            self.run("ANALYZE %s" % table["name"])
        if self.case.handler:
            self.run(self.case.handler)
        self.run("CREATE TABLE seen_rows (batch bigint, row json)")
        self.run("CREATE TABLE seen_batches (batch bigint)")
        self.run("CREATE FUNCTION take(batch_id bigint) RETURNS void LANGUAGE plpgsql AS $f$ BEGIN "
                 "INSERT INTO %(s)s.seen_batches VALUES (batch_id); "
                 "INSERT INTO %(s)s.seen_rows SELECT batch_id, row_to_json(whole_row) FROM batch whole_row; END $f$"
                 % {"s": self.schema})

    def make_stream(self, stream):
        definition = ", ".join('"%s" %s' % (c["name"], c["type"]) for c in stream["columns"])
        if stream["watermark"]:
            definition += ", WATERMARK FOR %(column)s AS %(column)s - INTERVAL '%(delay)s'" % stream["watermark"]
        if self.by_function:
            self.run("SELECT create_stream(%s, %s)", stream["name"], "(" + definition + ")")
        else:
            self.run("CREATE STREAM %s (%s)" % (stream["name"], definition))

    def insert(self, relation, columns, rows):
        if not rows:
            return
        row = "(" + ", ".join("%s::" + c["type"] for c in columns) + ")"
        args = [values.literal(x, c["type"]) for r in rows for x, c in zip(r, columns)]
        self.run("INSERT INTO %s VALUES %s" % (relation, ", ".join([row] * len(rows))), *args)

    # ---------------------------------------------------------------- the query's life

    def query_options(self, confs):
        chosen = {"state_store": self.store, "max_future_skew": "off"}
        if self.options.state_memory:
            chosen["state_memory"] = self.options.state_memory
        for spark, value in confs.items():
            if spark in CONFS:
                chosen[CONFS[spark]] = value
        return json.dumps(chosen)

    def create(self):
        target = "sink" if self.options.sink == "table" else "foreach_batch"
        self.run("SELECT create_query(name => %%s, query => %%s, output_mode => %%s, %s => %%s, "
                 "options => %%s::jsonb)" % target, self.name, self.case.query, self.case.mode,
                 "%s.%s" % (self.schema, "result" if target == "sink" else "take(bigint)"),
                 self.query_options(self.case.confs))
        self.start()

    def start(self):
        self.run("SELECT start_query(%s)", self.name)

    def stop(self):
        if self.run("SELECT stop_query(%s)", self.name)[0][0] is False:
            raise Failed("stop_query did not stop the query within its time")

    def restart(self, step):
        self.stop()
        if step.get("restart_query"):
            self.run("SELECT alter_query(%s, query => %s)", self.name, step["restart_query"])
        if step.get("restart_confs"):
            try:
                self.run("SELECT alter_query(%s, options => %s::jsonb)", self.name,
                         self.query_options(step["restart_confs"]))
            except psycopg2.Error as e:
                # Spark ignores a setting that its checkpoint fixes; saying no does the same.
                if e.pgcode not in ("0A000", "55000", "22023"):
                    raise
        self.start()

    def drain(self):
        self.run("SELECT process_all_available(%s, '20 s')", self.name)

    def remove(self):
        try:
            self.run("SELECT drop_query(%s, if_exists => true)", self.name)
            self.run(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(quoted(self.schema)))
        except psycopg2.Error:
            pass                        # the case has its verdict already
        finally:
            self.connection.close()

    # ---------------------------------------------------------------- steps

    def feed(self, step):
        streams = {s["name"]: s for s in self.case.streams}
        self.run("BEGIN")
        for name, rows in step.get("input", {}).items():
            self.insert(name, streams[name]["columns"], rows[::-1] if self.options.reverse else rows)
        self.run("COMMIT")

    def batches(self):
        """Batches since the last look, as the checkpoint and the sink saw them."""
        rows = self.run("SELECT b.batch, b.watermark::text, b.next_watermark::text, b.progress "
                        "FROM streamx.batch b JOIN streamx.query q ON q.id = b.query "
                        "WHERE q.name = %s AND b.batch > %s ORDER BY b.batch", self.name, self.seen)
        called = [r[0] for r in self.run("SELECT batch FROM seen_batches WHERE batch > %s ORDER BY batch", self.seen)]
        ids = [r[0] for r in rows]
        if not set(called) <= set(ids) or len(called) != len(set(called)):
            raise Failed("foreach_batch was called for %s, the checkpoint has %s" % (called, ids))
        result = []
        for batch, watermark, next_watermark, progress in rows:
            p = json.loads(progress, parse_float=decimal.Decimal)
            output = self.run("SELECT row::text FROM seen_rows WHERE batch = %s", batch)
            output = [json.loads(r[0], parse_float=decimal.Decimal) for r in output]
            result.append({
                "batch": batch, "watermark": watermark, "next": next_watermark,
                "input_rows": p.get("numInputRows"),
                "output": [self.as_row(r) for r in output],
                "state": [{"operator": o["operatorName"], "rows_total": o["numRowsTotal"],
                           "rows_dropped_by_watermark": o["numRowsDroppedByWatermark"]}
                          for o in p.get("stateOperators", [])]})
        if ids:
            self.seen = ids[-1]
        lost = self.run("SELECT to_jsonb(c)::text FROM streamx.conservation c WHERE query = %s AND balanced IS NOT TRUE "
                        "ORDER BY batch_id LIMIT 1", self.name)
        if lost:
            raise Failed("a batch does not balance: %s" % lost[0][0])
        return result

    def as_row(self, row):
        """By position: before a restart that changes the query its columns had other names, or were fewer."""
        return list(row.values())[:len(self.case.columns)]

    def step(self, number, step):
        if step.get("restart") or (self.options.restart_between_steps and number > 0):
            self.phase = "restart"
            self.restart(step)
        self.phase = "run"
        self.feed(step)
        self.drain()
        if "output" not in step:
            raise Failed("step %d went through, but should fail" % number)
        self.compare(number, step, self.batches())

    def compare(self, number, step, got):
        errors = []
        columns = self.case.columns

        def differ(what, wanted, have):
            errors.append("step %d: %s: wanted %s, got %s" % (number, what, wanted, have))

        in_table = self.options.sink == "table"
        if in_table:
            wanted_rows, got_rows = self.folded(step), self.table()
        else:
            wanted_rows = values.multiset(step["output"], columns)
            got_rows = values.multiset([r for b in got for r in b["output"]], columns)
        if wanted_rows is not None and wanted_rows != got_rows:
            differ("output", values.show(wanted_rows - got_rows) or "nothing more",
                   values.show(got_rows - wanted_rows) or "nothing more")
        wanted_ids = [b["batch"] for b in step["batches"]]
        if wanted_ids != [b["batch"] for b in got]:
            differ("batch ids", wanted_ids, [b["batch"] for b in got])
        for w, g in zip(step["batches"], got):
            where = "batch %d " % w["batch"]
            if w["input_rows"] != g["input_rows"]:
                differ(where + "input_rows", w["input_rows"], g["input_rows"])
            a, b = values.multiset(w["output"], columns), values.multiset(g["output"], columns)
            if a != b and not in_table:
                differ(where + "output", values.show(a), values.show(b))
            if not values.same_watermark(w.get("watermark"), g["watermark"]):
                differ(where + "watermark", w.get("watermark"), g["watermark"])
            self.compare_state(where, w["state"], g["state"], differ)
        if got:
            self.watermark = got[-1]["next"]
            total = [{**s, "rows_dropped_by_watermark":
                      sum(b["state"][i]["rows_dropped_by_watermark"] for b in got if i < len(b["state"]))}
                     for i, s in enumerate(got[-1]["state"])]
            self.compare_state("", step["state"], total, differ)
        if not values.same_watermark(step["watermark_after"], self.watermark):
            differ("watermark_after", step["watermark_after"], self.watermark)
        if errors:
            raise Failed("\n".join(errors))

    # ---------------------------------------------------------------- a table as the sink

    def table(self):
        rows = self.run("SELECT row_to_json(whole_row)::text FROM result whole_row")
        rows = [json.loads(r[0], parse_float=decimal.Decimal) for r in rows]
        return values.multiset([self.as_row(r) for r in rows], self.table_columns())

    def table_columns(self):
        """Without "op", by which foreach_batch is told of deleted rows."""
        return [c for c in self.case.columns if c["name"] != "op"]

    def folded(self, step):
        """What a table holds after the recorded outputs so far; None where D14 keeps it otherwise."""
        mode, columns = self.case.mode, self.table_columns()
        operators = {o["operator"] for s in self.case.steps for o in s.get("state", [])}
        # of these each row comes once, in update mode too
        only_added = operators <= {"dedupe", "dedupeWithinWatermark", "symmetricHashJoin", *OPERATORS}
        if mode == "append" or (mode == "update" and only_added):
            self.table_rows += step["output"]
            return values.multiset(self.table_rows, columns)
        if mode == "complete":
            for batch in step["batches"]:
                self.table_rows = batch["output"]
            return values.multiset(self.table_rows, columns)
        if "having" in self.case.tags:
            return None
        keys = [r[0] for r in self.run(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
            "AND a.attnum = ANY(i.indkey) WHERE i.indrelid = 'result'::regclass AND i.indisunique")]
        for batch in step["batches"]:
            for row in sorted(batch["output"], key=self.is_written):
                key = tuple(values.normal(x, c["type"]) for x, c in zip(row, columns) if c["name"] in keys)
                if self.is_written(row):
                    self.by_key[key] = row[:len(columns)]
                else:
                    self.by_key.pop(key, None)
        return values.multiset(self.by_key.values(), columns)

    def is_written(self, row):
        return self.table_columns() == self.case.columns or row[-1] == "upsert"

    @staticmethod
    def compare_state(where, wanted, got, differ):
        wanted = [{**s, "operator": OPERATORS.get(s["operator"], s["operator"])} for s in wanted]
        if [s["operator"] for s in wanted] != [s["operator"] for s in got]:
            return differ(where + "operators", [s["operator"] for s in wanted], [s["operator"] for s in got])
        for w, g in zip(wanted, got):
            for key in ("rows_total", "rows_dropped_by_watermark"):
                if w[key] != g[key]:
                    differ("%s%s %s" % (where, w["operator"], key), w[key], g[key])

    def verify(self):
        """streamx.verify finds nothing, unless it says that it cannot tell."""
        if self.options.sink != "table" or any(s.get("restart_query") for s in self.case.steps):
            return
        found = self.run("SELECT kind, to_jsonb(v)::text FROM streamx.verify(%s) v", self.name)
        unsure = any(kind == "not checked" or "DISTINCT ON" in text for kind, text in found)
        wrong = [text for kind, text in found if kind not in ("not checked", "note")]
        if wrong and not unsure:
            raise Failed("verify: %s" % wrong[0])

    # ---------------------------------------------------------------- the verdict

    def check_error(self, e, number):
        """An error came: is it the one that was recorded?"""
        error, needs = self.case.error, self.case.needs()
        code, text = e.pgcode or "no SQLSTATE", str(e).strip().split("\n")[0]
        if error is None:
            if needs and self.phase == "start" and code in NOT_BUILT:
                raise NotYet(needs)
            if self.phase == "start" and self.options.sink == "table" and code == "42P10":
                raise NotYet("a table sink of rows without a key")	# Spark has no such sink
            raise Failed("%s %s: %s %s" % (self.phase, number, code, text))
        if code[:2] in ("XX", "57", "08", "58") or code == "no SQLSTATE":
            raise Failed("%s: not a refusal: %s %s" % (self.phase, code, text))
        if self.phase == "start":
            # D10: also what Spark refuses when it plans the first batch
            if error["phase"] == "start" or self.case.area == "illegal":
                if code not in REFUSALS and not (needs and code in NOT_BUILT):
                    raise Failed("refused, but for another reason: %s %s" % (code, text))
                return
            raise Failed("refused at the start: %s %s" % (code, text))
        if number != error.get("step"):
            raise Failed("failed in step %d instead of %s: %s %s" % (number, error.get("step"), code, text))
        if error["phase"] != self.phase and not (self.case.area == "restart" and self.phase == "restart"):
            raise Failed("failed in phase %s instead of %s: %s %s" % (self.phase, error["phase"], code, text))
        if self.batches():
            raise Failed("the failed step left a batch behind")

    def verdict(self):
        """Returns if the case holds; raises Failed or NotYet."""
        if self.case.query is None:
            raise NotYet(self.case.needs())
        self.phase, self.watermark, number = "start", None, 0
        try:
            self.make_objects()
        except psycopg2.Error as e:
            if self.case.error and self.case.error["phase"] == "start" and e.pgcode in REFUSALS:
                return
            raise Failed("set-up: %s %s" % (e.pgcode, str(e).strip()))
        try:
            self.create()
            for number, step in enumerate(self.case.steps):
                self.step(number, step)
            self.verify()
        except psycopg2.Error as e:
            if self.connection.closed:
                raise Failed("the connection was lost: %s" % str(e).strip())
            self.run("ROLLBACK")
            return self.check_error(e, number)
        if self.case.error:
            raise Failed("accepted, but should be refused or fail in phase %s" % self.case.error["phase"])
