"""`gpupeak mcp`, as a client of the Model Context Protocol speaks to it: the handshake, the tools and their schemas, calls with their caveats,
wrong messages with JSON-RPC's codes; logs that cannot be read end no conversation. The messages are checked against the protocol's shapes.

usage: mcp.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK DRIVER_FOLDER
"""
import json
import os
import subprocess
import sys
import tempfile

import jsonschema  # Debian: python3-jsonschema

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, environment, expect, run_checks  # noqa: E402

BENCHMARK, DRIVER = sys.argv[3:5]

# The parts of the protocol's schema (2025-06-18) that a server of tools has.
CONTENT = {"type": "object", "required": ["type", "text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}
RESULTS = {
    "initialize": {"type": "object", "required": ["protocolVersion", "capabilities", "serverInfo"],
                   "properties": {"protocolVersion": {"type": "string"}, "capabilities": {"type": "object", "required": ["tools"]},
                                  "instructions": {"type": "string"},
                                  "serverInfo": {"type": "object", "required": ["name", "version"]}}},
    "tools/list": {"type": "object", "required": ["tools"], "properties": {"tools": {"type": "array", "items": {
        "type": "object", "required": ["name", "inputSchema"],
        "properties": {"name": {"type": "string"}, "description": {"type": "string"}, "annotations": {"type": "object"},
                       "inputSchema": {"type": "object", "required": ["type"], "properties": {"type": {"const": "object"}}}}}}}},
    "tools/call": {"type": "object", "required": ["content"], "properties": {"content": {"type": "array", "items": CONTENT},
                                                                             "isError": {"type": "boolean"},
                                                                             "structuredContent": {"type": "object"}}},
    "ping": {"type": "object", "additionalProperties": False},
}
RESPONSE = {"type": "object", "required": ["jsonrpc", "id"], "additionalProperties": False,
            "properties": {"jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "integer", "null"]}, "result": {"type": "object"},
                           "error": {"type": "object", "required": ["code", "message"], "properties": {"code": {"type": "integer"}}}},
            "oneOf": [{"required": ["result"]}, {"required": ["error"]}]}


class Server:
    def __init__(self, folder):
        self.process = subprocess.Popen([GPUPEAK, "mcp", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment(folder, False))
        self.last = 0

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def receive(self):
        message = json.loads(self.process.stdout.readline())
        for one in message if isinstance(message, list) else [message]:
            jsonschema.validate(one, RESPONSE)
        return message

    def ask(self, method, params=None):
        self.last += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, **({"params": params} if params is not None else {})}))
        answer = self.receive()
        expect(answer["id"] == self.last, f"{answer}")
        if "result" in answer and method in RESULTS:
            jsonschema.validate(answer["result"], RESULTS[method])
        return answer

    def call(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})


def check_calls(server, tools):
    answers = {"report": server.call("report", log="a.gplog", top=3), "tree": server.call("tree", log="a.gplog", scope="device:0", min_percent=10),
               "held": server.call("held", log="a.gplog", within="steady"), "phases": server.call("phases", log="a.gplog"),
               "diff": server.call("diff", before="a.gplog", after="b.gplog"), "fit": server.call("fit", log="a.gplog", capacity="24GiB"),
               "whatif": server.call("whatif", log="a.gplog", without="*run_first_with_autotuning*", expandable_segments=False),
               "metrics": server.call("metrics", log="a.gplog")}
    expect(set(answers) == set(tools), f"tools without a call here: {set(tools) - set(answers)}")
    for name, answer in answers.items():
        result = answer["result"]
        expect(result["isError"] is False, f"{name}: {result}")
        expect(result["structuredContent"]["caveats"] and "Caveats:\n- " in result["content"][0]["text"], f"{name} has no caveats: {result}")
        expect("\"stack\":" not in json.dumps(result), f"{name}: stacks")
    report = answers["report"]["result"]
    expect("758 MiB" in report["content"][0]["text"] and report["structuredContent"]["data"]["metrics"]["device.peak_bytes"] == 795344896, f"{report}")
    held = answers["held"]["result"]["structuredContent"]["data"]["moments"][0]
    expect(held["bytes"] == 392691712 and sum(h["bytes"] for h in held["holders"]) + held["other_bytes"] == held["bytes"], f"{held}")
    torn = server.call("report", log="torn.gplog")["result"]
    caveats = torn["structuredContent"]["caveats"]
    expect("The log is not complete." in caveats and len(caveats) >= 2, f"{caveats}")
    lower = answers["whatif"]["result"]["structuredContent"]["data"]["sums"][0]
    expect(lower["scope"] == "device:0" and lower["before"]["peak_bytes"] == 795344896 and lower["peak_bytes"] == 392691712, f"{lower}")
    for name, arguments in (("whatif", {"log": "torn.gplog", "without": "*main*"}), ("metrics", {"log": "torn.gplog"}), ("diff", {"before": "a.gplog", "after": "torn.gplog"})):
        caveats = server.call(name, **arguments)["result"]["structuredContent"]["caveats"]  # their own JSON does not say it
        expect("The log is not complete." in caveats, f"{name}: {caveats}")


