#!/usr/bin/env python3
"""A Python program over the stand-in for ONNX Runtime's package, as ort_client.cc is one over its library.

usage: wheel_client.py TRUTH MODULE      (MODULE: …/onnxruntime/capi/onnxruntime_pybind11_state.so)
"""
import ctypes
import os
import random
import sys

truth_path, module_path = sys.argv[1:3]
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(module_path))))
from onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: E402

POINTER, SIZE = ctypes.c_void_p, ctypes.c_size_t
VISIT = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64)


class Ledger(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("in_use", "reserved", "peak")]


class FakeOrt(ctypes.Structure):
    _fields_ = [
        ("make", ctypes.CFUNCTYPE(POINTER, ctypes.c_bool, ctypes.c_int64)),
        ("destroy", ctypes.CFUNCTYPE(None, POINTER)),
        ("alloc", ctypes.CFUNCTYPE(POINTER, POINTER, SIZE)),
        ("alloc_on_stream", ctypes.CFUNCTYPE(POINTER, POINTER, SIZE)),
        ("reserve", ctypes.CFUNCTYPE(POINTER, POINTER, SIZE)),
        ("free", ctypes.CFUNCTYPE(None, POINTER, POINTER)),
        ("ledger", ctypes.CFUNCTYPE(Ledger, POINTER)),
        ("each", ctypes.CFUNCTYPE(None, POINTER, VISIT)),
    ]


library = ctypes.CDLL(state.__file__)
library.fake_ort.restype = ctypes.POINTER(FakeOrt)
ort = library.fake_ort().contents
mark = ctypes.CDLL(None).gpupeak_api_mark
mark.argtypes = [ctypes.c_char_p]


def use(arena, truth, steps):
    kept = []
    for step in range(steps):
        size = random.randrange(1, 3 << 20 if random.random() < 0.25 else 20_000)
        if kept and random.random() < 0.5:
            ort.free(arena, kept.pop(random.randrange(len(kept))))
        else:
            kept.append((ort.reserve if random.random() < 0.1 else ort.alloc)(arena, size))
        mark(b"s%d" % step)
        now = ort.ledger(arena)
        truth.write(f"mark s{step} {now.in_use} {now.reserved}\n")


random.seed(1)
arena = ort.make(False, 1 << 30)
with open(truth_path, "w") as truth:
    use(arena, truth, 900)
    mark(b"last")
    truth.write(f"peak {ort.ledger(arena).peak}\n")
    ort.each(arena, VISIT(lambda address, size: truth.write(f"block {address} {size}\n")))
