"""diff and check on runs whose memory is known: they name what grew, and each exit code is as promised."""
import json
import os
import re
import stat
import subprocess
import tempfile
import xml.etree.ElementTree

from common import GPUPEAK, expect, run_checks

MIB = 1 << 20


def gpupeak(*arguments, code=0, **env):
    done = subprocess.run([GPUPEAK, *arguments], env=dict(os.environ, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    text = done.stdout.decode()
    expect(done.returncode == code, f"{arguments} gives {done.returncode}, not {code}: {text}{done.stderr.decode()}")
    return text, done.stderr.decode()


def record(folder, name, mebibytes, host="full", **env):
    """A run without random hashes and without Python's own arenas, whose map depends on their addresses: with these Python's memory would
    differ from run to run by 128 KiB. Nothing is sampled."""
    log = os.path.join(folder, name)
    gpupeak("run", "-q", "--host", host, "-o", log, "--", "/usr/bin/python3", "-c", f"x = bytearray({mebibytes * MIB})",
            PYTHONHASHSEED="0", PYTHONMALLOC="malloc", **env)
    return log


def what_grew(small, large):
    diff = json.loads(gpupeak("diff", "--json", small, large)[0])
    host = next(peak for peak in diff["peaks"] if peak["scope"] == "host")
    other = 64 << 10  # Python's own memory differs: its tables are ordered by addresses
    expect(abs(host["change_bytes"] - 50 * MIB) < other, f"the host's peak changed by {host['change_bytes']}")
    expect(sum(site["change_bytes"] for site in host["sites"]) == host["change_bytes"], "sites do not add up")
    largest = host["sites"][0]
    expect(largest["change_bytes"] >= 50 * MIB, f"the largest change is {largest}")
    return host["a_bytes"]


def exit_codes(folder, small, large, peak):
    limit = f"--max=host.peak_bytes={peak}"
    gpupeak("check", small, limit)
    text, _ = gpupeak("check", large, limit, code=1)
    expect(text.startswith("FAIL"), text)
    gpupeak("check", large, "--baseline", small, "--max-increase", "host.peak_bytes=51MiB")
    text, _ = gpupeak("check", large, "--baseline", small, "--max-increase", "host.peak_bytes=49MiB", code=1)
    expect("+50.0 MiB" in text, f"the site that grew is not named: {text}")
    _, message = gpupeak("check", small, "--max", "host.peak=1", code=2)
    expect("host.peak_bytes" in message, "the metrics that there are are not named")
    gpupeak("check", small, code=2)
    gpupeak("check", small, "--max", "host.peak_bytes=8G", code=2)
    gpupeak("check", os.path.join(folder, "none.gplog"), limit, code=3)
    gpupeak("check", small, "--baseline", "/dev/null", "--max-increase", "host.peak_bytes=1%", code=3)
    sampled = record(folder, "sampled.gplog", 10, "sampled")
    gpupeak("check", "--strict", "--max", "host.peak_bytes=1TiB", sampled)  # passes by design: an estimate has its error beside it
    counters = record(folder, "counters.gplog", 10, "counters")
    gpupeak("check", "--strict", "--max", "device.peak_bytes=1TiB", "--allow-no-device", counters, code=4)
    off = record(folder, "off.gplog", 10, "off")
    text, _ = gpupeak("check", off, "--max", "host.peak_bytes=8TiB", code=1)
    expect("not measured" in text, text)


def files(folder, small, large):
    baseline = os.path.join(folder, "baseline.json")
    gpupeak("report", "--json", "-o", baseline, small)
    junit, markdown = os.path.join(folder, "junit.xml"), os.path.join(folder, "summary.md")
    for _ in range(2):
        gpupeak("check", large, "--baseline", baseline, "--max-increase", "host.peak_bytes=1%", "--max",
                "host.peak_bytes=1TiB", "--junit", junit, "--markdown", markdown, code=1)
    suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
    expect((suite.get("tests"), suite.get("failures")) == ("2", "1"), "JUnit counts are wrong")
    with open(markdown) as file:
        expect(file.read().count("### ❌") == 2, "Markdown is not appended")
    both = json.loads(gpupeak("report", "--json", small, large)[0])
    expect([len(both), both[0]["run"]["pid"] != both[1]["run"]["pid"]] == [2, True], "two logs, two summaries")


def metrics(folder, small, large):
    figures = dict(line.split() for line in gpupeak("metrics", small)[0].splitlines())
    summary = json.loads(gpupeak("report", "--json", small)[0])["metrics"]
    expect(figures == {k: "null" if v is None else str(v) for k, v in summary.items()}, "text differs from the summary")
    lines = gpupeak("metrics", "--format", "jsonl", "--label", "commit=a b", "--metric", "host.peak_bytes", small, large)[0]
    runs = [json.loads(line) for line in lines.splitlines()]
    expect([run["labels"] for run in runs] == [{"commit": "a b"}] * 2, lines)
    expect(runs[0]["metrics"] == {"host.peak_bytes": summary["host.peak_bytes"]}, lines)
    bencher = json.loads(gpupeak("metrics", "--format", "bencher", "--benchmark", "load", small)[0])
    expect(bencher["load"]["host.peak_bytes"] == {"value": summary["host.peak_bytes"]}, str(bencher))
    expect(all(isinstance(m["value"], int) for m in bencher["load"].values()), "null is no measure")
    github = json.loads(gpupeak("metrics", "--format", "github-benchmark", small)[0])
    expect({"name", "unit", "value"} <= set(github[0]), str(github[0]))
    google = json.loads(gpupeak("metrics", "--format", "google-benchmark", small, large)[0])
    expect(google["benchmarks"][1]["host.peak_bytes"] >= 60 * MIB, str(google["benchmarks"][1]))
    gpupeak("metrics", "--metric", "nothing", small, code=2)

    by_function = os.path.join(folder, "by_function.json")
    gpupeak("report", "--json", "--by", "function", "-o", by_function, small)
    expect(gpupeak("metrics", by_function)[0] == gpupeak("metrics", small)[0], "figures depend on what the rows are")
    gpupeak("diff", by_function, large, code=2)

    ranked = record(folder, "ranked.gplog", 10, RANK="3")
    names = list(json.loads(gpupeak("metrics", "--format", "bencher", ranked)[0]))
    expect(names == ["python3/rank:3"], f"{names}")
    names = list(json.loads(gpupeak("metrics", "--format", "bencher", ranked, ranked)[0]))
    expect(names == ["python3/rank:3/0", "python3/rank:3/1"], f"two runs of one rank are {names}")


def special_files(folder, small):
    """A pipe or a device is written to, and not replaced by a file."""
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    reader = subprocess.Popen(["timeout", "10", "cat", pipe], stdout=subprocess.PIPE)
    gpupeak("metrics", "-o", pipe, small)
    expect(stat.S_ISFIFO(os.stat(pipe).st_mode), "the pipe is a file now")
    expect(reader.communicate()[0].decode() == gpupeak("metrics", small)[0], "what the reader got")


def merged(folder):
    """Two children hold 40 MiB each at the same time, a third holds 50 MiB after their end."""
    child = "import time; x = bytearray({}); time.sleep({})"
    script = f"p() {{ /usr/bin/python3 -c \"$1\" & }}; p '{child.format(40 * MIB, 1.5)}'; p '{child.format(40 * MIB, 1.5)}'; wait; " \
             f"/usr/bin/python3 -c '{child.format(50 * MIB, 0)}'; true"
    pattern = os.path.join(folder, "merge.%n.%p.gplog")
    gpupeak("run", "-q", "--children", "all", "-o", pattern, "--", "/bin/bash", "-c", script)
    logs = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("merge.python3"))
    expect(len(logs) == 3, f"three children, {logs}")
    result = json.loads(gpupeak("merge", "--json", *logs)[0])
    host = [sum for node in result["nodes"] for sum in node["sums"] if sum["scope"] == "host"]
    expect(len(host) == 1 and host[0]["peak_bytes"] is not None, f"no peak of the host: {result['nodes']}")
    peak = host[0]["peak_bytes"]
    expect(80 * MIB <= peak < 100 * MIB, f"at once: {peak}")
    expect(host[0]["sum_of_peaks_bytes"] >= 130 * MIB, "the sum of peaks is the upper bound")
    expect(sum(part["at_peak_bytes"] for part in host[0]["parts"]) == peak, "parts do not add up")
    gpupeak("merge", logs[0], logs[0], code=2)


def confidential(small):
    for verb in (["report"], ["report", "--json"], ["export", "events"], ["tree"], ["metrics", "--format", "jsonl"], ["diff", small]):
        text, _ = gpupeak(*verb, "--confidential", small)
        host = re.search(rf"\b{re.escape(os.uname().nodename)}\b", text)
        functions = re.search(r"\bPy[A-Z]\w+", text)
        expect("bytearray" not in text and "python3" not in text and not host and not functions, f"{verb} shows names: {text[:2000]}")
    gpupeak("bundle", "--confidential", small, code=2)


def main():
    with tempfile.TemporaryDirectory() as folder:
        small, large = record(folder, "small.gplog", 10), record(folder, "large.gplog", 60)
        exit_codes(folder, small, large, what_grew(small, large))
        files(folder, small, large)
        metrics(folder, small, large)
        special_files(folder, small)
        merged(folder)
        confidential(small)


run_checks(main)
