#!/usr/bin/env python3
"""preload/python/gpupeak_torch_modules.py with a PyTorch of a few lines: which phases it opens and closes, and that nothing of it reaches
the program.

usage: check_torch_modules.py SOURCE CASE
"""
import os
import signal
import sys
import threading

SOURCE, CASE = sys.argv[1:3]
sys.path[:0] = [os.path.join(SOURCE, "preload/python"), os.path.join(SOURCE, "tests/e2e/fake_torch")]
import gpupeak_torch_modules as hooks  # noqa: E402

said = []


class Log:
    """Each phase as its whole path; those of other threads after its name."""
    paths = []
    depths = {}

    def push(self, name):
        stack = Log.depths.setdefault(threading.get_ident(), [])
        stack.append(name.decode())
        Log.paths.append(" > ".join(stack))

    def pop(self):
        Log.depths[threading.get_ident()].pop()


hooks.Log = Log
hooks.note = said.append
hooks.watch()
import torch  # noqa: E402
from torch.nn import Module  # noqa: E402
from torch.nn.modules import module as modules  # noqa: E402


class Leaf(Module):
    def forward(self, tensor):
        return torch.Tensor(10, (tensor,))


class Block(Module):
    def __init__(self, leaf=Leaf):
        super().__init__()
        self.first, self.second = leaf(), leaf()

    def forward(self, tensor):
        out = self.second(self.first(tensor))
        return torch.Tensor(10, (out, tensor))  # a node of its own


