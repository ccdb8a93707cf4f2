#!/usr/bin/env python3
"""The page of `report --html` in headless Chromium: it renders, what one does with it works, nothing is said on the
console, and names from a log stay text. The screenshots lie in the test's folder.

usage: page.py run|hostile|empty|compare|big|whatif|source|processes|grows GPUPEAK PAGE_LOG NODE CHROMIUM MODULES
       page.py pools_torch|pools_many|pools_ort GPUPEAK PAGE_LOG NODE CHROMIUM MODULES PRELOAD DRIVER CLIENT LIBRARY
       page.py uses GPUPEAK PAGE_LOG NODE CHROMIUM MODULES PRELOAD DRIVER POOLS_PROGRAM BUFFERS_PROGRAM
Exit code 77: there is no browser, or this gpupeak was built without the page.
"""
import json
import os
import subprocess
import sys
import time

import arenas_log
import source_page
import uses_log

CASE, GPUPEAK, PAGE_LOG, NODE, CHROMIUM, MODULES = sys.argv[1:7]
HERE = os.path.dirname(os.path.abspath(__file__))
BIG_LOG_SECONDS, BIG_PAGE_BYTES = 10, 5_000_000


def make_log(folder, kind):
    log = os.path.join(folder, f"{kind}.gplog")
    subprocess.run([PAGE_LOG, kind, log], check=True)
    return log


