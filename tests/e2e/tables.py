#!/usr/bin/env python3
"""`gpupeak tables`: its figures are the report's, in Parquet and in newline JSON. The queries of docs/sql.md work on 100,000
runs.

usage: tables.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK DRIVER_FOLDER FOLDER_FOR_DUCKDB written|absent|questions|clickhouse|server
Of `server`, GPUPEAK_TEST_RUNS is how many runs there are; 100000 are those of docs/sql.md.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import chdb
import duckdb
from clickhouse_server import ClickHouseServer, find_programs
from common import GPUPEAK, Skipped, expect, run_checks
from hosts import Hosts

BENCHMARK, DRIVER, WORK, CASE = sys.argv[3:7]
TABLES = ("runs", "ranks", "peaks", "holders", "phases", "pools", "failures")
RUNS = 100_000
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/clickhouse")
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/sql.md")
SCHEMA = os.path.join(EXAMPLES, "schema.sql")


def library():
    found = duckdb.library(WORK)
    if found is None:
        raise Skipped("no DuckDB: npm cannot bring it")
    return found


def gpupeak(*arguments, code=0, **more):
    done = subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env={k: v for k, v in os.environ.items() if k != "GPUPEAK_DUCKDB"} | more)
    expect(done.returncode == code, f"{arguments}: {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def record(log, *options, **more):
    gpupeak("run", "-q", *options, "-o", log, "--", BENCHMARK, LD_LIBRARY_PATH=DRIVER, **more)


def report(log):
    return json.loads(gpupeak("report", "--json", "--top", "100", log))


def expect_figures(rows, log, summary):
    """`rows`: a function that returns the rows of a table."""
    expect([row["device_peak_bytes"] for row in rows("runs")] == [summary["metrics"]["device.peak_bytes"]], "runs")
    rank = rows("ranks")[0]
    expect(rank["log"] == log and rank["pid"] == summary["run"]["pid"] and rank["exit_kind"] == "exit" and rank["exit_code"] == 0, f"rank: {rank}")
    expect(rank["host_peak_bytes"] == summary["metrics"]["host.peak_bytes"], f"rank: {rank}")
    expect(rank["card_bytes"] == summary["devices"][0]["total_bytes"] and rank["exact"] is True, f"rank: {rank}")
    peaks = {row["scope"]: row["bytes"] for row in rows("peaks")}
    expect(peaks == {peak["scope"]: peak["bytes"] for peak in summary["peaks"]}, f"peaks: {peaks}")
    for scope, peak in peaks.items():
        held = [row for row in rows("holders") if row["scope"] == scope]
        expect(sum(row["bytes"] for row in held) == peak, f"holders of {scope}")
    wanted = {holder["site"]: holder["bytes"] for peak in summary["peaks"] if peak["scope"] == "device:0" for holder in peak["holders"]}
    expect({row["name"]: row["bytes"] for row in rows("holders") if row["scope"] == "device:0" and row.get("name")} == wanted, "holders by name")
    expect({row["phase"] for row in rows("phases")} == {phase["name"] for phase in summary["phases"]}, "phases")


def written():
    engine = duckdb.DuckDb(library())
    with tempfile.TemporaryDirectory() as folder:
        log, tables = os.path.join(folder, "it's a.gplog"), os.path.join(folder, "it's tables")
        record(log)
        said = gpupeak("tables", "--label", "commit=1a2b3c", "--duckdb", library(), tables, log)
        expect("1 run in" in said and "Parquet by DuckDB" in said, said)
        summary = report(log)

        def rows(table, where="*/*.parquet"):
            return engine.rows(f"SELECT * FROM read_parquet('{tables.replace(chr(39), chr(39) * 2)}/{table}/{where}', hive_partitioning = true)")

        expect_figures(rows, log, summary)
        expect(rows("runs")[0]["labels"] == {"commit": "1a2b3c"} or {"key": "commit", "value": "1a2b3c"} in rows("runs")[0]["labels"], "labels")
        expect(rows("runs")[0]["day"] == rows("runs")[0]["started"][:10], "the day")
        for table in ("pools", "failures"):  # no rows: the file still has the columns
            expect(rows(table) == [], table)
        files = [name for _, _, names in os.walk(tables) for name in names]
        expect(len(files) == len(TABLES) and not any(name.startswith(".") for name in files), f"files: {files}")
        # A run that is written again replaces its earlier files. Files of another run come beside them.
        gpupeak("tables", "-q", tables, log, GPUPEAK_DUCKDB=library())
        expect(len(rows("runs")) == 1, "a run written twice")
        off = os.path.join(folder, "off.gplog")
        record(off, "--host", "off")
        gpupeak("tables", "-q", "--duckdb", library(), tables, off)
        ranks = {row["log"]: row for row in rows("ranks")}
        expect(set(ranks) == {log, off}, f"logs: {set(ranks)}")
        expect(ranks[off].get("host_peak_bytes") is None and ranks[log]["host_peak_bytes"] > 0, "what was not measured is null")
        # Ranks of one run.
        gpupeak("tables", "-q", "--run", "job4711", "--duckdb", library(), tables, log, off)
        job = [row for row in rows("runs") if row["run"] == "job4711"]
        expect(len(job) == 1 and job[0]["ranks"] == 2 and job[0]["failed_ranks"] == 0, f"job: {job}")
        expect(len(rows("ranks", "*/job4711.parquet")) == 2, "its ranks")
        # The same as newline JSON.
        lines = os.path.join(folder, "lines")
        gpupeak("tables", "-q", "--format", "ndjson", lines, log)
        expect_figures(lambda table: engine.rows(f"SELECT * FROM read_json('{lines}/{table}/*/*.ndjson.zst', format = 'newline_delimited')"), log, summary)
        hidden = os.path.join(folder, "hidden")
        gpupeak("tables", "-q", "--confidential", "--format", "ndjson", hidden, log)
        text = str([engine.rows(f"SELECT * FROM read_json('{hidden}/{table}/*/*.ndjson.zst', format = 'newline_delimited')")
                    for table in ("runs", "ranks", "peaks", "holders", "phases")])
        expect("host.heap" in text, "nothing to be read")
        expect("load_model" not in text and os.path.basename(BENCHMARK) not in text and folder not in text, "a name in spite of --confidential")


def absent():
    with tempfile.TemporaryDirectory() as folder:
        log, tables = os.path.join(folder, "a.gplog"), os.path.join(folder, "t")
        record(log)
        expect("newline JSON" in gpupeak("tables", tables, log, LD_LIBRARY_PATH=""), "without DuckDB")
        expect("@duckdb/node-bindings-linux-x64" in gpupeak("tables", "--format", "parquet", tables, log, code=2), "Parquet without DuckDB")
        expect("cannot be loaded" in gpupeak("tables", "--duckdb", log, tables, log, code=2), "another library")
        expect("letters" in gpupeak("tables", "--run", "../a", tables, log, code=2), "a name that is a path")
        expect("is a file" in gpupeak("tables", log, log, code=2), "a file in place of the folder")
        gpupeak("tables", tables, os.path.join(folder, "none.gplog"), code=3)
        os.chmod(tables, 0o500)
        if os.geteuid() != 0:
            gpupeak("tables", tables, log, code=125)
        os.chmod(tables, 0o700)


def generate(engine, real, folder, runs):
    """Runs of many programs, commits and days, with the columns of a real run. There is one file for each day, as after compaction."""
    numbers = f"range({runs}) AS numbers(i)"
    started = "TIMESTAMP '2026-08-15' + INTERVAL (i * 86) SECOND"  # a hundred days
    run = "CASE WHEN i % 1000 = 0 THEN printf('job%d', 4711 + i // 1000) ELSE printf('%016x', i) END"
    peak = "(20000000000 + (hash(i) % 1000) * 10000000 + i * 10000)::UBIGINT"
    columns = {
        "runs": f"part: '', program: ['train', 'serve', 'bench'][1 + i % 3], started: {started}, labels: MAP {{'commit': printf('%07x', i // 500)}}, "
                f"device_peak_bytes: {peak}",
        "ranks": f"log: printf('r%d.%d.gplog', i, rank), rank: rank, host: printf('node%d', hash(i) % 200), started: {started}, "
                 f"device_peak_bytes: {peak}, card_overhead_bytes: 700000000, exit_kind: CASE WHEN hash(i) % 50 = 0 THEN 'signal' ELSE 'exit' END, "
                 f"lost_events: CASE WHEN hash(i) % 5000 = 0 THEN 7 ELSE 0 END, complete: hash(i) % 50 <> 0",
        "peaks": f"log: printf('r%d.%d.gplog', i, rank), rank: rank, scope: 'device:0', bytes: {peak}",
        "holders": "log: printf('r%d.%d.gplog', i, rank), rank: rank, number: rank * 100 + k, scope: 'device:0', name: printf('function%d ← caller%d', hash(i * 31 + k) % 500, k), "
                   "bytes: (1000000000 + (hash(i + k) % 100) * 10000000 + CASE WHEN rank = 3 AND k = 0 THEN 900000000 ELSE 0 END)::UBIGINT, blocks: k + 1",
        "phases": f"log: printf('r%d.%d.gplog', i, rank), rank: rank, number: rank * 100 + k, phase: ['start', 'load', 'train', 'exit'][1 + k], depth: 0, device_peak_bytes: {peak}",
        "pools": "log: printf('r%d.%d.gplog', i, rank), rank: rank, number: rank * 100 + k, pool: 'PyTorch', device: 0, idle_then_bytes: hash(i) % 2000000000, "
                 "reserved_peak_bytes: 20000000000 + hash(i) % 2000000000",
        "failures": "log: printf('r%d.%d.gplog', i, rank), rank: rank, number: rank * 100 + k, cause: ['full', 'fragmented', 'growth'][1 + i % 7 % 3], "
                    "requested_bytes: hash(i) % 4000000000, name: printf('function%d', hash(i) % 500)",
    }
    more = {"holders": 10, "phases": 4}
    for table in TABLES:
        schema = engine.rows(f"SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet('{real}/{table}/*/*.parquet', hive_partitioning = false))")
        given = dict(part.split(": ", 1) for part in re.split(r", (?=\w+: )", columns[table]))
        given.update(run=run, day=f"({started})::DATE")
        for name in given:
            expect(name == "day" or name in [of["column_name"] for of in schema], f"{table} has no {name}")
        select = ", ".join(f"({given.get(of['column_name'], 'NULL')})::{of['column_type']} AS {of['column_name']}" for of in schema)
        # A job has eight ranks, any other run one. A hundredth of the runs failed.
        ranks = "range(CASE WHEN i % 1000 = 0 THEN 8 ELSE 1 END)" if table != "runs" else "range(1)"
        where = "WHERE hash(i) % 100 = 0" if table == "failures" else ""
        engine.run(f"COPY (SELECT {select}, {given['day']} AS day FROM {numbers}, {ranks} AS ranks(rank), range({more.get(table, 1)}) AS parts(k) {where}) "
                   f"TO '{folder}/{table}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (day))")


def page():
    """The queries of the page, and the view that it makes of each table."""
    with open(DOCS, encoding="utf-8") as file:
        text = file.read()
    asked = re.findall(r"^\*\*(.+?)\*\*[^\n]*\n```sql\n(.*?)^```", text, re.S | re.M)
    expect(len(asked) == 10, f"{len(asked)} questions")
    return text, asked


def many_runs(engine, folder, runs=RUNS):
    """The generated history; views of it in `engine`."""
    log, real, many = (os.path.join(folder, name) for name in ("a.gplog", "real", "many"))
    record(log)
    gpupeak("tables", "-q", "--duckdb", library(), real, log)
    os.mkdir(many)
    began = time.monotonic()
    generate(engine, real, many, runs)
    print(f"{runs} runs generated in {time.monotonic() - began:.1f} s")
    make_views(engine, r"CREATE VIEW ranks AS FROM.*?", many)
    return real, many


def make_views(engine, of, folder):
    """The views of the page: of `ranks`, which stands for all tables for which the page has no view, and of `runs`."""
    views = re.search(rf"^```sql\n({of})^```", page()[0], re.S | re.M)[1].split(";")
    for table in TABLES[1:]:
        engine.run(views[0].replace("history/ranks", f"{folder}/{table}").replace("VIEW ranks", f"VIEW {table}"))
    for view in filter(str.strip, views[1:]):
        engine.run(view.replace("history/", f"{folder}/"))


def ask(engine, asked, spelt=lambda sql: sql):
    answers, took = {}, {}
    for question, sql in asked:
        began = time.monotonic()
        answers[question] = engine.rows(spelt(sql))
        took[question] = time.monotonic() - began
    return answers, took


def clickhouse():
    """The same queries with ClickHouse's engine: on the Parquet files, and on tables into which these were loaded twice."""
    found = chdb.library(WORK)
    if found is None:
        raise Skipped("no chdb (ClickHouse as a library): npm cannot bring it")
    text, asked = page()
    with tempfile.TemporaryDirectory() as folder:
        duck, house = duckdb.DuckDb(library()), chdb.ClickHouse(found, os.path.join(folder, "house"))
        _, many = many_runs(duck, folder)
        wanted, duck_took = ask(duck, asked)
        make_views(house, r"CREATE VIEW ranks AS SELECT.*?", many)
        said, exact = re.search(r"`(median\()x\)` .*?`(quantileExactInclusive\(0.5\)\()x\)`", text).groups()
        expect_same(wanted, *ask(house, asked, lambda sql: sql.replace(said, exact)), duck_took, "Parquet")
        with open(SCHEMA, encoding="utf-8") as file:
            schema = re.sub(r"^--.*\n", "", file.read(), flags=re.M)
        for statement in filter(str.strip, schema.split(";")):
            house.run(statement)
        load = re.search(r"clickhouse local -q \"(SELECT .*?) FORMAT Native\"", text)[1]
        for table in TABLES * 2:  # delivered twice
            house.run(f"INSERT INTO gpupeak.{table}_rows " + load.replace("history/$table", f"{many}/{table}"))
        house.run("USE gpupeak")
        expect_same(wanted, *ask(house, asked, lambda sql: sql.replace(said, exact)), duck_took, "MergeTree")
        for table in TABLES:
            counts = [engine.rows(f"SELECT count(*)::BIGINT AS n FROM {table}")[0]["n"] for engine in (duck, house)]
            expect(int(counts[0]) == int(counts[1]) > 0, f"{table}: {counts}")
        # A run is written again with another value: only the new row counts.
        house.run("INSERT INTO gpupeak.runs_rows SELECT * REPLACE ('again' AS program) FROM gpupeak.runs_rows FINAL WHERE run = 'job4711'")
        expect(house.rows("SELECT program FROM runs WHERE run = 'job4711'") == [{"program": "again"}], "a run that is written again")
        house.close()
    sys.stdout.flush()
    os._exit(0)  # the engine's exit handlers sometimes wait for ever


