"""A limit on a real GPU against a second process that really holds the rest of the card.

usage: limit.py GPUPEAK OUT_FOLDER [PERF_TEST MODEL]

Prints a Markdown table for each part, and in the end how many checks failed (the exit code).
  driver   what cuMemGetInfo, cuDeviceTotalMem, NVML, nvidia-smi and PyTorch say; how long the ballast takes; a reset of the context
  calls    the same requests in the same order: the answers one by one
  resnet   training of ResNet-50, the largest batch at three limits
  vgg19    the same of VGG-19
  llama    of a Llama of Hugging Face (without transformers: of PyTorch's own transformer)
  ort      VGG-19 by onnxruntime_perf_test at four limits: whether it runs (with PERF_TEST and MODEL)
"""
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import time

GiB, MiB = 1 << 30, 1 << 20
SELF = os.path.abspath(__file__)
failed = 0


def count(good):
    global failed
    failed += not good


def check(what, good, *details):
    count(good)
    print(f"{'ok  ' if good else 'FAIL'} {what}", *details, flush=True)


def driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0
    return cuda


def context(cuda):
    handle = ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(handle), 0) == 0
    assert cuda.cuCtxSetCurrent(handle) == 0
    return handle


def memory_info(cuda):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value, total.value


def nvml_info():
    class V1(ctypes.Structure):
        _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

    class V2(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint), *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used"))]

    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    device, one, two = ctypes.c_void_p(), V1(), V2(version=ctypes.sizeof(V2) | 2 << 24)
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(one)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(two)) == 0
    return {"v1": [one.total, one.free, one.used], "v2": [two.total, two.reserved, two.free, two.used]}


# ---- what runs under a limit, or beside a holder: `limit.py work NAME ARGUMENT…` prints its answer as JSON

def work_hold(limit):
    """Leaves `limit` bytes of the card to others, until its input ends."""
    cuda = driver()
    context(cuda)
    left = memory_info(cuda)[0] - int(limit)
    at = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(left // (2 * MiB) * 2 * MiB)) == 0
    print("holds", flush=True)
    sys.stdin.read()


def work_figures():
    cuda = driver()
    total = ctypes.c_size_t()
    cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0)
    before = nvml_info()
    context(cuda)
    answer = {"total": total.value, "info": memory_info(cuda), "before": before, "nvml": nvml_info()}
    # To the last page, so that the ballast is there; then once more, which tells what it costs.
    at, times = ctypes.c_uint64(), []
    for _ in range(2):
        began = time.monotonic()
        refused = cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(answer["info"][0] + 4 * MiB))
        times.append(round((time.monotonic() - began) * 1000, 2))
    answer |= {"refused": refused, "ms": times, "near": nvml_info(), "near_info": memory_info(cuda)}
    # The ballast outlives the context that was current when it was taken.
    answer["reset"] = cuda.cuDevicePrimaryCtxReset_v2(0)
    context(cuda)
    answer["after_reset"] = memory_info(cuda)
    answer["granted"] = cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(answer["after_reset"][0] - 64 * MiB))
    answer["smi"] = subprocess.run(["nvidia-smi", "--query-gpu=memory.total,memory.free", "--format=csv,noheader,nounits", "-i", "0"],
                                   capture_output=True, text=True, check=False).stdout.strip()
    try:
        import torch
        answer["torch"] = [torch.cuda.get_device_properties(0).total_memory, *torch.cuda.mem_get_info(0)]
    except ImportError:
        answer["torch"] = None
    print(json.dumps(answer))


