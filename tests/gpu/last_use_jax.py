"""Operations of JAX, each with arrays of its own: prints for each when it ran and where its arrays lie, as last_use_ops.py does, and
a digest of its results: {"operation": name, "from_ns": n, "to_ns": n, "addresses": [n], "digest": hex} a line.

The digest is of a second call, on copies: to read an array is a use of it.
"""
import hashlib
import json
import time

import jax
import jax.numpy as jnp
import numpy

N = 1024
KEYS = iter(jax.random.split(jax.random.key(1), 1000))


def rand(*shape, dtype=jnp.float32):
    return jax.random.normal(next(KEYS), shape, dtype)


def ints(high, *shape):
    return jax.random.randint(next(KEYS), shape, 0, high)


def positive(n):
    a = rand(n, n)
    return a @ a.T + n * jnp.eye(n)


def conv(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def loop(x, w):
    return jax.lax.scan(lambda carry, _: (jnp.tanh(carry @ w), carry.sum(1)), x, None, length=8)


def until(x):
    return jax.lax.while_loop(lambda state: state[0] < 5, lambda state: (state[0] + 1, state[1] * 0.5 + 1), (0, x))[1]


def loss(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x * x).mean()


def step(weights, momentum, x):
    gradients = jax.grad(loss)(weights, x)
    momentum = [0.9 * m + g for m, g in zip(momentum, gradients)]
    return [w - 0.1 * m for w, m in zip(weights, momentum)], momentum


bf16 = jnp.bfloat16
# Name: the function, how its arguments are made, and which of them are donated: their memory is that of the results.
OPERATIONS = {
    "add": (jnp.add, lambda: (rand(N, N), rand(N, N)), ()),
    "broadcast": (lambda a, b: a * b + 1, lambda: (rand(N, N), rand(N)), ()),
    "matmul": (jnp.matmul, lambda: (rand(N, N), rand(N, N)), ()),
    "matmul bf16": (jnp.matmul, lambda: (rand(N, N, dtype=bf16), rand(N, N, dtype=bf16)), ()),
    "batched matmul": (jnp.matmul, lambda: (rand(8, 256, 256), rand(8, 256, 256)), ()),
    "einsum": (lambda a, b: jnp.einsum("bij,bkj->bik", a, b), lambda: (rand(4, 128, 64), rand(4, 256, 64)), ()),
    "conv": (conv, lambda: (rand(4, 64, 64, 32), rand(3, 3, 32, 64)), ()),
    "conv bf16": (conv, lambda: (rand(4, 64, 64, 32, dtype=bf16), rand(3, 3, 32, 64, dtype=bf16)), ()),
    "gradient of conv": (jax.grad(lambda w, x: (conv(x, w) ** 2).sum()), lambda: (rand(3, 3, 32, 64), rand(4, 32, 32, 32)), ()),
    "sum": (jnp.sum, lambda: (rand(N, N),), ()),
    "mean over rows": (lambda x: x.mean(0), lambda: (rand(N, N),), ()),
    "argmax": (lambda x: x.argmax(1), lambda: (rand(N, N),), ()),
    "softmax": (jax.nn.softmax, lambda: (rand(N, N),), ()),
    "layer norm": (lambda x, g: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * g, lambda: (rand(N, N), rand(N)), ()),
    "sort": (lambda x: jnp.sort(x, axis=-1), lambda: (rand(256, N),), ()),
    "sort of one row": (jnp.sort, lambda: (rand(1 << 20),), ()),
    "argsort": (lambda x: jnp.argsort(x, axis=-1), lambda: (rand(64, N),), ()),
    "top_k": (lambda x: jax.lax.top_k(x, 10), lambda: (rand(256, N),), ()),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), lambda: (rand(256, N),), ()),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), lambda: (rand(256, N),), ()),
    "rfft2": (lambda x: jnp.fft.rfft2(x).real, lambda: (rand(512, 512),), ()),
    "gather": (lambda x, i: x[i], lambda: (rand(N, N), ints(N, 300)), ()),
    "scatter": (lambda x, i, v: x.at[i].set(v), lambda: (rand(N, N), jnp.arange(0, N, 16), rand(64, N)), ()),
    "dynamic slice": (lambda x, i: jax.lax.dynamic_slice(x, (i[0], 0), (64, N)), lambda: (rand(N, N), ints(500, 1)), ()),
    "where": (lambda c, a, b: jnp.where(c > 0, a, b), lambda: (rand(N, N), rand(N, N), rand(N, N)), ()),
    "transpose": (lambda x: x.transpose(2, 0, 1) + 0, lambda: (rand(64, 128, 32),), ()),
    "concatenate 40": (lambda *all: jnp.concatenate(all), lambda: tuple(rand(4096) for _ in range(40)), ()),
    "100 arrays": (lambda *all: [a + 1 for a in all], lambda: tuple(rand(4096) for _ in range(100)), ()),
    "random bits": (lambda x: x + jax.random.uniform(jax.random.key(3), x.shape), lambda: (rand(N, N),), ()),
    "to bf16": (lambda x: x.astype(bf16), lambda: (rand(N, N),), ()),
    "scan": (loop, lambda: (rand(256, 256), rand(256, 256)), ()),
    "while loop": (until, lambda: (rand(N, N),), ()),
    "attention": (jax.nn.dot_product_attention, lambda: tuple(rand(2, 256, 8, 64) for _ in range(3)), ()),
    "attention bf16": (jax.nn.dot_product_attention, lambda: tuple(rand(2, 256, 8, 64, dtype=bf16) for _ in range(3)), ()),
    "cholesky": (jnp.linalg.cholesky, lambda: (positive(256),), ()),
    "solve": (jnp.linalg.solve, lambda: (positive(256), rand(256, 16)), ()),
    "triangular solve": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), lambda: (positive(256), rand(256, 16)), ()),
    "eigenvalues": (jnp.linalg.eigvalsh, lambda: (positive(128),), ()),
    "qr": (lambda a: jnp.linalg.qr(a)[1], lambda: (rand(256, 128),), ()),
    "donated": (lambda x: x * 2 + 1, lambda: (rand(N, N),), (0,)),
    "training step": (step, lambda: ([rand(512, 512) for _ in range(6)], [rand(512, 512) for _ in range(6)], rand(256, 512)), ()),
    "training step, donated": (step, lambda: ([rand(512, 512) for _ in range(6)], [rand(512, 512) for _ in range(6)], rand(256, 512)), (0, 1)),
}
REPEATED = 6  # so often a function is called before it is watched: XLA makes a CUDA graph of what is called again


def addresses_of(tree):
    return {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(tree) if leaf.size > 0}


def digest(tree):
    bits = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        bits.update(numpy.asarray(leaf).tobytes())
    return bits.hexdigest()[:16]


def main():
    for name, (function, make, donated) in OPERATIONS.items():
        try:
            run = jax.jit(function, donate_argnums=donated)
            arguments = make()
            again = [jax.tree.map(jnp.copy, arguments) for _ in range(REPEATED + 1)]
            jax.block_until_ready((arguments, again))
            for copies in again[:-1]:
                jax.block_until_ready(run(*copies))
            addresses = addresses_of(arguments)
            began = time.monotonic_ns()
            result = jax.block_until_ready(run(*arguments))
            ended = time.monotonic_ns()
        except Exception as error:  # of a release that cannot do it
            print(json.dumps({"operation": name, "failed": f"{type(error).__name__}: {error}"[:200]}), flush=True)
            continue
        addresses = sorted(addresses | addresses_of(result))
        print(json.dumps({"operation": name, "from_ns": began, "to_ns": ended, "addresses": addresses,
                          "digest": digest(run(*again[-1]))}), flush=True)
        del arguments, again, copies, result
        time.sleep(0.001)  # nothing of the next one is as old


main()
