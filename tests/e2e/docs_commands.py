"""Every command that README and docs print is run as printed: on small logs of a benchmark on the simulated driver, with stand-ins
for programs that are not here (python3 train.py, mpirun, docker …). A log, JSON or rule file that a command reads and none before
it has written is put there first, under the name that is printed. What is written in capitals (LOG, FILE, PROGRAM) is a name as
any other.

usage: docs_commands.py LIBGPUPEAK GPUPEAK CUDA_BENCHMARK FOLDER_OF_THE_DRIVER [-v]
"""
import collections
import concurrent.futures
import glob
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile

from common import GPUPEAK, LIBRARY, expect, run_checks

try:
    import yaml
except ImportError:
    yaml = None
try:
    import tomllib
except ImportError:
    tomllib = None  # Python below 3.11

BENCHMARK, DRIVER = sys.argv[3:5]
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
PAGES = ["README.md", *sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "docs/**/*.md"), recursive=True)),
         "examples/adoption.md"]
PAGES.remove("docs/mistakes.md")  # e2e.mistakes types those

# These commands are not run, since they install, build, test or clean for minutes. Their scripts must be there and be scripts; the rest
# of such a line is not looked at.
NOT_RUN = ("ctest ", "tools/demo.sh", "tools/bootstrap.sh", "tests/run.sh", "tests/soak.sh", "tests/gpu/run.sh", "cmake", "cpack", "sudo")
# A block of commands begins with one of these words; any other block is a program's output.
COMMANDS = (*NOT_RUN, "gpupeak", "LD_PRELOAD", "mpirun", "torchrun", "srun", "docker", "export")
# In place of programs that start ranks or containers: starts the command that follows the options.
LAUNCHER = """#!/bin/bash
ranks=1
while [ $# -gt 0 ]; do
  case $1 in
    -n|--nproc-per-node) ranks=$2; shift 2 ;;
    --gpus|-v) shift 2 ;;
    -e) export "DOCS_$2"; shift 2 ;;
    -*) shift ;;
    run|IMAGE) shift ;;
    *) break ;;
  esac
done
for ((rank = 0; rank < ranks; ++rank)); do RANK=$rank "$@" || exit; done
"""
# In place of a viewer: accepts any file.
VIEWER = "#!/bin/sh\n[ -t 0 ] || cat >/dev/null\n"
LAUNCHERS = ("mpirun", "torchrun", "srun", "docker")
VIEWERS = ("ms_print", "heaptrack_print", "pprof", "flamegraph.pl", "speedscope", "scp", "ssh", "jq", "sqlite3", "curl")
MEASURED = ("onnxruntime_perf_test", "trtexec", "llama-bench", "python3", "PROGRAM", "cuda_benchmark", "my_benchmark", "bench", "layers",
            "script.sh", "app", "vllm", "own")
FOLDERS = ("logs", "runs", "last-week")  # of logs
OUTPUTS = ("-o", "--out", "--html", "--svg", "--png", "--junit", "--markdown", ">", ">>")
LOGS = 3  # recorded logs, which are copied
LOG_ENDINGS = (".gplog", ".gpz", ".gpbundle")

Command = collections.namedtuple("Command", "page line text")


def join_lines(lines):
    """Joins the lines of each command: after a backslash or an open quote at the end of a line the command goes on."""
    text = lines.pop(0)
    while lines:
        if text.endswith("\\"):
            text = text[:-1] + lines.pop(0).strip()
            continue
        try:
            shlex.split(text, comments=True)
            break
        except ValueError:
            text += "\n" + re.sub(r"^ *\.\.\.> ?", "", lines.pop(0))
    return text


def commands_of_block(page, number, lines):
    printed = any(line.startswith("$ ") for line in lines)
    first = lines[0].split() if lines else []
    if not printed and not (first and first[0].split("=")[0] in COMMANDS):
        return
    rest = list(lines)
    while rest:
        at = number + len(lines) - len(rest)
        if printed and not rest[0].startswith("$ "):
            rest.pop(0)
            continue
        if printed:
            rest[0] = rest[0][2:]
        while not printed and len(rest) > 1 and rest[1].startswith("      "):
            rest[0] += " " + rest.pop(1).strip()
        text = join_lines(rest)
        if text.strip():
            yield Command(page, at, text)


