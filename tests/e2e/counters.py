"""The counters page of a log, for the tests' scripts. Only this file and log_format.h know its layout."""
import struct

MAGIC = 0x31474F4C4B505047
FIRST_DEVICE_KIND, MAX_DEVICES = 16, 24
FIRST_KINDS, DEVICE_KINDS = 8, 16  # kinds whose gauges follow their device's total; all kinds
COUNTS = ("quality", "dropped_events", "reentrant_calls", "truncated_stacks", "early_calls", "unmatched_frees", "device_events",
          "verified_stacks", "wrong_stacks", "file_bytes", "heap_alloc_count", "heap_free_count")
GAUGES = ("heap", "pinned", "registered", "managed")
GAUGE = struct.Struct("<QQ")  # live, peak


def read(path):
    """The whole page by name. devices: for each device its total, and its kinds by number."""
    with open(path, "rb") as file:
        data = file.read(4 * 4096)
    magic, _, _, _, begin, end = struct.unpack_from("<QIIQQQ", data)
    if magic != MAGIC:
        raise SystemExit(f"{path} is not a log")
    data = data[begin:end].ljust(3 * 4096, b"\0")  # older logs have one page
    page = dict(zip(COUNTS, struct.unpack_from(f"<{len(COUNTS)}Q", data)))
    offset = 8 * len(COUNTS)
    for name in GAUGES:
        page[name] = GAUGE.unpack_from(data, offset)
        offset += GAUGE.size
    offset += 16  # end_ticks, end_monotonic_ns
    page["ended"], page["exit_kind"], page["exit_code"], page["device_count"] = struct.unpack_from("<IIiI", data, offset)
    offset += 16 + 16  # self_bytes, rss_peak_bytes
    page["devices"] = []
    for _ in range(MAX_DEVICES):
        gauges = [GAUGE.unpack_from(data, offset + GAUGE.size * i) for i in range(1 + FIRST_KINDS)]
        offset += GAUGE.size * (1 + FIRST_KINDS) + 8  # alloc_count
        page["devices"].append({"total": gauges[0], "kinds": dict(enumerate(gauges[1:], FIRST_DEVICE_KIND))})
    offset += 16  # unread_python_stacks, exit_monotonic_ns
    for device in page["devices"]:
        for kind in range(FIRST_DEVICE_KIND + FIRST_KINDS, FIRST_DEVICE_KIND + DEVICE_KINDS):
            device["kinds"][kind] = GAUGE.unpack_from(data, offset)
            offset += GAUGE.size
    return page


def set_file_bytes(path, size):
    """Sets the page's file_bytes, as if the log's last chunk ended there."""
    with open(path, "r+b") as file:
        (begin,) = struct.unpack_from("<Q", file.read(32), 24)
        file.seek(begin + 8 * COUNTS.index("file_bytes"))
        file.write(struct.pack("<Q", size))
