"""A log of blocks with uses for the test of the page, and what the terminal says of it: `gpupeak pools` at some instants, and
`gpupeak report --last-use`. What these say is compared with the program's own book by tests/cuda/check_pool_uses.py."""
import json
import os
import subprocess

from arenas_log import page_data, pool_of


def record(folder, preload, driver, program, **environment):
    log = os.path.join(folder, os.path.basename(program) + ".gplog")
    subprocess.run([program], check=True, timeout=100, stdout=subprocess.DEVNULL, env=dict(
        os.environ, LD_PRELOAD=preload, LD_LIBRARY_PATH=driver, GPUPEAK_OUT=log, GPUPEAK_SUMMARY="off", GPUPEAK_HOST="off",
        **environment))
    return log


def json_of(gpupeak, *words):
    return json.loads(subprocess.run([gpupeak, *words, "--json"], check=True, capture_output=True, text=True).stdout)


def sites_of(pool):
    """Of each site what may be said of most of its bytes: [use, bytes, shortest, longest]; several where as many bytes have each."""
    sites = {}
    for block in pool["blocks"]:
        sums = sites.setdefault(block["site"], {})
        ns = block["use_ns"] or 0
        use, size, shortest, longest = sums.get(block["use"], (block["use"], 0, ns, ns))
        sums[block["use"]] = (use, size + block["bytes"], min(shortest, ns), max(longest, ns))
    return {site: {"bytes": sum(s[1] for s in sums.values()), "most": [s for s in sums.values() if s[1] == max(t[1] for t in sums.values())]}
            for site, sums in sites.items()}


def changes_of(pools, number):
    """When a pool of the page has a block more or less, as far as no two changes are at one time."""
    times, ns = [], 0
    for further in pools["times"]:
        ns += further
        times.append(ns)
    steps, first = set(), 0
    arena_of = pools["segments"][::6]
    for of, further, length in zip(pools["blocks"][::6], pools["blocks"][4::6], pools["blocks"][5::6]):
        first += further
        if (-1 - of if of < 0 else arena_of[of]) == number:
            steps |= {first, first + length} - {len(times)}
    found = [times[step] for step in sorted(steps)]
    return [ns for ns in found if times.count(ns) == 1]


def in_pools(gpupeak, log, page):
    """At instants at which a pool changed: between them the page stands at the one before."""
    pools, instants = page_data(page)["runs"][0]["pools"], []
    for number, pool in enumerate(pools["list"]):
        changes = changes_of(pools, number)
        for ns in (changes[(len(changes) - 1) * part // 7] for part in range(1, 7)):
            view = json_of(gpupeak, "pools", log, "--at", f"+{ns}ns")
            instants += [{"ns": ns, "text": shown["text"], "sites": sites_of(of)} for of in view["pools"]
                         if (shown := pool_of(of))["text"].startswith(pool["name"])]
    return instants


def at_peak(gpupeak, log, _page):
    return json_of(gpupeak, "report", "--last-use", "--top", "1000", log)["devices"][0]


def of_buffers(gpupeak, log, _page):
    return next(peak for peak in json_of(gpupeak, "report", log)["peaks"] if peak["scope"] == "device:0")
