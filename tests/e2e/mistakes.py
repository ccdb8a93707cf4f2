"""Mistakes that a person makes at the command line: each gets an exit code and words that help. docs/mistakes.md shows all of them with
their answers; `mistakes.py LIBGPUPEAK GPUPEAK --write` renews that page.
"""
import difflib
import os
import shutil
import subprocess
import sys
import tempfile

from common import GPUPEAK, expect, run_checks

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/mistakes.md")
# The words behind `gpupeak` · the exit code · words of the answer. LOG, OTHER: logs; TEXT: no log; FOLDER; PROGRAM.
MISTAKES = {
    "The verb": [
        ("", 2, "gpupeak report LOG"),
        ("reprot LOG", 2, "did you mean report?"),
        ("rport LOG", 2, "did you mean report"),
        ("Report LOG", 2, "did you mean report"),
        ("exprot csv LOG", 2, "did you mean export"),
        ("timline LOG", 2, "did you mean timeline?"),
        ("dif LOG OTHER", 2, "did you mean diff"),
        ("help reprot", 2, "did you mean report?"),
        ("frobnicate LOG", 2, "there is no verb 'frobnicate'"),
        ("--report LOG", 2, "`gpupeak report`"),
        ("--json LOG", 2, "`gpupeak report --json"),
        ("--host off run -- PROGRAM", 2, "`gpupeak run --host"),
        ("-v", 2, "did you mean -V?"),
        ("sort -r notes.txt", 2, "`gpupeak run -- sort -r notes.txt`"),
        ("PROGRAM --steps 3", 2, "`gpupeak run -- ./program --steps 3`"),
    ],
    "The log": [
        ("none.gplog", 3, "none.gplog"),
        ("TEXT", 3, "TEXT"),
        ("report", 2, "no log is named"),
        ("report none.gplog", 3, "none.gplog"),
        ("report bret.gplog", 3, "did you mean bert.gplog?"),
        ("report TEXT", 3, "TEXT"),
        ("attach TEXT", 3, "nor the number of a process"),
        ("report FOLDER", 2, "there are no logs in FOLDER"),
        ("report empty.gplog", 3, "is empty"),
        ("report cut.gplog", 3, "ends inside its header"),
        ("report --html LOG", 2, "--html has taken 'LOG'"),
        ("check --max LOG", 2, "--max has taken 'LOG'"),
        ("bundle --symbols LOG OTHER", 2, "one argument too many"),
        ("diff LOG", 2, "2 logs are needed"),
        ("report --within steady --by module LOG", 2, "not with --by"),
        ("report --within steady --byte-seconds LOG", 2, "--within excludes --byte-seconds"), ("export events --strict LOG", 2, "are not for it"),
        ("merge LOG LOG", 2, "given twice"),
        ("mark 0 here", 2, "no process 0"),
        ("watch LOG", 2, "nothing to watch"),
        ("watch --max device.peak=8GiB LOG", 2, "did you mean device.peak_bytes"),
        ("watch --max host.kind.heap.usable_peak_bytes@phase:load=1GiB LOG", 2, "only a metric of a GPU"),
    ],
    "Options and their values": [
        ("sweep -P batch -- PROGRAM {batch}", 2, "batch=1,2,4,8"),
        ("sweep -P batch=1,2 -- PROGRAM", 2, "each run would be the same"),
        ("sweep -P batch=8:1 -- PROGRAM {batch}", 2, "FIRST"),
        ("sweep -- PROGRAM", 2, "--parameter is required"),
        ("fit --gpu RTX4900 LOG", 2, "did you mean RTX 4090"),
        ("fit --capacity 24G LOG", 2, "24G"),
        ("fit --capacity 0 LOG", 2, "no card has 0 bytes"),
        ("fit --gpu T4 --capacity 8GiB LOG", 2, "--capacity"),
        ("report --jsn LOG", 2, "did you mean --json?"),
        ("report -json LOG", 2, "did you mean --json?"),
        ("report --htlm x.html LOG", 2, "did you mean --html?"),
        ("report --tpo 5 LOG", 2, "did you mean --top?"),
        ("report --by modul LOG", 2, "did you mean module"),
        ("report --by everything LOG", 2, "there is no 'everything'"),
        ("report --by LOG", 2, "is a file"),
        ("report --top 0 LOG", 2, "no number from 1"),
        ("report --top many LOG", 2, "no number from 1"),
        ("report --json --csv LOG", 2, "one of --json,--csv,--short,--html at most"),
        ("report --color sometimes LOG", 2, "there is no 'sometimes'"),
        ("report --rules pytroch LOG", 2, "pytroch"),
        ("report --debug-dir nowhere LOG", 2, "there is no folder 'nowhere'"),
        ("report --sysroot nowhere LOG", 2, "there is no folder 'nowhere'"),
        ("tags --tag weights LOG", 2, "NAME=FUNCTION"),
        ("tree --scope hots LOG", 2, "did you mean host"),
        ("tree --min-percent 200 LOG", 2, "--min-percent"),
        ("metrics --metric host.peak LOG", 2, "did you mean host.peak_bytes"),
        ("metrics --label commit LOG", 2, "NAME=VALUE"),
        ("rules pytroch", 2, "did you mean pytorch?"),
    ],
    "What is written": [
        ("report -o LOG LOG", 2, "name another file"),
        ("report --html LOG LOG", 2, "name another file"),
        ("report -o FOLDER LOG", 2, "is a folder"),
        ("bundle LOG -o LOG", 2, "name another file"),
        ("export masif LOG", 2, "did you mean massif"),
        ("export LOG csv", 2, "is a file; one of these stands here: massif"),
        ("export sqlite LOG", 2, "-o FILE"),
        ("export csv LOG -o /nowhere/x", 125, "cannot write /nowhere/x: No such"),
    ],
    "Limits": [
        ("check LOG", 2, "--max device.peak_bytes=8GiB"),
        ("check --max host.peak_byte=1GiB LOG", 2, "did you mean host.peak_bytes"),
        ("check --max host.peak_bytes=8G LOG", 2, "GiB"),
        ("check --max host.peak_bytes=2% LOG", 2, "--max-increase host.peak_bytes=2%"),
        ("check --max host.peak_bytes LOG", 2, "METRIC=LIMIT"),
        ("check --max host.peak_bytes@phase:mian=1GiB LOG", 2, "did you mean phase:main"),
        ("check --max-increase host.peak_bytes=2% LOG", 2, "--baseline"),
        ("check --baseline OTHER LOG", 2, "--max-increase"),
        ("check --max device.peak_bytes=8GiB LOG", 1, "the log has no device"),
    ],
    "Running a program": [
        ("run", 2, "no command is named"),
        ("run -o x.gplog", 2, "no command is named"),
        ("run -o - -- true", 2, "a log is a file"),
        ("run --hots off -- true", 2, "did you mean --host?"),
        ("run --host on -- true", 2, "there is no 'on'"),
        ("run --compress mayby -- true", 2, "auto, always, never"),
        ("run --log-max 1potato -- true", 2, "such as 1GiB, or off"),
        ("run -q -- none-such-program", 127, "none-such-program"),
        ("run -q -- /etc/passwd", 126, "/etc/passwd"),
        ("run -q -- --json", 127, "--json"),
    ],
}
# These are no mistakes, but other ways to say the same.
MEANT = [("help", "Subcommands:"), ("help report", "Who held the memory"), ("version", "gpupeak "), ("-V", "gpupeak "), ("--version", "gpupeak "),
         ("LOG", "host"), ("help nonsense", "Subcommands:"), ("report --help", "gpupeak report --by module"), ("check --help", "gpupeak check --max")]


