"""JAX for attach.py: a training in XLA's arena, which grows as it needs and gives nothing back. usage: attach_jax.py FOLDER"""
import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"  # else a process by itself computes other numbers than the next one
import jax
import jax.numpy as jnp
import numpy
from attach_steps import run

device = jax.local_devices()[0]
weights = [jax.random.normal(key, (1024, 1024)) * 0.03 for key in jax.random.split(jax.random.key(0), 3)]
batch = jax.random.normal(jax.random.key(1), (256, 1024))
large = numpy.ones(300 << 20, numpy.uint8)


def loss_of(layers, x):
    for layer in layers:
        x = jnp.tanh(x @ layer)
    return (x ** 2).mean()


@jax.jit
def train(layers, x):
    loss, slopes = jax.value_and_grad(loss_of)(layers, x)
    return loss, [layer - 0.1 * slope for layer, slope in zip(layers, slopes)]


def step():
    global weights
    loss, weights = train(weights, batch)
    return float(loss)


run(step, lambda: device.memory_stats()["pool_bytes"], lambda: device.memory_stats()["bytes_in_use"],
    lambda: [jax.block_until_ready(jax.device_put(large, device)) for _ in range(2)], list.clear)
