"""`gpupeak run --phase 'NAME=[FILE!]FUNCTION#'`: each call of such a Python function is a phase. From 3.12 on the interpreter tells
of them (sys.monitoring). Before there is sys.setprofile, by which values of local variables live longer, which changes the peak."""
import fnmatch
import functools
import os
import sys
from gpupeak_torch_modules import Log, Tracker, _Call, note

_PAUSES = 0x2a0  # flags of generators and coroutines, which leave the stack and come back


class Calls(Tracker):
    def __init__(self, rules):
        super().__init__(None, Log())
        self.rules = [rule.split("\t") for rule in rules.split("\n")]
        self.name_of = functools.lru_cache(None)(self._find_name)

    def _find_name(self, function, file, pauses):
        for number, (name, *globs) in enumerate(self.rules):
            if all(map(fnmatch.fnmatchcase, (function, os.path.basename(file)), globs)):
                note("calls{}".format(number))
                if not pauses:
                    return name.encode("utf-8", "replace")
                return note("say --phase: {} leaves and comes back (a generator or coroutine): its calls are no phases".format(function))

    def tell(self, frame, begins):
        """Whether the function is one of these. Of recursion the outermost call counts."""
        code, opened = frame.f_code, self._thread.open
        name = self.name_of(code.co_qualname, code.co_filename, code.co_flags & _PAUSES)
        if name is not None and begins:
            self._drop_left(self._thread, frame)
            if all(call.name != name for call in opened):
                opened.append(_Call(None, name, id(frame)))
                self._log.push(name)
        elif name is not None:
            while any(call.frame == id(frame) for call in opened):
                self._close(self._thread)
        return name is not None

    def monitor(self, monitoring):
        tool, events, frame_of = 3 if monitoring.get_tool(4) else 4, monitoring.events, sys._getframe

        def began(code, _):
            if not self.tell(frame_of(1), True):
                return monitoring.DISABLE
            monitoring.set_local_events(tool, code, events.PY_RETURN)

        monitoring.use_tool_id(tool, "gpupeak")
        monitoring.register_callback(tool, events.PY_START, began)
        for event in (events.PY_RETURN, events.PY_UNWIND):
            monitoring.register_callback(tool, event, lambda *_: self.tell(frame_of(1), False) and None)
        monitoring.set_events(tool, events.PY_START | events.PY_UNWIND)


def watch(rules):
    if not hasattr(sys, "monitoring"):
        note("old")
        return note("say --phase: Python {}.{} does not tell of calls, 3.12 and later do; gpupeak.phase(\"NAME\") in the program "
                    "counts each".format(*sys.version_info))
    calls = Calls(rules)
    os.register_at_fork(after_in_child=calls.forget)
    calls.monitor(sys.monitoring)
