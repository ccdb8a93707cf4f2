"""Allocates memory of the device and large blocks of the host's from all kinds of Python code, and writes beside what Python
says of its own stack.

Each allocation has a size of its own. The frames are taken on the line that makes the call.
"""
import asyncio
import atexit
import contextlib
import ctypes
import functools
import gc
import json
import mmap
import os
import sys
import threading
import traceback

cuda = ctypes.CDLL("libcuda.so.1")  # releases the GIL around each call
cuda_with_gil = ctypes.PyDLL("libcuda.so.1")
libc = ctypes.CDLL(None)
libc_with_gil = ctypes.PyDLL(None)
expected = open(sys.argv[1], "a", encoding="utf-8", errors="surrogateescape")
HAS_QUALNAME = sys.version_info >= (3, 11)
sizes = iter(range(1000, 1000000))
size_lock = threading.Lock()


LARGE = 1 << 20  # sizes that nothing else here has
BYTES_HEAD = sys.getsizeof(b"")


def note(case, of_host=0, scale=1):
    """Writes the caller's stack; returns the size to allocate, of which the log has `scale` times as much and `of_host` more."""
    frames = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        frames.append([code.co_filename, code.co_qualname if HAS_QUALNAME else code.co_name, frame.f_lineno])
        frame = frame.f_back
    summary = traceback.extract_stack(sys._getframe(1))
    if len(summary) < len(frames) or any(
            (entry.filename, entry.lineno) != (frame[0], frame[2])
            for entry, frame in zip(reversed(summary), frames)):
        raise SystemExit("Python disagrees with itself")
    with size_lock:
        size = next(sizes)
        expected.write(json.dumps({"case": case, "pid": os.getpid(), "size": size * scale + of_host, "frames": frames}) + "\n")
        expected.flush()
    return size


def library_of_c(library):
    return libc if library is cuda else libc_with_gil


def allocate(case, library=cuda):
    pointer = ctypes.c_ulonglong()
    result = library.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(note(case)))
    if result != 0:
        raise SystemExit(f"cuMemAlloc: {result}")
    library_of_c(library).malloc(ctypes.c_size_t(LARGE + note(case + ", malloc", LARGE)))
    bytes(2 * LARGE + note(case + ", of the interpreter's", 2 * LARGE + BYTES_HEAD))
    return pointer.value


def in_mappings():
    private_anonymous = 0x22
    for _ in range(3):
        libc.mmap(None, ctypes.c_size_t(mmap.PAGESIZE * note("mapping", scale=mmap.PAGESIZE)), 3, private_anonymous, -1, 0)


def use_device():
    device = ctypes.c_int()
    context = ctypes.c_void_p()
    cuda.cuInit(0)
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)


class Layer:
    kept = []

    def __init__(self, case):
        self.weights = allocate(case)

    @property
    def lazy(self):
        return allocate("property")

    @staticmethod
    def static():
        return allocate("static method")

    def __call__(self):
        return [allocate("comprehension") for _ in range(2)]

    class Inner:
        def method(self):
            def closure():
                return allocate("closure")
            return closure()

    def __del__(self):
        if not self.kept:
            allocate("finaliser")


def generator(case):
    yield allocate(case)
    for _ in range(2):
        yield allocate(case)


def delegating(case):
    yield from generator(case)


def recurse(depth, case):
    if depth == 0:
        return allocate(case)
    return recurse(depth - 1, case)


def recurse_through_c(depth, case):
    if depth == 0:
        return allocate(case)
    return list(map(functools.partial(recurse_through_c, depth - 1), [case]))


@contextlib.contextmanager
def context():
    allocate("context manager")
    yield
    allocate("context manager's end")


async def coroutine(case):
    await asyncio.sleep(0)
    return allocate(case)


async def gather():
    return await asyncio.gather(coroutine("coroutine"), coroutine("coroutine"))


