#!/usr/bin/env python3
"""The parts that nodes deliver when their job ends (examples/nodes, slurm, kubernetes, clickhouse/load.sh). A part that is delivered again changes
nothing. If a node is cut off, only its own rows are missing, and the job's row says so.

usage: nodes.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK DRIVER_FOLDER FOLDER_FOR_DUCKDB hosts|slurm|script|pre_stop
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

import duckdb
import yaml  # Debian: python3-yaml
from clickhouse_server import ClickHouseServer, find_programs
from common import GPUPEAK, LIBRARY, Skipped, environment, expect, record, run_checks
from hosts import Hosts
from slurm import Slurm
from stepped_program import SteppedProgram

BENCHMARK, DRIVER, WORK, CASE = sys.argv[3:7]
EXAMPLES = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples"))
PART, LOAD = (os.path.join(EXAMPLES, name) for name in ("nodes/part.sh", "clickhouse/load.sh"))
TABLES = ("runs", "ranks", "peaks", "holders", "phases")
PATH = os.path.dirname(GPUPEAK) + ":" + os.environ["PATH"]


class Read:
    """The files of a folder, as DuckDB reads them. tables.py makes the views of docs/sql.md."""

    def __init__(self, folder):
        found = duckdb.library(WORK)
        if found is None:
            raise Skipped("no DuckDB: npm cannot bring it")
        self.engine, self.folder = duckdb.DuckDb(found), folder

    def rows(self, table, what="*"):
        return self.engine.rows(f"SELECT {what} FROM read_json('{self.folder}/{table}/*/*.ndjson.zst', format = 'newline_delimited', hive_partitioning = true)")

    def job(self):
        (job,) = self.rows("runs", "sum(ranks) AS ranks, max(expected_ranks) AS expected_ranks, min(run) AS run, count(*) AS parts")
        return job


def hosts(folder):
    find_programs()
    nodes = ["node1", "node2", "node3"]
    with Hosts(["store", *nodes]) as machines:
        house = ClickHouseServer(os.path.join(folder, "house"), machines.address["store"], [machines.address["store"]], machines.within("store"))
        with house:
            house.run_file(os.path.join(EXAMPLES, "clickhouse/18.16/tables.sql"))
            house.run_file(os.path.join(EXAMPLES, "clickhouse/18.16/views.sql"), "-d", "gpupeak")
            logs, tables = ({node: os.path.join(folder, what, node) for node in nodes} for what in ("logs", "tables"))
            for number, node in enumerate(nodes):
                os.makedirs(logs[node])
                for local in range(2):
                    # As in containers: the logs have the same names on each node.
                    log = os.path.join(logs[node], f"{local}.gplog")
                    env = dict(environment(folder, False), LD_LIBRARY_PATH=DRIVER, RANK=str(2 * number + local))
                    subprocess.run([*machines.within(node), GPUPEAK, "run", "-q", "-o", log, "--", BENCHMARK], env=env, stdout=subprocess.DEVNULL, check=True)
            # Each node mounts its own folder here, so that all nodes' logs have the same paths.
            common = os.path.join(folder, "here")
            os.mkdir(common)

            def deliver(node, path=PATH):
                env = dict(environment(folder, False), PATH=path, MAX_SECONDS="5", TMPDIR=folder)
                script = f'mount --bind "{logs[node]}" "{common}" && "{PART}" job "{common}" "{tables[node]}" 6 && exec "{LOAD}" "{house.url}" "{tables[node]}"'
                within = [*machines.within(node), "unshare", "--mount", "sh", "-c", script]
                return subprocess.run(within, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)

            # The second node loses its network after two of its tables.
            wrapper = os.path.join(folder, "cut")
            os.mkdir(wrapper)
            with open(os.open(os.path.join(wrapper, "curl"), os.O_WRONLY | os.O_CREAT, 0o755), "w", encoding="ascii") as file:
                file.write(f'#!/bin/sh\necho >>{wrapper}/calls\n[ $(wc -l <{wrapper}/calls) -lt 3 ] || ip link set eth0 down\nexec {shutil.which("curl")} "$@"\n')
            for node in nodes:
                done = deliver(node, f"{wrapper}:{PATH}" if node == "node2" else PATH)
                expect((done.returncode == 0) == (node != "node2"), f"{node}: {done.stderr}")
            # A part that the server refuses is named.
            refused = subprocess.run([*machines.within("node1"), LOAD, house.url, tables["node1"], "nobody"], stderr=subprocess.PIPE, text=True, check=False)
            expect(refused.returncode == 1 and "nobody" in refused.stderr, f"a database that is not there: {refused.returncode}, {refused.stderr}")
            (job,) = house.rows("SELECT * FROM runs")
            expect((job["run"], job["ranks"], job["expected_ranks"], job["complete"]) == ("job", 4, 6, 0), f"without a node: {job}")
            held = "SELECT rank, sum(bytes) AS bytes FROM holders WHERE scope = 'device:0' GROUP BY rank ORDER BY rank"
            without = house.rows(held)
            expect([row["rank"] for row in without] == [0, 1, 4, 5], f"whose rows there are: {without}")
            peaks = {row["rank"]: row["bytes"] for row in house.rows("SELECT rank, bytes FROM peaks WHERE scope = 'device:0'")}
            expect(all(row["bytes"] == peaks[row["rank"]] for row in without), "the others' holders add up to their peaks")
            # The node is back, and all nodes deliver once more.
            subprocess.run(["ip", "-n", machines.space("node2"), "link", "set", "eth0", "up"], check=True)
            for node in nodes:
                done = deliver(node)
                expect(done.returncode == 0, f"{node}: {done.stderr}")
            (job,) = house.rows("SELECT * FROM runs")
            expect((job["ranks"], job["complete"], job["failed_ranks"]) == (6, 1, 0), f"all of it: {job}")
            # As in an object store: all nodes' files are in one folder, and none replaces another's.
            bucket = os.path.join(folder, "bucket")
            for node in nodes * 2:
                shutil.copytree(tables[node], bucket, dirs_exist_ok=True)
            read = Read(bucket)
            expect(read.job() == {"ranks": 6, "expected_ranks": 6, "run": "job", "parts": 3}, f"{read.job()}")
            columns = {"ranks": "host, pid, rank, log, device_peak_bytes, complete, day", "peaks": "rank, log, scope, bytes, day",
                       "holders": "rank, log, number, scope, name, bytes, blocks, day", "phases": "rank, log, number, phase, device_peak_bytes, day"}
            for table, names in columns.items():
                there = house.rows(f"SELECT {names} FROM {table}")
                wanted = read.rows(table, names)
                expect(there and sorted(map(str, (sorted(row.items()) for row in there))) == sorted(map(str, (sorted(given(row).items()) for row in wanted))),
                       f"{table}: {len(there)} rows, {len(wanted)} delivered: {there[:2]}, {wanted[:2]}")
            expect({row["host"] for row in read.rows("ranks")} == set(nodes), "hosts")


def given(row):
    """As ClickHouse 18.16 says it."""
    return {name: int(value) if isinstance(value, bool) else value for name, value in row.items()}


def slurm(folder):
    """A job whose programs do not know that they are recorded: the cluster's TaskProlog records them, its Epilog writes the node's part."""
    spool, tables, own = (os.path.join(folder, name) for name in ("spool", "tables", "own"))
    script = {}
    for name, of in (("prolog", "task_prolog.sh"), ("epilog", "epilog.sh")):  # as an administrator sets them up
        script[name] = os.path.join(folder, name)
        with open(os.open(script[name], os.O_WRONLY | os.O_CREAT, 0o755), "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\nexport PATH={PATH} GPUPEAK_FOLDER={spool} GPUPEAK_TABLES={tables} GPUPEAK_LIBRARY={LIBRARY}\nexec {EXAMPLES}/slurm/{of}\n")
    os.mkdir(os.path.join(folder, "slurm"))
    with Slurm(os.path.join(folder, "slurm"), f"TaskProlog={script['prolog']}\nEpilog={script['epilog']}\n") as cluster:
        env = dict(cluster.environment, LD_LIBRARY_PATH=DRIVER, PATH=PATH, GPUPEAK_FOLDER=spool, GPUPEAK_TABLES=own)
        # One of three tasks is killed: it has rows of the time before.
        task = 'echo $SLURM_JOB_ID; if [ $SLURM_PROCID = 2 ]; then kill -9 $$; else exec "$0"; fi'
        done = subprocess.run(["srun", "-n", "3", "--overcommit", f"--task-epilog={EXAMPLES}/slurm/task_epilog.sh", "sh", "-c", task, BENCHMARK],
                              env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        expect(done.returncode != 0, "a task was killed")
        job = next(word for word in done.stdout.split() if word.isdigit())
        until = time.monotonic() + 60  # srun does not wait for the Epilog
        while not (os.path.isdir(f"{tables}/runs") and any(name.endswith(".zst") for _, _, names in os.walk(f"{tables}/runs") for name in names)):
            expect(time.monotonic() < until, f"no Epilog: {os.listdir(folder)}: {done.stderr}")
            time.sleep(0.1)
    of = {row["rank"]: row for row in Read(tables).rows("ranks", "rank, device_peak_bytes, complete") if row["device_peak_bytes"]}
    expect(set(of) == {0, 1} and all(row["complete"] for row in of.values()), f"ranks: {of}")
    told = Read(tables).job()
    expect(told["run"] == f"slurm-{job}" and told["expected_ranks"] == 3 and told["parts"] == 1, f"{told}")
    # With an epilogue for each task: the same ranks, each in its own part.
    by_task = Read(own)
    same = {row["rank"]: row for row in by_task.rows("ranks", "rank, device_peak_bytes, complete") if row["device_peak_bytes"]}
    expect(same == of and by_task.job()["expected_ranks"] == 3, f"by the tasks' own: {same}")


def script(folder):
    """As a job's script does it after torchrun or mpirun: two nodes, one after the other, into one folder."""
    tables = os.path.join(folder, "tables")
    for node in range(2):
        logs = os.path.join(folder, f"node{node}")
        for local in range(2):
            os.makedirs(logs, exist_ok=True)
            record(os.path.join(logs, f"{local}.gplog"), BENCHMARK, LD_LIBRARY_PATH=DRIVER, RANK=2 * node + local)
        for _ in range(2):  # the job ends twice, as when an elastic agent restarts it
            subprocess.run([PART, "job", logs, tables, "4"], env=dict(environment(folder, False), PATH=PATH, PART=f"node{node}"), check=True)
    read = Read(tables)
    expect(read.job() == {"ranks": 4, "expected_ranks": 4, "run": "job", "parts": 2}, f"{read.job()}")
    expect(sorted(row["rank"] for row in read.rows("ranks")) == [0, 1, 2, 3], "ranks")
    # It is no error if there is nothing to deliver.
    os.mkdir(os.path.join(folder, "none"))
    subprocess.run([PART, "job", os.path.join(folder, "none"), tables], env=dict(environment(folder, False), PATH=PATH), check=True)


