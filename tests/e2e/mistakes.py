"""Forty mistakes that a person makes at the command line, and what each gets: an exit code and words that help."""
import os
import subprocess
import sys
import tempfile

from common import GPUPEAK, expect, run_checks

# What is typed behind `gpupeak` · the exit code · words that must be said. LOG, OTHER: logs; JSON: a summary; TEXT: no log; FOLDER.
MISTAKES = [
    ("", 2, "gpupeak report LOG"),
    ("reprot LOG", 2, "did you mean report?"),
    ("rport LOG", 2, "did you mean report"),
    ("exprot csv LOG", 2, "did you mean export"),
    ("timline LOG", 2, "did you mean timeline?"),
    ("dif LOG OTHER", 2, "did you mean diff"),
    ("frobnicate LOG", 2, "there is no verb 'frobnicate'"),
    ("none.gplog", 3, "none.gplog"),
    ("TEXT", 3, "TEXT"),
    ("report", 2, "log is required"),
    ("report none.gplog", 3, "none.gplog"),
    ("report TEXT", 3, "TEXT"),
    ("report FOLDER", 3, "FOLDER"),
    ("report --jsn LOG", 2, "did you mean --json?"),
    ("report --htlm x.html LOG", 2, "did you mean --html?"),
    ("report --tpo 5 LOG", 2, "did you mean --top?"),
    ("report --by modul LOG", 2, "did you mean module"),
    ("report --by everything LOG", 2, "there is no 'everything'"),
    ("report --top 0 LOG", 2, "--top"),
    ("report --top many LOG", 2, "--top"),
    ("report --json --csv LOG", 2, "--json"),
    ("report -o LOG LOG", 2, "name another file"),
    ("report --html LOG LOG", 2, "name another file"),
    ("report -o FOLDER LOG", 2, "is a folder"),
    ("report --rules pytroch LOG", 2, "pytroch"),
    ("report --color sometimes LOG", 2, "there is no 'sometimes'"),
    ("tree LOG OTHER", 2, "one argument too many"),
    ("tree --scope hots LOG", 2, "did you mean host"),
    ("diff LOG", 2, "B is required"),
    ("compare LOG", 2, "logs"),
    ("merge LOG LOG", 2, ""),
    ("check LOG", 2, "--max"),
    ("check --max host.peak_byte=1GiB LOG", 2, "did you mean host.peak_bytes"),
    ("check --max host.peak_bytes=8G LOG", 2, "GiB"),
    ("check --max host.peak_bytes LOG", 2, "METRIC=LIMIT"),
    ("check --max device.peak_bytes=8GiB LOG", 1, "the log has no device"),
    ("metrics --metric host.peak LOG", 2, "did you mean host.peak_bytes"),
    ("metrics --label commit LOG", 2, "NAME=VALUE"),
    ("export masif LOG", 2, "did you mean massif"),
    ("export sqlite LOG", 2, "-o FILE"),
    ("export csv LOG -o /nowhere/x", 125, "cannot write /nowhere/x: No such"),
    ("rules pytroch", 2, "did you mean pytorch?"),
    ("mark 0 here", 2, ""),
    ("run", 2, "command is required"),
    ("run --hots off -- true", 2, "did you mean --host?"),
    ("run --host on -- true", 2, "there is no 'on'"),
    ("run -q -- none-such-program", 127, "none-such-program"),
    ("run -q -- /etc/passwd", 126, "/etc/passwd"),
    ("run -- --json", 127, "--json"),
]
# What is no mistake: other ways to say it.
MEANT = [("help", "Subcommands:"), ("help report", "Who held the memory"), ("version", "gpupeak "), ("-V", "gpupeak "), ("--version", "gpupeak "),
         ("LOG", "host"), ("help nonsense", "Subcommands:"), ("report --help", "gpupeak report --by module"), ("check --help", "gpupeak check --max")]


def main():
    with tempfile.TemporaryDirectory() as folder:
        names = {"LOG": "a.gplog", "OTHER": "b.gplog", "TEXT": "notes.txt", "FOLDER": "folder"}
        for name in ("a.gplog", "b.gplog"):
            subprocess.run([GPUPEAK, "run", "-q", "-o", os.path.join(folder, name), "--", "/bin/true"], check=True)
        with open(os.path.join(folder, "notes.txt"), "w") as file:
            file.write("these are notes, not a log\n" * 1000)
        os.mkdir(os.path.join(folder, "folder"))

        def run(line):
            words = [names.get(word, word) for word in line.split()]
            return subprocess.run([GPUPEAK, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)

        wrong = []
        for line, code, words in MISTAKES:
            done = run(line)
            wanted = names.get(words, words)
            if done.returncode != code or wanted not in done.stdout + done.stderr:
                wrong.append(f"`gpupeak {line}`: {done.returncode} instead of {code}, or no '{wanted}': {done.stdout}{done.stderr}")
            # What is said is known for ours by its first word, wherever it ends up.
            elif not line.startswith("check") and not all(part.startswith(("gpupeak: ", " ")) for part in done.stderr.splitlines()):
                wrong.append(f"`gpupeak {line}` says without our name: {done.stderr}")
            elif "-v" in sys.argv:
                print(f"| `gpupeak {line}` | {code} | {(done.stderr or done.stdout).splitlines()[0]} |")
        for line, words in MEANT:
            done = run(line)
            if done.returncode != 0 or words not in done.stdout:
                wrong.append(f"`gpupeak {line}`: {done.returncode}, {done.stdout[:300]}{done.stderr}")
        expect(not wrong, "\n".join(wrong))
        expect(len(MISTAKES) >= 40, f"{len(MISTAKES)}")


run_checks(main)
