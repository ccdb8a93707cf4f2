#!/usr/bin/env python3
"""`gpupeak serve`: Prometheus gets true figures of programs that run and that have ended.

usage: serve.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER values|growth|textfile|absent|files|prometheus|many
Of `many`, GPUPEAK_TEST_SERVES is how many servers there are; 200 are those of docs/fleet.md.
"""
import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from common import GPUPEAK, Skipped, expect, run_checks
from stepped_program import SteppedProgram

DRIVER, CASE = sys.argv[3:5]
MIB = 1 << 20
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/prometheus")
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def samples(text):
    """(name, labels) → value."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        name, labels, value = SAMPLE.match(line).groups()
        key = (name, frozenset(LABEL.findall(labels or "")))
        expect(key not in found, f"twice: {line}")
        found[key] = float(value)
    return found


class Told:
    def __init__(self, text):
        self.text, self.samples = text, samples(text)

    def value(self, name, **labels):
        return self.samples.get((name, frozenset(labels.items())))

    def labels_of(self, name):
        return [dict(labels) for found, labels in self.samples if found == name]

    def state(self, log):
        states = [labels["state"] for labels in self.labels_of("gpupeak_run_state")
                  if labels["log"] == log and self.value("gpupeak_run_state", **labels) == 1]
        expect(len(states) == 1, f"states of {log}: {states}")
        return states[0]


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


class Server:
    def __init__(self, *arguments, **more):
        self.process = subprocess.Popen([GPUPEAK, "serve", "--listen", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **more)
        atexit.register(self.process.kill)  # if a check fails the server would run for ever
        line = self.process.stdout.readline()
        if not line and "not in this build" in self.process.stderr.read():
            raise Skipped("built without prometheus-cpp")
        found = re.match(r"gpupeak: (http://\S+)$", line)
        expect(found, f"it says {line!r}")
        self.url = found[1]

    def ask(self):
        return Told(get(self.url))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        expect(self.process.wait(20) == 0, f"the server ends with {self.process.returncode}")


def metric(log, name):
    lines = subprocess.run([GPUPEAK, "metrics", "--metric", name, log], stdout=subprocess.PIPE, text=True, check=True).stdout
    return int(lines.split()[1])


def values():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "job"))
        log, off, dead = "job/a.gplog", "off.gplog", "dead.gplog"
        path = {name: os.path.join(folder, name) for name in (log, off, dead)}
        server = Server(folder)
        told = server.ask()
        expect(told.value("gpupeak_logs", state="running") == 0, "an empty folder")
        program = SteppedProgram(path[log], DRIVER)
        program.step("200")
        program.step("free")
        program.step("150")
        program.step("host 30")
        told = server.ask()
        device = {"log": log, "device": "0"}
        expect(told.state(log) == "running", "its state while it runs")
        expect(told.value("gpupeak_device_live_bytes", **device) == 150 * MIB, "live bytes")
        expect(told.value("gpupeak_device_peak_bytes", **device) == 200 * MIB, "the peak")
        expect(told.value("gpupeak_device_kind_live_bytes", kind="linear", **device) == 150 * MIB, "live by kind")
        expect(told.value("gpupeak_device_allocations_total", **device) == 2, "allocations")
        expect(told.value("gpupeak_device_kind_live_bytes", kind="vmm", **device) is None, "a kind that it never had")
        expect(told.value("gpupeak_device_live_bytes", log=log, device="1") is None, "a GPU without memory")
        expect(told.value("gpupeak_host_heap_live_bytes", log=log) >= 30 * MIB, "the heap")
        expect(told.value("gpupeak_device_capacity_bytes", **device) > 200 * MIB, "the card")
        expect(told.value("gpupeak_host_rss_peak_bytes", log=log) is None, "the RSS is known at the end alone")
        expect(told.value("gpupeak_dropped_events_total", log=log) == 0, "what was lost")
        info = [labels for labels in told.labels_of("gpupeak_log_info") if labels["log"] == log]
        expect(info and info[0]["pid"] == program.pid and info[0]["program"].startswith("python"), f"info: {info}")
        program.step("100")
        expect(server.ask().value("gpupeak_device_live_bytes", **device) == 250 * MIB, "it does not follow")
        # A figure that was not measured is absent, not 0.
        silent = SteppedProgram(path[off], DRIVER, GPUPEAK_HOST="off")
        silent.step("10")
        told = server.ask()
        for name in ("live_bytes", "peak_bytes", "allocations_total", "frees_total"):
            expect(told.value("gpupeak_host_heap_" + name, log=off) is None, f"heap {name} of --host off")
        expect(told.value("gpupeak_device_live_bytes", log=off, device="0") == 10 * MIB, "the GPU of --host off")
        silent.end()
        expect(not told.labels_of("gpupeak_process_device_bytes"), "the server sees no NVML, and tells of processes")
        listed = os.path.join(folder, "processes.txt")
        with open(listed, "w", encoding="ascii") as file:
            file.write(f"0 {program.pid} {300 * MIB}\n0 {os.getpid()} {70 * MIB}\n")
        seeing = Server(folder, env={**os.environ, "LD_LIBRARY_PATH": DRIVER, "FAKE_NVML_PROCESSES": listed})
        by_pid = {dict(labels)["pid"]: (dict(labels)["log"], value) for (name, labels), value in seeing.ask().samples.items()
                  if name == "gpupeak_process_device_bytes"}
        expect(by_pid == {program.pid: (log, 300 * MIB), str(os.getpid()): ("", 70 * MIB)}, f"a card's processes: {by_pid}")
        seeing.end()
        program.end()
        gone = SteppedProgram(path[dead], DRIVER)
        gone.step("70")
        gone.kill()
        with open(os.path.join(folder, "broken.gplog"), "w", encoding="ascii") as file:
            file.write("no log")
        told = server.ask()
        expect((told.state(log), told.state(off), told.state(dead)) == ("ended", "ended", "killed"), "states at the end")
        for name in (log, off, dead):  # these programs have ended
            expect(told.value("gpupeak_device_live_bytes", log=name, device="0") is None, f"live memory of {name}, which has ended")
            expect(told.value("gpupeak_device_peak_bytes", log=name, device="0") == metric(path[name], "device.peak_bytes"), f"peak of {name}")
        expect(told.value("gpupeak_run_duration_seconds", log=log) > 0, "how long it ran")
        expect(told.value("gpupeak_run_duration_seconds", log=dead) is None, "how long it ran, of one that has no end")
        expect(told.value("gpupeak_run_exit_code", log=log) is None, "an exit code that nobody saw")
        expect(told.value("gpupeak_logs_unreadable") == 1, "what cannot be read")
        # A log that `run` has packed in place has the same figures.
        subprocess.run([GPUPEAK, "run", "-q", "--compress", "always", "-o", os.path.join(folder, "r.gplog"), "--", "sh", "-c", "exit 3"],
                       check=False)
        subprocess.run([GPUPEAK, "bundle", "--log", "-q", "-o", path[log] + ".zst", path[log]], check=True)
        before, told = told, server.ask()
        expect(told.value("gpupeak_run_exit_code", log="r.gplog") == 3, "the exit code of a packed log")
        expect(open(os.path.join(folder, "r.gplog"), "rb").read(4) != b"GPPK", "it was not packed")
        expect(told.value("gpupeak_device_peak_bytes", log=log + ".zst", device="0") ==
               before.value("gpupeak_device_peak_bytes", **device), "the peak of a compressed log")
        # The number of logs is bounded, and the number that is left out is given.
        server.end()
        shutil.copyfile(os.path.join(folder, "r.gplog"), os.path.join(folder, "<b>.gplog"))  # of the newest
        server = Server("--logs", "2", folder)
        late = SteppedProgram(os.path.join(folder, "late.gplog"), DRIVER)
        for step in ("50", "free", "40"):
            late.step(step)
        told = server.ask()
        shown = {labels["log"] for labels in told.labels_of("gpupeak_log_info")}
        expect("late.gplog" in shown and len(shown) == 2, f"shown: {shown}")
        expect(told.value("gpupeak_logs_left_out") == 5, f"left out: {told.value('gpupeak_logs_left_out')}")
        index(server, folder)
        late.end()
        server.end()
        for labels in (dict(labels) for _, labels in told.samples):
            expect(set(labels) <= {"log", "device", "kind", "state", "reason", "pid", "rank", "program", "host", "name", "version", "quantile", "gpu",
                                   "UUID", "Hostname", "pod_uid", "container_id"}, f"a label that is not bounded: {labels}")
        card = [labels for labels in told.labels_of("gpupeak_device_info") if labels["log"] == "late.gplog"][0]  # as dcgm-exporter names it
        expect(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", card["UUID"]) and card["gpu"] == card["device"] == "0" and
               card["Hostname"] == socket.gethostname(), f"the card: {card}")


UID, ID = "01234567-89ab-cdef-0123-456789abcdef", "0123456789abcdef" * 4
SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
# The content of /proc/PID/cgroup with several makers of containers → the pod's UID, the container's ID.
CGROUPS = (
    ("0::/\n", None, None),  # in a cgroup namespace of its own
    ("0::/user.slice/user-0.slice/session-1.scope\n", None, None),
    (f"0::{SLICE}/cri-containerd-{ID}.scope\n", UID, ID),
    (f"0::{SLICE}/crio-{ID}.scope\n", UID, ID),
    (f"0::{SLICE}/crio-conmon-{ID}.scope\n", UID, None),  # the container's monitor is outside of it
    (f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n", UID, ID),
    (f"0::/../../kubepods-besteffort-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n", UID, ID),
    (f"12:memory:/kubepods/burstable/pod{UID}/{ID}\n11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{ID}\n0::/\n", UID, ID),
    (f"5:devices:/system.slice/containerd.service/kubepods-besteffort-pod{UID.replace('-', '_')}.slice:cri-containerd:{ID}\n", UID, ID),
    (f"0::/kubepods/pod{'ab' * 16}/{ID}\n", "ab" * 16, ID),  # a static pod, of a file on the node
    (f"12:pids:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", None, ID),
    (f"0::/system.slice/docker-{ID}.scope\n", None, ID),
    (f"0::/docker/{'f' * 64}/kubelet/kubepods/pod{UID}/{ID}\n", UID, ID),  # a node that is a container itself
    (f"0::/machine.slice/libpod-{ID}.scope/container\n", None, ID),
    (f"0::/machine.slice/libpod-{ID}0.scope\n", None, None),  # longer than an ID
    ("0::/" + "x" * 5000 + f"/{ID}\n", None, None),
)


def made_up_process(folder, pid, real, cgroup, variables="", files=()):
    """A folder as in /proc: of the process `real`, on a machine on which its number is `pid`."""
    process = os.path.join(folder, str(pid))
    shutil.rmtree(process, ignore_errors=True)
    os.makedirs(os.path.join(process, "ns"))
    os.makedirs(os.path.join(process, "root/etc/podinfo"))
    os.symlink(os.readlink(f"/proc/{real}/ns/pid"), os.path.join(process, "ns/pid"))
    shutil.copyfile(f"/proc/{real}/stat", os.path.join(process, "stat"))
    for name, text in (("cgroup", cgroup), ("environ", variables), ("status", f"Name:\tpython3\nNSpid:\t{pid}\t{real}\n"),
                       *((f"root/etc/podinfo/{name}", text) for name, text in files)):
        with open(os.path.join(process, name), "w", encoding="utf-8") as file:
            file.write(text)


def pods(folder, pid):
    """Labels of the pod and the container: from the downward API of the program and of the server, and from cgroups."""
    names = ("namespace", "pod", "container", "node", "pod_uid", "container_id")
    env = {k: v for k, v in os.environ.items() if k not in ("POD_NAME", "POD_NAMESPACE", "CONTAINER_NAME", "NODE_NAME", "POD_UID")}

    def told(*options, **variables):
        text = subprocess.run([GPUPEAK, "serve", "--textfile", "-", *options, folder], env={**env, **variables}, stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        (who,) = Told(text).labels_of("gpupeak_log_info")
        return {k: who[k] for k in names if k in who}

    for given, wanted in (({}, {}), ({"CONTAINER_NAME": "box", "NODE_NAME": "n1"}, {}),  # without a pod's name they are somebody else's
                          ({"POD_NAME": "../x", "POD_NAMESPACE": "team"}, {}),
                          ({"POD_NAME": "train-0", "POD_NAMESPACE": "team", "CONTAINER_NAME": "box"},
                           {"pod": "train-0", "namespace": "team", "container": "box"})):
        found = told(**given)
        found.pop("container_id", None), found.pop("pod_uid", None)  # of where this test runs
        expect(found == wanted, f"{given}: {found}")
    with tempfile.TemporaryDirectory() as proc:
        for cgroup, uid, container in CGROUPS:
            made_up_process(proc, 4711, pid, cgroup)
            found = told("--procfs", proc)
            expect(found == {k: v for k, v in (("pod_uid", uid), ("container_id", container)) if v}, f"{cgroup}: {found}")
        cgroup = f"0::{SLICE}/crio-{ID}.scope\n"
        by_cgroup = {"pod_uid": UID, "container_id": ID}
        made_up_process(proc, 4711, pid, cgroup, "A=B\0POD_NAME=train-1\0POD_NAMESPACE=team\0CONTAINER_NAME=main\0NODE_NAME=n1\0")
        whole = {"pod": "train-1", "namespace": "team", "container": "main", "node": "n1", **by_cgroup}
        expect(told("--procfs", proc) == whole, "the program's variables")
        made_up_process(proc, 4711, pid, cgroup, "A=B\0", (("name", "train-2\n"), ("namespace", "team\n")))
        expect(told("--procfs", proc) == {"pod": "train-2", "namespace": "team", **by_cgroup}, "the program's files")
        # Files as the kubelet makes them, with links. A link that leads out of the process's root, or to no plain file, is not followed.
        podinfo = os.path.join(proc, "4711/root/etc/podinfo")
        os.mkdir(os.path.join(podinfo, "..data"))
        os.rename(os.path.join(podinfo, "name"), os.path.join(podinfo, "..data/name"))
        os.symlink("..data/name", os.path.join(podinfo, "name"))
        expect(told("--procfs", proc)["pod"] == "train-2", "a link within the folder")
        with open(os.path.join(proc, "outside"), "w", encoding="ascii") as file:
            file.write("outside\n")
        for out in (os.path.join(proc, "outside"), "../../../../outside"):
            os.remove(os.path.join(podinfo, "name"))
            os.symlink(out, os.path.join(podinfo, "name"))
            expect(told("--procfs", proc) == by_cgroup, f"a file outside of the process's root: {out}")
        os.remove(os.path.join(podinfo, "name"))
        os.mkfifo(os.path.join(podinfo, "name"))
        expect(told("--procfs", proc) == by_cgroup, "a pipe")
        # The server's own labels are those of programs in its pod, not of programs in another pod.
        made_up_process(proc, 4711, pid, "0::/../crio-" + ID + ".scope\n")
        made_up_process(proc, "self", "self", "0::/\n", "POD_NAME=serve\0POD_NAMESPACE=team\0")
        expect(told("--procfs", proc) == {"pod": "serve", "namespace": "team", "container_id": ID}, "beside the server")
        made_up_process(proc, 4711, pid, cgroup)
        expect(told("--procfs", proc) == by_cgroup, "a program of another pod has the server's name")
        # Another process with that pid, or one that began at another time, is not the program.
        os.remove(os.path.join(proc, "self/environ"))
        with open(os.path.join(proc, "4711/stat"), encoding="ascii") as file:
            words = file.read().rsplit(")", 1)
        fields = words[1].split()
        fields[19] = str(int(fields[19]) + 1)
        with open(os.path.join(proc, "4711/stat"), "w", encoding="ascii") as file:
            file.write(words[0] + ") " + " ".join(fields))
        expect(told("--procfs", proc) == {}, "a process that began at another time")
        made_up_process(proc, 4711, os.getpid(), cgroup)
        expect(told("--procfs", proc) == {}, "another process")


def index(server, folder):
    """The page that a person sees at /."""
    page = get(server.url.removesuffix("metrics"))
    for text in ("<a href=\"/metrics\">", "gpupeak serve 0.", folder, "late.gplog<td>running<td>python", "GPU 0: 40.0 MiB", "GPU 0: 50.0 MiB",
                 "cannot be read: 1.", "&lt;b&gt;.gplog", "left out (<code>--logs</code>): 5."):
        expect(text in page, f"no {text!r} in {page}")
    expect("<b>" not in page and "late.gplog" not in re.sub(r"<td>late.gplog.*|<tr>", "", page), page)
    for path, code in (("none", 404), ("..%2f..%2fetc/passwd", 404)):
        try:
            get(server.url.removesuffix("metrics") + path)
            raise AssertionError(f"{path} is answered")
        except urllib.error.HTTPError as error:
            expect(error.code == code, f"{path}: {error.code}")


def growth():
    """What grows, in bytes a second, once enough looks have seen it; of a program that has ended nothing."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "a.gplog")
        server, program = Server(folder), SteppedProgram(log, DRIVER)
        name, device = "gpupeak_device_growth_bytes_per_second", {"log": "a.gplog", "device": "0"}
        heap = {"log": "a.gplog"}
        program.step("20")
        told = server.ask()
        expect(told.value(name, **device) is None, "the first look tells a growth")
        seen, begin = [], time.monotonic()
        while time.monotonic() < begin + 120 and told.value(name, **device) is None:
            program.step("10")
            program.step("host 5")
            told = server.ask()
            seen.append((time.monotonic(), told.value("gpupeak_device_live_bytes", **device)))
            time.sleep(0.3)
        (first, had), (last, has) = seen[len(seen) // 2], seen[-1]
        slope = (has - had) / (last - first)
        grows = told.value(name, **device)
        expect(slope / 3 < grows < slope * 3, f"it grows by {slope} bytes a second, and serve says {grows}")
        expect(told.value("gpupeak_host_heap_growth_bytes_per_second", **heap) > 0, told.text)
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=told.text, stdout=subprocess.PIPE, text=True, check=False)
            expect("growth" not in done.stdout, done.stdout)
        program.end()
        told = server.ask()
        expect(told.value(name, **device) is None and told.value("gpupeak_device_peak_bytes", **device) == has, told.text)
        server.end()


