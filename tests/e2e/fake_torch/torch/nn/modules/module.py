"""Modules and their global hooks, as PyTorch 2 has them."""
_before, _after = [], []


class _Handle:
    def __init__(self, hooks, hook):
        self.hooks, self.hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        self.hooks.remove(self.hook)


def register_module_forward_pre_hook(hook):
    return _Handle(_before, hook)


def register_module_forward_hook(hook, *, always_call=False):
    return _Handle(_after, (hook, always_call))


class Module:
    def __init__(self):
        self.__dict__["_modules"] = {}

    def __setattr__(self, name, value):
        (self._modules if isinstance(value, Module) else self.__dict__)[name] = value

    def __getattr__(self, name):
        if name in self.__dict__["_modules"]:
            return self.__dict__["_modules"][name]
        raise AttributeError(name)

    def __call__(self, *inputs):
        for hook in tuple(_before):
            assert hook(self, inputs) is None
        result = None
        try:
            result = self.forward(*inputs)
        except Exception:
            for hook, always_call in tuple(_after):
                if always_call:
                    hook(self, inputs, result)
            raise
        for hook, _ in tuple(_after):
            assert hook(self, inputs, result) is None
        return result
