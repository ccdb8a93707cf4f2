"""`gpupeak metrics` for trackers and collectors: each form's fields, the figures equal to the text's; OpenMetrics by promtool and a Pushgateway, OTLP by
OpenTelemetry's own messages, of npm.

usage: metrics_formats.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK DRIVER_FOLDER WORK_FOLDER
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, Skipped, environment, expect, run_checks  # noqa: E402
from npm_library import npm_modules  # noqa: E402

BENCHMARK, DRIVER, WORK = sys.argv[3:6]
OTLP_AGAIN = """
const {createRequire} = require("module");
const {opentelemetry} = createRequire(process.argv[1] + "/")("@opentelemetry/otlp-transformer/build/src/generated/root");
const message = opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest;
const json = JSON.parse(require("fs").readFileSync(0));
const wire = message.encode(message.fromObject(json)).finish();
console.log(JSON.stringify(message.toObject(message.decode(wire), {longs: String, enums: Number})));
"""


def metrics(form, *logs):
    return subprocess.run([GPUPEAK, "metrics", "--format", form, "--label", "commit=1a\"b\\2", "--label", "run_id=r1", *logs], stdout=subprocess.PIPE,
                          text=True, check=True).stdout


def check_otlp(text, figures):
    (resource,) = json.loads(text)["resourceMetrics"]
    attributes = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
    expect(attributes["service.name"] == {"stringValue": "cuda_benchmark"} and attributes["commit"] == {"stringValue": "1a\"b\\2"}, f"{attributes}")
    (scope,) = resource["scopeMetrics"]
    found = {}
    for metric in scope["metrics"]:
        (point,) = metric["gauge"]["dataPoints"]
        found[metric["name"]] = int(point["asInt"])
        expect(metric["unit"] == ("1" if metric["name"].endswith("_count") else "By"), f"{metric}")
        expect(isinstance(point["asInt"], str) and 10**18 < int(point["startTimeUnixNano"]) <= int(point["timeUnixNano"]) < 10**19, f"{point}")
    expect(found == {"gpupeak." + name: value for name, value in figures.items()}, f"{found}")
    modules = npm_modules(WORK, "@opentelemetry/otlp-transformer", "0.57.2")
    if modules is None:
        raise Skipped("npm cannot bring OpenTelemetry's messages")
    # What its messages do not know is not there any more when they are written again.
    done = subprocess.run(["node", "-e", OTLP_AGAIN, modules], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == 0, f"OpenTelemetry's messages: {done.stderr}")
    expect(json.loads(done.stdout) == json.loads(text), f"read and written again by OpenTelemetry's messages: {done.stdout[:2000]}")
    wrong = text.replace('"asInt"', '"asInteger"')
    done = subprocess.run(["node", "-e", OTLP_AGAIN, modules], input=wrong, stdout=subprocess.PIPE, text=True, check=True)
    expect(json.loads(done.stdout) != json.loads(wrong), "a wrong name passes")


def check_openmetrics(text, figures):
    expect(text.endswith("# EOF\n") and text.count("# EOF") == 1, text[-200:])
    samples = re.findall(r'^(\w+)\{benchmark="([^"]+)",commit="1a\\"b\\\\2",run_id="r1"\} (\d+)$', text, re.M)
    names = {re.sub(r"_count$", "s", "gpupeak_run_" + name.replace(".", "_")): value for name, value in figures.items()}
    expect({name: int(value) for name, benchmark, value in samples if benchmark == "cuda_benchmark/0"} == names, f"{samples}")
    families = re.findall(r"^# TYPE (\w+) gauge$", text, re.M)
    expect(len(families) == len(set(families)) == len(names), "a family is told twice")
    expect(all(name.endswith("_bytes") for name in re.findall(r"^# UNIT (\w+) bytes$", text, re.M)), text)
    promtool = shutil.which("promtool")
    if promtool:
        done = subprocess.run([promtool, "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        expect(done.returncode == 0, f"promtool: {done.stdout}")


def check_pushgateway(text):
    """A real Pushgateway takes what docs/harnesses.md hands it, and tells it on as it was."""
    program = shutil.which("prometheus-pushgateway")
    if program is None:
        print("no Pushgateway here (Debian: prometheus-pushgateway)")
        return
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        place = "127.0.0.1:" + str(any_port.getsockname()[1])
    gateway = subprocess.Popen([program, "--web.listen-address=" + place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(urllib.request.Request(f"http://{place}/metrics/job/bench", data=text.encode(), method="POST"), timeout=20).close()
                break
            except urllib.error.HTTPError as error:
                raise AssertionError(f"the Pushgateway refuses it: {error.read().decode()}") from error
            except urllib.error.URLError:
                expect(gateway.poll() is None and time.monotonic() < deadline, "the Pushgateway does not start")
                time.sleep(0.1)
        with urllib.request.urlopen(f"http://{place}/metrics", timeout=20) as answer:
            told = answer.read().decode()
    finally:
        gateway.kill()
        gateway.wait()
    (value,) = re.findall(r'^gpupeak_run_device_peak_bytes\{[^}]*job="bench"[^}]*\} (\S+)$', told, re.M)
    expect(float(value) == 795344896, value)


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        env = {**environment(folder, False), "LD_LIBRARY_PATH": DRIVER}
        subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", BENCHMARK], env=env, stdout=subprocess.DEVNULL, check=True)
        other = shutil.copy(log, os.path.join(folder, "b.gplog"))
        text = subprocess.run([GPUPEAK, "metrics", log], stdout=subprocess.PIPE, text=True, check=True).stdout
        figures = {name: int(value) for name, value in (line.split() for line in text.splitlines()) if value != "null"}
        expect(figures["device.peak_bytes"] == 795344896 and "null" in text, text)

        mlflow = json.loads(metrics("mlflow", log))
        expect(mlflow["run_id"] == "r1" and {m["key"]: m["value"] for m in mlflow["metrics"]} == {"gpupeak/" + n: v for n, v in figures.items()},
               f"{mlflow}")
        expect(all(re.fullmatch(r"[\w\-./ ]+", m["key"]) and m["step"] == 0 and m["timestamp"] > 10**12 for m in mlflow["metrics"]), f"{mlflow}")
        expect({"key": "commit", "value": "1a\"b\\2"} in mlflow["tags"], f"{mlflow['tags']}")
        expect(metrics("mlflow", log, other).count("\n") == 2, "a request a run")

        wandb = json.loads(metrics("wandb", log))
        expect({k: v for k, v in wandb.items() if isinstance(v, int) and not isinstance(v, bool)} == {"gpupeak/" + n: v for n, v in figures.items()},
               f"{wandb}")
        expect(wandb["gpupeak/exact"] is True and wandb["gpupeak/label/commit"] == "1a\"b\\2", f"{wandb}")
        check_openmetrics(metrics("openmetrics", log, other), figures)
        check_pushgateway(metrics("openmetrics", log))
        check_otlp(metrics("otlp-json", log), figures)


run_checks(main)
