"""A small convolutional network trained through Flax, with JAX's own pool: three steps of the whole program jitted."""
import jax
import jax.numpy as jnp
from flax import linen as nn


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (64, 128, 256):
            x = nn.relu(nn.Conv(width, (3, 3), strides=(2, 2))(x))
        return nn.Dense(1000)(x.mean(axis=(1, 2)))


network = Network()
images, labels = jnp.zeros((64, 224, 224, 3)), jnp.zeros((64,), jnp.int32)
parameters = network.init(jax.random.key(0), images)
momentum = jax.tree.map(jnp.zeros_like, parameters)


def loss(parameters):
    return -jax.nn.log_softmax(network.apply(parameters, images))[jnp.arange(labels.size), labels].mean()


@jax.jit
def train_step(parameters, momentum):
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, jax.grad(loss)(parameters))
    return jax.tree.map(lambda p, m: p - 1e-3 * m, parameters, momentum), momentum


for _ in range(3):
    parameters, momentum = train_step(parameters, momentum)
jax.block_until_ready(parameters)
print({k: v for k, v in jax.local_devices()[0].memory_stats().items() if "bytes" in k})
