"""Spark in a process of its own, told when to run."""
import json
import os
import subprocess
import tempfile

from server import descendants

HERE = os.path.dirname(os.path.abspath(__file__))


class SparkFailed(Exception):
    pass


class Spark:
    """One workload; the first run is cold, what comes after it is warm."""

    def __init__(self, brokers, workload, sink, delay):
        program = [os.path.join(HERE, "spark.sh")]
        python, jars = (subprocess.run(program + [what], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
                        for what in ("python", "jars"))
        url = f"jdbc:postgresql://127.0.0.1:{os.environ['PGPORT']}/postgres?reWriteBatchedInserts=true"
        self.log = tempfile.NamedTemporaryFile("w+", prefix="spark.", suffix=".log", dir=os.environ["WORK"])
        self.process = subprocess.Popen(
            [python, os.path.join(HERE, "spark_job.py"), brokers, url, workload, sink], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=dict(os.environ, SPARK_JARS=jars, SPARK_LOCAL_IP="127.0.0.1", DELAY=delay, PYSPARK_PYTHON=python))
        try:
            ready = self.hear("ready")
        except SparkFailed:
            self.close()
            raise
        self.jvm, self.version = ready["jvm"], ready["version"]

    def hear(self, what):
        for line in self.process.stdout:
            if line.startswith(f"@{what} "):
                return json.loads(line[len(what) + 2:])
        self.log.seek(0)
        raise SparkFailed("Spark ended: " + self.log.read()[-3000:])

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def prepare(self, count):
        """Makes the query; with count its result is counted, which costs a little."""
        self.tell("count" if count else "run")
        self.hear("prepared")

    def run(self):
        self.tell("go")
        self.hear("done")

    def facts(self):
        return self.hear("facts")

    def pids(self):
        return descendants(self.process.pid)

    def close(self, patience=20):
        """Ends the process and all below it, by force after so many seconds."""
        self.process.stdin.close()
        below = self.pids()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            for pid in below:
                try:
                    os.kill(pid, 9)
                except OSError:
                    pass
            self.process.wait()
        self.log.close()