def textfile():
    with tempfile.TemporaryDirectory() as folder:
        program = SteppedProgram(os.path.join(folder, "a.gplog"), DRIVER)
        program.step("20")
        done = subprocess.run([GPUPEAK, "serve", "--textfile", "-", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if "not in this build" in done.stderr:
            raise Skipped("built without prometheus-cpp")
        expect(Told(done.stdout).value("gpupeak_device_live_bytes", log="a.gplog", device="0") == 20 * MIB, done.stdout + done.stderr)
        pods(folder, program.process.pid)
        place = os.path.join(folder, "gpupeak.prom")
        server = subprocess.Popen([GPUPEAK, "serve", "--textfile", place, "--every", "1", folder])
        deadline, seen = time.monotonic() + 60, set()
        while len(seen) < 3 and time.monotonic() < deadline:
            if os.path.exists(place):
                with open(place, encoding="utf-8") as file:
                    text = file.read()
                # The file is whole whenever it is read.
                expect(text.rstrip().splitlines()[-1].startswith("gpupeak_build_info"), f"cut: {text[-200:]!r}")
                value = Told(text).value("gpupeak_device_live_bytes", log="a.gplog", device="0")
                if value not in seen:
                    seen.add(value)
                    program.step("30")
        server.send_signal(signal.SIGTERM)
        expect(server.wait(20) == 0, "how it ends")
        expect({20 * MIB, 50 * MIB, 80 * MIB} <= seen, f"seen: {seen}")
        expect(sorted(os.listdir(folder)) == ["a.gplog", "gpupeak.prom"], f"left behind: {os.listdir(folder)}")
        program.end()
        done = subprocess.run([GPUPEAK, "serve", "--textfile", "/proc/none/a.prom", folder], stderr=subprocess.PIPE, text=True, check=False)
        expect(done.returncode == 125 and "cannot write" in done.stderr, f"{done.returncode}: {done.stderr}")


def absent():
    """A build without prometheus-cpp has no server beside the command."""
    with tempfile.TemporaryDirectory() as folder:
        alone = os.path.join(folder, "gpupeak")
        shutil.copy(GPUPEAK, alone)
        done = subprocess.run([alone, "serve", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        expect(done.returncode == 125 and "apt-get install prometheus-cpp-dev" in done.stderr, f"{done.returncode}: {done.stderr}")
        for arguments, said in ((["/none"], "there is no folder"), (["--listen", "9464", folder], "an address and a port")):
            done = subprocess.run([GPUPEAK, "serve", *arguments], stderr=subprocess.PIPE, text=True, check=False)
            expect(done.returncode == 2 and said in done.stderr, f"{arguments}: {done.returncode}: {done.stderr}")


def expressions():
    with open(os.path.join(EXAMPLES, "dashboard.json"), encoding="utf-8") as file:
        for panel in json.load(file)["panels"]:
            for target in panel["targets"]:
                yield re.sub(r"\$(instance|log)", ".*", target["expr"]).replace("$__rate_interval", "1m")


def files():
    """promtool accepts the alert rules, they fire when they should, and their metrics exist. So do the dashboard's metrics."""
    if not shutil.which("promtool"):
        raise Skipped("no promtool")
    for command in (["check", "rules", "gpupeak.rules.yml"], ["test", "rules", "gpupeak.rules.test.yml"], ["check", "rules", "gpupeak.recording.yml"],
                    ["test", "rules", "gpupeak.recording.test.yml"], ["check", "config", "prometheus.yml"]):
        done = subprocess.run(["promtool", *command], cwd=EXAMPLES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        expect(done.returncode == 0, f"promtool {command}: {done.stdout}")
    wanted = set()
    for name in ("gpupeak.rules.yml", "gpupeak.recording.yml"):
        with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
            wanted |= set(re.findall(r"(?<!:)\bgpupeak_\w+", file.read()))
    wanted |= {name for text in expressions() for name in re.findall(r"\bgpupeak_\w+", text)}
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/serve/families.cc")
    with open(source, encoding="utf-8") as file:
        known = set(re.findall(r'"(gpupeak_\w+)"', file.read()))
    expect(wanted <= known, f"there is no {wanted - known}")
    with open(os.path.join(EXAMPLES, "../../docs/fleet.md"), encoding="utf-8") as file:
        text = file.read()
    expect(all(name in text for name in known), f"docs/fleet.md does not have {[n for n in known if n not in text]}")


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


class Prometheus:
    def __init__(self, folder, target):
        port = self.port = free_port()
        config = os.path.join(folder, "prometheus.yml")
        with open(os.path.join(EXAMPLES, "prometheus.yml"), encoding="utf-8") as file:
            text = file.read().replace("127.0.0.1:9464", target).replace("15s", "1s")
        with open(config, "w", encoding="utf-8") as file:
            file.write(re.sub(r"gpupeak\.\w+\.yml", lambda found: os.path.join(EXAMPLES, found[0]), text).replace("global:", "global:\n  evaluation_interval: 1s"))
        self.log = open(os.path.join(folder, "prometheus.log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                         f"--web.listen-address=127.0.0.1:{port}"], stdout=self.log, stderr=self.log)
        self.url = f"http://127.0.0.1:{port}/api/v1/query?"

    def query(self, expression):
        """The answer as [(labels, value)]; None while Prometheus does not answer."""
        try:
            answer = json.loads(get(self.url + urllib.parse.urlencode({"query": expression})))
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            expect("error" not in text or error.code == 503, f"{expression}: {text}")
            return None
        except (urllib.error.URLError, ConnectionError):
            expect(self.process.poll() is None, "Prometheus has ended")
            return None
        return [(of["metric"], float(of["value"][1])) for of in answer["data"]["result"]]

    def wait_for(self, expression, value):
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            found = self.query(expression)
            if found and found[0][1] == value:
                return found
            time.sleep(0.3)
        raise AssertionError(f"{expression}: {found}, not {value}")

    def end(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def real_prometheus():
    if not shutil.which("prometheus"):
        raise Skipped("no prometheus")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as own:
        server = Server(folder)
        told = server.ask().text
        program = SteppedProgram(os.path.join(folder, "a.gplog"), DRIVER)
        prometheus = Prometheus(own, server.url.split("/")[2])
        try:
            program.step("300")
            prometheus.wait_for('gpupeak_device_live_bytes{log="a.gplog"}', 300 * MIB)
            program.step("free")
            program.step("40")
            prometheus.wait_for('gpupeak_device_live_bytes{log="a.gplog"}', 40 * MIB)
            prometheus.wait_for('gpupeak_device_peak_bytes{log="a.gplog"}', 300 * MIB)
            prometheus.wait_for('gpupeak_run_state{state="running"}', 1)
            for text in expressions():
                found = prometheus.query(text)
                expect(found or " > 0" in text or "degraded" in text, f"the dashboard's {text} has nothing")
            program.kill()
            prometheus.wait_for('gpupeak_run_state{log="a.gplog",state="killed"}', 1)
            prometheus.wait_for('ALERTS{alertname="GpupeakRunKilled",log="a.gplog",alertstate="firing"}', 1)
            deadline = time.monotonic() + 60
            while prometheus.query('gpupeak_device_live_bytes{log="a.gplog"}') and time.monotonic() < deadline:
                time.sleep(0.3)
            expect(prometheus.query('gpupeak_device_live_bytes{log="a.gplog"}') == [], "it holds memory although it is gone")
            told = server.ask().text
        finally:
            prometheus.end()
            server.end()
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            ours = [line for line in done.stdout.splitlines() if line.startswith("gpupeak")]
            expect(not ours, f"promtool: {ours}")


def processor_s(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def mib(pid):
    """A server's own resident memory: all servers share the libraries' pages."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_")) / 1024


def many():
    """Servers on many nodes and one Prometheus: the cost of a program for Prometheus is bounded, and its sums are right."""
    if not shutil.which("prometheus"):
        raise Skipped("no prometheus")
    count, logs, scrapes = int(os.environ.get("GPUPEAK_TEST_SERVES", "12")), 8, 3
    with tempfile.TemporaryDirectory() as place:
        # Eight programs run. Each node has links to their logs.
        own = os.path.join(place, "own")
        os.mkdir(own)
        programs = [SteppedProgram(os.path.join(own, f"{number}.gplog"), DRIVER) for number in range(logs)]
        for program in programs:
            program.step("100")
        servers = []
        for node in range(count):
            folder = os.path.join(place, f"node{node}")
            os.mkdir(folder)
            for number in range(logs):
                os.link(os.path.join(own, f"{number}.gplog"), os.path.join(folder, f"{number}.gplog"))
            servers.append(Server(folder))
        samples_of_log = (len(servers[0].ask().samples) - len([name for name, labels in servers[0].ask().samples if "log" not in dict(labels)])) / logs
        prometheus = Prometheus(own, '", "'.join(server.url.split("/")[2] for server in servers))
        try:
            prometheus.wait_for(f"count(up == 1) and count(gpupeak_logs{{state='running'}}) == {count}", count)
            began, before = time.monotonic(), sum(processor_s(server.process.pid) for server in servers)
            prometheus.wait_for('sum(card:gpupeak_device_live_bytes:sum)', count * logs * 100 * MIB)
            prometheus.wait_for("min(count_over_time(up[5m]) >= bool %d)" % scrapes, 1)
            (_, series), = prometheus.query("sum(scrape_samples_scraped)")
            (_, most), = prometheus.query("max(scrape_duration_seconds)")
            (_, usual), = prometheus.query("quantile(0.5, scrape_duration_seconds)")
            (_, sums), = prometheus.query('count({__name__=~"[a-z]+:gpupeak.+"})')
            expect(series <= count * (logs * 45 + 10), f"{series} series of {count * logs} logs")
            expect(sums <= 10, f"{sums} series of sums, however many programs there are")
            passed = time.monotonic() - began
            busy = sum(processor_s(server.process.pid) for server in servers) - before
            head = re.search(r"^prometheus_tsdb_head_series (\S+)", get(f"http://127.0.0.1:{prometheus.port}/metrics"), re.M)[1]
            print(f"{count} servers with {logs} logs each, {samples_of_log:.0f} series a log, {series:.0f} in all (Prometheus' head: {head}): "
                  f"a scrape takes {usual:.3f} s, at most {most:.3f} s; Prometheus has {mib(prometheus.process.pid):.0f} MiB and took "
                  f"{processor_s(prometheus.process.pid):.1f} s of a processor, a server {sum(mib(s.process.pid) for s in servers) / count:.1f} MiB of its own "
                  f"and {busy / passed / count:.4f} of a processor at a scrape a second")
        finally:
            prometheus.end()
            for server in servers:
                server.process.send_signal(signal.SIGTERM)  # each takes a second to end
            for server in servers:
                server.end()
            for program in programs:
                program.end()


run_checks({"values": values, "growth": growth, "textfile": textfile, "absent": absent, "files": files, "prometheus": real_prometheus, "many": many}[CASE])
