"""%%gpupeak in a real kernel: the one that `python3 -m gpupeak.notebook install` makes, run by nbclient. Its peak, its holders and its curve are
those of what the cell allocates on the simulated driver; Chromium draws the picture; a kernel that is not recorded says how to choose one.

usage: notebook.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER SOURCE recorded|plain
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, Skipped, expect, run_checks  # noqa: E402
from driver_calls import DRIVER_CALLS  # noqa: E402

DRIVER, SOURCE, CASE = sys.argv[3:6]

SETUP = "\n%load_ext gpupeak" + DRIVER_CALLS + """kept = alloc(5 * MIB)
"""
CELL = """%%gpupeak --top 2
def step():
    blocks = [alloc(10 * MIB) for _ in range(8)]
    for block in blocks: free(block)
step()
left = alloc(3 * MIB)
"""
PAGE = """<!doctype html><meta charset="utf-8"><body>{}<script>
const boxes = [...document.querySelectorAll("svg")].map(svg => svg.querySelector("path").getBBox());
document.title = "drawn " + boxes.map(box => Math.round(box.width) + "x" + Math.round(box.height)).join(" ");
</script>"""


def run_notebook(folder, kernel, *cells):
    import nbclient
    import nbformat
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, kernel_name=kernel, timeout=120, allow_errors=True).execute(cwd=folder)
    return [cell.outputs for cell in notebook.cells]


def check_recorded(folder):
    subprocess.run([sys.executable, "-m", "gpupeak.notebook", "install", "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
    outputs = run_notebook(folder, "gpupeak-python3", SETUP, CELL, CELL, "%%gpupeak\nraise KeyError('own')", "%gpupeak --name line alloc(7 * MIB)")
    for cell in outputs[:3]:
        expect(not any(output.output_type == "error" for output in cell), f"{cell}")
    first, second, failed, line = outputs[1], outputs[2], outputs[3], outputs[4]
    text, page = first[0].data["text/plain"], first[0].data["text/html"]
    expect("device:0: peak 85.0 MiB, + 80.0 MiB, kept 3.00 MiB" in text, text)
    expect("peak 88.0 MiB, + 80.0 MiB, kept 3.00 MiB" in second[0].data["text/plain"], second[0].data["text/plain"])
    expect(re.search(r"  80.0 MiB  alloc .*step", text) and re.search(r"  5.00 MiB  ", text), text)
    expect("█" in text and "gpupeak:" not in text, text)
    expect([output.ename for output in failed if output.output_type == "error"] == ["KeyError"], f"{failed}")
    expect(any("+ 7.00 MiB, kept 7.00 MiB" in output.data["text/plain"] for output in line if "data" in output), f"{line}")
    chromium = shutil.which("chromium")
    if chromium is None:
        raise Skipped("no chromium")
    path = os.path.join(folder, "page.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(PAGE.format(page))
    dom = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/chromium", "--dump-dom", "file://" + path],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    drawn = re.search(r"<title>drawn (\d+)x(\d+)", dom)
    expect(drawn and int(drawn[1]) >= 470 and 50 <= int(drawn[2]) <= 62, dom[:2000])


def check_plain(folder):
    outputs = run_notebook(folder, "python3", "%load_ext gpupeak", "%%gpupeak\nx = 6 * 7\nprint(x)")
    said = "".join(output.text for output in outputs[1] if output.output_type == "stream")
    expect("42" in said and "gpupeak.notebook install" in said, f"{outputs}")


def main():
    try:
        import ipykernel  # noqa: F401
        import nbclient  # noqa: F401
        import nbformat  # noqa: F401
    except ImportError as error:
        raise Skipped("no ipykernel and nbclient (Debian: python3-ipykernel, python3-nbclient)") from error
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in os.environ if name.startswith(("GPUPEAK_", "LD_"))]:
            del os.environ[name]
        os.environ.update(PYTHONPATH=os.path.join(SOURCE, "tools/python"), LD_LIBRARY_PATH=DRIVER, GPUPEAK_COMMAND=GPUPEAK, JUPYTER_PATH=os.path.join(
            folder, "share/jupyter"), IPYTHONDIR=os.path.join(folder, "ipython"), JUPYTER_RUNTIME_DIR=os.path.join(folder, "runtime"),
            PYTHONDONTWRITEBYTECODE="1", TMPDIR=folder)
        {"recorded": check_recorded, "plain": check_plain}[CASE](folder)


run_checks(main)