def from_c_callback():
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def callback(_a, _b):
        allocate("callback from C")
        return 0

    array = (ctypes.c_int * 2)(2, 1)
    libc.qsort(array, 2, 4, compare(callback))


def in_exec():
    exec("allocate('exec')")
    exec(compile("def f():\n\n\n    allocate('exec with a name')\nf()", "<generated>", "exec"), dict(globals()))
    # Code objects come and go at the same addresses, with other contents.
    for i in range(60):
        source = "\n" * (i * 7 % 40) + f"def f{i % 3}():\n" + "\n" * (i % 11) + f"  allocate('short-lived code')\nf{i % 3}()"
        exec(compile(source, f"<cell {i % 4}>", "exec"), dict(globals()))


def in_unusual_names():
    for name in ("größe.py", "文件.py", "file\U0001f600.py", "bad\udcff\udc80.py", "/very/long/" + "x" * 600 + ".py"):
        exec(compile("def función_数():\n  allocate('names')\nfunción_数()", name, "exec"), dict(globals()))

    class Path(str):
        pass

    exec(compile("allocate('a path that is no plain str')", Path("odd.py"), "exec"), dict(globals()))


def in_long_function():
    body = "".join(f"  a{i % 50} = len(str({i})) + {i}\n" for i in range(4000))
    source = "def long():\n  allocate('long function')\n" + body + "  allocate('long function')\nlong()"
    exec(compile(source, "long.py", "exec"), dict(globals()))
    split = "def split():\n  return (allocate(\n\n\n    'call over lines'),\n\n\n   allocate(\n  'call over lines'))\nsplit()"
    exec(compile(split, "split.py", "exec"), dict(globals()))


def while_traced():
    def trace(frame, event, argument):
        return trace

    sys.settrace(trace)
    try:
        recurse(3, "traced")
    finally:
        sys.settrace(None)
    sys.setprofile(trace)
    try:
        recurse(3, "profiled")
    finally:
        sys.setprofile(None)


def in_hot_code():
    """Long enough for the interpreter to specialise what it runs."""
    for i in range(200):
        layer = Layer("hot class") if i % 20 == 0 else Layer.__new__(Layer)
        layer.kept = [1]


def in_threads():
    stop = threading.Event()

    def busy():
        def churn(depth):
            return depth and churn(depth - 1)

        while not stop.is_set():
            churn(20)
            exec(compile("def g():\n  return 1\ng()", "<busy>", "exec"), {})

    def work(i):
        use_device()
        for _ in range(10):
            recurse(i, "thread")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    disturbing = threading.Thread(target=busy)
    disturbing.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    disturbing.join()


def in_child():
    # A failure has a call site too, so that the child begins with frames that its parent has seen.
    if cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_ulonglong()), ctypes.c_size_t(1)) == 0:
        raise SystemExit("memory without a context")
    child = os.fork()
    if child == 0:
        use_device()
        recurse(2, "forked child")
        expected.close()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("the forked child failed")


def main():
    in_child()
    use_device()
    allocate("plain")
    allocate("with the GIL", cuda_with_gil)
    layer = Layer("class")
    layer.lazy
    layer.static()
    layer()
    Layer.Inner().method()
    list(generator("generator"))
    list(delegating("yield from"))
    (lambda: allocate("lambda"))()
    sorted([3, 1], key=lambda _: allocate("sort key"))
    recurse(40, "recursion")
    recurse_through_c(20, "recursion through C")
    with context():
        pass
    asyncio.run(gather())
    from_c_callback()
    in_exec()
    in_mappings()
    in_unusual_names()
    in_long_function()
    while_traced()
    in_hot_code()
    cycle = Layer("collected")
    cycle.self = cycle
    del cycle
    gc.collect()
    in_threads()
    recurse(900, "deep recursion")
    sys.setrecursionlimit(3000)
    recurse(1500, "deeper than is kept")
    recurse_through_c(120, "deep recursion through C")
    atexit.register(allocate, "at exit")


main()
