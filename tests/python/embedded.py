# What embed.c runs in each of its interpreters. sys.argv[1]: where to write what Python says of the stack.
import ctypes, json, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
with_gil = ctypes.PyDLL(None)
expected = open(sys.argv[1], "a")

def allocate(case):
    size = 1000 + os.stat(sys.argv[1]).st_size
    frames = []
    def note(frame):
        while frame is not None:
            code = frame.f_code
            name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
            frames.append([code.co_filename, name, frame.f_lineno])
            frame = frame.f_back
        expected.write(json.dumps({"case": case, "pid": os.getpid(), "size": size, "frames": frames}) + "\n")
        expected.flush()
        return size
    pointer = ctypes.c_ulonglong()
    if cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(note(sys._getframe()))) != 0:
        sys.exit(1)

def recurse(depth, case):
    if depth == 0:
        return allocate(case)
    return recurse(depth - 1, case)
