"""See two_gpus.sh. usage: two_gpus.py GPUPEAK FOLDER            runs everything
             two_gpus.py ddp|fsdp|loader|one|replaces …   is one of the programs that are run"""
import json
import os
import shutil
import subprocess
import sys
import threading
import time

HOLD_S = 1.5  # at the highest, so that who polls sees it


def model(torch, layers, width):
    return torch.nn.Sequential(*(m for _ in range(layers) for m in (torch.nn.Linear(width, width), torch.nn.GELU())))


def train(kind):
    import torch
    import torch.distributed as dist
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    # Rank 1 has the larger batch, so that the ranks differ.
    net, batch = model(torch, 12, 4096).cuda(), torch.randn(2048 * (1 + rank), 4096, device="cuda")
    if kind == "ddp":
        net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])
    else:
        from torch.distributed.fsdp import FullyShardedDataParallel
        net = FullyShardedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    time.sleep(HOLD_S)
    print(f"rank {rank} reserved at most {torch.cuda.max_memory_reserved()}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


class Numbers:
    def __len__(self):
        return 64

    def __getitem__(self, index):
        import torch
        return torch.full((1 << 20,), float(index))


def loader():
    import torch
    data = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=4, pin_memory=True)
    held = [batch.cuda(non_blocking=True) for batch in data]
    torch.cuda.synchronize()
    time.sleep(HOLD_S)
    print("sum", float(sum(batch.sum() for batch in held)), flush=True)


def one(megabytes):
    import torch
    held = torch.zeros(int(megabytes) << 18, device="cuda")
    torch.cuda.synchronize()
    time.sleep(HOLD_S)
    print("held", held.numel() * 4, flush=True)


def replaces(how):
    """A launcher that sets an LD_PRELOAD of its own, or cleans the environment."""
    environment = dict(os.environ)
    if how == "replaced":
        environment["LD_PRELOAD"] = "libm.so.6"
    else:
        environment.pop("LD_PRELOAD", None)
    sys.exit(subprocess.run([sys.executable, __file__, "one", "3072"], env=environment, check=False).returncode)


class Poll(threading.Thread):
    """The most that NVML says of each process, and of each GPU, in MiB."""

    def __init__(self):
        super().__init__(daemon=True)
        self.processes, self.devices, self.ends = {}, {}, threading.Event()

    @staticmethod
    def ask(what, fields):
        done = subprocess.run(["nvidia-smi", f"--query-{what}={fields}", "--format=csv,noheader,nounits"], stdout=subprocess.PIPE, text=True,
                              check=False)
        return [line.split(", ") for line in done.stdout.splitlines() if ", " in line]

    def look(self):
        for pid, used in self.ask("compute-apps", "pid,used_memory"):
            if used.isdigit():
                self.processes[int(pid)] = max(self.processes.get(int(pid), 0), int(used))
        for uuid, used in self.ask("gpu", "uuid,memory.used"):
            self.devices[uuid] = max(self.devices.get(uuid, 0), int(used))

    def run(self):
        while not self.ends.is_set():
            self.look()
            time.sleep(0.05)


def explained(summary):
    """What a process had of the GPU at most: handed out, and the causes that are its own. Those are taken where they are
    larger, at the peak or at the end: code may be loaded after the peak, and stays."""
    total = 0
    for device in summary["devices"]:
        ledger = device["ledger"]
        if ledger is None:
            continue
        total += ledger["at_peak"]["tracked_bytes"]
        causes = {}
        for view in (ledger["at_peak"], ledger["at_exit"]):
            for row in view["rows"]:
                causes[row["cause"]] = max(causes.get(row["cause"], 0), row["bytes"])
        total += sum(bytes for cause, bytes in causes.items() if cause not in ("start", "external"))
    return total


