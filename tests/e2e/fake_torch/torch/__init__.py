"""As much of PyTorch as hooks of modules and of autograd's nodes see: a tensor is a piece of the heap, a node allocates its gradient."""
from .version import __version__


class Node:
    made = 0

    def __init__(self, inputs, size):
        self.metadata, self._hooks, self._size = {}, [], size
        self.next_functions = [(one.grad_fn if one.grad_fn is not None else AccumulateGrad(), 0) for one in inputs if one.requires_grad]
        Node.made += 1
        self.number = Node.made

    def register_prehook(self, hook):
        self._hooks.append(hook)

    def run(self):
        for hook in self._hooks:
            assert hook((None,)) is None
        return bytearray(self._size)


class AccumulateGrad:
    next_functions = ()


class Tensor:
    def __init__(self, size, inputs=(), requires_grad=False):
        self.bytes = bytearray(size)
        self.requires_grad = requires_grad or any(one.requires_grad for one in inputs)
        self.grad_fn = Node(inputs, size) if inputs and self.requires_grad else None

    def backward(self):
        """The nodes in the order opposite to that in which they were made. What they allocate lives until the end."""
        left, gradients = {self.grad_fn}, []
        try:
            while left:
                node = max(left, key=lambda one: one.number)
                left.remove(node)
                gradients.append(node.run())
                left |= {one for one, _ in node.next_functions if isinstance(one, Node)}
            while _Engine.callbacks:
                _Engine.callbacks.pop()()
        finally:
            _Engine.callbacks.clear()
        return gradients


class _Engine:
    callbacks = []

    @staticmethod
    def queue_callback(function):
        _Engine.callbacks.append(function)


class _C:
    task = -1

    @staticmethod
    def _current_graph_task_id():
        return _C.task


class autograd:
    class Variable:
        _execution_engine = _Engine


def compile(model):
    from ._dynamo import eval_frame
    return eval_frame.optimize(model)


from . import nn  # noqa: E402
