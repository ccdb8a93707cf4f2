"""The page's size() and Python's size_text() round alike: a half to the even digit, as the terminal's does (tests/unit/test_names.cc).

usage: sizes.py SOURCE NODE
"""
import json
import os
import subprocess
import sys

SOURCE, NODE = sys.argv[1:]
sys.path.insert(0, os.path.join(SOURCE, "tools/python"))
from gpupeak._sizes import size_text  # noqa: E402

SCRIPT = """import { readFileSync } from 'node:fs';
const code = readFileSync(process.argv[1], 'utf8');
const { size } = await import('data:text/javascript,' + encodeURIComponent(code));
console.log(JSON.stringify(JSON.parse(process.argv[2]).map(size)));
"""
KNOWN = {758 * 1024 + 512: "758 KiB", 759 * 1024 + 512: "760 KiB", 182 * 2**20 + 2**19: "182 MiB", 12 * 1024 + 256: "12.2 KiB", 1000: "0.98 KiB"}

sizes = sorted(KNOWN) + [unit * eighths // 8 for unit in (2**10, 2**20, 2**30, 2**40) for eighths in range(8, 8200, 20)]
done = subprocess.run([NODE, "--input-type=module", "-e", SCRIPT, os.path.join(SOURCE, "collector/page/format.js"), json.dumps(sizes)],
                      stdout=subprocess.PIPE, check=True)
page = json.loads(done.stdout)
wrong = [f"{size}: {KNOWN.get(size, size_text(size))}, on the page {text}, in Python {size_text(size)}" for size, text in zip(sizes, page)
         if not text == size_text(size) == KNOWN.get(size, text)]
if wrong:
    sys.exit("\n".join(wrong[:20]))
