"""Operations of PyTorch, each with tensors of its own: prints for each when it ran and where its tensors lie.

Under gpupeak with GPUPEAK_LAST_USE=1: what of it the library saw is compared by last_use.py. One JSON object a line:
{"operation": name, "from_ns": n, "to_ns": n, "addresses": [n]}, times of CLOCK_MONOTONIC.
"""
import json
import time

import torch
import torch.nn.functional as F

N = 1024


def rand(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def ints(high, *shape):
    return torch.randint(0, high, shape, device="cuda")


def sdpa(dtype):
    q, k, v = (rand(2, 8, 256, 64, dtype=dtype) for _ in range(3))
    return [q, k, v], lambda: F.scaled_dot_product_attention(q, k, v)


def one(f, *tensors):
    return list(tensors), lambda: f(*tensors)


def many(f, count=100):
    tensors = [rand(4096) for _ in range(count)]
    return tensors, lambda: f(tensors)


def adamw(**options):
    parameters = [torch.nn.Parameter(rand(2048)) for _ in range(80)]
    optimizer = torch.optim.AdamW(parameters, **options)
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer.step()
    states = [t for p in parameters for t in optimizer.state[p].values() if torch.is_tensor(t) and t.is_cuda]
    return parameters + [p.grad for p in parameters] + states, optimizer.step


def sgd():
    parameters = [torch.nn.Parameter(rand(2048)) for _ in range(40)]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer.step()
    return parameters + [p.grad for p in parameters], optimizer.step


def compiled():
    f = torch.compile(lambda a, b: torch.relu(a * 2 + b).sum(-1))
    a, b = rand(N, N), rand(N, N)
    f(a.clone(), b.clone())
    return [a, b], lambda: f(a, b)


def graph():
    a, b = rand(N, N), rand(N, N)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            torch.relu(a @ b)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        torch.relu(a @ b)
    return [a, b], captured.replay


def backward(f, *tensors):
    leaves = [t.requires_grad_() for t in tensors]
    out = f(*leaves).sum()
    return leaves, lambda: [out.backward(), *[leaf.grad for leaf in leaves]][1:]


def embedding_bag():
    weight, index, offsets = rand(1000, 64), ints(1000, 512), torch.arange(0, 512, 8, device="cuda")
    return [weight, index, offsets], lambda: F.embedding_bag(index, weight, offsets)


def scatter():
    out, index, source = rand(N, N), ints(N, N, N), rand(N, N)
    return [out, index, source], lambda: out.scatter_add_(0, index, source)


def rnn(kind):
    module = kind(128, 256, num_layers=2).cuda()
    x = rand(32, 16, 128)
    return [x], lambda: module(x)[0]


def peer_stream():
    a, side = rand(N, N), torch.cuda.Stream()

    def run():
        with torch.cuda.stream(side):
            return a * 2
    return [a], run


def copy_to_host():
    a, host = rand(N, N), torch.empty(N, N, pin_memory=True)
    return [a], lambda: [host.copy_(a, non_blocking=True)][1:]


def copy_from_host():
    a, host = rand(N, N), torch.empty(N, N, pin_memory=True)
    return [a], lambda: a.copy_(host, non_blocking=True)


bf16, half = torch.bfloat16, torch.float16
OPERATIONS = {
    "add": lambda: one(torch.add, rand(N, N), rand(N, N)),
    "strided add": lambda: one(lambda a, b: a.t() + b[::1], rand(N, N), rand(N, N)),
    "broadcast": lambda: one(torch.mul, rand(N, N), rand(N)),
    "cat of 20": lambda: many(torch.cat, 20),
    "stack": lambda: many(torch.stack, 10),
    "matmul": lambda: one(torch.matmul, rand(N, N), rand(N, N)),
    "matmul bf16": lambda: one(torch.matmul, rand(N, N, dtype=bf16), rand(N, N, dtype=bf16)),
    "matmul fp16": lambda: one(torch.matmul, rand(N, N, dtype=half), rand(N, N, dtype=half)),
    "bmm bf16": lambda: one(torch.bmm, rand(8, 256, 256, dtype=bf16), rand(8, 256, 256, dtype=bf16)),
    "bmm": lambda: one(torch.bmm, rand(8, 256, 256), rand(8, 256, 256)),
    "addmm": lambda: one(torch.addmm, rand(N), rand(N, N), rand(N, N)),
    "linear with bias bf16": lambda: one(F.linear, rand(N, N, dtype=bf16), rand(N, N, dtype=bf16), rand(N, dtype=bf16)),
    "conv2d": lambda: one(lambda x, w, b: F.conv2d(x, w, b, padding=1), rand(4, 32, 64, 64), rand(64, 32, 3, 3), rand(64)),
    "conv2d bf16 channels last": lambda: one(lambda x, w: F.conv2d(x, w, padding=1),
                                             rand(4, 32, 64, 64, dtype=bf16).to(memory_format=torch.channels_last),
                                             rand(64, 32, 3, 3, dtype=bf16).to(memory_format=torch.channels_last)),
    "conv transpose": lambda: one(F.conv_transpose2d, rand(2, 32, 32, 32), rand(32, 16, 3, 3)),
    "batch_norm": lambda: one(lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training=True), rand(8, 64, 32, 32), rand(64),
                              rand(64).abs(), rand(64), rand(64)),
    "layer_norm": lambda: one(lambda x, w, b: F.layer_norm(x, (N,), w, b), rand(N, N), rand(N), rand(N)),
    "group_norm": lambda: one(lambda x, w, b: F.group_norm(x, 8, w, b), rand(4, 64, 32, 32), rand(64), rand(64)),
    "softmax": lambda: one(lambda x: F.softmax(x, -1), rand(N, N)),
    "log_softmax": lambda: one(lambda x: F.log_softmax(x, -1), rand(N, N)),
    "attention": lambda: sdpa(torch.float32),
    "attention bf16": lambda: sdpa(bf16),
    "embedding": lambda: one(F.embedding, ints(1000, 64, 64), rand(1000, 256)),
    "embedding_bag": embedding_bag,
    "index_select": lambda: one(lambda x, i: x.index_select(0, i), rand(N, N), ints(N, 100)),
    "a[i, j]": lambda: one(lambda x, i, j: x[i, j], rand(N, N), ints(N, 500), ints(N, 500)),
    "gather": lambda: one(lambda x, i: x.gather(1, i), rand(N, N), ints(N, N, 16)),
    "scatter_add": scatter,
    "index_put": lambda: one(lambda x, i, v: x.index_put_((i,), v), rand(N, N), ints(N, 64), rand(64, N)),
    "masked_fill": lambda: one(lambda x, m: x.masked_fill(m, 0), rand(N, N), rand(N, N) > 0),
    "where": lambda: one(torch.where, rand(N, N) > 0, rand(N, N), rand(N, N)),
    "sort": lambda: one(lambda x: torch.sort(x)[0], rand(N, N)),
    "topk": lambda: one(lambda x: torch.topk(x, 10)[0], rand(N, N)),
    "unique": lambda: one(torch.unique, ints(100, N)),
    "nonzero": lambda: one(torch.nonzero, rand(N, N) > 1),
    "sum": lambda: one(torch.sum, rand(N, N)),
    "mean over rows": lambda: one(lambda x: x.mean(0), rand(N, N)),
    "argmax": lambda: one(lambda x: x.argmax(1), rand(N, N)),
    "var": lambda: one(lambda x: x.var(1), rand(N, N)),
    "norm": lambda: one(torch.linalg.vector_norm, rand(N, N)),
    "copy_": lambda: one(lambda a, b: a.copy_(b), rand(N, N), rand(N, N)),
    "zero_": lambda: one(lambda a: a.zero_(), rand(N, N)),
    "fill_": lambda: one(lambda a: a.fill_(3), rand(N, N)),
    "item": lambda: one(lambda a: a.item() and None, rand(1)),
    "cpu()": lambda: one(lambda a: a.cpu() and None if a.numel() == 1 else [a.cpu(), None][1], rand(N, N)),
    "to pinned memory": copy_to_host,
    "from pinned memory": copy_from_host,
    "to bf16": lambda: one(lambda a: a.to(bf16), rand(N, N)),
    "contiguous": lambda: one(lambda a: a.t().contiguous(), rand(N, N)),
    "permute clone": lambda: one(lambda a: a.permute(2, 0, 1).clone(), rand(16, 64, 64)),
    "flip": lambda: one(lambda a: a.flip(0), rand(N, N)),
    "roll": lambda: one(lambda a: a.roll(3, 0), rand(N, N)),
    "repeat": lambda: one(lambda a: a.repeat(2, 2), rand(512, 512)),
    "pad": lambda: one(lambda a: F.pad(a, (1, 1)), rand(N, N)),
    "max_pool2d": lambda: one(lambda x: F.max_pool2d(x, 2), rand(4, 32, 64, 64)),
    "avg_pool2d": lambda: one(lambda x: F.avg_pool2d(x, 2), rand(4, 32, 64, 64)),
    "adaptive_avg_pool2d": lambda: one(lambda x: F.adaptive_avg_pool2d(x, 4), rand(4, 32, 64, 64)),
    "interpolate": lambda: one(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), rand(4, 16, 32, 32)),
    "grid_sample": lambda: one(lambda x, g: F.grid_sample(x, g, align_corners=False), rand(2, 8, 32, 32), rand(2, 16, 16, 2)),
    "dropout": lambda: one(lambda x: F.dropout(x, 0.5, True), rand(N, N)),
    "gelu": lambda: one(F.gelu, rand(N, N)),
    "silu": lambda: one(F.silu, rand(N, N)),
    "cross_entropy": lambda: one(F.cross_entropy, rand(256, 1000), ints(1000, 256)),
    "mse_loss": lambda: one(F.mse_loss, rand(N, N), rand(N, N)),
    "cumsum": lambda: one(lambda x: x.cumsum(0), rand(N, N)),
    "histc": lambda: one(lambda x: torch.histc(x, 64), rand(N, N)),
    "bincount": lambda: one(torch.bincount, ints(100, 4096)),
    "einsum": lambda: one(lambda a, b: torch.einsum("bij,bjk->bik", a, b), rand(4, 128, 128), rand(4, 128, 128)),
    "outer": lambda: one(torch.outer, rand(N), rand(N)),
    "tril": lambda: one(torch.tril, rand(N, N)),
    "fft": lambda: one(lambda x: torch.fft.fft(x).abs(), rand(N, N)),
    "rfft2": lambda: one(lambda x: torch.fft.rfft2(x).real, rand(512, 512)),
    "linalg.inv": lambda: one(torch.linalg.inv, rand(256, 256)),
    "cholesky": lambda: one(lambda a: torch.linalg.cholesky(a @ a.t() + 256 * torch.eye(256, device="cuda")), rand(256, 256)),
    "qr": lambda: one(lambda a: torch.linalg.qr(a)[1], rand(256, 256)),
    "svdvals": lambda: one(torch.linalg.svdvals, rand(128, 128)),
    "lstm": lambda: rnn(torch.nn.LSTM),
    "gru": lambda: rnn(torch.nn.GRU),
    "foreach_add": lambda: many(lambda t: torch._foreach_add(t, 1.0)),
    "foreach_norm": lambda: many(torch._foreach_norm),
    "AdamW foreach": lambda: adamw(foreach=True),
    "AdamW fused": lambda: adamw(fused=True),
    "SGD with momentum": sgd,
    "backward of linear": lambda: backward(lambda x, w: F.linear(x, w), rand(256, 256), rand(256, 256)),
    "backward of conv2d": lambda: backward(lambda x, w: F.conv2d(x, w), rand(2, 16, 32, 32), rand(16, 16, 3, 3)),
    "torch.compile": compiled,
    "CUDA graph": graph,
    "another stream": peer_stream,
}


def addresses_of(value):
    if torch.is_tensor(value):
        return {value.untyped_storage().data_ptr()} if value.is_cuda and value.numel() > 0 else set()
    if isinstance(value, (list, tuple)):
        return set().union(*map(addresses_of, value)) if value else set()
    return set()


def main():
    torch.manual_seed(1)
    for name, make in OPERATIONS.items():
        try:
            tensors, run = make()
            torch.cuda.synchronize()
            began = time.monotonic_ns()
            result = run()
            ended = time.monotonic_ns()
            torch.cuda.synchronize()
        except Exception as error:  # of a release that cannot do it
            print(json.dumps({"operation": name, "failed": f"{type(error).__name__}: {error}"[:200]}), flush=True)
            continue
        addresses = sorted(addresses_of(tensors) | addresses_of(result))
        print(json.dumps({"operation": name, "from_ns": began, "to_ns": ended, "addresses": addresses}), flush=True)
        del tensors, run, result, make
        time.sleep(0.001)  # nothing of the next one is as old


main()
