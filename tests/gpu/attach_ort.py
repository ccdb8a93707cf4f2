"""ONNX Runtime for attach.py, by its C API: inference, and blocks of its CUDA arena, which gives nothing back while the session lives.

usage: attach_ort.py FOLDER LIBONNXRUNTIME MODEL    (a model of one tensor of floats, 1 x 3 x 224 x 224)
"""
import ctypes
import sys

from attach_steps import run

WORD, TEXT = ctypes.c_size_t, ctypes.c_char_p


class Base(ctypes.Structure):
    _fields_ = [("get_api", ctypes.CFUNCTYPE(ctypes.POINTER(WORD), ctypes.c_uint32)), ("get_version", ctypes.CFUNCTYPE(TEXT))]


class Allocator(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("alloc", WORD), ("free", WORD), ("info", WORD), ("reserve", WORD), ("get_stats", WORD)]


library = ctypes.CDLL(sys.argv[2])
library.OrtGetApiBase.restype = ctypes.POINTER(Base)
api = library.OrtGetApiBase().contents.get_api(23)


def function(at, result, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)(at)


def made(slot, *arguments):
    """What the function of that slot of OrtApi gives by its last argument."""
    out = ctypes.c_void_p()
    call(slot, *arguments, ctypes.byref(out))
    return out


def call(slot, *arguments):
    status = function(api[slot], ctypes.c_void_p, *(type(a) if isinstance(a, ctypes._SimpleCData) else ctypes.c_void_p for a in arguments))(*arguments)
    if status:
        sys.exit(f"slot {slot}: {function(api[2], TEXT, ctypes.c_void_p)(status)}")


def number(value):
    return WORD(value)


env = made(3, ctypes.c_int(3), TEXT(b"attach"))
options = made(10)
cuda = made(205)
call(204, options, cuda)
session = made(7, env, TEXT(sys.argv[3].encode()), options)
arena_info = made(68, TEXT(b"Cuda"), ctypes.c_int(1), ctypes.c_int(0), ctypes.c_int(0))
host_info = made(68, TEXT(b"Cpu"), ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0))
plain = made(78)
arena = made(131, session, arena_info)
names = [made(slot, session, number(0), plain) for slot in (36, 37)]
inputs, outputs = ((ctypes.c_void_p * 1)(name.value) for name in names)
data = (ctypes.c_float * (3 * 224 * 224))(*([0.5] * (3 * 224 * 224)))
shape = (ctypes.c_int64 * 4)(1, 3, 224, 224)
tensor = made(49, host_info, data, number(ctypes.sizeof(data)), shape, number(4), ctypes.c_int(1))
tensors = (ctypes.c_void_p * 1)(tensor.value)
release_value = function(api[96], None, ctypes.c_void_p)


def step():
    out = (ctypes.c_void_p * 1)(None)
    call(9, session, ctypes.c_void_p(None), inputs, tensors, number(1), outputs, number(1), out)
    values = ctypes.POINTER(ctypes.c_float)()
    call(51, ctypes.c_void_p(out[0]), ctypes.byref(values))
    first = values[0]
    release_value(out[0])
    return first


def statistic(name):
    pairs = ctypes.c_void_p()
    told = ctypes.cast(arena, ctypes.POINTER(Allocator)).contents
    function(told.get_stats, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(arena, ctypes.byref(pairs))
    total = int(function(api[297], TEXT, ctypes.c_void_p, TEXT)(pairs, name))
    function(api[300], None, ctypes.c_void_p)(pairs)
    return total


run(step, lambda: statistic(b"TotalAllocated"), lambda: statistic(b"InUse"),
    lambda: [made(75, arena, number(300 << 20)) for _ in range(2)], lambda held: [call(76, arena, block) for block in held])
