"""A copy of one of perf_test's models whose batch size is a free dimension, N: for `onnxruntime_perf_test -f N:8`."""


def _number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _packed(value):
    packed = b""
    while value > 127:
        packed += bytes([value & 127 | 128])
        value >>= 7
    return packed + bytes([value])


def _fields(message):
    """(field's number, value, all of its bytes) of a message of protocol buffers."""
    at = 0
    while at < len(message):
        begin = at
        key, at = _number(message, at)
        if key & 7 == 0:
            value, at = _number(message, at)
        else:
            length, at = _number(message, at) if key & 7 == 2 else (8 if key & 7 == 1 else 4, at)
            value = message[at:at + length]
            at += length
        yield key >> 3, value, message[begin:at]


def _field(number, value):
    return _packed(number << 3 | 2) + _packed(len(value)) + value


def _changed(message, number, change):
    return b"".join(_field(number, change(value)) if tag == number else raw for tag, value, raw in _fields(message))


def _text(message, number):
    return next((value.decode() for tag, value, _ in _fields(message) if tag == number), "")


def _with_free_batch(shape):
    """TensorShapeProto: its first dimension is N."""
    dimensions = [raw for _, _, raw in _fields(shape)]
    return b"".join([_field(1, _field(2, b"N")), *dimensions[1:]])


def _graph(graph):
    constants = {_text(value, 8) for tag, value, _ in _fields(graph) if tag == 5}
    shapes = {_inputs(value)[1] for tag, value, _ in _fields(graph) if tag == 1 and _text(value, 4) == "Reshape"}
    changed = b""
    for tag, value, raw in _fields(graph):
        if tag in (11, 12) and _text(value, 1) not in constants:  # ValueInfoProto, TypeProto, its tensor, its shape
            raw = _field(tag, _changed(value, 2, lambda kind: _changed(kind, 1, lambda tensor: _changed(tensor, 2, _with_free_batch))))
        elif tag == 5 and _text(value, 8) in shapes:  # the first of a Reshape's int64s: 0 is "as it is"
            raw = _field(tag, _changed(value, 9, lambda numbers: bytes(8) + numbers[8:]))
        changed += raw
    return changed


def _inputs(node):
    return [value.decode() for tag, value, _ in _fields(node) if tag == 1]


def with_free_batch(source, target):
    with open(source, "rb") as model:
        data = model.read()
    with open(target, "wb") as model:
        model.write(_changed(data, 7, _graph))
