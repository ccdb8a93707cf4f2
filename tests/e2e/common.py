"""Functions that the end-to-end and the hazard tests share. argv: LIBGPUPEAK GPUPEAK …"""
import atexit
import functools
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

LIBRARY, GPUPEAK = sys.argv[1:3]
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/summary.schema.json")


class Failed(Exception):
    pass


class Skipped(Exception):
    """Something that the test needs is not here."""


def expect(condition, message):
    if not condition:
        raise Failed(message)


def needs(*programs):
    """Skips the test where one of these is not installed."""
    for program in programs:
        if not shutil.which(program):
            raise Skipped(f"no {program} here")


def write(folder, name, text):
    """Makes a file. Returns its path."""
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def run_checks(main):
    """Calls main() and exits: with 1 if a check failed; with 77, which means skipped to ctest, if a check cannot run."""
    try:
        main()
    except Skipped as skipped:
        print(f"skipped: {skipped}")
        sys.exit(77)
    except Failed as failure:
        print(failure)
        sys.exit(1)


def run_case(case):
    """As run_checks(), for case(folder): the folder is temporary."""
    def in_folder():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            case(folder)

    run_checks(in_folder)


def environment(folder, preload, **more):
    result = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
    if preload:
        result.update(LD_PRELOAD=LIBRARY, GPUPEAK_OUT=os.path.join(folder, "log.%n.%p.gplog"), GPUPEAK_SUMMARY="off")
        result.update(more)
    return result


def record(log, *command, options=(), code=0, **more):
    """Runs `gpupeak run -q -o LOG OPTIONS -- COMMAND` in an environment that has no variables of gpupeak except `more`. Returns the
    standard output."""
    clean = environment(os.path.dirname(log), False) | {name: str(value) for name, value in more.items()}
    done = subprocess.run([GPUPEAK, "run", "-q", "-o", log, *options, "--", *command], env=clean, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == code, f"{command} gives {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def others_can_enter(path):
    """Whether other users can go to the file: the homes of many are closed (mode 0700)."""
    folder = os.path.dirname(os.path.realpath(path))
    while os.stat(folder).st_mode & 0o001:
        if folder == "/":
            return True
        folder = os.path.dirname(folder)
    return False


@functools.lru_cache(maxsize=None)
def for_others():
    """The library, the command and Python where another user can run them: in their places, or as copies if these are closed."""
    python = sys.executable if others_can_enter(sys.executable) else "/usr/bin/python3"
    if others_can_enter(LIBRARY) and others_can_enter(GPUPEAK):
        return LIBRARY, GPUPEAK, python
    folder = tempfile.TemporaryDirectory(dir=None if others_can_enter(tempfile.gettempdir() + "/x") else "/tmp")
    atexit.register(folder.cleanup)
    os.chmod(folder.name, 0o755)
    copies = [os.path.join(folder.name, name) for name in ("preload/libgpupeak.so", "tools/gpupeak")]  # the command looks for ../preload
    for file, copy in zip((LIBRARY, GPUPEAK), copies):
        os.mkdir(os.path.dirname(copy))
        shutil.copy(file, copy)
        for path in (os.path.dirname(copy), copy):
            os.chmod(path, 0o755)
    return (*copies, python)


class Program:
    """A program that begins by printing "ready", and then does a step for each line of input, and answers with a line."""

    def __init__(self, log, command, env):
        self.log = log
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect(self.process.stdout.readline() == "ready\n", "it begins")
        self.pid = str(self.process.pid)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self, code=0, out="done\n"):
        found, err = self.process.communicate()
        expect((self.process.returncode, found, err) == (code, out, ""), f"{self.process.returncode} {found} {err}")

    def kill(self):
        self.process.kill()
        self.process.communicate()