def work_calls(seed):
    """Requests of several kinds; answers as 0 or 2."""
    import random
    cuda, rng, answers, live = driver(), random.Random(int(seed)), [], []
    context(cuda)
    stream = ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    class Location(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]
    class Properties(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("rest", ctypes.c_ubyte * 64)]
    pinned = Properties(type=1, handles=0, location=Location(1, 0))
    for _ in range(300):
        kind, at = rng.choice(("linear", "linear", "async", "create", "free", "free")), ctypes.c_uint64(7)
        size = rng.choice((3000, MiB, 5 * MiB, 300 * MiB, 900 * MiB)) * rng.randint(1, 4)
        if kind == "free":
            if live:
                live.pop(rng.randrange(len(live)))()
                cuda.cuCtxSynchronize()
            continue
        if kind == "linear":
            result = cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size))
            end = lambda at=at.value: cuda.cuMemFree_v2(ctypes.c_uint64(at))
        elif kind == "async":
            result = cuda.cuMemAllocAsync(ctypes.byref(at), ctypes.c_size_t(size), stream)
            end = lambda at=at.value: cuda.cuMemFreeAsync(ctypes.c_uint64(at), stream)
        else:
            size = (size + 2 * MiB - 1) // (2 * MiB) * 2 * MiB
            result = cuda.cuMemCreate(ctypes.byref(at), ctypes.c_size_t(size), ctypes.byref(pinned), ctypes.c_ulonglong(0))
            end = lambda at=at.value: cuda.cuMemRelease(ctypes.c_uint64(at))
        answers.append([kind, size, result, at.value == 7 if result else None, memory_info(cuda)[0]])
        if result == 0:
            live.append(end)
    print(json.dumps(answers))


def network(model):
    """A network on the card, and what makes a batch for it."""
    import torch
    if model in ("ResNet-50", "VGG-19"):
        import torchvision
        made = {"ResNet-50": torchvision.models.resnet50, "VGG-19": torchvision.models.vgg19}[model]
        return made().cuda(), lambda batch: torch.randn(batch, 3, 224, 224, device="cuda")
    if model == "Llama":
        import transformers
        config = transformers.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16, vocab_size=8192,
                                          use_cache=False)
        llama = transformers.LlamaForCausalLM(config).cuda()

        class Logits(torch.nn.Module):
            def forward(self, words):
                return llama(words).logits
        net = Logits()
        net.llama = llama
        return net, lambda batch: torch.randint(0, 8192, (batch, 512), device="cuda")
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 12).cuda(), lambda batch: torch.randn(batch, 512, 1024, device="cuda")


def work_torch(model, *batches):
    """What is reserved at most with each batch."""
    import torch
    net, data_of = network(model)
    steps, reserved = torch.optim.AdamW(net.parameters()), []
    for batch in map(int, batches):
        data = data_of(batch)
        for _ in range(3):
            steps.zero_grad()
            net(data).square().mean().backward()
            steps.step()
        torch.cuda.synchronize()
        reserved.append(torch.cuda.max_memory_reserved())
    print(json.dumps(reserved))


# ---- the comparison

def run(words, **kw):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=280, **kw)


def limited(gpupeak, limit, words, log):
    return run([gpupeak, "run", "-q", "--host", "off", "-o", log, "--limit", str(limit), "--", *words])


