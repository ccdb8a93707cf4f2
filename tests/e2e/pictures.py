"""Pictures of memory over time, taken apart: what they show is what the log says, and nothing in them lies over anything else."""
import csv
import glob
import io
import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

from common import GPUPEAK, expect, gpupeak, run_case

LOGS = sorted(glob.glob(os.path.join(sys.argv[3], "*.gpz")))
WAYS = ("site", "tag", "kind", "phase")
LETTER = 0.56  # the mean width of a letter, of its height; what is drawn reckons with a little more


def output(*arguments):
    return subprocess.run([GPUPEAK, *arguments], capture_output=True, check=True).stdout.decode()


def refused(*arguments, code, says, **more):
    got, said = gpupeak(*arguments, **more)
    expect(got == code and says in said, f"{arguments}: {got}, {said}")


def texts(svg):
    """The box of each text: left, right, its base line, and what it says."""
    boxes = []
    height = float(svg.get("font-size"))
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        said = "".join(text.itertext())
        width = len(said) * LETTER * height
        at = float(text.get("x")) - {"middle": width / 2, "end": width}.get(text.get("text-anchor"), 0)
        boxes.append((at, at + width, float(text.get("y")), said))
    return height, boxes


def expect_room(picture, what):
    svg = xml.fromstring(picture)
    _, _, width, tall = map(float, svg.get("viewBox").split())
    height, boxes = texts(svg)
    for i, (left, right, base, said) in enumerate(boxes):
        expect(left >= -1 and right <= width + 1 and base - height >= 0 and base <= tall, f"{what}: {said!r} leaves the picture")
        for begin, end, other, beside in boxes[:i]:
            apart = right <= begin + 1 or end <= left + 1 or abs(base - other) >= height * 0.9
            expect(apart, f"{what}: {said!r} lies over {beside!r}")


def room(_folder):
    for log in LOGS:
        for by in (None, *WAYS):
            for size in ("screen", "page", "column"):
                arguments = ["timeline", *(["--by", by] if by else []), "--size", size, "--svg", "-", log]
                expect_room(output(*arguments), " ".join(arguments))


def sums(_folder):
    """At each of its moments the parts add up to what the curve of the sum is then, and the highest of all is the peak."""
    for log in LOGS:
        whole = json.loads(output("timeline", "--json", log))
        series = {one["name"]: one["buckets"] for one in whole["series"]}
        for by in WAYS:
            taken = json.loads(output("timeline", "--by", by, "--json", log))
            rows = list(csv.DictReader(io.StringIO(output("timeline", "--by", by, "--csv", log))))
            expect([one["scope"] for one in taken["stacked"]] == [peak["scope"] for peak in whole["peaks"]], f"{log}: scopes by {by}")
            expect(len(rows) == sum(len(one["parts"]) * len(one["moments"]) for one in taken["stacked"]), f"{log}: rows by {by}")
            expect([int(row["bytes"]) for row in rows] == [bytes for one in taken["stacked"] for moment in one["moments"] for bytes in moment["bytes"]],
                   f"{log}: CSV and JSON by {by} differ")
            for one, peak in zip(taken["stacked"], whole["peaks"]):
                highest = max(sum(moment["bytes"]) for moment in one["moments"])
                expect(highest == peak["bytes"], f"{log}: {one['scope']} by {by} is {highest} at most, its peak {peak['bytes']}")
                for moment in one["moments"]:
                    at, total = moment["time_ns"], sum(moment["bytes"])
                    # The bucket of that moment, and its neighbours: times are rounded where buckets meet.
                    near = [i for i, bucket in enumerate(series[one["scope"]]) if bucket[0] <= at][-1:] or [0]
                    buckets = series[one["scope"]][max(0, near[0] - 1):near[0] + 2]
                    expect(min(b[1] for b in buckets) <= total <= max(b[2] for b in buckets), f"{log}: {total} at {at} by {by}: {buckets}")


