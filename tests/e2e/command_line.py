"""The command's own help is the truth: the completion offers exactly its verbs, options and values; the manual page and
the documentation name them all.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from common import GPUPEAK, environment, expect, record, run_checks

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
COMPLETION, MANUAL = os.path.join(ROOT, "tools/completion/gpupeak.bash"), os.path.join(ROOT, "docs/gpupeak.1")
OF_MANY_VERBS = {"--help", "--sysroot", "--debug-dir", "--confidential"}  # described once
OF_RULES = {"--rules", "--phase", "--tag"}


def help_of(*verb):
    return subprocess.run([GPUPEAK, *verb, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout


def verbs():
    text = help_of().split("Subcommands:")[1].split("Examples:")[0]
    return re.findall(r"^  (\S+)  ", text, re.M)


def options(verb):
    """Long names of options, each with the list of its values; None if there is no list."""
    found = {}
    for line in help_of(verb).splitlines():
        entry = re.match(r" +(?:-\w,)?(--[\w-]+)(?: \S*?\{([^}]*)\})?", line)
        if entry:
            found[entry[1]] = entry[2].split(",") if entry[2] else None
    return found


def completed(*words):
    """The completions that are offered for the last word."""
    script = f"source {COMPLETION}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); compopt() {{ :; }}; _gpupeak; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script, "bash", GPUPEAK, *words], stdout=subprocess.PIPE, text=True, check=True,
                          cwd="/proc/self/fdinfo")  # no files to offer
    return {word for word in done.stdout.splitlines() if word}


def same(found, wanted, what):
    expect(found == wanted, f"{what}: missing {sorted(wanted - found)}, too many {sorted(found - wanted)}")


def check_completion():
    same(completed("") - {"--help", "--version", "help", "version"}, set(verbs()), "completion of verbs")
    for verb in verbs():
        known = options(verb)
        same(completed(verb, "--") - {"--"}, set(known), f"completion of {verb}")
        for option, values in known.items():
            if values:
                offered = completed(verb, option, "")
                expect(set(values) <= offered, f"completion of {verb} {option}: {offered}, not {values}")
    formats = re.findall(r"^  ((?:\S+, )*\S+)  ?", help_of("export").split("Formats:")[1], re.M)
    same(completed("export", ""), set(", ".join(formats).split(", ")), "completion of formats")
    sets = subprocess.run([GPUPEAK, "rules"], stdout=subprocess.PIPE, text=True, check=True).stdout
    sets = set(re.findall(r"^([\w-]+) ", sets, re.M))
    same(completed("rules", ""), sets, "completion of rule sets")
    expect(sets <= completed("report", "--rules", ""), "completion of --rules")


def check_names_of_arguments():
    """No argument has an option's name: from CLI11 2.4 on each verb would end with an abort."""
    for verb in verbs():
        text = help_of(verb)
        arguments = re.findall(r"^  (\S+)", text.split("Positionals:")[1].split("\n\n")[0], re.M) if "Positionals:" in text else []
        both = {f"--{name}" for name in arguments} & set(options(verb))
        expect(not both, f"{verb}: an argument has the name of {both}")


def check_logs_without_extglob():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.gplog", "b.gpz", "c.zst", "d.txt"):
            open(os.path.join(folder, name), "w").close()
        script = f"shopt -u extglob; source {COMPLETION}; COMP_WORDS=({GPUPEAK} report ''); COMP_CWORD=2; _gpupeak; echo \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True, check=True, cwd=folder)
        same(set(done.stdout.split()), {"a.gplog", "b.gpz", "c.zst"}, "logs that are offered")


def check_made_completions():
    """The completions for zsh and fish are made from the help: nothing is missing in them, and the shells can read them."""
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([sys.executable, os.path.join(os.path.dirname(COMPLETION), "make.py"), made, GPUPEAK], check=True)
        text = {}
        for shell, name in (("fish", "gpupeak.fish"), ("zsh", "_gpupeak")):
            with open(os.path.join(made, name), encoding="utf-8") as file:
                text[shell] = file.read()
            if shutil.which(shell):
                done = subprocess.run([shell, "-n", os.path.join(made, name)], stderr=subprocess.PIPE, check=False)
                expect(done.returncode == 0 and not done.stderr, f"{shell} cannot read {name}: {done.stderr.decode()}")
        for verb in verbs():
            in_zsh = text["zsh"].split(f"\n    {verb})\n")[1].split("\n      ;;")[0]
            in_fish = "\n".join(line for line in text["fish"].splitlines() if f"'__fish_seen_subcommand_from {verb}'" in line)
            for option, values in options(verb).items():
                expect(re.search(rf"{option}(?![\w-])", in_zsh), f"zsh: no {option} of {verb}")
                expect(re.search(rf"-l {option[2:]}(?![\w-])", in_fish), f"fish: no {option} of {verb}")
                for shell, part in (("zsh", in_zsh), ("fish", in_fish)):
                    expect(not values or " ".join(values) in part, f"{shell}: no values of {verb} {option}")