def server():
    """Two of Debian's servers, each on a machine of its own: each alone, and both as one database."""
    find_programs()
    duck = duckdb.DuckDb(library())
    _, asked = page()
    folder_18 = os.path.join(EXAMPLES, "18.16")
    with open(os.path.join(folder_18, "questions.sql"), encoding="utf-8") as file:
        own = re.findall(r"^-- ([^\n]+)\n(SELECT.*?);$", file.read(), re.S | re.M)
    expect([title.split(":")[0] for title, _ in asked] == [title for title, _ in own], f"its questions: {[title for title, _ in own]}")
    own = list(zip((title for title, _ in asked), (sql for _, sql in own)))
    with tempfile.TemporaryDirectory() as folder, Hosts(["one", "two"]) as hosts:
        _, many = many_runs(duck, folder, int(os.environ.get("GPUPEAK_TEST_RUNS", "2000")))
        wanted, duck_took = ask(duck, asked)
        addresses = list(hosts.address.values())
        first, second = (ClickHouseServer(os.path.join(folder, name), hosts.address[name], addresses, hosts.within(name)) for name in hosts.address)
        with first, second:
            for house in (first, second):
                house.run_file(os.path.join(folder_18, "tables.sql"))
                house.run_file(os.path.join(folder_18, "views.sql"), "-d", "gpupeak")
                house.run_file(os.path.join(folder_18, "cluster.sql"))
                house.run_file(os.path.join(folder_18, "views.sql"), "-d", "gpupeak_all")
            # The loader reads newline JSON.
            lines = os.path.join(folder, "lines")
            for table in TABLES:
                os.makedirs(f"{lines}/{table}/all")
                duck.run(f"COPY (FROM read_parquet('{many}/{table}/*/*.parquet', hive_partitioning = true)) "
                         f"TO '{lines}/{table}/all/all.ndjson.zst' (FORMAT json, COMPRESSION zstd)")
            began = time.monotonic()
            for _ in range(2):  # delivered twice
                subprocess.run([*hosts.within("two"), os.path.join(EXAMPLES, "load.sh"), second.url, lines, "gpupeak_all"], check=True)
            print(f"loaded twice in {time.monotonic() - began:.1f} s")
            counts = [int(house.rows("SELECT count(*) AS n FROM ranks")[0]["n"]) for house in (first, second)]
            expect(min(counts) > sum(counts) / 3 and sum(counts) == duck.rows("SELECT count(*) AS n FROM ranks")[0]["n"], f"on each: {counts}")
            expect_same(wanted, *ask_server(first, own, "gpupeak_all"), duck_took, "two servers' tables")
            # Everything on one server.
            for table in TABLES:
                first.client("-q", f"TRUNCATE TABLE gpupeak.{table}_rows")
            subprocess.run([*hosts.within("two"), os.path.join(EXAMPLES, "load.sh"), first.url, lines], check=True)
            expect_same(wanted, *ask_server(first, own, "gpupeak"), duck_took, "a server's tables")
            # Old rows are removed.
            day = first.rows("SELECT min(day) AS day FROM runs")[0]["day"]
            age = first.rows(f"SELECT today() - toDate('{day}') AS n")[0]["n"]
            before = first.rows("SELECT uniqExact(day) AS n FROM holders")[0]["n"]
            subprocess.run([*hosts.within("one"), os.path.join(folder_18, "retention.sh"), str(age - 1), f"--host={first.address}"], check=True)
            for table in TABLES[:4]:
                left = first.rows(f"SELECT uniqExact(day) AS n, min(day) AS first FROM {table}")[0]
                expect(int(left["n"]) == int(before) - 1 and left["first"] > day, f"retention, {table}: {left}, {before}")


