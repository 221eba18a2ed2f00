"""Values of the recorded cases and of streamx, made comparable."""
import collections
import datetime
import decimal
import re

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def parse_time(text):
    """An instant; micros are kept, any offset is understood. 'infinity' stays text."""
    if text in ("infinity", "-infinity"):
        return text
    text = text.strip('"').replace(" ", "T").replace("Z", "+00:00")
    text = re.sub(r"([+-]\d\d)$", r"\1:00", text)
    m = re.match(r"(.*?)(\.\d+)?([+-]\d\d:\d\d)$", text)
    if m is None:
        raise ValueError("not an instant: %r" % text)
    fraction = ((m.group(2) or ".") + "000000")[:7]
    return datetime.datetime.fromisoformat(m.group(1) + fraction + m.group(3)).astimezone(datetime.timezone.utc)


def normal(value, typ):
    """A hashable value: equal ones are equal for the oracle (README, "Values")."""
    if typ.endswith("[]"):
        return tuple(normal(x, typ[:-2]) for x in (value or []))
    if value is None:
        return None
    if typ == "timestamptz":
        return parse_time(value)
    if typ == "tstzrange":
        if isinstance(value, str):
            m = re.match(r'\["?([^",]*)"?,"?([^")]*)"?\)$', value)
            if m is None:
                return value            # not half-open: equal to nothing recorded
            value = m.groups()
        return (parse_time(value[0]), parse_time(value[1]))
    if typ in ("double precision", "real"):
        number = float(value)
        if number != number:
            return "NaN"
        return 0.0 if number == 0 else float("%.9g" % number)
    if typ.startswith("numeric") or typ in ("bigint", "integer", "smallint"):
        try:
            return decimal.Decimal(str(value)).normalize() + 0
        except decimal.InvalidOperation:
            return value                # a column whose type a restart changed
    return value


def multiset(rows, columns):
    return collections.Counter(tuple(normal(x, c["type"]) for x, c in zip(row, columns)) for row in rows)


def show(counter):
    """A multiset for people, at most a few rows."""
    def cell(x):
        if isinstance(x, datetime.datetime):
            return x.strftime("%Y-%m-%dT%H:%M:%S") + (".%06d" % x.microsecond if x.microsecond else "")
        if isinstance(x, tuple):
            return "[" + ", ".join(cell(y) for y in x) + ")"
        return str(x)
    rows = ["(" + ", ".join(cell(x) for x in row) + ")" for row in counter.elements()]
    more = " ... %d rows" % len(rows) if len(rows) > 8 else ""
    return " ".join(sorted(rows)[:8]) + more


def same_watermark(wanted, got):
    """D5: an unset watermark is NULL here and 1970-01-01 there; our own rows say "unset"."""
    if wanted == "unset":
        return got is None
    if wanted is None or got is None:
        return got is None and (wanted is None or parse_time(wanted) == EPOCH)
    return parse_time(wanted) == parse_time(got)


def literal(value, typ):
    """An input value as text for a parameter of that type."""
    if value is None:
        return None
    if typ.endswith("[]"):
        return "{" + ",".join("NULL" if x is None else '"%s"' % str(x).replace("\\", "\\\\").replace('"', '\\"')
                              for x in value) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
