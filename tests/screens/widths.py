#!/usr/bin/env python3
"""No view of a real program's log has a line that is wider than the terminal, be it narrow or wide; and one log's views, word for word.

usage: widths.py GPUPEAK
SCREENS_WRITE=1 writes what is seen as what is expected (KEPT.COLUMNS.txt): read the difference before you commit it.
"""
import os
import subprocess
import sys

from kept import differs

GPUPEAK = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
LOGS = ("families", "jax", "killed", "oom", "ort_vgg19", "vgg19_graph")
KEPT = "ort_vgg19"
VIEWS = ("report", "report --full", "report --short", "report --by module", "tree", "tree --flame", "report --held --at end", "tags", "phases", "arenas",
         "timeline", "leaks", "temporary", "whatif", "fit --gpu A100-80GB", "diff async.gpz", "diff --side-by-side async.gpz", "merge async.gpz")


def seen(view, log, columns):
    words = [*view.split(), log + ".gpz"]
    environment = os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    done = subprocess.run([GPUPEAK, *words], cwd=HERE, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode in (0, 1), f"{words}: exit {done.returncode}"
    return f"$ gpupeak {' '.join(words)}\n{done.stdout}\n"


failed = 0
for width in (60, 80, 100, 200):
    for name in LOGS if width != 100 else (KEPT,):
        shown = "".join(seen(view, name, width) for view in VIEWS)
        failed += name == KEPT and differs(os.path.join(HERE, f"{KEPT}.{width}.txt"), shown)
        wide = [line for line in shown.splitlines() if len(line) > width]
        print("\n".join(f"{name}: {len(line)} columns of {width}: {line}" for line in wide), end="\n" if wide else "")
        failed += len(wide)
sys.exit(failed > 0)
