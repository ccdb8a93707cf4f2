"""Device memory from code objects that are freed and whose addresses come again, below stacks of every kind: what was
known of an address must not be believed. Writes beside what Python says of its own stack; prints how often an address
came again with another code object.

usage: reused_code.py EXPECTED
"""
import _imp
import asyncio
import ctypes
import json
import os
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")
cuda_with_gil = ctypes.PyDLL("libcuda.so.1")
expected = open(sys.argv[1], "a", encoding="utf-8")
HAS_QUALNAME = sys.version_info >= (3, 11)
lock = threading.Lock()
sizes = iter(range(1000, 1000000))
seen, reused = {}, 0


def use_device():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    cuda.cuInit(0)
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)


def note(case):
    """Writes the caller's stack; returns the size to allocate."""
    global reused
    frames = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        name = code.co_qualname if HAS_QUALNAME else code.co_name
        frames.append([code.co_filename, name, frame.f_lineno])
        known = (code.co_filename, name, code.co_firstlineno, len(code.co_code))
        with lock:
            reused += seen.setdefault(id(code), known) != known
            seen[id(code)] = known
        frame = frame.f_back
    with lock:
        size = next(sizes)
        expected.write(json.dumps({"case": case, "pid": os.getpid(), "size": size, "frames": frames}) + "\n")
    return size


def allocate(case, library=cuda):
    pointer = ctypes.c_ulonglong()
    if library.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(note(case))) != 0:
        raise SystemExit("cuMemAlloc")
    library.cuMemFree_v2(pointer)


def fresh(i, case):
    """A function that lives for one call. Names, files and tables have few lengths, so that they too lie where others lay."""
    name, file = "f" + "abcdefg"[i % 7], f"<cell {i % 10}>"
    source = "\n" * (i % 13) + f"def {name}(allocate):\n" + "  i = 1\n" * (i % 3) + "\n" * (i * 5 % 11) + f"  allocate({case!r})\n"
    names = {}
    exec(compile(source, file, "exec"), names)
    return names[name]


def recurse(depth, call, *arguments):
    return call(*arguments) if depth == 0 else recurse(depth - 1, call, *arguments)


def generate(i):
    for k in range(3):
        fresh(i + k, "generator")(allocate)
        yield k


def delegate(depth, i):
    yield from generate(i) if depth == 0 else delegate(depth - 1, i)


async def wait(depth, i):
    await asyncio.sleep(0)
    fresh(i, "coroutine")(allocate)
    if depth:
        await wait(depth - 1, i + 1)


async def gather():
    await asyncio.gather(*(wait(3, i) for i in range(20)))


def fail(i):
    try:
        fresh(i, "before an exception")(allocate)
        raise ValueError
    except ValueError:
        fresh(i + 1, "exception")(allocate)
    finally:
        fresh(i + 2, "finally")(allocate)


class Finaliser:
    def __init__(self, i):
        self.i = i

    def __del__(self):
        fresh(self.i, "finaliser")(allocate)


def variant(second):
    """One of two functions with the same instructions: made anew, it lies where the other one lay."""
    source = "\n\n\ndef second(allocate):\n  allocate('variant')\n" if second else "def a_first(allocate):\n  allocate('variant')\n"
    names = {}
    exec(compile(source, "<variant>", "exec"), names)
    return names.popitem()[1]


def resume(depth, generator):
    return next(generator) if depth == 0 else resume(depth - 1, generator)


def endless():
    while True:
        allocate("resumed")
        yield


def here(case):
    allocate(case)


def standing():
    """The same stack again and again, until one thing about it is another one."""
    for i in range(120):
        variant(i // 6 % 2)(allocate)
    renamed = fresh(1, "renamed")
    for i in range(24):
        if i % 6 == 0:
            _imp._fix_co_filename(renamed.__code__, f"<renamed {i}>")
        renamed(allocate)
    for i in range(30):
        here("line")
        here("another line")
        here("one line"), here("one line")
    for i in range(40):
        recurse(2, allocate, "other native frames", (cuda, cuda_with_gil)[i // 5 % 2])
    generator = endless()
    for i in range(60):
        resume(i // 6 % 3, generator)


def in_thread(i):
    use_device()
    for k in range(40):
        recurse(k % 5, fresh(i + k, "thread"), allocate)
    standing()


def main():
    use_device()
    standing()
    for i in range(600):
        fresh(i, "fresh")(allocate)
        recurse(i % 37, fresh(i * 3, "deep"), allocate)
        if i % 4 == 0:
            fresh(i, "with the GIL")(lambda case: allocate(case, cuda_with_gil))
            list(delegate(i % 5, i))
            fail(i)
            Finaliser(i)
    asyncio.run(gather())
    threads = [threading.Thread(target=in_thread, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for i in range(200):
        recurse(i % 7, fresh(i, "beside threads"), allocate)
    for thread in threads:
        thread.join()
    recurse(230, fresh(1, "deep recursion"), allocate)
    many = [fresh(i, "more than are kept in mind") for i in range(2200)]
    for call in many + many:
        call(allocate)
    expected.close()
    print(reused)


main()
