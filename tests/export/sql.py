"""The database, by SQL as people have it for Nsight Systems' exports."""
import sqlite3

from common import expect

DEVICE_KINDS = "(2, 3)"

# How much was in use after each event, and the most.
RUNNING_SUM = """
WITH a AS (SELECT rowid AS id, CASE memoryOperationType WHEN 0 THEN bytes ELSE -bytes END AS allocated
           FROM CUDA_GPU_MEMORY_USAGE_EVENTS)
SELECT e.start, e.bytes, SUM(a.allocated) OVER (ORDER BY e.start) AS in_use
FROM CUDA_GPU_MEMORY_USAGE_EVENTS e INNER JOIN a ON a.id = e.rowid
WHERE e.deviceId = ? AND e.memKind IN (2, 3) ORDER BY e.start"""

BY_KIND = """
SELECT kinds.name, ops.name, COUNT(*), SUM(events.bytes)
FROM CUDA_GPU_MEMORY_USAGE_EVENTS AS events
JOIN ENUM_CUDA_DEV_MEM_EVENT_OPER ops ON events.memoryOperationType = ops.id
INNER JOIN ENUM_CUDA_MEM_KIND kinds ON kinds.id = events.memKind
WHERE events.deviceId = ? GROUP BY kinds.name, ops.name"""

HOST = "SELECT MAX(now) FROM (SELECT SUM(bytes) OVER (ORDER BY start) AS now FROM GPUPEAK_CHANGES WHERE kind = 'host.heap')"

OF_PHASES = """
SELECT n.text, COUNT(*) FROM NVTX_EVENTS n JOIN CUDA_GPU_MEMORY_USAGE_EVENTS e ON e.start BETWEEN n.start AND n.end
GROUP BY n.text"""

LEAF = """
SELECT s.value FROM CUDA_GPU_MEMORY_USAGE_EVENTS e
JOIN CUDA_CALLCHAINS c ON c.id = e.callchainId AND c.stackDepth = 0 JOIN StringIds s ON s.id = c.symbol"""


def same(found, wanted, what):
    expect(found == wanted, f"sqlite, {what}: {found}, the report says {wanted}")


def sqlite(log, _work):
    database = sqlite3.connect(log.export("sqlite"))
    same(database.execute("PRAGMA integrity_check").fetchone(), ("ok",), "integrity")
    for scope in log.devices:
        device = int(scope.split(":")[1])
        rows = database.execute(RUNNING_SUM, (device,)).fetchall()
        same(max(row[2] for row in rows), log.peak(scope), f"running sum of {scope}")
        same(rows[-1][2], log.live(scope), f"end of {scope}")
        kinds = {(kind, what): size for kind, what, _, size in database.execute(BY_KIND, (device,))}
        allocated = sum(kinds.get((f"CUDA_MEMOPR_MEMORY_KIND_{kind}", "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION"), 0)
                        for kind in ("DEVICE", "ARRAY"))
        same(allocated, log.allocated(scope), f"allocations of {scope}")
        name = database.execute("SELECT name FROM TARGET_INFO_GPU WHERE id = ?", (device,)).fetchone()
        same(name, (log.summary["devices"][device]["name"],), "name of a GPU")
    same(database.execute(HOST).fetchone()[0], log.peak("host/heap"), "running sum of the heap")
    same({scope: size for scope, size in database.execute("SELECT scope, bytes FROM GPUPEAK_PEAKS") if scope in log.peaks},
         {scope: peak["bytes"] for scope, peak in log.peaks.items()}, "peaks")
    same(dict(database.execute("SELECT scope, SUM(bytes) FROM GPUPEAK_HOLDERS GROUP BY scope")),
         dict(database.execute("SELECT scope, bytes FROM GPUPEAK_PEAKS")), "holders")
    same(dict(database.execute("SELECT name, value FROM GPUPEAK_METRICS")), log.summary["metrics"], "metrics")
    for device in log.summary["devices"]:
        same(dict(database.execute("SELECT name, value FROM GPUPEAK_DEVICE_METRICS WHERE deviceId = ?", (device["ordinal"],))),
             device["metrics"], f"metrics of GPU {device['ordinal']}")
    if log.path.endswith("1.gplog"):  # the benchmark
        expect("main" in dict(database.execute(OF_PHASES)) or "load" in dict(database.execute(OF_PHASES)),
               "sqlite: no events within a phase")
        expect(any("allocate" in row[0] for row in database.execute(LEAF)), "sqlite: no leaf is named")


CHECKS = {"sqlite": sqlite}
