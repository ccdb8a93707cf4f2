"""An image classifier of a few layers, small enough to be written here, as an ONNX file: Conv, Relu, GlobalAveragePool,
Flatten, Gemm, Softmax on 1 x 3 x 224 x 224."""
import random
import struct

FLOAT = 1
CLASSES, CHANNELS = 1000, 64


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name, shape, rng):
    count = 1
    for extent in shape:
        count *= extent
    data = struct.pack(f"<{count}f", *(rng.uniform(-0.1, 0.1) for _ in range(count)))
    return b"".join(number(1, extent) for extent in shape) + number(2, FLOAT) + block(8, name) + block(9, data)


def value(name, shape):
    extents = b"".join(block(1, number(1, extent)) for extent in shape)
    return block(1, name) + block(2, block(1, number(1, FLOAT) + block(2, extents)))


def integers(name, values):
    return block(1, name) + b"".join(number(8, v) for v in values) + number(20, 7)


def node(operation, inputs, output, *attributes):
    return (b"".join(block(1, name) for name in inputs) + block(2, output) + block(3, output) + block(4, operation) +
            b"".join(block(5, attribute) for attribute in attributes))


def write(path):
    rng = random.Random(1)
    nodes = [node("Conv", ["image", "kernel"], "features", integers("kernel_shape", [3, 3]), integers("strides", [2, 2])),
             node("Relu", ["features"], "active"),
             node("GlobalAveragePool", ["active"], "pooled"),
             node("Flatten", ["pooled"], "flat"),
             node("Gemm", ["flat", "weights"], "scores"),
             node("Softmax", ["scores"], "classes")]
    weights = [tensor("kernel", [CHANNELS, 3, 3, 3], rng), tensor("weights", [CHANNELS, CLASSES], rng)]
    graph = (b"".join(block(1, n) for n in nodes) + block(2, "tiny") + b"".join(block(5, w) for w in weights) +
             block(11, value("image", [1, 3, 224, 224])) + block(12, value("classes", [1, CLASSES])))
    with open(path, "wb") as file:
        file.write(number(1, 8) + block(7, graph) + block(8, number(2, 13)))