def commands_of(page, text):
    """The commands of fenced blocks without a language, and of `gpupeak …` in the prose between these."""
    block, language, begin = None, "", 0
    prose = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if block is None:
                block, language, begin = [], line[3:].strip(), number + 1
            else:
                if language in ("", "sh", "bash"):
                    yield from commands_of_block(page, begin, block)
                block = None
        elif block is not None:
            block.append(line)
        else:
            prose.append((number, line))
    joined, at = "", []
    for number, line in prose:
        at += [number] * (len(line) + 1)
        joined += line + " "
    for found in re.finditer(r"`((?:[A-Z_]+=\S+ |mpirun -n \d+ )*gpupeak [^`]+)`", joined):
        words = found[1].replace("\\|", "|")
        if not re.search(r"…|\.\.\. |^\S+ run$", words):
            yield Command(page, at[found.start()], words)


def help_of(verb):
    return subprocess.run([GPUPEAK, *verb, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout


VERBS = set(re.findall(r"^  (\S+)  ", help_of([]).split("Subcommands:")[1].split("Examples:")[0], re.M))


def check_synopsis(command):
    """A line with brackets is grammar: its verbs and options must exist."""
    words = re.findall(r"[\w|-]+", command.text.split("#")[0])
    if words[1] not in VERBS:
        return f"there is no verb {words[1]}"
    known = help_of([words[1]])
    wrong = [w for w in re.findall(r"(?<![\w-])--[\w-]+", command.text) if not re.search(rf"{w}(?![\w-])", known)]
    return f"{words[1]} has no {wrong}" if wrong else None


class Place:
    """A folder to run a page's commands in."""

    def __init__(self, folder, models):
        self.folder, self.models, self.logs = folder, models, 0
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPEAK_", "LD_"))}
        self.env.update(LD_LIBRARY_PATH=DRIVER, HOME=folder, XDG_CACHE_HOME=folder, LIBGPUPEAK=LIBRARY, GITHUB_STEP_SUMMARY="summary.md",
                        PATH=f"{folder}/bin:{os.path.dirname(GPUPEAK)}:{os.environ['PATH']}")
        self.env.pop("DEBUGINFOD_URLS", None)
        for sub in ("bin", "FOLDER", *FOLDERS):
            os.mkdir(os.path.join(folder, sub))
        for name in MEASURED:
            os.symlink(BENCHMARK, os.path.join(folder, "bin", name))
            os.symlink(BENCHMARK, os.path.join(folder, name))
        for names, text in ((LAUNCHERS, LAUNCHER), (VIEWERS, VIEWER)):
            for name in names:
                path = os.path.join(folder, "bin", name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(path, 0o755)

    def put(self, name):
        """A file that the command reads, made as its name says."""
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        source = {".toml": "rules.toml", ".json": "baseline.json", ".gpz": "bundle", ".gpbundle": "bundle"}.get(os.path.splitext(name)[1])
        if source is None:
            source = f"{self.logs % LOGS}.gplog"  # a different log each time, since merge takes each process once
            self.logs += 1
        shutil.copy(os.path.join(self.models, source), path)

    def prepare(self, words):
        reads = words[0] != "rules" and words[0] != "run"
        for i, word in enumerate(words[1:], 1):
            if word in ("|", ";", "&&"):
                break
            if "*" in word and word.endswith(".gplog"):
                for rank in ("0", "1"):
                    self.put(word.replace("*", rank))
            part = re.fullmatch(r"(.+\.gplog)#1", word)
            if part:
                shutil.copy(os.path.join(self.models, "part.gplog"), os.path.join(self.folder, part[1]))
                continue
            takes = words[i - 1]
            if reads and word in FOLDERS and not os.listdir(os.path.join(self.folder, word)):
                self.put(f"{word}/of_a_rank.gplog")
            if takes in OUTPUTS or word.startswith("-") or os.path.exists(os.path.join(self.folder, word)):
                continue
            is_log = word.endswith(LOG_ENDINGS) or re.fullmatch(r"[A-Z]+(\.\.\.)?", word)
            if reads and is_log and (words[0] != "mark" or i == 1) and takes not in ("--sysroot", "--debug-dir"):
                self.put(word)
            elif word.endswith((".toml", ".json")) and takes in ("--rules", "--pool-rules", "--baseline"):
                self.put(word)
            elif reads and word.endswith(".json") and takes not in OUTPUTS:
                self.put(word)

    def run(self, text):
        return subprocess.run(["bash", "-c", text], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120, check=False)


def spelt_out(text):
    """Replaces placeholders in a printed command."""
    text = re.sub(r"[^\s=]*/libgpupeak\.so", "$LIBGPUPEAK", text)
    text = re.sub(r"\bGPUPEAK_OUT=/logs/", "GPUPEAK_OUT=logs/", text)
    text = text.replace("https://…", "http://127.0.0.1:9")
    text = re.sub(r"\bgpupeak help VERB\b", "gpupeak help report", text)
    text = re.sub(r"\bgpupeak VERB\b", "gpupeak report", text)
    text = re.sub(r"\bexport FORMAT\b", "export csv", text)
    text = re.sub(r"\bgpupeak serve (?:--textfile \S+ )?", "gpupeak serve --textfile - ", text)  # this form ends
    text = re.sub(r"\bgpupeak view (?!--once)", "gpupeak view --once ", text)  # there is no terminal here
    return text


def check(command, place, verbose=False):
    """Runs a command. Returns what is wrong; None: nothing."""
    if command.text.startswith(NOT_RUN):
        script = command.text.split()[0]
        if "/" in script and not os.access(os.path.join(ROOT, script), os.X_OK):
            return f"there is no {script}"
        return None
    if re.search(r"\[-|\[FORMAT|\[FOLDER|\.\.\.\]|\|JSON", command.text):
        return check_synopsis(command)  # with all lines of the grammar
    text = spelt_out(command.text)
    if text.startswith(("export ", "echo $?", "cd ")):
        return None
    words = shlex.split(re.sub(r"(?<=\S)#", "\\\\#", text), comments=True)  # within a word # begins no comment
    if "gpupeak" in words:
        place.prepare(words[words.index("gpupeak") + 1:] or ["--help"])
    if re.search(r"\bgpupeak (mark|attach|detach)\b.* PID\b", text):
        return while_it_runs(text, place)
    if re.fullmatch(r"gpupeak \w+", text) and words[1] in VERBS - {"rules"}:
        return None  # the verb's name alone, in prose
    if re.fullmatch(r"gpupeak run( --?[\w-]+( \w+)?)*", text):
        text += " -- PROGRAM"  # prose names the verb with its options alone
    elif words[0] == "gpupeak" and len(words) > 1 and words[1] in VERBS and words[1] not in ("run", "rules", "mcp") and not has_file(words[2:]):
        text += " a.gplog"
        place.put("a.gplog")
    done = place.run(text)
    said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    if verbose:
        print(f"{command.page}:{command.line}: {done.returncode}  {text}")
    # Whether a limit is kept, or a run fits, depends on the log: exit code 1 is not an error.
    wanted = (0, 1) if re.search(r"gpupeak (check|watch|fit)", text) else (0,)
    if "built without the page" in said or re.search(r"gpupeak: (--[\w -]+: the log has no|'\S+' matches no block)", said):
        return None
    if done.returncode not in wanted or re.search(r"--help` tells more|command not found|No such file", said):
        return f"exit code {done.returncode}: {said[-600:]}"
    return None


def has_file(words):
    return any(w in FOLDERS or w.endswith((*LOG_ENDINGS, ".json", ".zst")) or re.fullmatch(r"[A-Z]+(\.\.\.)?", w) for w in words)


def while_it_runs(text, place):
    """A process that allocates now and then. It runs dormant, or without the library for `attach` and `detach`."""
    log = os.path.join(place.folder, "running.gplog")
    program = "import time\nprint(flush=True)\nwhile True:\n    bytearray(100000)\n    time.sleep(0.01)"
    dormant = {"LD_PRELOAD": LIBRARY, "GPUPEAK_OUT": log, "GPUPEAK_SUMMARY": "off", "GPUPEAK_HOST": "counters"}
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                               env={**place.env, **({} if "tach" in text else dormant)})
    running.stdout.readline()
    if "gpupeak detach" in text:
        place.run(f"gpupeak attach -o {log} {running.pid}")
    done = place.run(text.replace("PID", str(running.pid)))
    running.kill()
    running.communicate()
    return None if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr.decode()}"


def make_models(folder):
    env = {**os.environ, "LD_LIBRARY_PATH": DRIVER}
    for number in reversed(range(LOGS)):
        log = os.path.join(folder, f"{number}.gplog")
        subprocess.run([GPUPEAK, "run", "-q", "--last-use", "-o", log, "--", BENCHMARK], env=env, stdout=subprocess.DEVNULL, check=True)
    # A wrapper that takes more than a second, so that its log stays as a part of the program's log.
    subprocess.run([GPUPEAK, "run", "-q", "-o", os.path.join(folder, "part.gplog"), "--", "sh", "-c", f"sleep 1.2; exec {BENCHMARK}"],
                   env=env, stdout=subprocess.DEVNULL, check=True)
    for arguments, name in ((("report", "--json", "--top", "1000", log), "baseline.json"), (("rules", "onnxruntime"), "rules.toml")):
        with open(os.path.join(folder, name), "wb") as file:
            subprocess.run([GPUPEAK, *arguments], stdout=file, check=True)
    # The other logs have no pool.
    llamacpp = subprocess.run([GPUPEAK, "rules", "llamacpp"], stdout=subprocess.PIPE, check=True).stdout
    with open(os.path.join(folder, "rules.toml"), "ab") as file:
        file.write(b"\n" + llamacpp[llamacpp.index(b"[[pool]]"):])
    subprocess.run([GPUPEAK, "bundle", "-q", log, "-o", os.path.join(folder, "bundle")], check=True)


def check_page(page, text, models, verbose=False):
    wrong, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, models)
        for command in commands_of(page, text):
            count += 1
            trouble = check(command, place, verbose)
            if trouble:
                wrong.append(f"{page}:{command.line}: `{command.text}`: {trouble}")
    return wrong, count


