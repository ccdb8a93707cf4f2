"""Sizes as people write them."""
import re
from typing import Optional, Union

_UNITS = {
    "": 1, "B": 1,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}


def parse_size(size: Union[int, str]) -> int:
    """Bytes: of ``"8GiB"``, ``"24 MiB"``, ``"500MB"``, or a number. ``"8G"`` is refused, since it may mean GB or GiB. Raises
    ValueError."""
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise ValueError("a size of {} bytes".format(size))
        return size
    found = re.match(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*$", size) if isinstance(size, str) else None
    if found is None or found.group(2) not in _UNITS:
        raise ValueError("{!r} is no size: write it as 8GiB, 500MB or in bytes".format(size))
    return int(float(found.group(1)) * _UNITS[found.group(2)]) if "." in found.group(1) else int(found.group(1)) * _UNITS[found.group(2)]


def size_text(size: Optional[int]) -> str:
    """As the command prints it: three digits, and a dash for what was not measured."""
    if size is None:
        return "–"
    if abs(size) < 1000:
        return "{} B".format(size)
    value, unit = float(size), ""
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if abs(value) < 999.5:
            break
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return "{:.{}f} {}".format(value, digits, unit)