HEAD = """# Mistakes at the command line, and what gpupeak answers
Each row is typed by a test (tests/e2e/mistakes.py), which also renews this page: `bert.gplog` and
`train.gplog` are logs of a program without a GPU, `notes.txt` is a text, `folder` a folder,
`empty.gplog` and `cut.gplog` are damaged. The exit code is 2, wrong usage, or the one in brackets.
Answers go to standard error; those of wrong usage end with the command that tells more, which is left
out here.
"""


def make_files(folder):
    for name in ("bert.gplog", "train.gplog"):
        subprocess.run([GPUPEAK, "run", "-q", "-o", os.path.join(folder, name), "--", "/bin/true"], check=True)
    with open(os.path.join(folder, "notes.txt"), "w") as file:
        file.write("these are notes, not a log\n" * 1000)
    os.mkdir(os.path.join(folder, "folder"))
    open(os.path.join(folder, "empty.gplog"), "w").close()
    with open(os.path.join(folder, "bert.gplog"), "rb") as log, open(os.path.join(folder, "cut.gplog"), "wb") as cut:
        cut.write(log.read(5000))
    shutil.copy(shutil.which("true"), os.path.join(folder, "program"))


def row(line, done, wanted):
    """For the page: the line that helps, without the parts that all such lines have."""
    lines = (done.stderr or done.stdout).splitlines()
    says = next((text for text in lines if wanted in text), lines[0]).removeprefix("gpupeak: ")
    says = says.split(" (`gpupeak ")[0].replace("|", "\\|").replace("<", "&lt;")
    return f"| `gpupeak {line}`".replace(" `gpupeak `", " `gpupeak`") + f" | {says}{'' if done.returncode == 2 else f' ({done.returncode})'} |"


