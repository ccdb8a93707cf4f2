#!/usr/bin/env python3
"""No view of a real program's log has a line that is wider than the terminal, be it narrow or wide.

usage: widths.py GPUPEAK
"""
import os
import subprocess
import sys

GPUPEAK = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
LOGS = ("families", "jax", "killed", "oom", "ort_vgg19", "vgg19_graph")
VIEWS = ("report", "report --full", "report --short", "report --by module", "tree", "flame", "held --at end", "tags", "phases", "arenas",
         "timeline", "leaks", "temporary", "whatif", "fit --gpu A100-80GB", "diff async.gpz", "compare async.gpz", "merge async.gpz")


def wide_lines(view, log, columns):
    words = [*view.split(), log + ".gpz"]
    environment = os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([GPUPEAK, *words], cwd=HERE, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode in (0, 1), f"{words}: exit {done.returncode}"
    return [f"{' '.join(words)}: {len(line)} columns of {columns}: {line}" for line in done.stdout.splitlines() if len(line) > columns]


found = [line for columns in (60, 80, 200) for log in LOGS for view in VIEWS for line in wide_lines(view, log, columns)]
print("\n".join(found))
sys.exit(len(found) > 0)
