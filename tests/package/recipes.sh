#!/usr/bin/env bash
# The recipes of examples/packaging with the files that tools/portable.sh makes, as far as that goes without conda, Spack, pacman and
# a registry of images: their own commands are run, on what they would have downloaded, and what they install records a program.
# Prints a table. The Dockerfile needs buildah and a root file system that stands for its base image (tests/package/platforms.sh).
# usage: recipes.sh PORTABLE_FOLDER [ROOT_FILE_SYSTEM]
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
recipes=$source/examples/packaging
portable=$(cd "$1" && pwd) root=${2:-}
archive=$(ls "$portable"/gpupeak-*-linux-x86_64.tar.gz)
version=${archive##*/gpupeak-} version=${version%-linux-x86_64.tar.gz}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# step RECIPE WHAT COMMAND…: a row of the table.
step() {
  local code result=works
  set +e # or bash forgets -e in what is called
  (set -e; "${@:3}") >"$work/said" 2>&1
  code=$?
  set -e
  if [ $code != 0 ]; then result="fails: $(tail -n 1 "$work/said")" failed=1; fi
  echo "| $1 | $2 | $result |"
}
# records PATH_OF_THE_COMMAND
records() {
  local code=0
  "$1" run -q -o "$work/a.gplog" -- sh -c 'exit 7' || code=$?
  [ "$code" = 7 ] && "$1" check --strict --max host.peak_bytes=100MiB "$work/a.gplog"
}

aur() {
  # shellcheck source=/dev/null
  source "$recipes/PKGBUILD"
  [ "$pkgver" = "$version" ] && [[ ${source_x86_64[0]} == */"${archive##*/}" ]]
  export CARCH=x86_64 pkgdir=$work/aur/pkg srcdir=$work/aur/src
  mkdir -p "$pkgdir" "$srcdir"
  tar -C "$srcdir" -xzf "$archive"
  cd "$srcdir"
  package
  records "$pkgdir/usr/bin/gpupeak"
}

# What conda-build does with meta.yaml: Jinja, the selectors behind #, then YAML. Writes script and tests.
conda() {
  mkdir -p "$work/conda"
  tar -C "$work/conda" -xzf "$archive"
  cd "$work/conda/gpupeak-$version-linux-x86_64"
  python3 - "$recipes/conda/meta.yaml" "$version" "$work/conda" <<'END'
import re, sys, yaml
try:
    import jinja2
    text = jinja2.Template(open(sys.argv[1]).read()).render()
except ImportError:
    text = open(sys.argv[1]).read()
    for name, value in re.findall(r'{% set (\w+) = "(.*)" %}', text):
        text = re.sub(r"{{ %s }}" % name, value, text)
    text = re.sub(r"{%.*%}", "", text)
recipe = yaml.safe_load("\n".join(line for line in text.splitlines() if "[not linux64]" not in line))
assert str(recipe["package"]["version"]) == sys.argv[2], recipe["package"]
assert recipe["source"]["url"].endswith("gpupeak-%s-linux-x86_64.tar.gz" % sys.argv[2]), recipe["source"]
open(recipe["about"]["license_file"]).close()
open(sys.argv[3] + "/script", "w").write(recipe["build"]["script"])
open(sys.argv[3] + "/tests", "w").write("\n".join(recipe["test"]["commands"]))
END
  export PREFIX=$work/conda/prefix
  mkdir -p "$PREFIX"
  bash -e "$work/conda/script"
  cd "$work/conda"
  PATH=$PREFIX/bin:$PATH bash -e tests
}

# The class with a stand-in for Spack; then cmake with its arguments, on this machine's packages.
spack() {
  mkdir -p "$work/spack/spack"
  cat >"$work/spack/spack/package.py" <<'END'
import os
from types import SimpleNamespace
def _takes(*words, **options): pass
license = version = requires = depends_on = resource = _takes
join_path = os.path.join
class CMakePackage:
    stage = SimpleNamespace(source_path=os.environ["STAGE"])
    spec = {"cuda": SimpleNamespace(prefix=SimpleNamespace(include=os.environ["CUDA"]))}
    @staticmethod
    def define(name, value):
        return "-D%s=%s" % (name, {True: "ON", False: "OFF"}.get(value, value))
END
  touch "$work/spack/spack/__init__.py"
  mkdir -p "$work/spack/stage/protozero"
  ln -s /usr/include "$work/spack/stage/protozero/include"
  mapfile -t arguments < <(STAGE=$work/spack/stage CUDA=$("$source/tools/find_cuda_headers.sh") PYTHONPATH=$work/spack python3 -c '
import importlib.util, sys
of = importlib.util.spec_from_file_location("recipe", sys.argv[1])
recipe = importlib.util.module_from_spec(of)
of.loader.exec_module(recipe)
print("\n".join(recipe.Gpupeak().cmake_args()))' "$recipes/spack/package.py")
  [ ${#arguments[@]} -ge 3 ]
  cmake -S "$source" -B "$work/spack/build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${arguments[@]}"
}

# The image of an archive, and a program recorded in a container of it.
image() {
  local base
  export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
  local buildah=(buildah --root "$work/images" --runroot "$work/run")
  base=$("${buildah[@]}" from scratch)
  "${buildah[@]}" add -q "$base" "$work/base.tar" /
  "${buildah[@]}" commit -q "$base" docker.io/library/debian:13-slim
  "${buildah[@]}" bud --pull-never -f "$recipes/Dockerfile" -t gpupeak "$portable"
  base=$("${buildah[@]}" from --pull-never gpupeak)
  "${buildah[@]}" run "$base" -- gpupeak run -q -o /tmp/a.gplog -- true
  "${buildah[@]}" run "$base" -- gpupeak check --strict --max host.peak_bytes=100MiB /tmp/a.gplog
  "${buildah[@]}" rm -a
}

echo '| recipe | what was tried | |'
echo '|---|---|---|'
step AUR 'package() on the archive; records' aur
step conda-forge 'the script and the tests of meta.yaml' conda
step Spack 'the class, with a stand-in for Spack; cmake with its arguments' spack
if [ -n "$root" ] && command -v buildah >/dev/null; then
  tar -C "$root" --one-file-system --exclude ./proc --exclude ./sys --exclude ./opt -cf "$work/base.tar" .
  step Dockerfile 'buildah without network; records in a container' image
else
  echo '| Dockerfile | no buildah, or no root file system | not tried |'
fi
exit $failed
