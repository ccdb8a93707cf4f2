#!/usr/bin/env python3
"""What a person sees of real programs' logs: the summary after a run, the report, and the text of the page, word for word.

README's first screen is one of them, `summary` of train_by_default under the name that README gives it.

usage: screens.py summary|report|page GPUPEAK [NODE CHROMIUM MODULES]
SCREENS_WRITE=1 writes what is seen as what is expected: read the difference before you commit it.

The logs (*.gpz) were recorded on an H200 with driver 580 on 2026-11-22, GPUPEAK_HOST=off, and bundled: PyTorch 2.11 with two models
(inference, training, a CUDA graph, expandable segments, cudaMallocAsync, killed, out of memory), JAX 0.11, CuPy 14, ONNX Runtime 1.29
(-e cuda), and tests/gpu/ledger_families.cu. train_by_default is the training on an H100, 2026-11-27, with every option at its default.
Exit code 77: there is no browser, or this gpupeak was built without the page.
"""
import difflib
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from kept import differs

WHICH, GPUPEAK = sys.argv[1], os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
README = os.path.join(HERE, "../../README.md")
ENVIRONMENT = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def gpupeak(*words):
    done = subprocess.run([GPUPEAK, *words], cwd=HERE, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if "built without the page" in done.stderr:
        print(done.stderr)
        sys.exit(77)
    assert done.returncode == 0, done.stderr
    return done.stdout


def page(log):
    node, chromium, modules = sys.argv[3:6]
    if not os.path.exists(chromium) or not os.path.isdir(os.path.join(modules, "puppeteer-core")):
        print("no browser here, or puppeteer-core is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "page.html")
        gpupeak("report", "--html", file, log)
        return subprocess.run([node, os.path.join(HERE, "page_text.mjs"), file, chromium, modules], stdout=subprocess.PIPE, text=True, check=True).stdout


def check_readme():
    """Whether README's screen is what is seen now."""
    with open(README, encoding="utf-8") as file:
        text = file.read()
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "train.gplog")
        shutil.copy(os.path.join(HERE, "train_by_default.gpz"), log)
        seen = gpupeak("report", "--short", log).replace(folder + "/", "")
    begin = text.index("```text\n") + len("```text\n")
    shown = text[begin:text.index("```", begin)]
    if os.environ.get("SCREENS_WRITE"):
        with open(README, "w", encoding="utf-8") as file:
            file.write(text[:begin] + seen + text[begin + len(shown):])
        shown = seen
    sys.stdout.writelines(difflib.unified_diff(shown.splitlines(True), seen.splitlines(True), "README.md", "seen"))
    return int(shown != seen)


def main():
    logs = sorted(os.path.basename(path) for path in glob.glob(os.path.join(HERE, "*.gpz")))
    assert len(logs) >= 10, logs
    failed = check_readme() if WHICH == "summary" else 0
    for log in logs:
        seen = {"summary": lambda: gpupeak("report", "--short", log), "report": lambda: gpupeak("report", log), "page": lambda: page(log)}[WHICH]()
        path = os.path.join(HERE, f"{log.removesuffix('.gpz')}.{WHICH}.txt")
        failed += differs(path, seen)
    print(f"{len(logs)} screens, {failed} differ")
    return 1 if failed else 0


sys.exit(main())
