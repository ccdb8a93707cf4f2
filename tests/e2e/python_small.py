"""Small blocks of Python programs, of the started process and of workers, are held by a line of Python. argv: … CASE"""
import glob
import os
import sys
import textwrap

from common import expect, expect_nothing_dropped, record, report, run_case

BLOCKS, BYTES = 30000, 1000

WORKER = textwrap.dedent(f"""
    import concurrent.futures, multiprocessing, sys, time
    def work(_):
        held = []
        for _ in range({BLOCKS}):
            held.append(bytes({BYTES}))
        time.sleep(0.5)
        return len(held)
    if __name__ == "__main__":
        if sys.argv[1] == "parent":
            assert work(0) == {BLOCKS}
        else:
            context = multiprocessing.get_context(sys.argv[1])
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                assert list(pool.map(work, range(2))) == [{BLOCKS}] * 2
""")
OBJECTS = textwrap.dedent("""
    held = []
    def fill():
        for number in range(1_000_000):
            held.append(b"%0100d" % number)
    fill()
""")


def script(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def holders(summary, scope):
    return next(peak for peak in summary["peaks"] if peak["scope"] == scope)["holders"]


def expect_line(log, scope, function, at_least, options=()):
    """This function holds nearly all of the scope's peak."""
    summary = report(log, *options)
    expect_nothing_dropped(summary)
    rows = [(h["site"], h["bytes"]) for h in holders(summary, scope)]
    held = sum(size for site, size in rows if function in site)
    expect(held >= at_least, f"{function} holds {held} in {log}, of {rows[:5]}")


def heap(folder, how, *options):
    log = os.path.join(folder, "w.gplog")
    record(log, sys.executable, script(folder, "worker.py", WORKER), how, options=options)
    # The first 64 KiB of the native stack have no line. By default a child's first 16 MiB are only counted.
    is_whole = how == "parent" or options
    recorded = BLOCKS * BYTES - (0 if is_whole else 17 << 20)
    for process in [log] if how == "parent" else workers(folder):
        expect_line(process, "host/heap", "work worker.py:6", recorded * 4 // 5)


def workers(folder):
    def holds_much(log):
        return (report(log)["metrics"]["host.kind.heap.usable_peak_bytes"] or 0) >= BLOCKS * BYTES

    found = [log for log in glob.glob(os.path.join(folder, "w.children", "*.gplog")) if holds_much(log)]
    expect(len(found) == 2, f"{len(found)} workers have logs")
    return found


def arenas(folder):
    """The interpreter's memory for small objects is named by a line of Python, also where a native stack has asked for some of it."""
    log = os.path.join(folder, "o.gplog")
    record(log, sys.executable, script(folder, "objects.py", OBJECTS))
    expect_line(log, "host/mmap_anon", "fill objects.py:5", 100 << 20)


def off(folder):
    log = os.path.join(folder, "w.gplog")
    record(log, sys.executable, script(folder, "worker.py", WORKER), "parent", GPUPEAK_PYTHON="off")
    names = [h["site"] for h in holders(report(log), "host/heap")]
    expect(not any("worker.py" in name for name in names), str(names[:5]))


def main(folder):
    case, _, children = sys.argv[-1].partition("_")
    if case in ("arenas", "off"):
        return {"arenas": arenas, "off": off}[case](folder)
    return heap(folder, case, *(["--children", children] if children else []))


run_case(main)