class Net(Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body, self.head = Leaf(), Block(), Leaf()

    def forward(self, tensor):
        return self.head(self.body(self.stem(tensor)))


def weight():
    return torch.Tensor(10, requires_grad=True)


def expect(found, wanted):
    assert found == wanted, f"\n{found}\nbut\n{wanted}"


def paths():
    """Those since the last call; none is open."""
    assert not any(Log.depths.values()), Log.depths
    found, Log.paths = Log.paths, []
    return found


FORWARD = ["Net", "Net > stem", "Net > body", "Net > body > body.first", "Net > body > body.second", "Net > head"]
BACKWARD = ["backward", "backward > head", "backward > body", "backward > body.second", "backward > body.first", "backward > stem"]


def names():
    net = Net()
    loss = torch.Tensor(1, (net(weight()),))
    expect(paths(), FORWARD)
    loss.backward()
    expect(paths(), BACKWARD)
    net(weight())
    expect(paths(), FORWARD)
    assert said == ["torch 2.9.0+fake"], said


def borders():
    """Nodes that a module makes itself between its children's are its own, those before the outermost module are nobody's."""
    class Between(Block):
        def forward(self, tensor):
            return self.second(torch.Tensor(10, (self.first(tensor),)))

    class Nobody(torch.Node):
        def run(self):
            super().run()
            Log.paths.append("then " + " > ".join(Log.depths[threading.get_ident()]))

    before = torch.Tensor(10, (weight(),))
    before.grad_fn.__class__ = Nobody
    Between()(before).backward()
    expect(paths()[3:], ["backward", "backward > second", "backward > Between", "backward > first", "then backward"])


def several():
    """Other models' names are told apart, a bare number has its class, one module in two places its first name, one in no tree its class."""
    one, other = Net(), Net()
    one.body.second = one.stem
    one(weight())
    expect(paths()[:5], ["Net", "Net > stem", "Net > body", "Net > body > body.first", "Net > body > stem"])
    other(weight())
    expect(paths()[:2], ["Net (2)", "Net (2) > Net (2).stem"])
    row = Block()
    row._modules["0"] = row._modules.pop("first")
    row.forward = lambda tensor: row._modules["0"](Leaf()(tensor))
    row(weight())
    expect(paths(), ["Block", "Block > Block.(Leaf)", "Block > Block.0"])
    for _ in range(3):
        Leaf()(weight())
    expect(paths(), ["Leaf"] * 3)
    del other
    Net()(weight())
    expect(paths()[0], "Net (2)")
    late = Net()
    late.body(weight())  # called before the model of which it is a part
    late(weight())
    expect(paths(), ["Block (2)", "Block (2) > first", "Block (2) > Block (2).second", "Net (2)", "Net (2) > Net (2).stem",
                     "Net (2) > Block (2)", "Net (2) > Block (2) > first", "Net (2) > Block (2) > Block (2).second", "Net (2) > Net (2).head"])


def failures():
    """What an exception leaves is closed: at once where PyTorch calls the hook, else when the next module is called."""
    class Bad(Leaf):
        def forward(self, tensor):
            raise ValueError("of the program")

    for always in (True, False):
        modules._after[:] = [(hook, always) for hook, _ in modules._after]
        net = Net()
        net.body.first = Bad()
        try:
            net(weight())
        except ValueError:
            pass
        else:
            raise AssertionError("the program's exception is gone")
        if always:
            expect(paths()[-1], "Net > body > body.first")
        net.body.first = Leaf()
        net(weight())
        expect(paths()[-1].split(" > ")[-1].split(".")[-1], "head")
        del net


def own_error():
    """An error of ours is said, and there are no phases from then on; what a handler of a signal raises is the program's."""
    def handler(*_):
        raise TimeoutError("of the program")

    signal.signal(signal.SIGALRM, handler)
    push = Log.push

    def interrupted(self, name):
        signal.raise_signal(signal.SIGALRM)
        push(self, name)

    Log.push = interrupted
    try:
        Net()(weight())
    except TimeoutError:
        pass
    else:
        raise AssertionError("the handler's exception is gone")
    assert not any(line.startswith("failed") for line in said), said

    def failing(_, name):
        raise OSError("ours")

    Log.push = failing
    Net()(weight()).backward()
    Net()(weight()).backward()
    expect([line for line in said if line.startswith("failed")], ["failed OSError: ours"])


def alone():
    """DataParallel is a phase with nothing within; replicas have none."""
    class DataParallel(Block):
        pass

    DataParallel()(weight())
    expect(paths(), ["DataParallel"])
    copy = Leaf()
    copy.__dict__["_is_replica"] = True
    copy(weight())
    expect(paths(), [])
    expect(said[1:], [hooks._PARALLEL] * 2)


def compiled():
    """The hooks are gone before torch.compile begins, though it be from within a module; an optimizer's own contexts change nothing."""
    from torch._dynamo import eval_frame
    eval_frame.DisableContext()

    class Lazy(Leaf):
        def forward(self, tensor):
            self.part = torch.compile(Block())
            return self.part(super().forward(tensor))

    net = Net()
    out = net(weight())
    expect(paths(), FORWARD)
    Lazy()(weight())
    net(weight())
    out.backward()
    expect(paths(), ["Lazy"])
    torch.compile(net)(weight())
    expect(paths(), [])
    expect([line[:26] for line in said[1:]], ["say torch.compile is left "])
    assert not any(type(finder).__name__ == "_Finder" for finder in sys.meta_path), sys.meta_path


def checkpoint():
    """A forward pass within the backward pass, and a backward pass that fails."""
    net = Net()
    recomputed = Leaf()

    class Again(torch.Node):
        def run(self):
            super().run()
            recomputed(weight())

    out = net.stem(weight())
    out.grad_fn.__class__ = Again
    torch._C.task = 7
    torch.Tensor(1, (out,)).backward()
    torch._C.task = -1
    expect(paths(), ["Leaf", "backward", "backward > Leaf", "backward > Leaf > Leaf (2)"])

    class Fails(torch.Node):
        def run(self):
            super().run()
            raise ValueError("of the program")

    out = net(weight())
    out.grad_fn.next_functions[0][0].__class__ = Fails
    torch._C.task = 8
    try:
        out.backward()
    except ValueError:
        pass
    torch._C.task = -1
    Log.paths = []
    net(weight())
    expect(paths()[0], "Net")


def threads():
    """Each thread has phases of its own; a child knows nothing of what is open."""
    net = Net()
    helper = threading.Thread(target=lambda: net(weight()).backward())

    class Starts(Leaf):
        def forward(self, tensor):
            helper.start()
            helper.join()
            return super().forward(tensor)

    Starts()(weight())
    expect(paths(), ["Starts", *FORWARD, *BACKWARD])

    class Forks(Leaf):
        def forward(self, tensor):
            if os.fork() == 0:
                Log.depths.clear()
                Leaf()(tensor)
                os._exit(0 if paths()[-1] == "Leaf" else 1)
            assert os.wait()[1] == 0
            return super().forward(tensor)

    Forks()(weight())


{case.__name__: case for case in (names, borders, several, failures, own_error, alone, compiled, checkpoint, threads)}[CASE]()