def ask_server(house, asked, database):
    class Of:
        @staticmethod
        def rows(sql):
            return house.rows(sql, database)
    return ask(Of, asked)


def expect_same(wanted, answers, took, duck_took, of):
    for question, rows in wanted.items():
        print(f"{duck_took[question]:6.2f} s DuckDB, {took[question]:6.2f} s ClickHouse over {of}: {question}")
        expect(rows and rows == answers[question], f"{question}: DuckDB {rows[:3]}, ClickHouse {answers[question][:3]}")


def questions():
    engine = duckdb.DuckDb(library())
    text, asked = page()
    with tempfile.TemporaryDirectory() as folder:
        runs = RUNS // 10  # the case `clickhouse` takes all runs, and asks DuckDB, too
        real, _ = many_runs(engine, folder, runs)
        expect(engine.rows("SELECT count(*) AS n FROM runs")[0]["n"] == runs, "runs")
        answers, took = ask(engine, asked)
        for question, rows in answers.items():
            print(f"{took[question]:6.2f} s  {question}")
            expect(rows, f"no answer to: {question}")
        outlier = answers[next(q for q in answers if q.startswith("Outliers"))][0]
        expect(outlier["rank"] == 3 and outlier["bytes"] > 1.5e9, f"the outlier: {outlier}")
        # The same on a real run's files, compacted as the page says.
        compact = re.search(r'duckdb -c "(COPY.*?)"\n', text)[1]
        os.makedirs(folder + "/compact/holders")
        engine.run(compact.replace("history/", real + "/").replace("'compact/", f"'{folder}/compact/"))
        count = "SELECT count(*) AS n, sum(bytes) AS bytes FROM read_parquet('{}/holders/*/*.parquet', hive_partitioning = true)"
        expect(engine.rows(count.format(real)) == engine.rows(count.format(folder + "/compact")), "put together")


run_checks({"written": written, "absent": absent, "questions": questions, "clickhouse": clickhouse, "server": server}[CASE])