def main():
    with tempfile.TemporaryDirectory() as folder:
        names = {"LOG": "bert.gplog", "OTHER": "train.gplog", "TEXT": "notes.txt", "FOLDER": "folder", "PROGRAM": "./program"}
        make_files(folder)

        def named(text):
            for name, value in names.items():
                text = text.replace(name, value)
            return text

        def run(line):
            return subprocess.run([GPUPEAK, *named(line).split()], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, check=False)

        wrong, page = [], HEAD
        for chapter, mistakes in MISTAKES.items():
            page += f"\n## {chapter}\n| typed | answer |\n|---|---|\n"
            for line, code, words in mistakes:
                done = run(line)
                wanted = words if words == "gpupeak report LOG" else named(words)
                if done.returncode != code or wanted not in done.stdout + done.stderr:
                    wrong.append(f"`gpupeak {line}`: {done.returncode} instead of {code}, or no '{wanted}': {done.stdout}{done.stderr}")
                # Each line of ours begins with "gpupeak: ", so that it can be told from the program's.
                elif not line.startswith("check") and not all(part.startswith(("gpupeak: ", " ")) for part in done.stderr.splitlines()):
                    wrong.append(f"`gpupeak {line}` says without our name: {done.stderr}")
                page += row(named(line), done, wanted) + "\n"
        for line, words in MEANT:
            done = run(line)
            if done.returncode != 0 or words not in done.stdout:
                wrong.append(f"`gpupeak {line}`: {done.returncode}, {done.stdout[:300]}{done.stderr}")
        expect(not wrong, "\n".join(wrong))
        expect(sum(map(len, MISTAKES.values())) >= 40, "fewer than forty")
        if "--write" in sys.argv:
            with open(PAGE, "w", encoding="utf-8") as file:
                file.write(page)
        with open(PAGE, encoding="utf-8") as file:
            old = file.read()
        difference = "\n".join(difflib.unified_diff(old.splitlines(), page.splitlines(), "docs/mistakes.md", "answered now", "", "", 0, ""))
        expect(old == page, f"docs/mistakes.md is not what is answered; --write renews it:\n{difference}")


run_checks(main)
