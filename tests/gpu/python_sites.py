"""Python call sites on a real GPU: against what PyTorch records of its own allocator, and of any script the lines.

  gpupeak run -o vgg.gplog -- python3 python_sites.py record vgg.json
  python3 python_sites.py compare GPUPEAK vgg.gplog vgg.json
  python3 python_sites.py lines GPUPEAK NAME LOG SCRIPT TEXT…

`lines` prints a Markdown row for each line of SCRIPT that allocated device memory; exit code 1 if no allocation is of a
line with TEXT in it.
"""
import json
import os
import re
import sys


def record(path):
    import torch
    import torchvision

    torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")

    def build():
        torch.manual_seed(0)
        return torchvision.models.vgg19(weights=None).cuda().eval()

    def infer(model):
        images = torch.randn(8, 3, 224, 224, device="cuda")
        with torch.no_grad():
            for _ in range(3):
                model(images)

    def train(model):
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        images = torch.randn(8, 3, 224, 224, device="cuda")
        labels = torch.zeros(8, dtype=torch.long, device="cuda")
        for _ in range(2):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()

    model = build()
    infer(model)
    train(model)
    torch.cuda.synchronize()
    segments = [[event["addr"], event["size"], [[frame["filename"], frame["name"], frame["line"]]
                                                for frame in event.get("frames", [])]]
                for event in torch.cuda.memory._snapshot()["device_traces"][0] if event["action"] == "segment_alloc"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(segments, file)


def read_log(tool, path):
    """The log, and the stack of each device allocation by its address and size."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
    from python_log import Log

    log = Log(tool, path)
    return log, {(int(address, 16), int(size)): stack for address, size, stack in
                 re.findall(r" device_alloc .* (0x[0-9a-f]+) bytes (\d+) .* stack (\d+) ", log.text)}


def lines(tool, name, log_path, script, *wanted):
    log, stacks = read_log(tool, log_path)
    with open(script, encoding="utf-8") as file:
        source = file.read().splitlines()
    found, unnamed = {}, [0, 0]
    for (_, size), stack in stacks.items():
        log.sites[0] = stack
        line = next((frame[2] for frame in log.python_frames(0) if os.path.basename(frame[0]) == os.path.basename(script)), None)
        counts = unnamed if line is None else found.setdefault(line, [0, 0])
        counts[0] += 1
        counts[1] += size
    missing = [text for text in wanted if not any(text in source[line - 1] for line in found)]
    for line, (count, size) in sorted(found.items()):
        print(f"| {name} | {os.path.basename(script)}:{line} `{source[line - 1].strip()[:60]}` | {size:,} in {count} | |")
    print(f"| {name} | not below a line of {os.path.basename(script)} | {unnamed[1]:,} in {unnamed[0]} | "
          f"{'**nothing is of ' + ', '.join(missing) + '**' if missing else 'good'} |")
    return 1 if missing else 0


def compare(tool, log_path, path):
    log, stacks = read_log(tool, log_path)
    with open(path, encoding="utf-8") as file:
        segments = json.load(file)
    equal = 0
    for address, size, frames in segments:
        log.sites[0] = stacks.get((address, size))
        found = [(frame[0], frame[2]) for frame in log.python_frames(0)]
        if found == [(frame[0], frame[2]) for frame in frames]:
            equal += 1
        else:
            print(f"{size} bytes at {address:#x}:\n  PyTorch {frames}\n  log     {found}")
    print(f"{equal} of {len(segments)} segments have the Python stack that PyTorch recorded")
    return 0 if segments and equal == len(segments) else 1


sys.exit({"record": record, "compare": compare, "lines": lines}[sys.argv[1]](*sys.argv[2:]))
