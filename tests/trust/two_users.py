#!/usr/bin/env python3
"""One user works in a folder that all may write, another one puts there what should do harm.

usage: two_users.py LIBGPUPEAK GPUPEAK CASE

Each case runs in a folder with and without the sticky bit, with fs.protected_symlinks 0 and 1 where that can be set, with root and with a user
without rights as the one who works.
"""
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import Skipped, expect, for_others, run_checks

LIBRARY, GPUPEAK, PYTHON = for_others()
CASE = sys.argv[3]
OTHER = 65534  # nobody
USER = 12345
PROTECTED = "/proc/sys/fs/protected_symlinks"


class Place:
    """A folder of two users, and who works in it."""

    def __init__(self, folder, sticky, user):
        self.folder, self.user = folder, user
        self.pub = os.path.join(folder, "pub")
        self.own = os.path.join(folder, "own")
        for path, mode in ((self.pub, 0o777 | (stat.S_ISVTX if sticky else 0)), (self.own, 0o700)):
            os.mkdir(path)
            os.chown(path, user, user)
            os.chmod(path, mode)
        if sticky:
            os.chown(self.pub, 0, 0)  # as /tmp is: not the user's

    def path(self, name):
        return os.path.join(self.pub, name)

    def start(self, *command, uid=None, **more):
        uid = self.user if uid is None else uid
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
        env.update(HOME=self.own, XDG_CACHE_HOME=self.own + "/cache", GPUPEAK_SUMMARY_WITHIN="100")
        return subprocess.Popen(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command], env=env, cwd=self.pub,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def run(self, *command, uid=None):
        started = self.start(*command, uid=uid)
        out, err = started.communicate(timeout=120)
        return subprocess.CompletedProcess(command, started.returncode, out, err)

    def gpupeak(self, *arguments):
        return self.run(GPUPEAK, *arguments)

    def other(self, code, *arguments):
        """Python, as the other user."""
        done = self.run(PYTHON, "-c", code, *arguments, uid=OTHER)
        expect(done.returncode == 0, f"the other user could not: {done.stderr}")
        return done.stdout

    def victim(self):
        path = os.path.join(self.own, "victim.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious\n")
        os.chown(path, self.user, self.user)
        return path

    def log(self):
        """An innocent one, of the user's, outside of the shared folder."""
        path = os.path.join(self.own, "a.gplog")
        done = self.gpupeak("run", "-q", "-o", path, "--", "/bin/sh", "-c", ":")
        expect(done.returncode == 0 and os.path.exists(path), f"no log: {done}")
        return path


