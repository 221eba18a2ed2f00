"""A recorded case, with what streamx wants otherwise laid over it."""
import decimal
import glob
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f, parse_float=decimal.Decimal)


class Case:
    def __init__(self, path):
        self.path = path
        data = read_json(path)
        self.name, self.area, self.tags = data["name"], data["area"], data["tags"]
        self.streams, self.tables = data["streams"], data["tables"]
        self.query, self.mode = data["query"], data["output_mode"]
        self.confs = data["confs"]
        self.columns = data["output_columns"] or []
        self.steps = data["steps"]
        self.error = data.get("error")
        self.rules = []
        self.handler = None
        if self.query is None:
            self.read_handler()
        self.apply_deviation()

    def read_handler(self):
        """Cases of state handlers have no query: handlers/<name>.sql makes the handler that `pseudo` describes, and has it."""
        path = os.path.join(HERE, "handlers", self.name + ".sql")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.handler, self.query = f.read().split("-- query\n")

    def apply_deviation(self):
        """Our own expected rows (spec deviations), if the case has some: deviations/<name>.json."""
        path = os.path.join(HERE, "deviations", self.name + ".json")
        if not os.path.exists(path):
            return
        ours = read_json(path)
        self.rules = ours["rules"]
        if "error" in ours:
            self.error = ours["error"]
        if "output_columns" in ours:
            self.columns = ours["output_columns"]
        for i, step in enumerate(ours.get("steps", [])):
            if i < len(self.steps):
                self.steps[i] = {**self.steps[i], **step}
            else:
                self.steps.append(step)

    def needs(self):
        """Operators that may still be missing: a refusal of these is "not yet", of anything else a failure."""
        if self.query is None:
            return "a state handler"
        text = " ".join([self.query] + [s["restart_query"] for s in self.steps if s.get("restart_query")])
        if re.search(r"\bDISTINCT ON\b|\bSELECT DISTINCT\b|\bwithin_watermark\s*\(", text, re.I):
            return "deduplication"
        if re.search(r"\bJOIN\b|\bEXISTS\b", text, re.I) and self.stream_references(text) > 1:
            return "stream-stream joins"
        if self.area == "chain":
            return "several stateful operators"
        return None

    def order_matters(self):
        """Which of a batch's rows is the first one decides what comes out."""
        if self.query is None:
            return True                 # handlers see rows one by one
        first = re.search(r"\bDISTINCT ON\b", self.query, re.I) is not None
        some = self.mode == "append" and re.search(r"\bLIMIT\b", self.query, re.I) is not None
        return first or some

    def stream_references(self, text):
        names = "|".join(re.escape(s["name"]) for s in self.streams)
        return len(re.findall(r"(?:\bFROM|\bJOIN|,)\s+(?:%s)\b" % names, text, re.I))


def load(paths):
    """Cases of files and folders, by area and name."""
    files = []
    for path in paths:
        if os.path.isdir(path):
            files += glob.glob(os.path.join(path, "**", "*.json"), recursive=True)
        else:
            files.append(path)
    cases = [Case(f) for f in files]
    return sorted(cases, key=lambda c: (c.area, c.name))
