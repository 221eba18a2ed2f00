"""The private cluster under test: connections, and what its processes use."""
import os
import re
import signal
import subprocess
import threading
import time

import psycopg2

WORK = os.environ["WORK"]
DATA = os.path.join(WORK, "data")
TICKS = os.sysconf("SC_CLK_TCK")


def connect():
    connection = psycopg2.connect("")       # PGHOST, PGPORT, PGUSER, PGDATABASE
    connection.autocommit = True
    sql(connection, "SET client_min_messages = warning")
    return connection


def sql(connection, query, *args):
    cursor = connection.cursor()
    cursor.execute(query, args or None)
    return cursor.fetchall() if cursor.description else None


def one(connection, query, *args):
    return sql(connection, query, *args)[0][0]


# ---------------------------------------------------------------- processes

def postmaster():
    with open(os.path.join(DATA, "postmaster.pid")) as f:
        return int(f.readline())


def _stat(pid):
    """(parent, [utime, stime, cutime, cstime]) or None when it is gone"""
    try:
        with open(f"/proc/{pid}/stat") as f:
            text = f.read()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2:].split()
    return int(fields[1]), [int(x) for x in fields[11:15]]


def children(pid):
    return [int(d) for d in os.listdir("/proc") if d.isdigit() and (_stat(d) or (0,))[0] == pid]


def descendants(pid):
    """The process and all below it."""
    below = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            stat = _stat(d)
            if stat:
                below.setdefault(stat[0], []).append(int(d))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += below.get(found[-1], [])
    return found


def cpu_below(pid):
    """CPU seconds of the process and all below it, those that ended included."""
    return sum(sum(stat[1]) for stat in map(_stat, descendants(pid)) if stat) / TICKS


def title(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read().replace("\0", " ").strip()
    except OSError:
        return ""


def cpu():
    """CPU seconds of all server processes, those that ended included."""
    top = postmaster()
    total = sum(_stat(top)[1])
    for pid in children(top):
        stat = _stat(pid)
        if stat:
            total += stat[1][0] + stat[1][1]
    return total / TICKS


def cpu_now():
    """CPU seconds of the server processes that run now, to the nanosecond: ticks are too coarse for many that do next to nothing."""
    top = postmaster()
    total = 0
    for pid in [top] + children(top):
        try:
            with open(f"/proc/{pid}/schedstat") as f:
                total += int(f.read().split()[0])
        except OSError:
            pass  # it has ended
    return total / 1e9


def cpu_of(pid):
    stat = _stat(pid)
    return (stat[1][0] + stat[1][1]) / TICKS if stat else 0.0


def machine_busy():
    with open("/proc/stat") as f:
        fields = [int(x) for x in f.readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / TICKS


def settle(limit=5.0):
    """Waits a little for a quiet machine; returns the load average."""
    end = time.time() + limit
    while time.time() < end:
        before = machine_busy()
        time.sleep(0.5)
        if machine_busy() - before < 0.1:
            break
    return os.getloadavg()[0]


def query_workers(connection, name=None):
    """pids of the query workers"""
    rows = sql(connection, "SELECT pid, application_name FROM pg_stat_activity"
               " WHERE backend_type = 'streamx query' ORDER BY pid")
    return [pid for pid, application in rows if name is None or name in application]


def memory_of(pid):
    """(private MB now, largest resident MB ever), the latter with shared buffers touched"""
    try:
        with open(f"/proc/{pid}/status") as f:
            text = f.read()
    except OSError:
        return 0, 0
    private = re.search(r"RssAnon:\s+(\d+)", text)
    highest = re.search(r"VmHWM:\s+(\d+)", text)
    return (int(private[1]) >> 10 if private else 0, int(highest[1]) >> 10 if highest else 0)


def resident_mb(pid):
    """Private memory and mapped files, without shared buffers."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return sum(int(kb) for kb in re.findall(r"Rss(?:Anon|File):\s+(\d+)", f.read())) >> 10
    except OSError:
        return 0


class WorkerMemory(threading.Thread):
    """Largest RssAnon, VmHWM and resident_mb of any query worker, sampled at 10 Hz."""

    def __init__(self):
        super().__init__(daemon=True)
        self.private = self.highest = self.resident = 0
        self.workers = set()
        self.on = True
        self.start()

    def run(self):
        while self.on:
            try:
                workers = [p for p in children(postmaster()) if "streamx query" in title(p)]
            except OSError:
                workers = []
            self.workers.update(workers)
            for pid in workers:
                private, highest = memory_of(pid)
                self.private = max(self.private, private)
                self.highest = max(self.highest, highest)
                self.resident = max(self.resident, resident_mb(pid))
            time.sleep(0.1)

    def stop(self):
        self.on = False
        self.join()
        return {"rss_private_mb": self.private, "rss_highest_mb": self.highest}


class Meter:
    """What a run takes: wall time, CPU of the server, WAL, worker memory."""

    def __init__(self, connection):
        self.connection = connection
        sql(connection, "CHECKPOINT")
        self.load = settle()
        self.memory = WorkerMemory()
        self.lsn = one(connection, "SELECT pg_current_wal_insert_lsn()")
        self.times = os.times()
        self.cpu = cpu()
        self.busy = machine_busy()
        self.start = time.time()

    def stop(self, rows):
        wall = time.time() - self.start
        used = cpu() - self.cpu
        now = os.times()
        client = now.user + now.system - self.times.user - self.times.system
        foreign = machine_busy() - self.busy - used - client
        wal = one(self.connection, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)::bigint", self.lsn)
        record = {"rows": rows, "wall_s": round(wall, 3), "rows_s": round(rows / wall),
                  "cpu_s": round(used, 2), "rows_per_cpu_s": round(rows / used) if used else None,
                  "client_cpu_s": round(client, 2), "foreign_cores": round(max(0, foreign) / wall, 2),
                  "load": round(self.load, 2), "wal_mb": round(wal / 1e6)}
        record.update(self.memory.stop())
        return record


# ---------------------------------------------------------------- start, stop, kill

def kill9(pid):
    os.kill(pid, signal.SIGKILL)


def gone(pid):
    """Reaped too: a server does not start while its predecessor is a zombie."""
    return not os.path.exists(f"/proc/{pid}")


def start():
    """Starts the server again; returns at once."""
    as_server = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    return subprocess.Popen(as_server + [os.path.join(os.environ["PG_BIN"], "pg_ctl"), "-D", DATA, "-l",
                                         os.path.join(WORK, "server.log"), "-W", "start"], cwd="/",
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def connect_when_up(limit=120.0):
    end = time.time() + limit
    while True:
        try:
            connection = connect()
            return connection, time.time()
        except psycopg2.Error:
            if time.time() > end:
                raise
            time.sleep(0.01)
