"""The cases of whatif.sh: whatif.py GPUPEAK FOLDER ONNXRUNTIME_FOLDER [CASE…]"""
import json
import os
import subprocess
import sys

from installed import has, nvidia_folders

HERE = os.path.dirname(os.path.abspath(__file__))
GPUPEAK, OUT, ORT, *WANTED = sys.argv[1:]
MIB = 1 << 20
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
NO_SHARE = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
HALF = ["--scale", "*keep_activations*=0.5", "--scale", "*make_input*=0.5"]


def cases():
    """(case, command, environment, options of whatif, and of the changed run: what is added to its command, and to its environment)"""
    cuda = os.path.join(OUT, "whatif_cuda")
    for mode in ("plain", "async"):
        yield f"cuda_{mode}_half", [cuda, mode], {}, ["--scale", "*make_activations*=0.5"], [], {"CHANGE": "half"}
        yield f"cuda_{mode}_without", [cuda, mode], {}, ["--without", "*make_scratch*"], [], {"CHANGE": "without"}
    if has("torch"):
        torch = [sys.executable, os.path.join(HERE, "whatif_torch.py")]
        for model in ("conv", "mlp", "lstm", "transformer", "resnet", "unet"):
            yield f"torch_{model}_expandable", [*torch, model], {}, ["--expandable-segments"], [], EXPANDABLE
            yield f"torch_{model}_without", [*torch, model], {}, ["--without", "*make_extra*"], [], {"CHANGE": "without"}
        for model in ("conv", "lstm"):
            yield (f"torch_{model}_both", [*torch, model], {}, ["--expandable-segments", "--without", "*make_extra*"], [],
                   {"CHANGE": "without", **EXPANDABLE})
        yield "torch_kept_half", [*torch, "kept"], {}, HALF, [], {"CHANGE": "half"}
        yield "torch_kept_half_expandable", [*torch, "kept"], {}, [*HALF, "--expandable-segments"], [], {"CHANGE": "half", **EXPANDABLE}
        yield "torch_kept_without", [*torch, "kept"], {}, ["--without", "*make_extra*"], [], {"CHANGE": "without"}
    if has("jax"):
        for program in ("chain", "grad"):
            yield (f"jax_{program}", [sys.executable, os.path.join(HERE, "whatif_jax.py"), program], {}, ["--no-preallocation"], [], NO_SHARE)
    if ORT:
        libraries = {"LD_LIBRARY_PATH": ":".join([ORT, *nvidia_folders()])}
        for model in ("vgg19", "resnet50", "densenet121"):
            command = [f"{ORT}/onnxruntime_perf_test", "-e", "cuda", "-r", "10", "-I", "-m", "times"]
            yield (f"ort_{model}", [*command, f"{ORT}/models/light_{model}.onnx"], libraries, ["--arena", "same-as-requested"],
                   ["-i", "arena_extend_strategy|kSameAsRequested"], libraries)


def record(log, command, environment):
    """The peak of its GPU, in bytes."""
    subprocess.run([GPUPEAK, "run", "-q", "--host", "off", "-o", log, "--", *command], env={**os.environ, **environment}, check=True,
                   capture_output=True, text=True, timeout=200)
    report = subprocess.run([GPUPEAK, "report", "--json", log], check=True, capture_output=True, text=True, timeout=200)
    return json.loads(report.stdout)["metrics"]["device.peak_bytes"]


def asked(log, options):
    answer = subprocess.run([GPUPEAK, "whatif", "--json", *options, log], capture_output=True, text=True, timeout=200)
    assert answer.returncode == 0, answer.stderr
    return next(one for one in json.loads(answer.stdout)["sums"] if one["scope"].startswith("device"))


def said(device):
    least, most = device["least_bytes"] / MIB, device["most_bytes"]
    if device["exact"]:
        return f"{least:,.1f}, exact"
    return f"{least:,.1f} at least" if most is None else f"{least:,.1f} to {most / MIB:,.1f}"


def holds(device, truth):
    most = device["most_bytes"]
    return device["least_bytes"] <= truth and (most is None or truth <= most)


def changed_command(command, added):
    return [*command[:-1], *added, command[-1]] if added else command


def main():
    recorded, wrong, exact, all_cases = {}, 0, 0, 0
    print("| case | recorded, MiB | whatif says | when really changed | |\n|---|---|---|---|---|")
    for case, command, environment, options, added, changes in cases():
        if WANTED and case not in WANTED:
            continue
        all_cases += 1
        try:
            key = " ".join(command)
            log = os.path.join(OUT, f"{len(recorded)}.gplog") if key not in recorded else recorded[key][0]
            if key not in recorded:
                recorded[key] = (log, record(log, command, environment))
            device = asked(log, options)
            truth = record(os.path.join(OUT, f"{case}.changed.gplog"), changed_command(command, added), {**environment, **changes})
        except (subprocess.SubprocessError, AssertionError, KeyError) as error:
            wrong += 1
            print(f"| {case} | | | | **FAILED**: {error} {getattr(error, 'stderr', '') or ''} |", flush=True)
            continue
        ok = holds(device, truth)
        wrong += not ok
        exact += ok and device["exact"]
        print(f"| {case} | {recorded[key][1] / MIB:,.1f} | {said(device)} | {truth / MIB:,.1f} | {'ok' if ok else '**WRONG**'} |", flush=True)
    print(f"\n{all_cases} cases: {exact} exact, {all_cases - exact - wrong} within their bounds, {wrong} wrong")
    sys.exit(wrong > 0)


main()
