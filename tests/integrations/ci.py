"""The CI files, by their own steps: action.yml's with a stand-in for `gh`, GitLab's script lines with one for `curl`, Jenkins's `sh` lines.
The first run has no baseline, the second compares with it, a third needs more and fails, with the change in the comment.

usage: ci.py LIBGPUPEAK GPUPEAK action|gitlab|jenkins|installs|workflows
       ci.py LIBGPUPEAK GPUPEAK wheel WHEEL
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, Skipped, environment, expect, run_checks  # noqa: E402

CASE = sys.argv[3]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
BENCHMARK = "import os\ndata = bytearray(int(os.environ['MEBIBYTES']) << 20)\n"


def yaml():
    try:
        import yaml as module
    except ImportError:
        raise Skipped("no PyYAML here") from None
    return module


def put(folder, name, text, mode=0o644):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def bash(command, folder, env):
    done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def base_environment(folder, mebibytes):
    return {**environment(folder, False), "PATH": f"{folder}/bin:{os.path.dirname(GPUPEAK)}:{os.environ['PATH']}", "MEBIBYTES": str(mebibytes)}


def holds(condition, inputs, ok):
    """Of those that action.yml has."""
    if condition is None:
        return ok
    known = {"always()": True, "inputs.comment == 'true'": inputs["comment"] == "true", "inputs.artifact != ''": inputs["artifact"] != ""}
    return all(known[part] for part in condition.split(" && "))


def run_action(folder, mebibytes, path=None, **given):
    """As a runner does it: the inputs' defaults, each step in turn, the ones with always() also after a failure."""
    with open(os.path.join(ROOT, "action.yml"), encoding="utf-8") as file:
        action = yaml().safe_load(file)
    inputs = {name: of.get("default", "") for name, of in action["inputs"].items()}
    unknown = set(given) - set(inputs)
    expect(not unknown, f"no inputs {unknown}")
    inputs.update(given)
    ok, said, kept, outputs = True, "", None, os.path.join(folder, "outputs")
    put(folder, "outputs", "")

    def value(text):
        text = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: inputs[m[1]], str(text))
        with open(outputs, encoding="utf-8") as lines:
            of_steps = dict(line.split("=", 1) for line in lines.read().splitlines())
        text = re.sub(r"\$\{\{ steps\.\w+\.outputs\.([\w-]+) \}\}", lambda m: of_steps.get(m[1], ""), text)
        text = text.replace("${{ github.action_repository }}", "gpupeak/gpupeak").replace("${{ github.action_ref }}", "v0.1.0")
        text = text.replace("${{ github.token }}", "token").replace("${{ github.event.pull_request.number }}", "17")
        expect("${{" not in text, f"nobody fills {text}")
        return text

    for step in action["runs"]["steps"]:
        expect(("run" in step) != ("uses" in step), f"{step}")
        if not holds(step.get("if"), inputs, ok):
            continue
        if "uses" in step:
            expect(step["uses"].startswith("actions/upload-artifact@"), step["uses"])
            kept = [name for name in value(step["with"]["path"]).split() if os.path.exists(os.path.join(folder, name))]
            continue
        expect(step["shell"] == "bash" and "${{" not in step["run"], "expressions in a script are how inputs become code")
        env = {**base_environment(folder, mebibytes), "GITHUB_STEP_SUMMARY": os.path.join(folder, "summary.md"), "GITHUB_OUTPUT": outputs,
               **{name: value(text) for name, text in step.get("env", {}).items()}}
        code, text = bash(step["run"], folder, {**env, "PATH": path or env["PATH"]})
        said += text
        ok &= code == 0
    with open(outputs, encoding="utf-8") as file:
        return ok, said, kept, dict(line.split("=", 1) for line in file.read().splitlines())