def check_wrong(server):
    for arguments, said in (({}, "log is missing"), ({"log": 3}, "log is no string"), ({"log": "a.gplog", "top": "3"}, "top is no integer"),
                            ({"log": "a.gplog", "out": "x"}, "there is no argument out")):
        answer = server.call("report", **arguments)
        expect(answer.get("error", {}).get("code") == -32602 and said in answer["error"]["message"], f"{arguments}: {answer}")
    answer = server.call("erase", log="a.gplog")
    expect(answer["error"]["code"] == -32602, f"{answer}")
    for name in ("absent.gplog", "text.gplog", "--help", "-o"):  # a name that looks like an option is a name
        result = server.call("report", log=name)["result"]
        expect(result["isError"] and name in result["content"][0]["text"], f"{name}: {result}")
    result = server.call("tree", log="a.gplog", scope="device:9")["result"]
    expect(result["isError"] and "device:9" in result["content"][0]["text"], f"{result}")
    expect(server.ask("resources/list")["error"]["code"] == -32601, "a method that is not there")
    for text, code in (("{", -32700), ("3", -32600), ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600), ('{"jsonrpc":"2.0","id":[],"method":"ping"}', -32600),
                       ("[]", -32600), ('{"jsonrpc":"2.0","id":5,"method":7}', -32600),
                       ('{"jsonrpc":"2.0","id":6,"method":"ping","params":' + "[" * 100_000 + "]" * 100_000 + "}", -32600)):
        server.send(text)
        expect(server.receive()["error"]["code"] == code, text[:100])
    # Neither notifications nor answers are answered: the next answer is the ping's.
    for text in ('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}', '{"jsonrpc":"2.0","id":9,"result":{}}', "  ",
                 '[{"jsonrpc":"2.0","method":"notifications/initialized"}]'):
        server.send(text)
    expect(server.ask("ping")["result"] == {}, "the server does not go on")
    server.send('[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":"b","method":"x"}]')
    batch = server.receive()
    expect([one["id"] for one in batch] == ["a", "b"] and batch[1]["error"]["code"] == -32601, f"{batch}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            subprocess.run([GPUPEAK, "run", "-q", "-o", os.path.join(folder, name + ".gplog"), "--", BENCHMARK], stdout=subprocess.DEVNULL, check=True,
                           env={**environment(folder, False), "LD_LIBRARY_PATH": DRIVER})
        with open(os.path.join(folder, "a.gplog"), "rb") as file:
            data = file.read()
        with open(os.path.join(folder, "torn.gplog"), "wb") as file:
            file.write(data[:len(data) * 3 // 4])
        with open(os.path.join(folder, "text.gplog"), "w", encoding="utf-8") as file:
            file.write("this is no log")
        server = Server(folder)
        for asked, given in (("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-06-18")):
            result = server.ask("initialize", {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})["result"]
            expect(result["protocolVersion"] == given and result["serverInfo"]["name"] == "gpupeak", f"{result}")
        server.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        tools = {tool["name"]: tool for tool in server.ask("tools/list")["result"]["tools"]}
        for tool in tools.values():
            jsonschema.Draft7Validator.check_schema(tool["inputSchema"])
        check_calls(server, tools)
        check_wrong(server)
        server.process.stdin.close()
        expect(server.process.wait(30) == 0, "it does not end with its input")


run_checks(main)