def make_page(folder, logs, verb=("report",)):
    page = os.path.join(folder, CASE + ".html")
    done = subprocess.run([GPUPEAK, *verb, "--html", page, *logs], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if b"built without the page" in done.stderr:
        print("no page in this gpupeak")
        sys.exit(77)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"", "a page goes into its file alone"
    return page


def expect_self_contained(page):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    outside, data = text.split('id="data">')[0], text.split('id="data">')[1].split("</script>")[0]
    assert "src=" not in outside.split("<style>")[0] and "<link" not in outside, "the page loads something"
    assert json.loads(data)["schema"] == "gpupeak.page/1"
    return text


def browse(page, folder, case=CASE):
    done = subprocess.run([NODE, os.path.join(HERE, "browse.mjs"), case, page, CHROMIUM, MODULES, folder], check=False)
    return done.returncode


def pools(folder):
    """The inside of pools at some instants: those of marks, or, where the page has chosen instants only, some of them."""
    preload, driver, client, library = sys.argv[7:11]
    of_torch = CASE != "pools_ort"
    command = [client, library, "TRUTH"] + (["many"] if CASE == "pools_many" else []) if of_torch else [client, "TRUTH", library]
    run = arenas_log.PoolRun(GPUPEAK, folder, preload, driver, command, **({"GPUPEAK_HOST": "off"} if of_torch else {}))
    page = make_page(folder, [run.log])
    size = os.path.getsize(page)
    assert size <= BIG_PAGE_BYTES, f"the page is too large: {size}"
    instants = run.at_marks(5, arenas_log.ledger_of_torch if of_torch else arenas_log.ledger_of_ort)
    every = arenas_log.page_data(page)["runs"][0]["pools"]["every"]
    assert every == (CASE != "pools_many")
    if not every:
        instants = [run.expected(ns) for ns in arenas_log.recorded_times(page, 6)]
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump({"instants": instants, "walks": CASE == "pools_torch", "every": every}, file)
    expect_self_contained(page)
    wrong = os.path.join(folder, "wrong.html")
    arenas_log.write_wrong(page, wrong)
    return browse(page, folder, "pools") or (browse(wrong, folder, "pools_wrong") if CASE == "pools_torch" else 0)


def uses(folder):
    """When blocks were used, and for what: at the peak, and inside pools at some instants."""
    preload, driver, of_pools, of_buffers = sys.argv[7:11]
    failed = 0
    for case, log, expected in (("uses_peak", make_log(folder, "uses"), uses_log.at_peak),
                                ("uses_pools", uses_log.record(folder, preload, driver, of_pools, GPUPEAK_LAST_USE="1"), uses_log.in_pools),
                                ("uses_buffers", uses_log.record(folder, preload, driver, of_buffers), uses_log.of_buffers)):
        page = make_page(folder, [log])
        expect_self_contained(page)
        with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
            json.dump(expected(GPUPEAK, log, page), file)
        failed = failed or browse(page, folder, case)
    return failed


def whatif(folder):
    """What a change makes of a run: exact, within bounds, of a log that has lost events, several changes, and without a change."""
    hostile = make_log(folder, "hostile")
    failed = 0
    for case, log, options in (("whatif", make_log(folder, "run"), ("--without", "*+0x400*")),
                               ("whatif_bounds", make_log(folder, "torch"), ("--expandable-segments",)),
                               ("whatif_lost", make_log(folder, "lost"), ("--without", "*0x100*")),
                               ("whatif_hostile", hostile, ("--without", "*img*")),
                               ("whatif_each", make_log(folder, "run"), ())):
        page = make_page(folder, [log], ("whatif", *options))
        expect_self_contained(page)
        failed = failed or browse(page, folder, case)
    return failed


def processes(folder):
    """A run of several processes: its page begins with what the report of the run begins with."""
    log = os.path.join(folder, "run.gplog")
    child = "held = bytes(48 << 20)"
    parent = f"import subprocess, sys; held = bytes(24 << 20); subprocess.run([sys.executable, '-c', '{child}'], check=True)"
    subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", sys.executable, "-c", parent], check=True)
    report = subprocess.run([GPUPEAK, "report", log], env=os.environ | {"COLUMNS": "1000"}, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = report.splitlines()
    expected = {"rows": [line.strip() for line in lines if line.startswith(("  pid ", "  host: "))],
                "facts": next(line for line in lines if " host events · " in line)}
    assert len(expected["rows"]) == 3 and "complete" in expected["facts"], report
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file)
    page = make_page(folder, [log])
    expect_self_contained(page)
    return browse(page, folder)


def grows(folder):
    """A program that keeps 2 MiB a step: a line over the curve, and a sentence below it."""
    log = os.path.join(folder, "grows.gplog")
    program = "def train():\n kept = []\n for step in range(30):\n  bytearray(8 << 20)\n  kept.append(bytearray(2 << 20))\nheld = bytearray(64 << 20)\ntrain()"
    subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", sys.executable, "-c", program], check=True)
    page = make_page(folder, [log])
    expect_self_contained(page)
    return browse(page, folder)


def main():
    if not CHROMIUM or CHROMIUM.endswith("NOTFOUND") or not os.path.isdir(os.path.join(MODULES, "puppeteer-core")):
        print("no browser here, or puppeteer-core is not installed")
        return 77
    folder = os.path.join(os.getcwd(), "page-" + CASE)
    os.makedirs(folder, exist_ok=True)
    if CASE.startswith("pools"):
        return pools(folder)
    if CASE == "uses":
        return uses(folder)
    if CASE == "whatif":
        return whatif(folder)
    if CASE == "grows":
        return grows(folder)
    if CASE == "processes":
        return processes(folder)
    if CASE == "source":
        program, script = source_page.pages(GPUPEAK, folder)
        return browse(program, folder) or browse(script, folder, "source_script")
    if CASE == "compare":
        page = make_page(folder, [make_log(folder, "run"), make_log(folder, "other"), make_log(folder, "died")], ("diff",))
    elif CASE == "big":
        log = os.path.join(folder, "big.gplog")
        subprocess.run([PAGE_LOG, "big", log], check=True)
        began = time.monotonic()
        page = make_page(folder, [log])
        seconds = time.monotonic() - began
        size = os.path.getsize(page)
        print(f"page of a log of 10 million events: {seconds:.1f} s, {size} bytes")
        os.unlink(log)
        assert size <= BIG_PAGE_BYTES, "the page is too large"
        # On a machine that is busy with other things time says little; the limit is for one that is not.
        assert seconds <= 6 * BIG_LOG_SECONDS, "the page took too long"
    else:
        page = make_page(folder, [make_log(folder, CASE)])
    text = expect_self_contained(page)
    if CASE == "hostile":
        assert "<img" not in text.split('id="data">')[1].split("</script>")[0], "a name ends the data"
    return browse(page, folder)


sys.exit(main())
