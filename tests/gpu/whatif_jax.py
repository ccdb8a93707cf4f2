"""Programs in JAX: whatif_jax.py chain|grad."""
import sys

import jax
import jax.numpy as jnp


@jax.jit
def chain(x):
    for _ in range(6):
        x = jnp.tanh(x @ x)
    return x.sum()


def loss(weights, x):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return (x * x).mean()


if sys.argv[1] == "chain":
    print(float(chain(jnp.ones((4096, 4096), jnp.float32))))
else:
    weights = [jnp.ones((2048, 2048)) / 2048 for _ in range(8)]
    step = jax.jit(lambda w, x: [a - 0.01 * g for a, g in zip(w, jax.grad(loss)(w, x))])
    for _ in range(3):
        weights = step(weights, jnp.ones((8192, 2048)))
    print(float(weights[0].sum()))