def held_at(log, scope, times):
    """What the replay says was live at these instants, in nanoseconds."""
    asked = [word for ns in times for word in ("--at", f"{ns / 1e9:.9f}")]
    return [moment["bytes"] or 0 for moment in json.loads(output("report", "--held", "--json", "--top", "1", "--scope", scope, *asked, log))["moments"]]


def instants(_folder):
    """At a thousand instants of each log every curve is what the replay has then; of the host, whose times have a bound, within the
    stretch of its curve."""
    random.seed(7)
    for log in LOGS:
        whole = json.loads(output("timeline", "--json", log))
        scopes = [peak["scope"] for peak in whole["peaks"]]
        for one in whole["series"]:
            if one["name"] not in scopes:
                continue
            buckets = one["buckets"]
            times = [random.randrange(buckets[-1][0] + 1) for _ in range(700)]
            times += [max(0, random.choice(buckets)[0] + random.randrange(-3, 4)) for _ in range(300)]
            for ns, live in zip(times, held_at(log, one["name"], times)):
                at = max([i for i, bucket in enumerate(buckets) if bucket[0] <= ns], default=0)
                near = buckets[max(0, at - 1):at + 2]  # times are rounded where buckets meet
                expect(min(b[1] for b in near) <= live <= max(b[2] for b in near), f"{log}: {one['name']} at {ns} is {live}: {near}")
        for by in WAYS:
            for one in json.loads(output("timeline", "--by", by, "--json", log))["stacked"]:
                moments = one["moments"][:1000] if one["scope"].startswith("device") else []
                for moment, live in zip(moments, held_at(log, one["scope"], [moment["time_ns"] for moment in moments]) if moments else []):
                    expect(sum(moment["bytes"]) == live, f"{log}: {one['scope']} by {by} at {moment['time_ns']}: {sum(moment['bytes'])}, {live}")


def formats(folder):
    log = LOGS[0]
    light, dark = (output("timeline", *option, "--svg", "-", log) for option in ((), ("--dark",)))
    expect("prefers-color-scheme" in light and "prefers-color-scheme" not in dark and "#12161c" in dark, "light and dark")
    paper = output("timeline", "--size", "column", "--svg", "-", log)
    expect('width="240pt"' in paper and "prefers-color-scheme" not in paper, "a column of a paper")
    refused("timeline", "--by", "tag", "--scope", "device:0/linear", log, code=2, says="--by takes apart device:N or host")
    refused("timeline", "--by", "thread", log, code=2, says="--by")
    for option, start in (("--pdf", b"%PDF"), ("--png", b"\x89PNG")):
        out = os.path.join(folder, "picture")
        refused("timeline", "--by", "kind", option, out, log, code=125, says="librsvg2-bin", env=dict(os.environ, PATH="/nowhere"))
        expect(not os.path.exists(out), f"{option} left something without its converter")
        if subprocess.run(["sh", "-c", "command -v rsvg-convert"], capture_output=True, check=False).returncode == 0:
            output("timeline", "--by", "kind", option, out, log)
            with open(out, "rb") as file:
                expect(file.read(8).startswith(start), option)
            os.unlink(out)


def figure(folder):
    """The script of examples/ makes a figure from the CSV, or says that matplotlib is missing."""
    rows, drawn = os.path.join(folder, "rows.csv"), os.path.join(folder, "figure.svg")
    script = os.path.join(sys.argv[3], "..", "..", "examples", "timeline_figure.py")
    output("timeline", "--by", "tag", "--csv", "-o", rows, LOGS[0])
    said = subprocess.run([sys.executable, script, rows, drawn], capture_output=True, text=True, check=True).stdout
    expect(os.path.exists(drawn) or "pip install matplotlib" in said, f"no figure: {said}")
    output("timeline", "--csv", "-o", rows, LOGS[0])
    refused = subprocess.run([sys.executable, script, rows, drawn], capture_output=True, text=True, check=False)
    expect(refused.returncode == 1 and "--by" in refused.stderr, f"other CSV: {refused.stderr}")


run_case({"room": room, "sums": sums, "instants": instants, "formats": formats, "figure": figure}[sys.argv[4]])
