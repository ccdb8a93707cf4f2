"""`gpupeak mcp`, asked by the client of the protocol's own SDK, of npm: it starts the server, shakes hands, lists the tools and calls each; the
SDK's schemas read every answer.

usage: mcp_client.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK DRIVER_FOLDER WORK_FOLDER
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../e2e"))
from common import GPUPEAK, Skipped, environment, expect, run_checks  # noqa: E402
from npm_library import npm_modules  # noqa: E402

BENCHMARK, DRIVER, WORK = sys.argv[3:6]
CALLS = {"report": {}, "tree": {}, "held": {"within": "steady"}, "phases": {}, "diff": None, "fit": {"capacity": "24GiB"}, "whatif": {}, "metrics": {}}
CLIENT = """
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
const [modules, gpupeak, folder, calls] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(createRequire(modules + "/").resolve("@modelcontextprotocol/sdk/" + name)));
const {Client} = await load("client/index.js");
const {StdioClientTransport} = await load("client/stdio.js");
const client = new Client({name: "test", version: "1"});
await client.connect(new StdioClientTransport({command: gpupeak, args: ["mcp", folder], env: process.env}));
const said = {server: client.getServerVersion(), tools: (await client.listTools()).tools.map((tool) => tool.name), answers: {}};
for (const [name, given] of Object.entries(JSON.parse(calls))) said.answers[name] = await client.callTool({name, arguments: given});
try {
  await client.callTool({name: "report", arguments: {log: 3}});
} catch (error) {
  said.refused = error.code;
}
await client.ping();
await client.close();
console.log(JSON.stringify(said));
"""


def main():
    modules = npm_modules(WORK, "@modelcontextprotocol/sdk", "1.32.2")
    if modules is None:
        raise Skipped("npm cannot bring the protocol's SDK")
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        env = environment(folder, False)
        subprocess.run([GPUPEAK, "run", "-q", "-o", log, "--", BENCHMARK], stdout=subprocess.DEVNULL, check=True, env={**env, "LD_LIBRARY_PATH": DRIVER})
        calls = {name: {"before": "a.gplog", "after": "a.gplog"} if given is None else {"log": "a.gplog", **given} for name, given in CALLS.items()}
        client = os.path.join(folder, "client.mjs")
        with open(client, "w", encoding="utf-8") as file:
            file.write(CLIENT)
        done = subprocess.run(["node", client, modules, GPUPEAK, folder, json.dumps(calls)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=60, check=False)
        expect(done.returncode == 0, f"the client: {done.stderr}")
        said = json.loads(done.stdout)
        expect(said["server"]["name"] == "gpupeak" and set(said["tools"]) == set(calls), f"{said['server']} {said['tools']}")
        for name, answer in said["answers"].items():
            expect(not answer.get("isError") and answer["structuredContent"]["caveats"], f"{name}: {answer}")
        expect(said["answers"]["report"]["structuredContent"]["data"]["metrics"]["device.peak_bytes"] == 795344896, "the report's peak")
        expect(said.get("refused") == -32602, f"a wrong argument: {said.get('refused')}")


run_checks(main)