def check_action(folder):
    put(folder, "bin/gh", '#!/bin/sh\nfor word; do last=$word; done\ncase "$*" in *--edit-last*) [ -e comment.md ] || exit 1 ;; esac\n'
                          'echo "$*" >> gh.txt\ncp "$5" comment.md\n', 0o755)
    put(folder, "bench.py", BENCHMARK)
    given = {"command": f"exec {sys.executable} bench.py", "max": "host.peak_bytes=100MiB\n", "baseline": "baseline.json",
             "max-increase": "host.peak_bytes=5%", "comment": "true", "run-options": "--children all"}
    put(folder, "peak-memory.md", "of the repository or the command\n")
    ok, said, kept, outputs = run_action(folder, 40, **given)
    expect(ok and "there is no baseline" in said and kept == ["gpupeak.gplog", "peak-memory.json", "peak-memory.xml"], f"{ok} {kept} {said}")
    expect(40 << 20 < int(outputs["host-peak-bytes"]) < 60 << 20 and outputs["device-peak-bytes"] in ("0", "null"), f"{outputs}")
    expect(40 << 20 < int(outputs["host-memory-peak-bytes"]) < 60 << 20, f"{outputs}")
    expect(not os.path.exists(os.path.join(folder, "comment.md")), "a comment without anything to compare")
    shutil.copy(os.path.join(folder, "peak-memory.json"), os.path.join(folder, "baseline.json"))
    ok, said, _, _ = run_action(folder, 40, **given)
    expect(ok and "pass  host.peak_bytes went from" in said, said)
    ok, said, _, _ = run_action(folder, 60, **given)
    expect(not ok and "FAIL  host.peak_bytes went from" in said, said)
    with open(os.path.join(folder, "comment.md"), encoding="utf-8") as file:
        comment = file.read()
    expect("| <code>host</code> |" in comment and "+20.0 MiB" in comment and comment.count("\n- <code>") <= 3, comment)
    with open(os.path.join(folder, "gh.txt"), encoding="utf-8") as file:
        expect(file.read().splitlines()[-1].endswith("/peak-memory.md --edit-last"), "the last comment is not edited")
    with open(os.path.join(folder, "summary.md"), encoding="utf-8") as file:
        expect("❌" in file.read(), "the step summary does not say it")
    ok, said, kept, _ = run_action(folder, 10, command="exit 3", artifact="")
    expect(not ok and kept is None, f"{ok} {kept} {said}")
    check_statements(folder)


def check_statements(folder, path=None):
    """A command of several statements: the figures are of the programs together, and the logs of all of them are kept."""
    put(folder, "bench.py", BENCHMARK)
    command = f"set -e\nexport MEBIBYTES=30\n{sys.executable} bench.py\nMEBIBYTES=70 {sys.executable} bench.py | cat\necho done\n"
    given = {"command": command, "run-options": "--children all", "max": "host.peak_bytes=100MiB\nhost.memory.peak_bytes=120MiB"}
    ok, said, kept, outputs = run_action(folder, 10, path, **given)
    expect(ok and "done\n" in said and "gpupeak.children" in kept, f"{ok} {kept} {said}")
    for name in ("host-peak-bytes", "host-memory-peak-bytes"):
        expect(70 << 20 < int(outputs[name]) < 90 << 20, f"{outputs}")
    ok, said, _, _ = run_action(folder, 10, path, **{**given, "max": "host.peak_bytes=60MiB"})
    expect(not ok and "FAIL  host.peak_bytes" in said, said)
    ok, said, _, _ = run_action(folder, 10, path, **{**given, "command": "true; false; true; exit 5"})
    expect(not ok, f"the command's exit code is lost: {said}")


def check_wheel(folder):
    """The release's wheel itself (tools/portable.sh makes it), in a fresh environment: the fourth argument."""
    put(folder, "bin/gh", f'#!/bin/sh\nfor word; do last=$word; done\ncp "{os.path.abspath(sys.argv[4])}" "$last"\n', 0o755)
    subprocess.run([sys.executable, "-m", "venv", os.path.join(folder, "env")], check=True)
    check_statements(folder, f"{folder}/env/bin:{folder}/bin:/usr/bin:/bin")
    expect(os.path.exists(os.path.join(folder, "env/bin/gpupeak")), "the wheel was not installed")


def check_installs(folder):
    """Where no gpupeak is, the action takes the wheel of its own release."""
    put(folder, "bin/gh", '#!/bin/sh\n[ "$1 $2 $3 $4 $5" = "release download v0.1.0 --repo gpupeak/gpupeak" ] || exit 1\n'
                          'case "$7" in gpupeak-\\*_*.whl) touch "$9/gpupeak-0.1.0_x.whl" ;; *) exit 1 ;; esac\n', 0o755)
    put(folder, "bin/python3", '#!/bin/sh\ncase "$*" in "-m pip install "*/gpupeak-0.1.0_x.whl) ;; *) exit 1 ;; esac\n'
                               f'ln -s "{GPUPEAK}" {folder}/bin/gpupeak\n', 0o755)
    ok, said, _, _ = run_action(folder, 1, path=f"{folder}/bin:/usr/bin:/bin", command="exit 0")
    expect(ok and os.path.islink(os.path.join(folder, "bin/gpupeak")), said)