def check_links(page, text):
    """Files and chapters to which a page links exist."""
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)):
        path, _, chapter = target.partition("#")
        if "://" in target:
            continue
        place = os.path.join(ROOT, os.path.dirname(page), path) if path else os.path.join(ROOT, page)
        if not os.path.exists(place):
            wrong.append(f"{page}: {target} is not there")
        elif chapter and not re.search(rf"^#+ {chapter}$", open(place, encoding="utf-8").read(), re.M | re.I):
            wrong.append(f"{page}: {target}: no such chapter")
    for name in re.findall(r"(?<![\w/])(docs/[\w/-]+\.md)", text):
        if not os.path.exists(os.path.join(ROOT, name)):
            wrong.append(f"{page}: {name} is not there")
    return wrong


def check_source():
    """Pages of docs that comments and messages name exist."""
    wrong = []
    for room in ("preload", "collector", "tools", "rules", "tests", "examples"):
        for path in glob.glob(os.path.join(ROOT, room, "**/*.*"), recursive=True):
            if not path.endswith((".h", ".cc", ".c", ".py", ".sh", ".toml", ".cmake")):
                continue
            with open(path, encoding="utf-8") as file:
                for name in re.findall(r"(?<![\w/])docs/[\w/-]+\.(?:md|json)", file.read()):
                    if not os.path.exists(os.path.join(ROOT, name)) and "planted" not in name:
                        wrong.append(f"{os.path.relpath(path, ROOT)} names {name}, which is not there")
    return wrong