def pre_stop(folder):
    """The container waits until the pod's program has ended. If it may not wait longer, the part counts as not complete."""
    asked = subprocess.run([GPUPEAK, "serve", "--textfile", "-", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if asked.returncode == 125:
        raise Skipped("built without prometheus-cpp")
    with open(os.path.join(EXAMPLES, "kubernetes/job.yaml"), encoding="utf-8") as file:
        (sidecar,) = yaml.safe_load(file)["spec"]["template"]["spec"]["initContainers"]
    (hook,) = sidecar["lifecycle"]["preStop"]["exec"]["command"]
    expect(os.access(hook.replace("/opt/gpupeak/examples", EXAMPLES), os.X_OK), f"the job's hook is {hook}")
    given = {of["name"] for of in sidecar["env"]}
    expect({"POD_NAME", "JOB_NAME", "JOB_UID", "RANKS", "CLICKHOUSE"} <= given, f"what the hook needs, and the job gives: {given}")
    program = SteppedProgram(os.path.join(folder, "0.gplog"), DRIVER)
    program.step("200")
    fake = os.path.join(folder, "bin")  # in place of a server: keeps what would be sent to it
    os.mkdir(fake)
    with open(os.open(os.path.join(fake, "curl"), os.O_WRONLY | os.O_CREAT, 0o755), "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\necho "$@" >>{folder}/sent\nprintf 200\n')
    env = dict(environment(folder, False), PATH=f"{fake}:{PATH}", LOGS=folder, POD_NAME="train-0", JOB_NAME="train", JOB_UID="ab12", RANKS="2", CLICKHOUSE="http://none:8123")
    command = os.path.join(EXAMPLES, "kubernetes/pre_stop.sh")
    subprocess.run([command], env=dict(env, WAIT_SECONDS="0"), check=True)
    (rank,) = Read(os.path.join(folder, "tables")).rows("ranks")
    expect(rank["complete"] is False, f"of one that runs: {rank}")
    waits = subprocess.Popen([command], env=env)
    program.step("100")
    program.end()
    expect(waits.wait(60) == 0, "pre_stop.sh")
    (rank,) = Read(os.path.join(folder, "tables")).rows("ranks")
    expect(rank["complete"] is True and rank["device_peak_bytes"] == 300 << 20, f"of one that has ended: {rank}")
    expect(Read(os.path.join(folder, "tables")).job()["run"] == "train-ab12", "the job")
    with open(os.path.join(folder, "sent"), encoding="ascii") as file:
        sent = [line for line in file if "http://none:8123/?query=INSERT" in line]
    expect("runs_rows" in sent[-1] and len(sent) >= 2 * 4, f"{sent}")


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        {"hosts": hosts, "slurm": slurm, "script": script, "pre_stop": pre_stop}[CASE](folder)


run_checks(main)