class Checks:
    def __init__(self, gpupeak, out):
        self.gpupeak, self.out, self.failed = gpupeak, out, 0
        self.table = ["| run | process | peak, MiB | with the ledger's causes | NVML | differs |", "|---|---|---|---|---|---|"]

    def check(self, good, what):
        if not good:
            self.failed += 1
            print(f"FAILED: {what}")

    def run(self, name, *command, options=()):
        log = os.path.join(self.out, name + ".gplog")
        poll = Poll()
        before = Poll()
        before.look()
        poll.start()
        began = time.monotonic()
        done = subprocess.run([self.gpupeak, "run", *options, "-o", log, "--", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, NCCL_NVLS_ENABLE="0"), check=False)
        took = time.monotonic() - began
        poll.ends.set()
        poll.join()
        screen = done.stderr[done.stderr.find("gpupeak: "):]
        with open(os.path.join(self.out, name + ".screen.txt"), "w", encoding="utf-8") as file:
            file.write(done.stderr)
        print(f"\n## {name}, {took:.1f} s, exit code {done.returncode}\n```\n{screen}```")
        self.check(done.returncode == 0, f"{name} ends with {done.returncode}")
        report = subprocess.run([self.gpupeak, "report", "--json", log], stdout=subprocess.PIPE, check=False)
        self.check(report.returncode == 0, f"{name}: report ends with {report.returncode}")
        if report.returncode != 0:
            return {}, ""
        summary = json.loads(report.stdout)
        with open(os.path.join(self.out, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(summary, file)
        self.compare(name, summary["whole_run"], poll, before)
        return summary["whole_run"], done.stderr

    def compare(self, name, whole, poll, before):
        sums = {}
        for process in whole["processes"]:
            if not process["device_peak_bytes"]:
                continue
            own = subprocess.run([self.gpupeak, "report", "--json", process["log"]], stdout=subprocess.PIPE, check=False)
            bytes_explained = explained(json.loads(own.stdout)) if own.returncode == 0 else 0
            for held in process["devices"]:
                uuid = whole["devices"][held["device"]]["uuid"]
                sums[uuid] = sums.get(uuid, 0) + bytes_explained
            nvml = poll.processes.get(process["pid"])
            who = f"rank {process['rank']}" if process["rank"] is not None else f"pid {process['pid']}"
            differs = "pid not shown" if nvml is None else f"{nvml - bytes_explained / 2**20:+.1f}"
            self.table.append(f"| {name} | {who} {process['program']} | {process['device_peak_bytes'] / 2**20:.1f} | {bytes_explained / 2**20:.1f} | {nvml} | {differs} |")
            if nvml is not None:
                self.check(abs(nvml - bytes_explained / 2**20) <= max(32, 0.02 * nvml), f"{name}: {who} differs by {differs} MiB")
        for device in whole["devices"]:
            uuid = device["uuid"]
            more = poll.devices.get(uuid, 0) - before.devices.get(uuid, 0)
            held = sums.get(uuid, 0) / 2**20
            self.table.append(f"| {name} | all of {device['name']} | {(device['peak_bytes'] or 0) / 2**20:.1f} | {held:.1f} | {more} | {more - held:+.1f} |")
            parts = sum(part["at_peak_bytes"] for process in whole["processes"] for part in process["devices"] if whole["devices"][part["device"]]["uuid"] == uuid)
            self.check(parts == device["peak_bytes"], f"{name}: the processes held {parts} of {device['peak_bytes']}")

    def all(self):
        python, own = sys.executable, os.path.abspath(__file__)
        torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", own]
        for kind in ("ddp", "fsdp"):
            whole, said = self.run(kind, *torchrun, kind)
            if whole:
                users = [process for process in whole["processes"] if process["device_peak_bytes"]]
                self.check({process["rank"] for process in users} == {0, 1}, f"{kind}: ranks {[process['rank'] for process in users]}")
                self.check(len(whole["devices"]) == 2 and whole["complete"], f"{kind}: {whole['missing']}")
                self.check("on 2 GPUs" in said, f"{kind}: the first line")
        whole, said = self.run("loader", python, own, "loader")
        self.check(bool(whole) and whole["metrics"]["device.peak_bytes"] >= 256 << 20, "loader: its batches")
        if shutil.which("mpirun"):
            self.run("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", python, own, "one", "2048")
        else:
            print("mpirun is not here")
        for how in ("replaced", "cleaned"):
            whole, said = self.run(how, python, own, "replaces", how)
            if whole:
                kept = any(process["device_peak_bytes"] for process in whole["processes"])
                told = [process for process in whole["not_recorded"] if process["used_gpu"]]
                self.check(kept or told, f"{how}: neither recorded nor told")
                self.check(not whole["complete"] or kept, f"{how}: complete, and it is not")
        print("\n" + "\n".join(self.table))
        print(f"\n{self.failed} checks failed")
        return 1 if self.failed else 0


if __name__ == "__main__":
    programs = {"ddp": lambda: train("ddp"), "fsdp": lambda: train("fsdp"), "loader": loader, "one": lambda: one(sys.argv[2]),
                "replaces": lambda: replaces(sys.argv[2])}
    if sys.argv[1] in programs:
        programs[sys.argv[1]]()
    else:
        sys.exit(Checks(sys.argv[1], sys.argv[2]).all())
