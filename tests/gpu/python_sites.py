"""Python call sites on a real GPU against what PyTorch records of its own allocator.

  gpupeak run -o vgg.gplog -- python3 python_sites.py record vgg.json
  python3 python_sites.py compare GPUPEAK vgg.gplog vgg.json
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


def compare(tool, log_path, path):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
    from python_log import Log

    log = Log(tool, log_path)
    stacks = {(int(address, 16), int(size)): stack for address, size, stack in
              re.findall(r" device_alloc .* (0x[0-9a-f]+) bytes (\d+) .* stack (\d+) ", log.text)}
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


sys.exit(record(sys.argv[2]) if sys.argv[1] == "record" else compare(*sys.argv[2:5]))
