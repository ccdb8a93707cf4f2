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

MODULE = "lib/python3/dist-packages/gpupeak"  # where the installed folder has it
METADATA = """Metadata-Version: 2.1
Name: gpupeak
Version: {version}
Summary: Exact peak memory of GPU programs, and who held it
License: MIT
Requires-Python: >=3.8
Provides-Extra: pytest
Requires-Dist: pytest; extra == 'pytest'
Classifier: Framework :: Pytest
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

    gpupeak run -- python3 train.py
    gpupeak report train.gplog
    pytest --gpupeak

The command, the library that it preloads, the module `gpupeak` for programs that ask for their own peaks, and a plugin of pytest.
"""
ENTRY_POINTS = """[console_scripts]
gpupeak = gpupeak.__main__:main

[pytest11]
gpupeak = gpupeak.pytest_plugin
"""


def files_of(folder):
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(folder for folder in folders if folder != "__pycache__")
        for name in sorted(names):
            whole = os.path.join(path, name)
            with open(whole, "rb") as file:
                yield os.path.relpath(whole, folder), file.read(), bool(os.stat(whole).st_mode & stat.S_IXUSR)


def main():
    installed, version, out = sys.argv[1:4]
    platform = sys.argv[4] if len(sys.argv) > 4 else "manylinux2014_x86_64"
    info = f"gpupeak-{version}.dist-info"
    with open(os.path.join(installed, MODULE, "_version.py"), encoding="utf-8") as file:
        if f'"{version}"' not in file.read():
            sys.exit(f"wheel: {MODULE}/_version.py is not of version {version}")
    content = []
    for name, data, runs in files_of(installed):
        inside = os.path.relpath(name, MODULE) if name.startswith(MODULE + "/") else name
        content.append((f"gpupeak/{inside}", data, runs))
    content += [
        (f"{info}/METADATA", METADATA.format(version=version).encode(), False),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: gpupeak\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode(), False),
        (f"{info}/entry_points.txt", ENTRY_POINTS.encode(), False)]
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