def content(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def case_planted_links(place):
    """Links at the names that temporary files once had."""
    log, victim = place.log(), place.victim()
    os.chmod(place.own, 0o755)  # the other user must be able to name it
    with open("/proc/loadavg", encoding="utf-8") as file:
        last = int(file.read().split()[-1])
    place.other("""if True:
        import os, sys
        for name in ("out.txt", "out.csv", "out.sqlite", "m.prom"):
            for pid in range(int(sys.argv[2]), int(sys.argv[2]) + 300):
                os.symlink(sys.argv[1], f"{name}.{pid}.tmp")
        os.symlink(sys.argv[1], "out.parquet.tmp"); os.symlink(sys.argv[1], "m.prom.tmp")""", victim, str(last))
    for arguments in (("report", log, "-o", place.path("out.txt")), ("export", "csv", log, "-o", place.path("out.csv")),
                      ("export", "sqlite", log, "-o", place.path("out.sqlite"))):
        done = place.gpupeak(*arguments)
        expect(content(victim) == "precious\n", f"{arguments[0:2]} wrote through another user's link")
        expect(done.returncode == 0, f"{arguments}: {done.stderr}")
        expect(not any(".tmp" in name and not os.path.islink(place.path(name)) for name in os.listdir(place.pub)), "something is left")
    serving = place.start(GPUPEAK, "serve", "--textfile", place.path("m.prom"), "--every", "1", place.own)
    while serving.poll() is None and not os.path.exists(place.path("m.prom")):
        time.sleep(0.01)
    missing = serving.poll() is not None and "prometheus" in serving.stderr.read()  # this build has no serve
    serving.terminate()
    serving.communicate()
    expect(missing or os.path.exists(place.path("m.prom")), "serve wrote no file")
    expect(content(victim) == "precious\n", "serve wrote through another user's link")


def case_link_in_place(place):
    """The very name to write is another user's link: to a file of the user's, and to nothing yet. One's own link is followed."""
    log, victim = place.log(), place.victim()
    os.chmod(place.own, 0o755)
    place.other("import os, sys; os.symlink(sys.argv[1], 'out.txt'); os.symlink(sys.argv[1] + '.new', 'new.txt')", victim)
    for name in ("out.txt", "new.txt"):
        done = place.gpupeak("report", log, "-o", place.path(name))
        expect(done.returncode != 0 and "another user" in done.stderr, f"{name}: {done}")
        expect(content(victim) == "precious\n" and not os.path.exists(victim + ".new"), f"{name}: followed")
    os.symlink(victim, os.path.join(place.own, "link"))
    os.lchown(os.path.join(place.own, "link"), place.user, place.user)
    done = place.gpupeak("report", log, "-o", os.path.join(place.own, "link"))
    expect(done.returncode == 0 and content(victim) != "precious\n", f"one's own link: {done}")
    expect(os.path.islink(os.path.join(place.own, "link")), "one's own link is gone")


def case_owner_kept(place):
    """A file that is replaced keeps its owner and its mode; where it cannot, it stays."""
    log = place.log()
    place.other("import os; open('theirs.txt', 'w').write('theirs'); os.chmod('theirs.txt', 0o640)")
    done = place.gpupeak("report", log, "-o", place.path("theirs.txt"))
    status = os.stat(place.path("theirs.txt"))
    expect((status.st_uid, stat.S_IMODE(status.st_mode)) == (OTHER, 0o640), f"owner or mode is another: {status}")
    if place.user != 0:
        expect(done.returncode != 0 and "another user" in done.stderr, f"{done}")
        with open(place.path("theirs.txt"), encoding="utf-8") as file:
            expect(file.read() == "theirs", "it was replaced")
    ours = os.path.join(place.own, "ours.txt")
    with open(ours, "w", encoding="utf-8"):
        pass
    os.chown(ours, place.user, place.user)
    for mode in (0o600, 0o644, 0o664):
        os.chmod(ours, mode)
        done = place.gpupeak("report", log, "-o", ours)
        expect(done.returncode == 0 and stat.S_IMODE(os.stat(ours).st_mode) == mode, f"mode {mode:o} was not kept: {done}")


def case_log_name(place):
    """Another user's file, log or link has the log's name: it stays, and the log gets another name."""
    copy = place.log()
    os.chmod(place.own, 0o755)
    os.chmod(copy, 0o644)
    for make in ("shutil.copy(sys.argv[1], 'x.gplog')", "open('x.gplog', 'w')", "os.symlink(sys.argv[1], 'x.gplog')"):
        place.other(f"import os, shutil, sys; {make}", copy)
        before = os.lstat(place.path("x.gplog"))
        done = place.gpupeak("run", "-o", place.path("x.gplog"), "--", "/bin/sh", "-c", ":")
        expect(done.returncode == 0 and "another user's" in done.stderr, f"{make}: {done}")
        after = os.lstat(place.path("x.gplog"))
        expect((before.st_ino, before.st_uid, before.st_size) == (after.st_ino, after.st_uid, after.st_size), f"{make}: it was changed")
        own = [name for name in os.listdir(place.pub) if os.lstat(place.path(name)).st_uid == place.user]
        expect(len(own) == 1 and own[0] in done.stderr, f"{make}: {own}: {done.stderr}")
        os.unlink(place.path("x.gplog"))
        os.unlink(place.path(own[0]))


def case_foreign_log(place):
    """A log that says that it is of this run's program, made by somebody who sees its process id alone."""
    copy = place.log()
    os.chmod(place.own, 0o755)
    os.chmod(copy, 0o644)
    started = place.start(GPUPEAK, "run", "-o", place.path("%n.%p.gplog"), "--", "/bin/sh", "-c", "echo $$; read line")
    pid = started.stdout.readline().strip()
    place.other("""if True:
        import struct, sys, time
        log = bytearray(open(sys.argv[1], "rb").read())
        pid = int(sys.argv[2])
        with open(f"/proc/{pid}/stat") as file:
            start = int(file.read().rpartition(")")[2].split()[19])
        struct.pack_into("<I", log, 72, pid)
        struct.pack_into("<Q", log, 88, start)
        struct.pack_into("<Q", log, 64, time.time_ns() + 10**9)
        struct.pack_into("<I", log, 168, pid)
        struct.pack_into("<Q", log, 4096 + 6 * 8, 77)  # device events: it is the one to report
        open("theirs.gplog", "wb").write(log)""", copy, pid)
    before = content_of_bytes(place.path("theirs.gplog"))
    _, err = started.communicate("\n", timeout=60)
    expect(started.returncode == 0 and f"sh.{pid}.gplog" in err and "theirs" not in err, f"what it says: {err}")
    expect(content_of_bytes(place.path("theirs.gplog")) == before, "it was changed")
    own = place.gpupeak("report", "--json", place.path(f"sh.{pid}.gplog"))
    expect(own.returncode == 0 and '"parts": []' in own.stdout.replace("\n", "") or "#1" not in err, f"it was joined: {err}")


def case_foreign_beside(place):
    """While a run goes on, a log beside its own says that it is of one of its processes: of somebody who may read the run's log, with all
    that stands in it."""
    started = place.start(GPUPEAK, "run", "--log-mode", "0644", "-o", place.path("x.gplog"), "--", "/bin/sh", "-c", "echo $$; read line")
    pid = started.stdout.readline().strip()
    beside = """if True:
        import struct, sys
        log = bytearray(open("x.gplog", "rb").read())
        struct.pack_into("<Q", log, 16, 0x1234)  # it is another log
        struct.pack_into("<I", log, 72, int(sys.argv[1]) + 1)
        open("beside.gplog", "wb").write(log)"""

    def processes():
        done = place.gpupeak("report", "--json", place.path("x.gplog"))
        expect(done.returncode == 0, f"{done}")
        return [process["pid"] for process in json.loads(done.stdout).get("whole_run", {"processes": []})["processes"]]

    place.other(beside, pid)
    expect(int(pid) + 1 not in processes(), "it was believed")
    os.unlink(place.path("beside.gplog"))
    place.run(PYTHON, "-c", beside, pid)
    expect(int(pid) + 1 in processes(), "the user's own is not found: the test shows nothing")
    started.communicate("\n", timeout=60)


def content_of_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def case_children_folder(place):
    """The folder of the children is there already: somebody else's, or a link of theirs. No log goes there."""
    for make in ("os.mkdir('x.children'); os.chmod('x.children', 0o777)", "os.symlink(sys.argv[1], 'x.children')"):
        place.other(f"import os, sys; {make}", place.own)
        os.chmod(place.own, 0o755)
        there = place.own if "symlink" in make else place.path("x.children")
        before = os.listdir(there)
        done = place.gpupeak("run", "--children", "all", "-o", place.path("x.gplog"), "--", "/bin/sh", "-c", "/bin/true; :")
        expect(done.returncode == 0, f"{make}: {done}")
        expect(os.listdir(there) == before, f"{make}: logs went there")
        folders = [name for name in os.listdir(place.pub) if name.startswith("x.children.")]
        expect(len(folders) == 1 and len(os.listdir(place.path(folders[0]))) == 1, f"{make}: {folders}")
        status = os.stat(place.path(folders[0]))
        expect((status.st_uid, stat.S_IMODE(status.st_mode)) == (place.user, 0o700), f"{make}: {status}")
        shutil.rmtree(place.path(folders[0]))
        os.unlink(place.path("x.gplog"))
        place.other("import os; (os.unlink if os.path.islink('x.children') else os.rmdir)('x.children')")


def case_inner_folder(place):
    """In a folder of the user's, in which others may write, the names that a writer goes through are another user's links."""
    log = place.log()
    os.chmod(place.own, 0o755)
    history = os.path.join(place.folder, "history")
    victim = os.path.join(place.own, "victim")
    for path, mode in ((history, 0o777), (victim, 0o755)):
        os.mkdir(path)
        os.chown(path, place.user, place.user)
        os.chmod(path, mode)
    day = place.gpupeak("tables", "--format", "ndjson", victim, log)
    expect(day.returncode == 0, f"{day}")
    (day,) = os.listdir(os.path.join(victim, "ranks"))
    for link in (f"ranks/{day}", "runs"):  # the first one lies in a real folder of the other user's
        place.other("""if True:
            import os, sys
            folder = os.path.dirname(sys.argv[1])
            if not os.path.isdir(folder):
                os.mkdir(folder)
                os.chmod(folder, 0o777)
            os.symlink(sys.argv[2], sys.argv[1])""", os.path.join(history, link), place.own)
        before = sorted(os.listdir(place.own))
        done = place.gpupeak("tables", "--format", "ndjson", history, log)
        expect(done.returncode != 0 and f"history/{link}: it is another user's link" in done.stderr, f"{link}: {done}")
        expect(sorted(os.listdir(place.own)) == before, f"{link}: followed: {os.listdir(place.own)}")
        place.other("import os, sys; os.unlink(sys.argv[1])", os.path.join(history, link))
    shutil.rmtree(os.path.join(history, "peaks"))
    os.symlink(victim, os.path.join(history, "peaks"))
    os.lchown(os.path.join(history, "peaks"), place.user, place.user)
    done = place.gpupeak("tables", "--format", "ndjson", history, log)
    expect(done.returncode == 0 and os.listdir(os.path.join(victim, day)), f"one's own link: {done}")
    sweep = os.path.join(place.folder, "sweep")
    os.mkdir(sweep)
    os.chown(sweep, place.user, OTHER)
    os.chmod(sweep, 0o770)
    os.mkdir(os.path.join(victim, "run.children"))
    os.chown(os.path.join(victim, "run.children"), place.user, place.user)
    place.other("import os, sys; os.symlink(sys.argv[1], os.path.join(sys.argv[2], 'n=1'))", victim, sweep)
    done = place.gpupeak("sweep", "--out", sweep, "-P", "n=1", "--", "/bin/true", "{n}")
    expect(done.returncode != 0 and "another user's link" in done.stderr, f"sweep: {done}")
    expect(os.path.isdir(os.path.join(victim, "run.children")), "sweep removed what is behind another user's link")


def case_modes(place):
    """Arguments are nobody else's business, unless somebody says so."""
    for arguments, mode, of_folder in (((), 0o600, 0o700), (("--log-mode", "0640"), 0o640, 0o750), (("--log-mode", "0644"), 0o644, 0o755)):
        out = os.path.join(place.own, "m.gplog")
        done = place.gpupeak("run", "-q", *arguments, "--children", "all", "--compress", "always", "-o", out, "--",
                             "/bin/sh", "-c", "/bin/true; :")
        found = stat.S_IMODE(os.stat(out).st_mode)
        folder = os.path.join(place.own, "m.children")
        expect(done.returncode == 0 and found == mode, f"{arguments}: the log has mode {found:o}: {done}")
        expect(stat.S_IMODE(os.stat(folder).st_mode) == of_folder, f"{arguments}: the folder has mode {os.stat(folder).st_mode:o}")
        for name in os.listdir(folder):
            expect(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == mode, f"{arguments}: of a child: another mode")
        shutil.rmtree(folder)
    wrong = place.gpupeak("run", "--log-mode", "777", "--", "/bin/true")
    expect(wrong.returncode == 2 and "0640" in wrong.stderr, f"a wrong mode: {wrong}")


def case_lock(place):
    """Whoever may read a log can lock it; nobody waits for that."""
    program = ("/bin/sh", "-c", "read line; i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); done")
    started = place.start(GPUPEAK, "run", "--log-mode", "0644", "--phase-on-output", "line", "-o", place.path("l.gplog"), "--", *program)
    while not os.path.exists(place.path("l.gplog")):
        time.sleep(0.01)
    holder = place.start(PYTHON, "-c", "import fcntl; f = open('l.gplog', 'rb'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()",
                         uid=OTHER)
    holder.stdout.readline()
    out, err = started.communicate("\n", timeout=60)  # without end before
    expect(started.returncode == 0 and "line 199" in out, f"{out[-100:]} {err}")
    again = place.gpupeak("run", "-q", "-o", place.path("l.gplog"), "--", "/bin/true")
    expect(again.returncode == 0, f"{again}")
    holder.communicate("\n")


def settings():
    """(protected_symlinks, why only one) that can be had here."""
    try:
        with open(PROTECTED, encoding="ascii") as file:
            now = file.read().strip()
        with open(PROTECTED, "w", encoding="ascii") as file:
            file.write(now)
        return now, ("0", "1")
    except OSError as error:
        print(f"fs.protected_symlinks stays as it is: {error}")
        return None, (None,)


def main():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skipped("two users need root and setpriv")
    probe = subprocess.run(["setpriv", f"--reuid={USER}", "--clear-groups", GPUPEAK, "--version"], capture_output=True, check=False)
    users = [0, USER] if probe.returncode == 0 and os.access(LIBRARY, os.R_OK) else [0]
    if len(users) == 1:
        print("only root: the build is not for other users")
    before, values = settings()
    try:
        for protected in values:
            if protected is not None:
                with open(PROTECTED, "w", encoding="ascii") as file:
                    file.write(protected)
            for sticky in (False, True):
                for user in users:
                    with tempfile.TemporaryDirectory() as folder:
                        os.chmod(folder, 0o755)
                        print(f"user {user}, sticky {sticky}, protected_symlinks {protected}")
                        globals()[f"case_{CASE}"](Place(folder, sticky, user))
    finally:
        if before is not None:
            with open(PROTECTED, "w", encoding="ascii") as file:
                file.write(before)


run_checks(main)
