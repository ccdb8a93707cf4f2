"""Slurm on this machine for one test: a controller, one node, and munge, all of the user's own, in a folder."""
import getpass
import os
import shutil
import socket
import subprocess
import time

from common import Skipped, expect

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Slurm:
    """Slurm as a context, in which srun works with `environment`. `more`: further lines of the configuration. At the end of the context
    everything that it has started has ended."""

    def __init__(self, folder, more=""):
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        missing = [program for program in ("munged", "slurmctld", "slurmd", "srun", "sinfo") if not shutil.which(program)]
        if missing:
            raise Skipped(f"no {', '.join(missing)} (Debian: slurm-wlm, munge)")
        self.folder, self.more = folder, more
        self.environment = dict(os.environ, SLURM_CONF=os.path.join(folder, "slurm.conf"))
        self.daemons = []

    def start(self, *command):
        log = open(os.path.join(self.folder, command[0] + ".log"), "wb")
        self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment))
        log.close()

    def __enter__(self):
        try:
            for name in ("state", "spool"):
                os.mkdir(os.path.join(self.folder, name))
            os.chmod(self.folder, 0o755)  # munge requires this of the folder of its socket
            key = os.path.join(self.folder, "munge.key")
            with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
                file.write(os.urandom(1024))
            with open(self.environment["SLURM_CONF"], "w", encoding="ascii") as file:
                file.write(CONFIGURATION.format(host=socket.gethostname().split(".")[0], ports=free_ports(2), user=getpass.getuser(),
                                                folder=self.folder, cpus=os.cpu_count()) + self.more)
            of = {name: os.path.join(self.folder, f"munge.{name}") for name in ("socket", "pid", "log", "seed")}
            self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={of['socket']}", f"--pid-file={of['pid']}",
                       f"--log-file={of['log']}", f"--seed-file={of['seed']}")
            self.wait("munge's socket", lambda: os.path.exists(of["socket"]))
            self.start("slurmctld", "-D", "-i")
            self.start("slurmd", "-D")
            self.wait("a node", lambda: b"idle" in subprocess.run(["sinfo", "-h", "-o", "%T"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                                                  env=self.environment, check=False).stdout)
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self, what, is_there):
        until = time.monotonic() + 60
        while not is_there():
            gone = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            said = "".join(open(os.path.join(self.folder, name + ".log"), encoding="utf-8", errors="replace").read()[-2000:] for name in gone)
            if gone:
                raise Skipped(f"{gone[0]} does not run here: {said}")
            expect(time.monotonic() < until, f"no {what} after a minute")
            time.sleep(0.1)

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
