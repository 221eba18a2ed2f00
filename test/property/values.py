"""Columns of the streams, and keys that PostgreSQL takes for equal though they look different."""
import datetime
import hashlib

EPOCH = datetime.datetime(1970, 1, 1)

# type -> (how it is declared, literals in classes of equal ones)
KEY_TYPES = {
    "int": ("int", (("0",), ("1",), ("2",), ("-7",))),
    "bigint": ("bigint", (("9223372036854775807",), ("-9223372036854775808",), ("3",))),
    "text": ("text", (("",), ("a",), ("A",), ("ä",), ("c" * 300,))),
    "numeric": ("numeric", (("1", "1.0", "1.000"), ("2.5", "2.50"), ("NaN",), ("0", "0.00", "-0.0"), ("1e20", "100000000000000000000.0"))),
    "float8": ("float8", (("0", "-0"), ("NaN",), ("1.5",), ("Infinity",), ("1e-300",))),
    "float4": ("real", (("0", "-0"), ("NaN",), ("0.1",))),
    "jsonb": ("jsonb", (("1", "1.0"), ('{"a": 1}', '{"a": 1.00}'), ("null",), ("[]",))),
    "array": ("numeric[]", (("{1,2.0}", "{1.0,2}"), ("{}",), ("{NULL}",))),
    "interval": ("interval", (("1 day", "24 hours"), ("1 month", "30 days"), ("1 second",))),
    "citext": ("citext", (("a", "A"), ("Bc", "BC", "bc"), ("",))),
    "collated": ("text COLLATE without_case", (("a", "A"), ("Bc", "BC", "bc"), ("",))),
}
NAMES = ("a", "b", "ccc", "d" * 200)


COLUMNS = (("id", "int"), ("k", None), ("g", "text"), ("v", "int"), ("gap", "interval"), ("ts", "timestamptz"))
OTHERS = (("wide", "text DEFAULT repeat('wide ', 40)"), ("fixed", "char(3) DEFAULT 'x'"), ("small", '"char"'), ("bits", "varbit DEFAULT b'101'"),
          ("list", "int[] DEFAULT '{1,NULL}'"), ("exact", "numeric DEFAULT 'NaN'"), ("dropped", "uuid"), ("number", "float8 DEFAULT '-0'"))


def schema(rng):
    """Columns of the streams: in any order, with others that no query uses, of which one is dropped again."""
    columns = list(COLUMNS) + rng.sample(OTHERS, rng.choice((0, 0, 1, 3)))
    if rng.random() < 0.6:
        rng.shuffle(columns)
    return columns


class Keys:
    """What a run draws keys from; class_of() tells which class a value that the server shows is of."""

    def __init__(self, rng, kind, wide):
        self.declared, classes = KEY_TYPES[kind]
        self.kind = kind
        if wide:                # far more state than the least memory
            self.kind, self.declared = "text", "text"
            classes = tuple((hashlib.md5(b"%d" % i).hexdigest() * 8,) for i in range(3000))
        self.literals = [(literal, "%s#%d" % (self.kind, i)) for i, same in enumerate(classes) for literal in same]
        self.classes = {}

    def type_of(self, full=False):
        """As a function's argument has it; full: as a column has it."""
        return self.declared if full else self.declared.split(" COLLATE")[0]

    def be_text(self):
        """On a server that does not have the type."""
        self.kind, self.declared = "text", "text"
        self.literals = [(literal, literal) for literal, _ in self.literals]

    def learn(self, query):
        """Asks the server how it writes the literals."""
        values = ", ".join("(%s)" % quoted(literal) for literal, _ in self.literals)
        shown = query("SELECT v::%s::text FROM (VALUES %s) x (v)" % (self.type_of(), values))
        self.classes = {row[0]: name for row, (_, name) in zip(shown, self.literals)}

    def draw(self, rng):
        """(literal, class)"""
        return rng.choice(self.literals) if rng.random() > 0.1 else (None, None)


def quoted(text):
    return "NULL" if text is None else "'%s'" % text.replace("'", "''")


def instant(us):
    return (EPOCH + datetime.timedelta(microseconds=us)).isoformat() + "+00"


class Rows:
    """Rows around a clock that moves on."""

    def __init__(self, rng, keys, unit, start, spread, infinite):
        self.rng, self.keys, self.unit, self.clock = rng, keys, unit, start
        self.spread, self.infinite = spread, infinite

    def move(self):
        self.clock += int(self.rng.random() * self.rng.choice((0, 1, 1, 2, 10)) * 10) * self.unit

    def draw(self, number):
        rng = self.rng
        literal, key = self.keys.draw(rng)
        ts = self.clock + int((rng.random() - 0.8) * rng.choice(self.spread)) * self.unit
        shown = quoted(instant(ts)) if ts is not None else None
        if rng.random() < 0.03:
            ts, shown = None, rng.choice(["NULL", "'infinity'", "'-infinity'"] if self.infinite else ["NULL"])
        row = {"id": number, "k": key, "g": rng.choice((None,) + NAMES), "v": rng.choice((None,) + tuple(range(-3, 10))),
               "odd": shown if ts is None and shown != "NULL" else None,
               "gap": rng.choice((None, 0, -1, 1, 2, 3, 5, 9)), "ts": ts}
        if row["gap"] is not None:
            row["gap"] *= self.unit
        text = "(%d, %s, %s, %s, %s, %s)" % (
            number, quoted(literal), quoted(row["g"]), "NULL" if row["v"] is None else row["v"],
            "NULL" if row["gap"] is None else "'%d microseconds'" % row["gap"], shown)
        return row, text
