#!/usr/bin/env python3
"""A released ONNX Runtime from npm under Node.js: the same result, and its calls as phases.

usage: onnxruntime_npm.py LIBGPUPEAK GPUPEAK VERSION WORK_FOLDER CLIENTS_FOLDER
The model is SqueezeNet if the folder of clients is there, else a tiny one of our own.
Exit code 77: node, npm or the network is missing.
"""
import os
import shutil
import subprocess
import sys
import tempfile

from common import (GPUPEAK, Skipped, environment, expect, expect_heap_is_what_events_leave, expect_nothing_dropped,
                    logs, report, run_checks)
import npm_package
import ort_nodes
import tiny_onnx

VERSION, WORK, CLIENTS = sys.argv[3:6]
PROGRAM = """
const ort = require('onnxruntime-node');
(async () => {
  const session = await ort.InferenceSession.create(process.argv[2]);
  const x = new ort.Tensor('float32', new Float32Array(3 * 224 * 224).fill(0.5), [1, 3, 224, 224]);
  for (let i = 0; i < 4; ++i) {
    const result = await session.run({[session.inputNames[0]]: x});
    const values = result[session.outputNames[0]].data;
    console.log(values.length, values.reduce((a, b) => a + b, 0).toFixed(4), values.indexOf(Math.max(...values)));
  }
  await session.release();
})();
"""


def main():
    place = npm_package.fetch(VERSION, WORK) if shutil.which("node") is not None else None
    if place is None:
        raise Skipped("no node, npm or network")
    with open(os.path.join(place, "test.js"), "w") as file:
        file.write(PROGRAM)
    model = os.path.join(CLIENTS, "onnxruntime/models/light_squeezenet.onnx")
    if not os.path.exists(model):
        model = os.path.join(place, "tiny.onnx")
        tiny_onnx.write(model)
    command = ["node", os.path.join(place, "test.js"), model]
    with tempfile.TemporaryDirectory() as folder:
        native = subprocess.run(command, env=environment(folder, False), capture_output=True, check=False)
        ours = subprocess.run([GPUPEAK, "run", "-q", "--host", "full", "-o", os.path.join(folder, "a.gplog"), "--", *command],
                              env=environment(folder, False), capture_output=True, check=False)
        expect(native.returncode == 0, f"the program fails by itself: {native.stderr.decode()}")
        expect(ours.returncode == 0 and ours.stdout == native.stdout, f"stdout {ours.stdout!r}, without {native.stdout!r}")
        summary = report(logs(folder)[0])
        expect_nothing_dropped(summary)
        expect_heap_is_what_events_leave(logs(folder)[0], summary)
        phases = {p["name"]: p["count"] for p in summary["phases"] if p["source"] == "ort"}
        print(VERSION, phases)
        expect(phases == {"create_env": 1, "create_session": 1, "run": 4, "release_session": 1}, f"phases {phases}")
        log = os.path.join(folder, "nodes.gplog")
        nodes = subprocess.run([GPUPEAK, "run", "-q", "--ort-nodes", "-o", log, "--", *command],
                               env=environment(folder, False), capture_output=True, check=False)
        expect(nodes.returncode == 0 and nodes.stdout == native.stdout, f"with --ort-nodes {nodes}")
        ort_nodes.expect_as_in_profile(report(log), folder, "nodes.gplog.ort-1_*.json")


run_checks(main)
