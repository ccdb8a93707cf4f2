"""Several machines on this one: network namespaces with a bridge between them, each with a name and an address of its own."""
import os
import shutil
import subprocess

from common import Skipped


class Hosts:
    """The machines, as a context. Everything that was started on a machine must end before the context."""

    def __init__(self, names):
        self.tag = f"gp{os.getpid()}"
        self.address = {name: f"10.77.0.{number}" for number, name in enumerate(names, 1)}

    def __enter__(self):
        if not shutil.which("ip"):
            raise Skipped("no ip (Debian: iproute2)")
        try:
            self.ip("link", "add", self.tag, "type", "bridge")
            self.ip("link", "set", self.tag, "up")
            for number, (name, address) in enumerate(self.address.items()):
                inside, link = self.space(name), f"{self.tag}v{number}"
                self.ip("netns", "add", inside)
                self.ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", inside)
                self.ip("link", "set", link, "master", self.tag, "up")
                for words in (("addr", "add", f"{address}/24", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
                    self.ip("-n", inside, *words)
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            raise Skipped("no network namespaces here (root, and Debian's iproute2)") from error
        return self

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def space(self, name):
        return f"{self.tag}-{name}"

    def within(self, name):
        """The words in front of a command that run it on this machine."""
        return ["ip", "netns", "exec", self.space(name), "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]

    def cut(self, name, off=True):
        self.ip("link", "set", f"{self.tag}v{list(self.address).index(name)}", "down" if off else "up")

    def __exit__(self, *_):
        for name in self.address:
            subprocess.run(["ip", "netns", "del", self.space(name)], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["ip", "link", "del", self.tag], stderr=subprocess.DEVNULL, check=False)