def beside_holder(limit, words):
    holder = subprocess.Popen([sys.executable, SELF, "work", "hold", str(limit)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline().strip() == "holds"
        return run(words)
    finally:
        holder.stdin.close()
        holder.wait()


def work(*words):
    return [sys.executable, SELF, "work", *map(str, words)]


def compare_figures(gpupeak, out):
    limit = 24 * GiB
    log = f"{out}/figures.gplog"
    ended = limited(gpupeak, limit, work("figures"), log)
    if ended.returncode != 0:
        return check("figures", False, ended.stderr[-500:])
    told = json.loads(ended.stdout)
    print(json.dumps(told, indent=1))
    reserved = told["nvml"]["v2"][1]
    check("cuDeviceTotalMem and cuMemGetInfo have the limit", told["total"] == limit == told["info"][1])
    check("NVML has it, before the context and after", told["before"]["v2"][0] == told["nvml"]["v2"][0] == limit + reserved == told["nvml"]["v1"][0])
    check("what is free agrees", told["info"][0] == told["nvml"]["v2"][2], told["info"][0], told["nvml"]["v2"][2])
    check("one page too much is refused", told["refused"] == 2)
    check("near the limit the figures stay", told["near_info"] == told["info"] and told["near"]["v2"][3] == told["nvml"]["v2"][3])
    check("after a reset of the context it goes on", told["granted"] == 0 and told["after_reset"][1] == limit)
    check("nvidia-smi, started by the program, has it", told["smi"].split(",")[0] in (str((limit + reserved) // MiB), str(-(-(limit + reserved) // MiB))), told["smi"])
    if told["torch"]:
        check("PyTorch has it", told["torch"][0] == limit == told["torch"][2], told["torch"])
    print("first and second refusal, ms:", told["ms"])
    print(run([gpupeak, "report", "--short", log]).stdout)


def compare_calls(gpupeak, out):
    for seed, limit in ((1, 6 * GiB), (2, 10 * GiB), (3, 17 * GiB)):
        ours = limited(gpupeak, limit, work("calls", seed), f"{out}/calls{seed}.gplog")
        theirs = beside_holder(limit, work("calls", seed))
        a, b = json.loads(ours.stdout), json.loads(theirs.stdout)
        # What is free differs by what the holder has beside its block: the last figure of each is no result.
        first = next((i for i, (x, y) in enumerate(zip(a, b)) if x[:-1] != y[:-1]), None)
        check(f"300 requests within {limit // GiB} GiB, {sum(x[2] == 2 for x in a)} refused", first is None,
              "" if first is None else (first, a[first], b[first]))


STEP = 4


def largest(fits, guess):
    """The largest batch that fits, in steps of STEP; 0: none. Asks from the guess on, in steps that double, then between."""
    fitting, failing, stride = 0, None, STEP
    batch = max(STEP, guess // STEP * STEP)
    while failing is None or (fitting == 0 and failing > STEP):
        if fits(batch):
            fitting = batch
            if failing is not None:
                break
            batch += stride
        else:
            failing = batch
            if fitting > 0:
                break
            batch = max(STEP, batch - stride)
        stride *= 2
    while failing - fitting > STEP:
        middle = (fitting + failing) // (2 * STEP) * STEP
        fitting, failing = (middle, failing) if fits(middle) else (fitting, middle)
    return fitting


def compare_torch(gpupeak, out, parts):
    transformer = "Llama" if importlib.util.find_spec("transformers") else "transformer"
    print("| training, AdamW | limit | largest batch with --limit | beside a holder | |\n|---|---|---|---|---|", flush=True)
    for part, model, sizes in (("resnet", "ResNet-50", (4, 8, 12)), ("vgg19", "VGG-19", (6, 9, 12)), ("llama", transformer, (6, 10, 16))):
        if part not in parts:
            continue
        some, more = json.loads(run(work("torch", model, 16, 48)).stdout)
        each = max(1, (more - some) // 32)  # of a batch of one
        for size in sizes:
            limit, known = size * GiB, {}

            def fits(way, batch):
                if (way, batch) not in known:
                    words = work("torch", model, batch)
                    ended = limited(gpupeak, limit, words, f"{out}/torch.gplog") if way == "limit" else beside_holder(limit, words)
                    known[way, batch] = ended.returncode == 0
                return known[way, batch]
            held = largest(lambda batch: fits("holder", batch), 16 + (limit - some - GiB // 2) // each)
            ours = largest(lambda batch: fits("limit", batch), held)
            good = abs(ours - held) <= STEP
            print(f"| {model} | {size} GiB | {ours} | {held} | {'equal' if ours == held else 'a step off' if good else '**differ**'} |", flush=True)
            count(good)


def compare_ort(gpupeak, out, perf_test, model):
    words = [perf_test, "-e", "cuda", "-r", "3", "-I", model]
    print("| VGG-19, ONNX Runtime | with --limit | beside a holder | |\n|---|---|---|---|", flush=True)
    for limit in (900 * MiB, 1400 * MiB, 2 * GiB, 4 * GiB):
        ours, theirs = ("runs" if ended.returncode == 0 else "fails" for ended in
                        (limited(gpupeak, limit, words, f"{out}/ort.gplog"), beside_holder(limit, words)))
        print(f"| {limit / GiB:.2f} GiB | {ours} | {theirs} | {'equal' if ours == theirs else '**differ**'} |", flush=True)
        count(ours == theirs)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        globals()[f"work_{sys.argv[2]}"](*sys.argv[3:])
        sys.exit(0)
    tool, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    parts = os.environ.get("PARTS", "figures calls resnet vgg19 llama ort").split()
    if "figures" in parts:
        compare_figures(tool, folder)
    if "calls" in parts:
        compare_calls(tool, folder)
    if {"resnet", "vgg19", "llama"} & set(parts):
        compare_torch(tool, folder, parts)
    if "ort" in parts and len(sys.argv) > 4:
        compare_ort(tool, folder, *sys.argv[3:5])
    print(f"{failed} checks failed")
    sys.exit(failed > 0)
