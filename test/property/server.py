"""A database of a lane, on a server that may be killed at any moment by whoever shares it."""
import time

import psycopg2

PATIENCE = 90                           # seconds until the server must be there again
REPEATED = 400                          # until a statement must have been done, however often the server was killed meanwhile

# classes and codes of errors that a killed server or worker explains
PASSING = ("57P01", "57P02", "57P03", "57014", "08000", "08001", "08003", "08006", "40001", "25P02")


class Lost(Exception):
    """The server stays away."""


class Server:
    def __init__(self, name):
        self.name = name
        self.connection = None

    # ---- statements

    def connect(self):
        end = time.time() + PATIENCE
        while self.connection is None:
            try:
                self.connection = psycopg2.connect(dbname=self.name)
                self.connection.autocommit = True
                self.once("SET client_min_messages = error; SET statement_timeout = '60s'; SET timezone = 'UTC'")
            except psycopg2.Error as e:
                self.forget()
                if time.time() > end:
                    raise Lost(str(e))
                time.sleep(0.1)

    def forget(self):
        try:
            if self.connection is not None:
                self.connection.close()
        except psycopg2.Error:
            pass
        self.connection = None

    def once(self, text):
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall() if cursor.description else None

    def run(self, text):
        """A statement that may be repeated, until it is done."""
        end = time.time() + REPEATED
        while True:
            self.connect()
            try:
                return self.once(text)
            except psycopg2.Error as e:
                if not self.passes(e) or time.time() > end:
                    raise
                time.sleep(0.05)

    def passes(self, error):
        """Is it of those that go by? Then there is a connection, or a new one will be made."""
        if isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError)) and error.pgcode is None:
            self.forget()
            return True
        if error.pgcode in PASSING:
            if self.connection is None or self.connection.closed or error.pgcode.startswith("57P"):
                self.forget()
            return True
        return False

    def one(self, text):
        return self.run(text)[0][0]

    # ---- the database

    def make(self):
        name, self.name = self.name, "postgres"
        self.run("DROP DATABASE IF EXISTS %s WITH (FORCE)" % name)
        self.run("CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'" % name)
        self.forget()
        self.name = name
        self.run("CREATE EXTENSION IF NOT EXISTS streamx")
        self.run("CREATE TABLE IF NOT EXISTS fed (run int, step int)")
        self.run("CREATE TABLE IF NOT EXISTS dim (g text, label text)")
        self.run("DO $$ BEGIN CREATE AGGREGATE uncombined(int) (SFUNC = int4xor, STYPE = int, INITCOND = '0'); "
                 "EXCEPTION WHEN duplicate_function THEN NULL; END $$")
        self.kinds = [self.has(statement, kind) for statement, kind in (
            ("CREATE EXTENSION IF NOT EXISTS citext", "citext"),
            ("CREATE COLLATION IF NOT EXISTS without_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)", "collated"))]

    def has(self, statement, kind):
        try:
            self.run(statement)
            return kind
        except psycopg2.Error:
            return None                 # a server without contrib, or without ICU

    def drop(self):
        name, self.name = self.name, "postgres"
        self.forget()
        self.run("DROP DATABASE IF EXISTS %s WITH (FORCE)" % name)
        self.forget()
