#!/usr/bin/env python3
"""A wheel of an installed gpupeak: `pip install gpupeak-….whl` gives the command, and `python -m gpupeak` is the same. It needs
no network and gives the same bytes for the same files.

usage: wheel.py INSTALLED_FOLDER VERSION OUT_FOLDER [PLATFORM]   (PLATFORM: what pip asks for; default manylinux2014_x86_64)
"""
import base64
import hashlib
import os
import stat
import sys
import zipfile

MAIN = '''"""The command of gpupeak, which lies in this folder."""
import os
import sys


def main():
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "gpupeak")
    os.execv(command, ["gpupeak", *sys.argv[1:]])


if __name__ == "__main__":
    main()
'''


def files_of(folder):
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            whole = os.path.join(path, name)
            with open(whole, "rb") as file:
                yield os.path.relpath(whole, folder), file.read(), bool(os.stat(whole).st_mode & stat.S_IXUSR)


def main():
    installed, version, out = sys.argv[1:4]
    platform = sys.argv[4] if len(sys.argv) > 4 else "manylinux2014_x86_64"
    info = f"gpupeak-{version}.dist-info"
    content = [("gpupeak/__init__.py", f'__version__ = "{version}"\n'.encode(), False), ("gpupeak/__main__.py", MAIN.encode(), False)]
    content += [(f"gpupeak/{name}", data, runs) for name, data, runs in files_of(installed)]
    content += [
        (f"{info}/METADATA", f"Metadata-Version: 2.1\nName: gpupeak\nVersion: {version}\n"
                             "Summary: Exact peak memory of GPU programs, and who held it\nLicense: MIT\n".encode(), False),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: gpupeak\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode(), False),
        (f"{info}/entry_points.txt", b"[console_scripts]\ngpupeak = gpupeak.__main__:main\n", False)]
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
                     for name, data, _ in content)
    content.append((f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), False))
    path = os.path.join(out, f"gpupeak-{version}-py3-none-{platform}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data, runs in content:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | (0o755 if runs else 0o644)) << 16
            wheel.writestr(entry, data)
    print(path)


main()