def check_gitlab(folder):
    with open(os.path.join(ROOT, "examples/ci/gitlab-ci.yml"), encoding="utf-8") as file:
        job = yaml().safe_load(file)["peak-memory"]
    put(folder, "bin/curl", '#!/bin/sh\ncase "$*" in *" body@peak-memory.md "*"/merge_requests/7/notes") cp peak-memory.md comment.md; exit ;; '
                            '*"/raw/peak-memory.json?job=peak-memory"*) ;; *) exit 2 ;; esac\n[ -e kept.json ] && cp kept.json baseline.json\n', 0o755)
    put(folder, "my_benchmark", f"#!{sys.executable}\n{BENCHMARK}", 0o755)
    more = {"CI_JOB_TOKEN": "t", "CI_API_V4_URL": "https://gitlab.example/api/v4", "CI_PROJECT_ID": "1", "CI_DEFAULT_BRANCH": "main"}
    script = "\n".join(job["script"]).replace("device.peak_bytes", "host.peak_bytes").replace("8GiB", "100MiB")
    code, said = bash(script, folder, {**base_environment(folder, 40), **more})
    expect(code == 0 and not os.path.exists(os.path.join(folder, "baseline.json")), f"{code} {said}")
    shutil.copy(os.path.join(folder, "peak-memory.json"), os.path.join(folder, "kept.json"))
    code, said = bash(script, folder, {**base_environment(folder, 60), **more})
    expect(code == 1 and "FAIL  host.peak_bytes went from" in said, f"{code} {said}")
    comment = os.path.join(folder, "comment.md")
    expect(not os.path.exists(comment), "a comment without a merge request")
    code, said = bash(script, folder, {**base_environment(folder, 60), **more, "GPUPEAK_TOKEN": "t", "CI_MERGE_REQUEST_IID": "7"})
    with open(comment, encoding="utf-8") as file:
        expect(code == 1 and "+20.0 MiB" in file.read(), f"{code} {said}")
    for name in [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]:
        expect(os.path.exists(os.path.join(folder, name)), f"there is no {name}")


def check_jenkins(folder):
    with open(os.path.join(ROOT, "examples/ci/Jenkinsfile"), encoding="utf-8") as file:
        text = file.read()
    lines = [a or b for a, b in re.findall(r"sh (?:'''(.*?)'''|'([^'\n]+)')", text, re.S)]
    expect(len(lines) == 3, f"{lines}")
    put(folder, "my_benchmark", f"#!{sys.executable}\n{BENCHMARK}", 0o755)
    script = "\n".join(lines).replace("device.peak_bytes", "host.peak_bytes").replace("8GiB", "100MiB")
    code, said = bash(script, folder, base_environment(folder, 40))
    expect(code == 0, f"{code} {said}")
    os.mkdir(os.path.join(folder, "baseline"))
    shutil.copy(os.path.join(folder, "peak-memory.json"), os.path.join(folder, "baseline"))
    code, said = bash(script, folder, base_environment(folder, 60))
    expect(code == 1 and "FAIL  host.peak_bytes went from" in said, f"{code} {said}")


def check_workflows(folder):
    """Of this repository, as far as they can be read here: each script is bash's, and each file that it names is there."""
    workflows = os.path.join(ROOT, ".github/workflows")
    for name in os.listdir(workflows):
        with open(os.path.join(workflows, name), encoding="utf-8") as file:
            jobs = yaml().safe_load(file)["jobs"]
        for job in jobs.values():
            expect(set(job.get("needs", "").split()) <= set(jobs), f"{name}: {job.get('needs')}")
            for step in job["steps"]:
                expect(("run" in step) != ("uses" in step), f"{name}: {step}")
                script = put(folder, "step.sh", step.get("run", ""))
                code, said = bash(f"bash -n {script}", folder, os.environ)
                expect(code == 0 and "${{" not in step.get("run", ""), f"{name}: {step} {said}")
                for path in re.findall(r"(?:tools|tests|cmake|examples)/[\w./-]+", step.get("run", "")):
                    expect(os.path.exists(os.path.join(ROOT, path)), f"{name}: there is no {path}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"action": check_action, "gitlab": check_gitlab, "jenkins": check_jenkins, "installs": check_installs, "wheel": check_wheel, "workflows": check_workflows}[CASE](folder)


run_checks(main)
