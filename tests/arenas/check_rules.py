#!/usr/bin/env python3
"""Pools that rules name: what the log says against their own ledgers.

usage: check_rules.py PRELOAD GPUPEAK FOLDER_OF_CUDA CLIENT LIBRARY PLUGIN [threads|again|wrong]

wrong: rules that do not fit, of which the program must notice nothing and the report must say so.
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

preload, gpupeak, cuda, client, library, plugin = sys.argv[1:7]
what = sys.argv[7:]

CLASS = {"name": "Demo pool", "library": "libdemo_pool.so*", "class": "demo::RoundingPool", "functions": 6,
         "allocate": 2, "size": 1, "given": 2, "free": 3, "address": 1, "destructor": 0}
PAIR = {"name": "Demo functions", "library": "libdemo_pool.so*", "allocate": "demo_alloc", "size": 0, "free": "demo_free",
        "address": 0}


def rules_of(*pools):
    text = '# other parts are passed over\n[[tag]]\nname = "demo"\nmodule = [\n  "libdemo*",\n]\n'
    for pool in pools:
        text += "\n[[pool]]\n" + "".join(f"{key} = {json.dumps(value)}  # so\n" for key, value in pool.items())
    return text


def run(folder, name, text, library=library, **environment):
    log, truth, rules = (os.path.join(folder, name + ending) for ending in (".gplog", ".truth", ".toml"))
    with open(rules, "w") as file:
        file.write(text)
    done = subprocess.run([client, truth, library, plugin, *(w for w in what if w != "wrong")], timeout=100,
                          capture_output=True, text=True,
                          env={**os.environ, "LD_PRELOAD": preload, "LD_LIBRARY_PATH": cuda, "GPUPEAK_OUT": log,
                               "GPUPEAK_SUMMARY": "off", "GPUPEAK_POOL_RULES": rules, **environment})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
    view, report = (json.loads(subprocess.run([gpupeak, *command], check=True, capture_output=True, text=True).stdout)
                    for command in (["pools", log, "--at", "last", "--json"], ["report", "--json", log]))
    return view, report, [line.split() for line in open(truth)]


def said(report):
    return [w["message"] for w in report["quality"]["warnings"] if w["code"] in ("GP045", "GP046", "GP047", "GP049")]


def check(pools, report, truth, names):
    assert not said(report), said(report)
    pools = {pool["name"]: pool for pool in pools["pools"]}
    assert set(pools) == set(names.values()), pools.keys()
    of_pool = collections.defaultdict(list)
    for line in truth:
        if line[0] == "block" and line[1] in names:
            of_pool[names[line[1]]].append((int(line[2]), int(line[3])))
    for _, key, in_use, peak, requests in (line for line in truth if line[0] == "pool" and line[1] in names):
        pool = pools[names[key]]
        assert pool["device"] == 0 and pool["failed_count"] > 0, pool
        assert sorted((b["address"], b["bytes"]) for b in pool["blocks"]) == sorted(of_pool[names[key]]), (key, pool)
        assert pool["in_use_bytes"] == int(in_use), (key, pool["in_use_bytes"], in_use)
        if key != "third":  # the second one's is the same row
            assert pool["peak"]["in_use_bytes"] == int(peak), (key, pool["peak"], peak)
        assert pool["in_use_bytes"] + pool["idle_bytes"] == pool["reserved_bytes"], pool
    print(f"{sum(len(blocks) for blocks in of_pool.values())} blocks, {len(names)} pools equal")


ALL = {"functions": "Demo functions", "first": "Demo pool", "third": "Demo pool (2)"}
with tempfile.TemporaryDirectory() as folder:
    if "wrong" not in what:
        for host in ("full", "off"):
            check(*run(folder, host, rules_of(CLASS, PAIR), GPUPEAK_HOST=host), ALL)
        _, report, _ = run(folder, "without", rules_of(CLASS, PAIR), GPUPEAK_POOLS="off")
        assert "pools" not in report or not report["pools"], report["pools"]
        # Built without the class that a built-in rule is about: that is no fault.
        other = os.path.join(folder, "libggml-cuda.so")
        shutil.copy(library, other)
        _, report, _ = run(folder, "other_build", "# none\n", library=other)
        assert not said(report), said(report)
    else:
        check(*run(folder, "asked", rules_of({k: v for k, v in PAIR.items()}), GPUPEAK_HOST="off"), {"functions": "Demo functions"})
        for name, change, wanted in (
            ("functions", {"functions": 7}, "another number of virtual functions"),
            ("class", {"class": "demo::Pool"}, "its class was not found"),
            ("given", {"given": 4}, "is not where the rule says"),
            ("given_pointer", {"given": 0}, "is not where the rule says"),
            ("slot", {"allocate": 6}, "line 8: the pool has a slot beyond its functions"),
            ("key", {"speed": 3}, "line 19: 'speed' is not a key of [[pool]]"),
            ("argument", {"size": 6}, "'size' is not an argument, 0 to 5"),
            ("no_type", {"type": ""}, "'type' is not a text")):
            pools, report, _ = run(folder, name, rules_of({**CLASS, **change}))
            assert any(wanted in message for message in said(report)), (name, said(report))
            assert not pools["pools"] or name.startswith("given"), (name, pools["pools"])
        _, report, _ = run(folder, "pair", rules_of({**PAIR, "free": "demo_release"}))
        assert any("does not export its functions" in message for message in said(report)), said(report)
        # Functions that are something else than the rule says: nothing but the figures is wrong.
        run(folder, "other_functions", rules_of({**CLASS, "allocate": 4, "free": 5, "given": 5}))
        run(folder, "other_arguments", rules_of({**PAIR, "size": 3, "address": 4}))
        _, report, _ = run(folder, "no_file", "", GPUPEAK_POOL_RULES=os.path.join(folder, "none.toml"))
        assert any("cannot be read" in message for message in said(report)), said(report)
