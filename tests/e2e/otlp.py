#!/usr/bin/env python3
"""`gpupeak serve --otlp`: a receiver gets the same figures as Prometheus. OpenTelemetry's own classes of the protocol read them.

usage: otlp.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER FOLDER_FOR_NPM
"""
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

from common import GPUPEAK, Skipped, expect, run_case
from stepped_program import SteppedProgram

DRIVER, WORK = sys.argv[3:5]
MIB = 1 << 20
TRANSFORMER = "@opentelemetry/otlp-transformer@0.207.0"  # later releases have no classes of the requests
READ = """
const {opentelemetry} = require("@opentelemetry/otlp-transformer/build/src/generated/root.js");
const request = opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest;
const bytes = require("fs").readFileSync(0);
const read = request.decode(bytes);
const same = Buffer.compare(Buffer.from(request.encode(read).finish()), bytes) == 0;
process.stdout.write(JSON.stringify({same, read: request.toObject(read, {longs: Number, enums: String})}));
"""


def parser():
    """A folder in which node finds the protocol's classes."""
    place = os.path.join(WORK, TRANSFORMER.replace("@", "").replace("/", "-"))
    if not os.path.exists(os.path.join(place, "node_modules")):
        if not shutil.which("npm") or not shutil.which("node"):
            raise Skipped("no npm, which would bring OpenTelemetry's classes of the protocol")
        os.makedirs(WORK, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=WORK) as folder:
            if subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", TRANSFORMER], cwd=folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
                raise Skipped("npm cannot bring OpenTelemetry's classes of the protocol")
            os.makedirs(place, exist_ok=True)
            os.rename(os.path.join(folder, "node_modules"), os.path.join(place, "node_modules"))
    return place


