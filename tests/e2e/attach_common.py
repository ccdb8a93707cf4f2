"""Functions that the tests of attaching share."""
import os
import struct

from common import expect


def data_end(path):
    """Bytes from the begin of an ELF file's memory to the end of its data."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:4] != b"\x7fELF":
            return 0
        offset, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        table = file.read(size * count)
    segments = [struct.unpack_from("<IIQQQQQQ", table, i * size) for i in range(count)]
    return max(s[3] + s[6] for s in segments if s[0] == 1) - min(s[3] & -4096 for s in segments if s[0] == 1)


def content(memory, pid, low, high):
    """The content of a mapping; empty: the mapping has gone, as with a library which the program loads and unloads all the time."""
    for _ in range(100):
        memory.seek(low)
        try:
            return memory.read(high - low)
        except OSError:
            if not any(line.startswith(f"{low:08x}-") for line in open(f"/proc/{pid}/maps")):
                return b""
    raise AssertionError(f"{low:x}-{high:x} of {pid} cannot be read")


def expect_nothing_leads_into_library(pid):
    """No word in the data of a mapped file is an address in the library's code. Two files are excepted: the library's own, and the C
    library, which keeps three of our fork handlers."""
    lines = [line.split() for line in open(f"/proc/{pid}/maps")]
    code = [tuple(int(x, 16) for x in w[0].split("-")) for w in lines if len(w) > 5 and w[5].endswith("/libgpupeak.so") and "x" in w[1]]
    expect(len(code) == 1, f"{code}")
    begin, end = code[0]
    hits = {}
    file, behind, ends = "", 0, 0
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for words in lines:
            low, high = (int(x, 16) for x in words[0].split("-"))
            if len(words) > 5 or low != behind:  # else it is the part of a file's data that is not in the file
                file = words[5] if len(words) > 5 else ""
                if file.startswith("/") and int(words[2], 16) == 0 and os.path.exists(file):
                    ends = low + data_end(file)
            behind = high
            if len(words) <= 5:  # other memory may follow at once
                high = min(high, ends)
            if high <= low:
                continue
            if not file.startswith("/") or file.endswith(("/libgpupeak.so", ".gplog")) or "r" not in words[1] or "x" in words[1]:
                continue
            data = content(memory, pid, low, high)
            found = sum(begin <= word < end for word, in struct.iter_unpack("<Q", data[:len(data) // 8 * 8]))
            hits[os.path.basename(file)] = hits.get(os.path.basename(file), 0) + found
    leads = {name: count for name, count in hits.items() if count > (3 if name == "libc.so.6" else 0)}
    expect(not leads, f"{leads} lead into the library")
