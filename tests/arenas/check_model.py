#!/usr/bin/env python3
"""Names of initializers, end to end: a session of a model over the stand-in for ONNX Runtime, on the simulated driver. What of the model
is named is what the session has asked for, and nothing is named where the model's file is missing, another, or not what was asked for.

usage: check_model.py PRELOAD GPUPEAK CLIENT LIBRARY DRIVER
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
PRELOAD, GPUPEAK, CLIENT, LIBRARY, DRIVER = sys.argv[1:6]
import tiny_onnx as onnx  # pylint: disable=wrong-import-position

KIB = 1024


def write_model(path, **floats):
    """Each a tensor of so many floats, that a node of type Conv uses."""
    nodes, tensors = [], []
    for name, count in floats.items():
        tensors.append(onnx.number(1, count) + onnx.number(2, onnx.FLOAT) + onnx.block(8, name))
        nodes.append(onnx.block(1, name) + onnx.block(2, name + "_out") + onnx.block(3, "n_" + name) + onnx.block(4, "Conv"))
    graph = b"".join(onnx.block(1, node) for node in nodes) + b"".join(onnx.block(5, tensor) for tensor in tensors)
    with open(path, "wb") as file:
        file.write(onnx.number(1, 9) + onnx.block(7, graph) + onnx.block(2, "a test"))


LARGE = 16384 * KIB  # the device's peak is where this is asked for: what the session has asked for is live then


def record(folder, name, models, asks, runs=(LARGE,), cwd=None):
    log = os.path.join(folder, name + ".gplog")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPEAK_", "LD_"))}
    models = [models] if isinstance(models, str) else models
    subprocess.run([CLIENT, LIBRARY, *models], check=True, timeout=100, cwd=cwd, env=environment | {
        "LD_PRELOAD": PRELOAD, "LD_LIBRARY_PATH": DRIVER, "GPUPEAK_OUT": log, "GPUPEAK_SUMMARY": "off",
        "FAKE_SESSION_ASKS": " ".join(map(str, asks)), "FAKE_RUN_ASKS": " ".join(map(str, runs))})
    return log


def named(log):
    """Of the peak of GPU 0 the blocks of each initializer by what it is called: how many, and their bytes."""
    done = subprocess.run([GPUPEAK, "report", "--json", "--top", "1000", log], check=True, capture_output=True, text=True)
    peak = next(peak for peak in json.loads(done.stdout)["peaks"] if peak["scope"] == "device:0")
    rows = [row for row in peak["holders"] if row.get("parts") and row["parts"][0].get("name_source") == "model"]
    assert sum(row["bytes"] for row in peak["holders"]) == peak["bytes"], "the rows are the peak"
    assert all(row["site"].startswith("initializer ") for row in rows), rows
    return {row["parts"][0]["function"]: (row["count"], row["bytes"]) for row in rows}


MODEL = {"w1": 256 * KIB, "w2": 128 * KIB, "w3": 128 * KIB}
ASKS = [4 * count for count in MODEL.values()]
NAMES = {"initializer w1 of Conv n_w1": (1, 1024 * KIB), "initializer w2 or w3 of Conv": (2, 1024 * KIB)}


def main(folder):
    models = os.path.join(folder, "models")
    os.mkdir(models)
    model = os.path.join(models, "net.onnx")
    write_model(model, **MODEL)
    log = record(folder, "whole", model, ASKS, runs=(300000, 300000, LARGE))
    assert named(log) == NAMES, named(log)
    assert named(record(folder, "relative", "net.onnx", ASKS, cwd=models)) == NAMES, "a relative path is the program's"
    # One block more than there are tensors of its size, or what is no tensor's.
    assert named(record(folder, "more", model, [*ASKS, *ASKS])) == {}
    assert named(record(folder, "one", model, [*ASKS, 4096 * KIB])) == {}, "most of the bytes are no tensor's"
    assert named(record(folder, "many", model, [*ASKS, *[300] * 10])) == {}, "most of the blocks are no tensor's"
    assert named(record(folder, "little", model, ASKS[1:2])) == {}, "too little of the model"
    assert named(record(folder, "run", model, [], runs=ASKS)) == {}, "no session was created then"
    # Two sessions whose requests come from one place: each model must be known.
    missing = os.path.join(models, "missing.onnx")
    assert named(record(folder, "twice", [model, model], ASKS)) == {name: (2 * count, 2 * size) for name, (count, size) in NAMES.items()}
    assert named(record(folder, "unknown", [model, missing], ASKS)) == {}, "one of two models is not there"
    # Another file in its place, one that is cut, one that is called otherwise, none; then beside the log.
    write_model(model, w1=256 * KIB, v2=300 * KIB)
    assert named(log) == {}, "another model"
    write_model(model, **MODEL)
    assert named(log) == NAMES
    with open(model, "r+b") as file:
        file.truncate(os.path.getsize(model) - 3)
    assert named(log) == {}, "a model that is cut"
    os.unlink(model)
    write_model(os.path.join(models, "net.bin"), **MODEL)
    assert named(record(folder, "otherwise", os.path.join(models, "net.bin"), ASKS)) == {}, "whatever the log names is not opened"
    assert named(log) == {}, "no model"
    elsewhere = os.path.join(folder, "elsewhere")
    os.mkdir(elsewhere)
    shutil.copy(log, elsewhere)
    write_model(os.path.join(elsewhere, "net.onnx"), **MODEL)
    assert named(os.path.join(elsewhere, "whole.gplog")) == NAMES, "the model lies beside the log"
    print("initializers of a model: named where the model is there, and only then")


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