def check_manual():
    with open(MANUAL, encoding="utf-8") as file:
        text = re.sub(r"\\f[BIR]", "", file.read()).replace("\\-", "-")
    synopsis = text.split(".SH SYNOPSIS")[1].split(".SH DESCRIPTION")[0]
    blocks = {}
    for block in synopsis.split(".br\n"):
        heading = re.search(r"gpupeak ([\w|]+)", block)
        if heading:
            blocks.update((verb, block) for verb in heading[1].split("|"))
    same(set(blocks), set(verbs()), "verbs of the manual")
    for verb in verbs():
        known = set(options(verb))
        for option in known - OF_MANY_VERBS - (OF_RULES if "RULES" in blocks[verb] else set()):
            letter = re.search(rf"-(\w),{option}\b", help_of(verb))
            named = re.search(rf"{option}(?![\w-])", blocks[verb]) or (letter and re.search(rf"-{letter[1]}\b", blocks[verb]))
            expect(named, f"the manual's synopsis of {verb} has no {option}")
        for option in known - {"--help"}:
            expect(re.search(rf"{option}(?![\w-])", text), f"the manual does not name {option} of {verb}")
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", MANUAL], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              check=False, env={**os.environ, "MANWIDTH": "100"})
        expect(not done.stderr, f"man: {done.stderr.decode()}")


def check_documentation():
    examples, text = "", ""
    for path in glob.glob(os.path.join(ROOT, "docs/*.md")):
        with open(path, encoding="utf-8") as file:
            page = file.read()
        text += page
        examples += "".join(re.findall(r"^```\w*\n(.*?)^```", page, re.S | re.M))
    for verb in verbs():
        expect(re.search(rf"^\$ gpupeak {verb}\b", examples, re.M), f"no page in docs has an example of {verb} with what it prints")
    schemas = set()
    for path in glob.glob(os.path.join(ROOT, "collector/**/*.cc"), recursive=True):
        with open(path, encoding="utf-8") as file:
            schemas |= set(re.findall(r"gpupeak\.\w+/\d", file.read()))
    for schema in schemas - {"gpupeak.page/1"}:  # only the page uses it
        expect(schema in text, f"docs do not describe {schema}")


def check_small_stacks():
    """`ulimit -s 64`: the same report, and a program under `run` has the limit that it would have alone."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "x.gplog")
        record(log, "sort", "/etc/passwd")
        limited = ["bash", "-c", 'ulimit -s 64; exec "$@"', "bash", GPUPEAK]
        wanted, found = (subprocess.run([*command, "report", log], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
                         for command in ([GPUPEAK], limited))
        expect(found.returncode == 0 and found.stdout == wanted.stdout, f"{found.returncode}: {found.stdout}")
        run = subprocess.run([*limited, "run", "-o", log, "--", "sh", "-c", "ulimit -s"], env=environment(folder, False), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        expect(run.returncode == 0 and run.stdout == "64\n" and "complete" in run.stderr, f"{run.returncode}: {run.stdout}{run.stderr}")


def check_little_memory():
    """Where gpupeak itself gets too little memory it says so, not the name of an exception."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "x.gplog")
        record(log, "sort", "/etc/passwd")
        said = set()
        for kibibytes in range(16000, 60000, 4000):  # too little for its libraries, then for its work, then enough
            done = subprocess.run(["bash", "-c", f'ulimit -v {kibibytes}; exec "$@"', "bash", GPUPEAK, "report", log],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode == 125:
                said.add(done.stderr)
        expect(said == {"gpupeak: not enough memory for gpupeak itself; a container or ulimit -v may limit it\n"}, f"{said}")


def check_report_of_ended_process():
    """`report PID` finds the log below the current folder by the process that wrote it, whatever its name."""
    for log in ("gpupeak.sh.%p.gplog", "other.gplog"):
        with tempfile.TemporaryDirectory() as folder:
            pid = record(os.path.join(folder, log), "sh", "-c", "echo $$").strip()
            done = subprocess.run([GPUPEAK, "report", pid], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, check=False)
            expect(done.returncode == 0 and done.stdout.startswith("GPUPEAK"), f"{log}: {done.stdout}")


def main():
    check_names_of_arguments()
    check_small_stacks()
    check_little_memory()
    check_report_of_ended_process()
    check_completion()
    check_logs_without_extglob()
    check_made_completions()
    check_manual()
    check_documentation()


run_checks(main)
