"""DuckDB's library from npm, fetched once, and asked through its C interface."""
import ctypes
import glob
import json
import os
import shutil
import subprocess
import tempfile

VERSION = "1.5.6-r.1"


def library(work):
    """The path of libduckdb.so; None if it cannot be had."""
    place = os.path.join(work, f"duckdb-{VERSION}")
    found = os.path.join(place, "libduckdb.so")
    if os.path.exists(found):
        return found
    if shutil.which("npm") is None:
        return None
    os.makedirs(work, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        if subprocess.run(["npm", "pack", "--silent", f"@duckdb/node-bindings-linux-x64@{VERSION}"], cwd=folder, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return None
        subprocess.run(["tar", "xzf", glob.glob(os.path.join(folder, "*.tgz"))[0], "--strip-components", "1"], cwd=folder, check=True)
        os.makedirs(place, exist_ok=True)
        os.rename(os.path.join(folder, "libduckdb.so"), found)
    return found


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
