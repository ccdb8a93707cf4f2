"""The modules of a PyTorch program as phases, by their own names, without a change to the program.

Forward: global hooks around each call of a module. Backward: a hook before each node of autograd's graph says whose
node comes next. No tensor is wrapped, kept or given another hook, so autograd does what it does without us. Nothing
that goes wrong here reaches the program: it is noted, and no phases are made from then on.

What is to be said goes into the file that GPUPEAK_PYTHON_TOLD names, a line each; `gpupeak run` reads it.
"""
import atexit
import functools
import os
import signal
import sys
import threading
import time
import weakref

_MARK = "gpupeak"  # in a node's metadata: it has a hook of ours
_BACKWARD = b"backward"
_PARALLEL = "say DataParallel is left alone: modules within are not told apart"


# ---- how we come into the program -------------------------------------------------------------------------------------
class _Finder:
    """Waits until these modules are imported, and calls what they are waited for by. Is gone when all are there."""

    def __init__(self, waits):
        self._waits = waits

    def find_spec(self, name, path=None, target=None):
        then = self._waits.pop(name, None)
        if then is None:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        if not self._waits:
            sys.meta_path.remove(self)
        for finder in others:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                _try(_after_import, spec.loader, then)
                return spec
        return None


def _after_import(loader, then):
    execute = loader.exec_module

    def exec_module(module):
        del loader.exec_module
        execute(module)
        _try(then, module)

    loader.exec_module = exec_module