def check_files(page, text):
    """Text that a page gives for a file can be read as such a file."""
    wrong = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.S | re.M):
        try:
            if language == "yaml" and yaml is not None:
                yaml.safe_load(block)
            elif language == "toml" and tomllib is not None:
                tomllib.loads(block)
        except Exception as error:
            wrong.append(f"{page}: a block of {language}: {error}")
    return wrong


def check_chapters():
    """A chapter for a hurry begins with what to paste, and is no longer than a page."""
    wrong = []
    for path in glob.glob(os.path.join(ROOT, "docs/hurry/*.md")):
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        name = os.path.basename(path)
        if len(lines) > 60:
            wrong.append(f"{name} has {len(lines)} lines")
        if name != "README.md" and "```" not in lines[1:4]:
            wrong.append(f"{name} does not begin with a command")
    return wrong


def main():
    wrong, count = check_chapters() + check_source(), 0
    with tempfile.TemporaryDirectory() as models:
        make_models(models)
        # First the errors that must be found: a misspelt option and verb, in a block, in prose and in grammar; a program that is not here.
        for text in ("```\n$ gpupeak report --jsno LOG\n```\n", "```\ngpupeak exprot csv LOG\n```\n", "see `gpupeak tags --rulse none LOG`\n",
                     "```\ngpupeak diff [--by WHAT] [--tpo N] A B\n```\n", "```\ngpupeak run -o x.gplog -- no_such_program\n```\n",
                     "```\ngpupeak run --hots off -- PROGRAM\n```\n"):
            expect(check_page("planted", text, models)[0], f"this passes and must not: {text}")
        expect(check_links("docs/planted.md", "see [this](nowhere.md) and [that](usage.md#nothing)"), "broken links pass")
        texts = {}
        for page in PAGES:
            with open(os.path.join(ROOT, page), encoding="utf-8") as file:
                texts[page] = file.read()
            wrong += check_links(page, texts[page]) + check_files(page, texts[page])
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            checked = pool.map(lambda page: check_page(page, texts[page], models, "-v" in sys.argv), PAGES)
            for troubles, commands in checked:
                wrong += troubles
                count += commands
    print(f"{count} commands on {len(PAGES)} pages")
    expect(not wrong, "\n".join(wrong))
    expect(count > 150, "most commands were not found")


run_checks(main)
