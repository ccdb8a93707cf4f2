"""ClickHouse's engine as a library (chdb), from npm, fetched once, and asked through its C interface."""
import ctypes
import json

from npm_library import npm_library

VERSION = "26.7.3-stable.1"


def library(work):
    """The path of libchdb.so; None if it cannot be fetched."""
    return npm_library(work, "@chdb/lib-linux-x64-gnu", VERSION, "libchdb.so")


class Failure(Exception):
    pass


class ClickHouse:
    """A server within this process. Its tables are in the folder."""

    def __init__(self, path, folder):
        self.api = ctypes.CDLL(path)
        for name, result, arguments in (
                ("chdb_connect", ctypes.POINTER(ctypes.c_void_p), [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]),
                ("chdb_query", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]),
                ("chdb_result_buffer", ctypes.c_void_p, [ctypes.c_void_p]), ("chdb_result_length", ctypes.c_size_t, [ctypes.c_void_p]),
                ("chdb_close_conn", None, [ctypes.POINTER(ctypes.c_void_p)]), ("chdb_result_error", ctypes.c_char_p, [ctypes.c_void_p]), ("chdb_destroy_query_result", None, [ctypes.c_void_p])):
            getattr(self.api, name).restype, getattr(self.api, name).argtypes = result, arguments
        words = (ctypes.c_char_p * 2)(b"clickhouse", f"--path={folder}".encode())
        self.connection = self.api.chdb_connect(2, words)
        assert self.connection

    def run(self, sql):
        result = self.api.chdb_query(self.connection[0], sql.encode(), b"JSONEachRow")
        said = self.api.chdb_result_error(result)
        buffer, length = self.api.chdb_result_buffer(result), self.api.chdb_result_length(result)
        text = ctypes.string_at(buffer, length).decode() if buffer and length else ""
        self.api.chdb_destroy_query_result(result)
        if said:
            raise Failure(f"{sql}: {said.decode()}")
        return text

    def rows(self, sql):
        """The rows as JSON has them. 64-bit numbers are numbers, too."""
        return [json.loads(line) for line in self.run(sql.strip().rstrip(";")).splitlines()]

    def close(self):
        self.api.chdb_close_conn(self.connection)