def _try(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        _failed(error)


def _failed(error):
    note("failed {}: {}".format(type(error).__name__, error))


def begin():
    """At Python's start."""
    note("python {}.{}".format(*sys.version_info[:2]))
    if os.environ["GPUPEAK_PYTHON_CALLS"]:
        import gpupeak_calls
        _try(gpupeak_calls.watch, os.environ["GPUPEAK_PYTHON_CALLS"])
    if os.environ["GPUPEAK_TORCH_MODULES"]:
        watch()


def watch():
    sys.meta_path.insert(0, _Finder({"torch.nn.modules.module": _set_hooks, "torch._dynamo.eval_frame": _watch_compiler}))


_noted = set()


def note(line):
    """Once each."""
    if line in _noted:
        return
    _noted.add(line)
    try:
        file = os.open(os.environ["GPUPEAK_PYTHON_TOLD"], os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except (KeyError, OSError):  # the run is over
        return
    try:
        os.write(file, (line.replace("\n", " ") + "\n").encode("utf-8", "replace"))
    except OSError:
        pass
    finally:
        os.close(file)


# ---- what the log gets ------------------------------------------------------------------------------------------------
class Log:
    """The functions of gpupeak.h."""

    def __init__(self):
        import ctypes
        process = ctypes.PyDLL(None)
        self.push = process.gpupeak_api_phase_push
        self.push.restype, self.push.argtypes = None, (ctypes.c_char_p,)
        self.pop = process.gpupeak_api_phase_pop
        self.pop.restype, self.pop.argtypes = None, ()


# ---- names ------------------------------------------------------------------------------------------------------------
class Name:
    """A module's name, and what its nodes of the graph do first in the backward pass. `alone`: nothing within has a name."""
    __slots__ = ("text", "alone", "hook")

    def __init__(self, text, tracker, alone=False):
        self.alone = alone
        self.text = text.encode("utf-8", "replace").split(b"\0")[0]

        def hook(_):
            tracker.guarded(tracker.reach, self)

        self.hook = hook


class Names:
    """Names as named_modules() gives them, of each module the first. A module without a parent has its class's name. Where
    another model has a name already, and where it is a bare number, the class comes before it."""

    def __init__(self, tracker):
        self._tracker = tracker
        self._by_id = {}  # id(module): (weak reference, Name)
        self.taken = {}  # text: weak reference

    def known(self, module):
        found = self._by_id.get(id(module))
        return found[1] if found is not None and found[0]() is module else None

    def of_outermost(self, module):
        name = self.known(module)
        if name is None:
            name = self._keep(module, self._free(type(module).__name__, module))
            self.walk(module)
        return name

    def without_tree(self, module, parent):
        """Of one that was made while its parent ran, or is in a list of the program's own."""
        return self._keep(module, "{}.({})".format(parent.text.decode("utf-8", "replace"), type(module).__name__))

    def _keep(self, module, text):
        there, alone = weakref.ref(module), type(module).__name__ == "DataParallel"
        if alone:
            note(_PARALLEL)
        name = Name(text, self._tracker, alone)
        self._by_id[id(module)] = there, name
        self.taken[text] = there
        return name

    def _is_taken(self, text, module):
        there = self.taken.get(text)
        owner = there() if there is not None else None
        return owner is not None and owner is not module

    def _free(self, text, module):
        number, found = 1, text
        while self._is_taken(found, module):
            number += 1
            found = "{} ({})".format(text, number)
        return found

    def walk(self, root):
        """Names all that are below it and have no name yet."""
        title = self.known(root).text.decode("utf-8", "replace")
        seen, left = {id(root)}, [(root, "")]
        while left:
            module, path = left.pop()
            children = module.__dict__.get("_modules") or {}
            for name, child in reversed(list(children.items())):
                if child is not None:
                    left.append((child, path + "." + name if path else name))
            if id(module) in seen:
                continue
            seen.add(id(module))
            if self.known(module) is None:
                bare = path[:1].isdigit() or self._is_taken(path, module)
                self._keep(module, self._free(title + "." + path if bare else path, module))


# ---- who runs ---------------------------------------------------------------------------------------------------------
class _Call:
    """A module's forward that is open. `frame`: the id of its Python frame, which is not kept."""
    __slots__ = ("module", "name", "frame")

    def __init__(self, module, name, frame):
        self.module, self.name, self.frame = module, name, frame


def _calls(number, frame):
    """Whether the frame with this id is a caller of the other one."""
    caller = frame.f_back
    while caller is not None and id(caller) != number:
        caller = caller.f_back
    return caller is not None


class _Backward:
    """A backward pass that this thread is in. `name`: whose node it is at; None: of no module."""
    __slots__ = ("name", "task")

    def __init__(self, task):
        self.name, self.task = None, task


class _Thread(threading.local):
    def __init__(self):
        self.open = []  # outermost first
        self.root = None  # weak reference to the outermost module
        self.is_walked = False  # its tree, since it was called


def _is_of_handler(trace):
    """Whether what handles a signal for the program has raised it."""
    codes = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # functools.partial
        if callable(handler):
            codes.add(getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None))
    while trace is not None and trace.tb_frame.f_code not in codes:
        trace = trace.tb_next
    return trace is not None


class Tracker:
    def __init__(self, torch, log):
        self._torch = torch
        self._log = log
        self._thread = _Thread()
        self._names = Names(self)
        self._outside = Name("", self)
        self._is_on = True
        self.calls = self.time_ns = 0

    def guarded(self, function, *arguments):
        """Calls it and keeps what goes wrong. What a handler of the program's raises meanwhile (of a signal) is not ours."""
        if not self._is_on:
            return
        began = time.perf_counter_ns()
        try:
            function(*arguments)
        except Exception as error:
            if _is_of_handler(error.__traceback__):
                raise
            self._is_on = False
            _failed(error)
        finally:
            self.calls += 1
            self.time_ns += time.perf_counter_ns() - began

    # -- forward
    def enter(self, module, inputs, frame):
        thread = self._thread
        opened = thread.open
        if opened and not (type(opened[-1]) is _Call and _calls(opened[-1].frame, frame)):
            self._drop_left(thread, frame)
        parent = opened[-1] if opened and type(opened[-1]) is _Call else None
        if parent is not None and parent.name.alone:
            return
        name = self._names.known(module) or self._new_name(thread, module, parent)
        if name is None:
            return
        if parent is not None:
            self._mark(inputs, parent.name)
        else:
            thread.root, thread.is_walked = weakref.ref(module), False
            self._mark(inputs, self._outside)
        self._log.push(name.text)
        opened.append(_Call(id(module), name, id(frame)))

    def _new_name(self, thread, module, parent):
        """None: it has no phase."""
        if "_is_replica" in module.__dict__:
            note(_PARALLEL)
            return None
        if parent is None:
            return self._names.of_outermost(module)
        if not thread.is_walked:
            thread.is_walked = True
            self._names.walk(thread.root())
        return self._names.known(module) or self._names.without_tree(module, parent.name)

    def leave(self, module, output):
        thread = self._thread
        opened, number = thread.open, id(module)
        for place in reversed(range(len(opened))):
            if type(opened[place]) is _Call and opened[place].module == number:
                self._mark(output, opened[place].name)
                while len(opened) > place:
                    self._close(thread)
                return

    def _drop_left(self, thread, frame):
        """Closes the calls that an exception has left: their frames are no callers of this one."""
        while thread.open:
            top = thread.open[-1]
            if isinstance(top, _Backward):
                if top.task is None or self._task() is not None:
                    return  # forward within backward: a checkpoint
            elif _calls(top.frame, frame):
                return
            self._close(thread)

    def _close(self, thread):
        last = thread.open.pop()
        if isinstance(last, _Backward) and last.name is not None:
            self._log.pop()
        self._log.pop()

    # -- backward
    def _mark(self, values, name):
        """The nodes that made these values and have no owner yet are this module's. What has made the input of an outermost
        module is no module's: of that the last nodes get a hook."""
        left = []
        self._grad_fns(values, left, 0)
        while left:
            node = left.pop()
            if node is None or type(node).__name__ == "AccumulateGrad":
                continue
            known = node.metadata
            if _MARK in known:
                continue
            known[_MARK] = True
            node.register_prehook(name.hook)
            if name is not self._outside:
                left.extend(following for following, _ in node.next_functions)

    def _grad_fns(self, value, found, depth):
        kind = type(value)
        if kind is self._torch.Tensor:
            if value.requires_grad:
                try:
                    node = value.grad_fn
                except RuntimeError:  # a view whose base has been written to
                    return
                if node is not None:
                    found.append(node)
        elif depth < 4:
            parts = ()
            if kind is list:
                parts = value
            elif isinstance(value, tuple):  # also one with names
                parts = tuple.__iter__(value)
            elif isinstance(value, dict):  # and a model's output of Hugging Face's, which is one
                parts = dict.values(value)
            elif "__dataclass_fields__" in kind.__dict__:
                parts = list(value.__dict__.values())
            for one in parts:
                self._grad_fns(one, found, depth + 1)

    def _task(self):
        """The backward pass that this thread is in; None: in none, or not known."""
        current = getattr(self._torch._C, "_current_graph_task_id", None)
        task = current() if current is not None else -1
        return None if task == -1 else task

    def reach(self, name):
        """In the backward pass: a node of this module is next."""
        thread = self._thread
        top = thread.open[-1] if thread.open else None
        if not isinstance(top, _Backward):
            self._log.push(_BACKWARD)
            top = _Backward(self._task())
            thread.open.append(top)
            self._at_end(thread, top)
        wanted = None if name is self._outside else name
        if top.name is wanted:
            return
        if top.name is not None:
            self._log.pop()
            top.name = None
        if wanted is not None:
            self._log.push(wanted.text)
            top.name = wanted

    def _at_end(self, thread, backward):
        """Autograd calls it when the pass is over, in the thread that ends it."""
        def ended():
            while backward in thread.open:
                self._close(thread)

        self._torch.autograd.Variable._execution_engine.queue_callback(lambda: self.guarded(ended))

    # -- the process
    def forget(self):
        """In a forked child: what is open is its parent's."""
        self._thread.open = []
        self.calls = self.time_ns = 0

    def end(self):
        """No phases from here on. Those that other threads have open stay so."""
        self._is_on = False
        thread = self._thread
        while thread.open:
            self._close(thread)

    def tell(self):
        note("cost {} {} {}".format(len(self._names.taken), self.calls, self.time_ns))


# ---- the hooks --------------------------------------------------------------------------------------------------------
_hooks = []  # (tracker, what takes the hooks away again)


def _set_hooks(modules):
    from importlib import import_module
    version = str(import_module("torch.version").__version__)  # torch itself is not imported to its end yet
    tracker = Tracker(sys.modules["torch"], Log())
    guarded, enter, leave, frame_of = tracker.guarded, tracker.enter, tracker.leave, sys._getframe

    def before(module, inputs):
        guarded(enter, module, inputs, frame_of(1))

    def after(module, inputs, output):
        guarded(leave, module, output)

    handles = [modules.register_module_forward_pre_hook(before)]
    try:
        handles.append(modules.register_module_forward_hook(after, always_call=True))
    except TypeError:  # PyTorch 1
        handles.append(modules.register_module_forward_hook(after))
    _hooks.append((tracker, handles))
    os.register_at_fork(after_in_child=tracker.forget)
    atexit.register(tracker.tell)
    note("torch " + version)


def _end():
    """torch.compile would look through the hooks, and warns of them: they go before it begins."""
    note("say torch.compile is left alone: no modules by name from its first call on")
    while _hooks:
        tracker, handles = _hooks.pop()
        tracker.end()
        for handle in handles:
            handle.remove()


def _watch_compiler(module):
    """Whatever compiles (torch.compile, Module.compile(), torch.export) makes such a context first."""
    context = getattr(module, "OptimizeContext", None)
    if context is None:
        return _end()
    begin = context.__init__

    @functools.wraps(begin)
    def __init__(self, *arguments, **named):
        context.__init__ = begin
        _try(_end)
        begin(self, *arguments, **named)

    context.__init__ = __init__