def gpupeak(*command, **more):
    """Runs the command. Returns its exit code and all its output. `user`: as another one."""
    tool = for_others()[1] if "user" in more else GPUPEAK
    done = subprocess.run([tool, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    return done.returncode, done.stdout


def windows_of(log):
    """The log's records of the begin and the end of each window: ("begin", {…}), ("end", {…}) …"""
    found = []
    dump = subprocess.Popen([GPUPEAK, "export", "events", log], stdout=subprocess.PIPE, text=True, errors="replace")
    for line in dump.stdout:
        words = line.split()
        if line.startswith("+") and "window" in words[4:6]:
            at = words.index("window")
            found.append((words[at + 1], dict(zip(words[at + 3::2], map(int, words[at + 4::2])))))
    expect(dump.wait() == 0, "dump fails")
    return found


def warning(summary, code):
    """The text of the one warning with that code."""
    found = [w["message"] for w in summary["quality"]["warnings"] if w["code"] == code]
    expect(len(found) == 1, f"{summary['quality']['warnings']}")
    return found[0]


def expect_consistent(summary):
    expect_nothing_dropped(summary)
    for name in ("repairs", "unknown_heap_frees", "malformed_events"):
        expect(summary["quality"].get(name, 0) == 0, f"{name}: {summary['quality']}")


def logs(folder):
    return sorted(glob.glob(os.path.join(folder, "*.gplog")))


def expect_phases_add_up(summary):
    """The live bytes of the outermost phases, and those outside of phases, add up to all live bytes."""
    for side in ("device", "host"):
        live = summary["metrics"][side + ".live_bytes"]
        if live is None:
            continue
        held = sum(p["metrics"][side + ".live_at_exit_bytes"] or 0 for p in summary["phases"] if p["depth"] == 0)
        outside = summary["metrics"][side + ".outside_phases.live_bytes"]
        expect(held + outside == live, f"{side}: phases hold {held}, outside of them {outside}, live is {live}")
        for phase in summary["phases"]:
            counted = sum(i["count"] for i in phase["instances"])
            expect(counted == phase["count"], f"{phase['name']}: {counted} instances listed of {phase['count']}")


def report(log, *options):
    """The summary of a log. Checks that the holders add up to each peak, that phases add up, and that the summary follows the schema."""
    done = subprocess.run([GPUPEAK, "report", "--json", *options, log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    expect(done.returncode == 0, f"report of {log} gives {done.returncode}: {done.stderr.decode()}")
    summary = json.loads(done.stdout)
    for peak in summary["peaks"]:
        held = sum(h["bytes"] for h in peak["holders"]) + peak["other_bytes"]
        expect(held == peak["bytes"], f"holders of {peak['scope']} sum to {held}, the peak is {peak['bytes']}")
    expect_phases_add_up(summary)
    import jsonschema  # Debian: python3-jsonschema; loading it takes three times as long as all other modules here
    with open(SCHEMA) as file:
        jsonschema.validate(summary, json.load(file))
    return summary


def expect_heap_is_what_events_leave(log, summary):
    """Checks the heap bytes that are live at exit by the log's text form: at each address the last allocation counts, if it was not freed.
    Returns these bytes."""
    left, last = {}, {}
    dump = subprocess.Popen([GPUPEAK, "export", "events", log], stdout=subprocess.PIPE, text=True, errors="replace")
    for line in dump.stdout:
        if not line.startswith("+"):
            continue
        words = line.split()
        event, address = words[5:7] if len(words) > 6 else (None, None)
        if event in ("alloc", "realloc_end"):
            left[address] = left.get(address, 0) + 1
            last[address] = int(words[8])
        elif event in ("free", "realloc_begin"):
            left[address] = left.get(address, 0) - 1
    expect(dump.wait() == 0, f"dump of {log} fails")
    live = sum(last[address] for address, count in left.items() if count == 1)
    expect(live == summary["metrics"]["host.kind.heap.live_bytes"], f"the events leave {live}, {summary['metrics']}")
    return live


def expect_nothing_dropped(summary):
    dropped = summary["quality"]["dropped_events"]
    expect(dropped == 0, f"{dropped} events were dropped")
