"""A log, its summary, and exports of it."""
import subprocess

from common import GPUPEAK, expect, report


class Log:
    def __init__(self, path):
        self.path, self.summary = path, report(path)
        self.peaks = {peak["scope"]: peak for peak in self.summary["peaks"]}
        self.devices = sorted(scope for scope in self.peaks if scope.startswith("device:") and "/" not in scope)

    def peak(self, scope):
        return self.peaks[scope]["bytes"]

    def scopes(self):
        return [scope for scope in (*self.devices, "host", "host/heap") if scope in self.peaks]

    def live(self, scope):
        metrics = self.summary["metrics"]
        if scope.startswith("device:"):
            ordinal = int(scope.split(":")[1])
            metrics = next(d["metrics"] for d in self.summary["devices"] if d["ordinal"] == ordinal)
            return metrics["device.live_bytes"]
        return metrics["host.live_bytes" if scope == "host" else "host.kind.heap.live_bytes"]

    def allocated(self, scope):
        """Bytes of all allocations; None where the summary does not say."""
        if not scope.startswith("device:"):
            return None
        ordinal = int(scope.split(":")[1])
        return next(d["metrics"]["device.alloc_bytes"] for d in self.summary["devices"] if d["ordinal"] == ordinal)

    def export(self, form, scope=None):
        out = f"{self.path}.{form}"
        command = [GPUPEAK, "export", form, self.path, "-o", out, *(["--scope", scope] if scope else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        expect(done.returncode == 0 and not done.stdout, f"{command} gives {done.returncode}: {done.stderr.decode()}")
        return out
