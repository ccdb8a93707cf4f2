"""DuckDB's library from npm, fetched once, and asked through its C interface."""
import ctypes
import json
import os
import tempfile

from npm_library import npm_library

VERSION = "1.5.6-r.1"


def library(work):
    """The path of libduckdb.so; None if it cannot be fetched."""
    return npm_library(work, "@duckdb/node-bindings-linux-x64", VERSION, "libduckdb.so")


class Failure(Exception):
    pass


class _Result(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint64 * 6)]


class DuckDb:
    def __init__(self, path):
        self.api = ctypes.CDLL(path)
        self.api.duckdb_result_error.restype = ctypes.c_char_p
        database, self.connection = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.api.duckdb_open(None, ctypes.byref(database)) == 0
        assert self.api.duckdb_connect(database, ctypes.byref(self.connection)) == 0

    def run(self, sql):
        result = _Result()
        failed = self.api.duckdb_query(self.connection, sql.encode(), ctypes.byref(result))
        said = self.api.duckdb_result_error(ctypes.byref(result)) if failed else None
        self.api.duckdb_destroy_result(ctypes.byref(result))
        if failed:
            raise Failure(f"{sql}: {said.decode()}")

    def rows(self, sql):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            self.run(f"COPY ({sql.strip().rstrip(';')}) TO '{path}' (FORMAT json)")
            with open(path, encoding="utf-8") as file:
                return [json.loads(line) for line in file]