class Receiver:
    """Takes requests. It refuses the first one as if it were busy."""

    def __init__(self):
        received = self.received = queue.Queue()
        answers = [503]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.put((self.path, dict(self.headers), body))
                self.send_response(answers.pop() if answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def read(place, body):
    done = subprocess.run(["node", "-e", READ], cwd=place, input=body, stdout=subprocess.PIPE, check=True)
    told = json.loads(done.stdout)
    expect(told["same"], "written anew it has other bytes: fields in another order, or unknown to the protocol")
    return told["read"]["resourceMetrics"]


def attributes(of):
    return {pair["key"]: next(iter(pair["value"].values())) for pair in of.get("attributes", [])}


class Told:
    """The metrics of one resource: name → [(labels, point, metric)]."""

    def __init__(self, resource_metrics):
        self.resource = attributes(resource_metrics["resource"])
        (scope,) = resource_metrics["scopeMetrics"]
        self.scope, self.points = scope["scope"], {}
        for metric in scope["metrics"]:
            expect(metric["name"] not in self.points and metric["description"], f"{metric['name']} comes twice, or says nothing")
            data = metric.get("gauge") or metric["sum"]
            self.points[metric["name"]] = [(attributes(point), point, metric) for point in data["dataPoints"]]

    def value(self, name, **labels):
        found = [point for of, point, _ in self.points.get(name, []) if labels.items() <= of.items()]
        return next((found[0][kind] for kind in ("asInt", "asDouble") if kind in found[0])) if found else None


def prometheus_name(metric):
    """The metric's name as OpenTelemetry's exporters and Prometheus' own receiver make it: compatibility/prometheus_and_openmetrics.md."""
    name = metric["name"].replace(".", "_") + {"By": "_bytes", "s": "_seconds"}.get(metric["unit"], "")
    return name + ("_total" if metric.get("sum", {}).get("isMonotonic") else "")


def main(folder):
    place, receiver = parser(), Receiver()
    program = SteppedProgram(os.path.join(folder, "a.gplog"), DRIVER, RANK="3")
    program.step("200")
    program.step("free")
    program.step("150")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "SLURM_"))}
    env = dict(clean, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url + "/", OTEL_EXPORTER_OTLP_HEADERS="x-key=abc,x-tenant=gpu", SLURM_JOB_ID="4711", POD_NAME="train-0",
               CONTAINER_NAME="main", POD_NAMESPACE="ml", JOB_NAME="train", OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test")
    server = subprocess.Popen([GPUPEAK, "serve", "--otlp", "env", "--every", "1", folder], env=env, stderr=subprocess.PIPE, text=True)
    try:
        path, headers, first = receiver.received.get(timeout=20)
        expect(path == "/v1/metrics" and headers["Content-Type"] == "application/x-protobuf", f"{path}, {headers}")
        expect(headers["x-key"] == "abc" and headers["x-tenant"] == "gpu", f"{headers}")
        second = receiver.received.get(timeout=20)[2]  # comes although the first was refused
        program.end()
        while not receiver.received.empty():
            receiver.received.get()
    finally:
        server.send_signal(signal.SIGTERM)
    said = server.communicate(timeout=20)[1]
    if "not in this build" in said:
        raise Skipped(said)
    expect(server.returncode == 0, said)
    expect(said.count("503") == 1 and len(said.splitlines()) == 1, f"what it says: {said}")
    while not receiver.received.empty():
        last = receiver.received.get()[2]
    for body in (first, second):
        told = {resource.get("gpupeak.log"): of for of in map(Told, read(place, body)) for resource in [of.resource]}
        expect(set(told) == {"a.gplog", None}, f"resources: {set(told)}")
        run = told["a.gplog"]
        expect(run.scope["name"] == "gpupeak" and run.scope["version"], f"{run.scope}")
        wanted = {"service.name": run.resource["process.executable.name"], "service.instance.id": "a.gplog", "process.pid": program.process.pid, "gpupeak.rank": 3, "gpupeak.job": "4711",
                  "host.name": os.uname().nodename, "k8s.pod.name": "train-0", "k8s.namespace.name": "ml", "k8s.container.name": "main",
                  "k8s.job.name": "train", "deployment.environment.name": "test"}
        expect(wanted.items() <= run.resource.items() and run.resource["process.executable.name"].startswith("python"), f"resource: {run.resource}")
        expect(run.value("gpupeak.device.live", device="0") == 150 * MIB, "live")
        expect(run.value("gpupeak.device.peak", device="0") == 200 * MIB, "peak")
        expect(run.value("gpupeak.device.kind_live", device="0", kind="linear") == 150 * MIB, "by kind")
        (labels, point, metric), = run.points["hw.gpu.memory.limit"]
        expect(labels["hw.name"] and labels["hw.id"].startswith("GPU-") and metric["unit"] == "By" and not metric["sum"].get("isMonotonic"), f"{labels}")
        (_, point, metric), = run.points["gpupeak.device.allocations"]
        expect(metric["sum"]["aggregationTemporality"] == "AGGREGATION_TEMPORALITY_CUMULATIVE" and metric["sum"]["isMonotonic"], f"{metric}")
        expect(0 < point["startTimeUnixNano"] < point["timeUnixNano"] and point["asInt"] == 2, f"{point}")
        expect(told[None].value("gpupeak.logs", state="running") == 1, "of the folder")
    run = next(of for of in map(Told, read(place, last)) if "gpupeak.log" in of.resource)
    expect(run.value("gpupeak.run.state", state="ended") == 1, "the last one has the end")
    expect(run.value("gpupeak.device.live", device="0") is None and run.value("gpupeak.device.peak", device="0") == 200 * MIB, "at the end")
    # With Prometheus' naming, metrics have the names that `serve` gives them.
    text = subprocess.run([GPUPEAK, "serve", "--textfile", "-", folder], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = {line.split("{")[0].split()[0] for line in text.splitlines() if not line.startswith("#")}
    got = {prometheus_name(metric) for of in map(Told, read(place, last)) for points in of.points.values() for _, _, metric in points}
    left = {"gpupeak_log_info", "gpupeak_device_info", "gpupeak_build_info", "gpupeak_device_capacity_bytes"}
    expect(got - {"hw_gpu_memory_limit_bytes"} == names - left, f"{got ^ names}")
    print(f"{len(last)} bytes for a log and the folder")
    # If a request cannot be sent, or an address is missing, that is said.
    for options, more, words in (["--otlp", "env"], {}, "OTEL_EXPORTER_OTLP_ENDPOINT"), (["--otlp", "http://127.0.0.1:1/v1/metrics"], {}, "does not take the metrics"):
        server = subprocess.Popen([GPUPEAK, "serve", *options, folder], env=clean | more, stderr=subprocess.PIPE, text=True)
        line = server.stderr.readline()
        server.send_signal(signal.SIGTERM)
        expect(words in line and server.wait(20) == 125, f"{options}: {line}: {server.returncode}")


run_case(main)
