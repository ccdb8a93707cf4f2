from torch.nn.modules import module


class _Context:
    def __init__(self, function=None):
        self.function = function


class DisableContext(_Context):
    """As optimizers make it."""


class OptimizeContext(_Context):
    def __init__(self, function=None):
        assert not module._before and not module._after, "hooks: PyTorch warns of them, and looks through them"
        super().__init__(function)


def optimize(function):
    return OptimizeContext(function).function
