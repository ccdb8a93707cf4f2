"""A llama of random weights, small enough for a test, as a GGUF file."""
import random
import struct

EMBED, HEADS, LAYERS, FEED_FORWARD, CONTEXT = 256, 4, 4, 1024, 512
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

TOKENS = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
TOKENS += [(f"<0x{i:02X}>", BYTE) for i in range(256)] + [(chr(ord("a") + i), NORMAL) for i in range(26)]
TOKENS += [("\u2581", NORMAL), ("\u2581a", NORMAL)]


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def uint(value):
    return struct.pack("<I", value)


def array(kind, values):
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def keys():
    numbers = {"llama.context_length": CONTEXT, "llama.embedding_length": EMBED, "llama.block_count": LAYERS,
               "llama.feed_forward_length": FEED_FORWARD, "llama.attention.head_count": HEADS,
               "llama.attention.head_count_kv": HEADS, "llama.rope.dimension_count": EMBED // HEADS,
               "general.file_type": 0, "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.bos_token_id": 1,
               "tokenizer.ggml.eos_token_id": 2}
    return [key("general.architecture", STRING, text("llama")), key("tokenizer.ggml.model", STRING, text("llama")),
            *(key(name, UINT32, uint(number)) for name, number in numbers.items()),
            key("llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", 1e-5)),
            key("tokenizer.ggml.tokens", ARRAY, array(STRING, [text(token) for token, _ in TOKENS])),
            key("tokenizer.ggml.scores", ARRAY, array(FLOAT32, [struct.pack("<f", -i) for i in range(len(TOKENS))])),
            key("tokenizer.ggml.token_type", ARRAY, array(INT32, [struct.pack("<i", kind) for _, kind in TOKENS]))]


def tensors():
    yield from (("token_embd", (EMBED, len(TOKENS))), ("output_norm", (EMBED,)), ("output", (EMBED, len(TOKENS))))
    for layer in range(LAYERS):
        for name, shape in (("attn_norm", (EMBED,)), ("attn_q", (EMBED, EMBED)), ("attn_k", (EMBED, EMBED)),
                            ("attn_v", (EMBED, EMBED)), ("attn_output", (EMBED, EMBED)), ("ffn_norm", (EMBED,)),
                            ("ffn_gate", (EMBED, FEED_FORWARD)), ("ffn_up", (EMBED, FEED_FORWARD)),
                            ("ffn_down", (FEED_FORWARD, EMBED))):
            yield f"blk.{layer}.{name}", shape


def write(path):
    rng = random.Random(1)
    some = struct.pack("<64f", *(rng.uniform(-0.05, 0.05) for _ in range(64)))  # each shape is a multiple of 64
    infos, data = b"", b""
    for name, shape in tensors():
        infos += text(name + ".weight") + uint(len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        infos += struct.pack("<IQ", 0, len(data))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data += some * (count // 64)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(list(tensors())), len(keys())) + b"".join(keys()) + infos
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % 32) + data)
