"""Writes logs by hand, also such as only an attacker would write. docs/log-format.md has the layout."""
import json
import struct

PAGE = 4096
COOKIE = 0x1122334455667788


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def zigzag(number):
    return varint((number << 1) ^ (number >> 63))


def text(value):
    value = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return varint(len(value)) + value


class Log:
    def __init__(self):
        self.definitions, self.events, self.nodes, self.last_ip, self.strings = [], [], 0, 0, 0
        self.fact("exe", "/bin/p")
        self.fact("arg", "p")

    @staticmethod
    def record(tag, body):
        return bytes([tag]) + varint(len(body)) + body

    def define(self, tag, body):
        self.definitions.append(self.record(tag, body))

    def fact(self, key, value):
        self.define(0xC5, text(key) + text(value))

    def string(self, value):
        self.define(0xC2, text(value))
        self.strings += 1
        return self.strings

    def node(self, ip, parent=0):
        self.nodes += 1
        self.define(0xC1, varint(self.nodes - parent) + zigzag(ip - self.last_ip))
        self.last_ip = ip
        return self.nodes

    def module(self, path, build_id=b"", bias=0x10000, segments=((0x10000, 0x10000, 0),)):
        self.define(0xC3, varint(0) + varint(bias) + text(path) + text(build_id) + varint(len(segments)) +
                    b"".join(varint(a) + varint(b) + varint(c) for a, b, c in segments))

    def unload(self, module):
        self.define(0xC4, varint(0) + varint(module))

    def alloc(self, size, stack=0, delta=100):
        self.events.append(bytes([1]) + zigzag(delta) + varint(size) + zigzag(8) + varint(stack))

    def event(self, tag, *fields):
        body = b"".join(varint(f) if isinstance(f, int) else text(f) for f in fields)
        self.events.append(self.record(tag, varint(1) + body))

    def build(self):
        chunks = bytearray()

        def add(kind, sequence, data):
            at = 2 * PAGE + len(chunks)
            size = (64 + len(data) + PAGE - 1) // PAGE * PAGE
            header = struct.pack("<IIQIIQQQI12x", 0x4B4E4843, size, COOKIE ^ at, kind, 0, sequence, 1000, 1000, 4242)
            chunks.extend(header + data + bytes(size - 64 - len(data)))

        for kind, records in ((2, self.definitions), (1, self.events)):
            sequence, data = 0, bytearray()
            for record in records:
                if data and len(data) + len(record) > (1 << 20) - 65:
                    add(kind, sequence, bytes(data))
                    sequence, data = sequence + 1, bytearray()
                data += record
            add(kind, sequence, bytes(data))
        head = struct.pack("<QIIQQQIIQQQIIiIQQQ32s16sQII", 0x31474F4C4B505047, 1, PAGE, COOKIE, PAGE, 2 * PAGE, 0, 3, 1000, 1000,
                           1764000000 * 10**9, 4242, 1, -1, 0, 777, 0, 0, b"9.9", bytes(16), 0, 0, 0).ljust(PAGE, b"\0")
        counters = bytearray(PAGE)
        struct.pack_into("<Q", counters, 9 * 8, 2 * PAGE + len(chunks))
        struct.pack_into("<QQIIi", counters, 10 * 8 + 16 + 16 + 48, 1000 + 10**9, 1000 + 10**9, 1, 1, 0)
        return head + bytes(counters) + bytes(chunks)

    def write(self, path):
        with open(path, "wb") as file:
            file.write(self.build())
        return path


def write_symbols(log, strings, frames, module="/nowhere/x.so", build_id="aa" * 20):
    """Writes LOG.symbols. frames: [address, function, file, line …]."""
    content = {"schema": "gpupeak.symbols/1", "log": f"{COOKIE:016x}", "strings": strings,
               "modules": [{"path": module, "build_id": build_id, "frames": frames, "sources": []}]}
    with open(log + ".symbols", "w", encoding="utf-8") as file:
        json.dump(content, file)
