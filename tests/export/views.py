"""The views as JSON add up to the report's figures; and how the command fails."""
import json
import os
import subprocess

from common import GPUPEAK, expect


def run(*arguments, **options):
    return subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **options)


def view(log, verb, *options):
    done = run(verb, "--json", *options, log.path)
    expect(done.returncode == 0, f"{verb} gives {done.returncode}: {done.stderr.decode()}")
    data = json.loads(done.stdout)
    name = "flame" if "--flame" in options else verb
    expect(data["schema"] == f"gpupeak.{name}/1", f"{verb}: {data['schema']}")
    expect(data["quality"]["exact"] == log.summary["quality"]["exact"], f"{verb}: quality")
    text = run(verb, *options, log.path)
    expect(text.returncode == 0 and text.stdout, f"{verb} in text gives {text.returncode}")
    cut = [line for line in text.stdout.decode().splitlines() if line.endswith("…")]
    expect(not cut, f"{verb}: lines are cut in a pipe: {cut[:2]}")
    return data


def tree_adds_up(call):
    below = sum(tree_adds_up(child) for child in call["calls"]) + call["other_bytes"] + call.get("own_bytes", 0)
    expect(below == call["bytes"], f"tree: the parts of {call.get('call')} sum to {below}, not {call['bytes']}")
    return call["bytes"]


def graph_fits(node):
    below = sum(graph_fits(child) for child in node.get("children", []))
    expect(below <= node["value"], f"flame: the children of {node['name']} are wider than it")
    return node["value"]


def views(log, _work):
    for scope in log.scopes():
        for cut in ([], ["--min-percent", "0"], ["--depth", "3"]):
            tree = view(log, "tree", "--scope", scope, *cut)
            expect(tree_adds_up(tree) == log.peak(scope), f"tree of {scope}: {tree['bytes']}")
            expect(tree["time_ns"] == log.peaks[scope]["time_ns"], f"tree of {scope}: time")
            flame = view(log, "tree", "--flame", "--scope", scope, *cut)
            expect(graph_fits(flame["flame"]) == log.peak(scope), f"flame of {scope}")
        leaks = view(log, "leaks", "--scope", scope, "--top", "3")["scopes"][0]
        expect(leaks["bytes"] == log.live(scope), f"leaks of {scope}: {leaks['bytes']}")
        expect(sum(s["bytes"] for s in leaks["sites"]) + leaks["other_bytes"] == leaks["bytes"], "leaks do not add up")
        temporary = view(log, "temporary", "--scope", scope, "--top", "3")
        expect(sum(s["temporary_count"] for s in temporary["sites"]) + temporary["other_temporary_count"]
               == temporary["temporary_count"] <= temporary["alloc_count"], "temporary does not add up")


def fails(code, words, *arguments, **options):
    done = run(*arguments, **options)
    text = done.stderr.decode()
    expect(done.returncode == code and words in text, f"{arguments} gives {done.returncode}: {text}")


def command(log, work):
    os.makedirs(work, exist_ok=True)
    out = os.path.join(os.path.dirname(log.path), "out")
    fails(2, "no memory of scope", "tree", "--scope", "device:9", log.path)
    fails(2, "no memory of scope", "export", "csv", "--scope", "host/nothing", log.path)
    fails(2, "format", "export", "doc", log.path)
    fails(2, "-o FILE", "export", "sqlite", log.path)
    fails(3, "", "export", "massif", "/dev/null", "-o", out)
    fails(3, "", "leaks", out + ".missing")
    fails(125, "cannot write", "export", "csv", log.path, "-o", "/nowhere/x")
    fails(125, "cannot write", "export", "sqlite", log.path, "-o", "/nowhere/x")
    with open("/dev/full", "wb") as full:
        for verb in (["tree"], ["export", "heaptrack"], ["export", "chrome"]):
            done = subprocess.run([GPUPEAK, *verb, log.path], stdout=full, stderr=subprocess.PIPE, check=False)
            expect(done.returncode == 125 and b"cannot write" in done.stderr, f"{verb} on a full disk: {done}")
    expect(not os.path.exists(out) and not os.path.exists(out + ".tmp"), "a failed export left a file")
    # A log cut anywhere is a log all the same.
    with open(log.path, "rb") as file:
        data = file.read()
    cut = log.path + ".cut"
    head = 3 * 4096
    for part in (0.1, 0.5, 0.9):
        with open(cut, "wb") as file:
            file.write(data[:head + int((len(data) - head) * part)])
        for form in ("massif", "heaptrack", "pprof", "chrome", "speedscope", "folded", "sqlite", "torch-snapshot",
                     "mxnet-csv", "csv"):
            done = run("export", form, cut, "-o", out, "--strict")
            if form == "torch-snapshot" and b"this log has none" in done.stderr:
                expect(done.returncode == 2 and not os.path.exists(out), f"no device memory is left in it: {done}")
                continue
            expect(done.returncode == 4 and b"GP0" in done.stderr, f"export {form} of a cut log: {done}")
            os.unlink(out)
        fails(0, "GP0", "export", "csv", cut, "-o", out)  # not strict
        os.unlink(out)


CHECKS = {"views": views, "command": command}
