#!/usr/bin/env bash
# Which compilers and libraries gpupeak builds with: what docs/platforms.md says, from root file systems made here by debootstrap (as root).
# usage: compilers.sh PORTABLE_FOLDER [ROOTS_FOLDER] [SUITE:COMPILER:WHAT[:CUDA_INCLUDE_FOLDER]]…
# COMPILER: gcc-13, clang-19 …, or gcc, the distribution's own. WHAT is built, and its tests are run:
#   recorder  the library that is preloaded, the simulated driver and its clients; the command that reads the logs is PORTABLE_FOLDER's
#   all       these, the command, and the collector's tests that are written with Catch2, with the distribution's libraries
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
portable=$(cd "$1" && pwd)
roots=${2:-$source/build/roots}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- bookworm:gcc:recorder bookworm:clang-{14,15,16}:recorder trixie:gcc-{12,13}:recorder trixie:gcc:all trixie:clang-{17,18,19}:recorder \
  forky:gcc:recorder forky:gcc-15:all forky:gcc:all
mkdir -p "$roots"
roots=$(cd "$roots" && pwd)
headers=$("$source/tools/find_cuda_headers.sh")
mirror=${GPUPEAK_DEBIAN_MIRROR:-http://deb.debian.org/debian}
mounted=()
finish() {
  for place in ${mounted[@]+"${mounted[@]}"}; do umount -l "$place"; done
  mounted=()
}
trap finish EXIT
# bind FROM TO [OPTION]: seen there till the row is done.
bind() {
  mkdir -p "$2"
  mount --bind "$1" "$2"
  mounted+=("$2")
  mount -o remount,bind,ro "$2"
}

failed=0
echo '| distribution | glibc | compiler | Catch2 | fmt | CUDA headers | built | warnings | tests |'
echo '|---|---|---|---|---|---|---|---|---|'
for row in "$@"; do
  IFS=: read -r suite compiler what cuda <<<"$row"
  root=$roots/build-$suite log=$roots/$suite-$compiler-$what.log
  if [ ! -e "$root/bin/sh" ]; then
    script=/usr/share/debootstrap/scripts/$suite
    if [ ! -e "$script" ]; then script=/usr/share/debootstrap/scripts/sid; fi
    debootstrap --variant=minbase --include=python3,cmake,ninja-build "$suite" "$root" "$mirror" "$script" >"$log" 2>&1 || {
      echo "| $suite | – | $compiler | – | – | – | no root: $(tail -n 1 "$log") | – | – |"
      continue
    }
  fi
  echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/99gpupeak" # testing's lists are valid for a week
  bind "$source" "$root/source"
  bind "${cuda:-$headers}" "$root/cuda"
  mount -t proc proc "$root/proc"
  mounted+=("$root/proc")
  major=${compiler#*-}
  case $compiler in
    gcc) packages=(g++) c=gcc cxx=g++ ;;
    gcc-*) packages=("g++-$major") c=gcc-$major cxx=g++-$major ;;
    clang-*) packages=("clang-$major" libstdc++-12-dev) c=clang-$major cxx=clang++-$major ;;
  esac
  options=(-DGPUPEAK_COMMAND=/portable-command/bin/gpupeak) targets=(gpupeak gpupeak_audit fake_cuda fake_nvml) tests='^e2e\.cuda\.'
  if [ "$what" = all ]; then
    packages+=(catch2) options=() tests='^(e2e\.cuda|arenas|threads)\.'
    targets+=(gpupeak_tool gpupeak_arena_tests gpupeak_thread_tests)
  fi
  if [ "$what" = recorder ]; then
    mkdir -p "$root/portable-command"
    tar -C "$root/portable-command" --strip-components 1 -xzf "$portable"/gpupeak-*-linux-x86_64.tar.gz
  fi
  said=fails
  if {
    chroot "$root" apt-get update -qq &&
      DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -qq --no-install-recommends "${packages[@]}" &&
      { [ "$what" != all ] || GPUPEAK_HAS_CUDA_HEADERS=1 chroot "$root" /source/tools/bootstrap.sh build; } &&
      { [ "$(cat "$root/build/row" 2>/dev/null)" = "$row" ] || rm -rf "$root/build"; } && mkdir -p "$root/build" && echo "$row" >"$root/build/row" &&
      chroot "$root" cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DGPUPEAK_UNITY=ON -DCMAKE_C_COMPILER=$c -DCMAKE_CXX_COMPILER=$cxx \
        -DGPUPEAK_CUDA_INCLUDE_DIR=/cuda ${options[@]+"${options[@]}"}
  } >"$log" 2>&1; then
    # The clients of the simulated driver, by their names.
    while read -r client; do targets+=("$client"); done < <(chroot "$root" ninja -C /build -t targets all | sed -nE 's/^(cuda_[a-z0-9_]+): phony$/\1/p' | sort -u)
    if chroot "$root" cmake --build /build -j "$(nproc)" --target "${targets[@]}" >>"$log" 2>&1; then said=builds; fi
  fi
  version() { chroot "$root" dpkg-query -W -f '${Version}' "$1" 2>/dev/null | sed -E 's/^[0-9]+://; s/[-+~].*//' || echo –; }
  catch2=– fmt=– result=–
  if [ "$what" = all ]; then catch2=$(version catch2) fmt=$(version libfmt-dev); fi
  if [ "$said" = builds ]; then
    # Only what was built: a test whose program is missing is none.
    chroot "$root" ctest --test-dir /build -j "$(nproc)" -R "$tests" --timeout 300 >>"$log" 2>&1 || true
    result=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+)/\1 \2/p' "$log" | tail -n 1)
    read -r bad all <<<"$result"
    result="$((all - bad)) of $all"
    [ "$bad" = 0 ] || failed=1
  fi
  [ "$said" = builds ] || failed=1
  warnings=$(grep -cE 'warning: ' "$log" || true)
  number=$(sed -nE 's/^#define CUDA_VERSION +([0-9]+).*/\1/p' "$root/cuda/cuda.h" | head -n 1)
  echo "| $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$root/etc/os-release") | $(chroot "$root" ldd --version | sed -n '1s/.* //p') |" \
    "$(chroot "$root" $cxx --version 2>/dev/null | sed -nE '1{s/^(g\+\+|Debian clang|clang)[^0-9]*(-[0-9]+ \([^)]*\) |version )?.*[^0-9.]([0-9]+\.[0-9]+\.[0-9]+).*/\1 \3/p}') |" \
    "$catch2 | $fmt | $((number / 1000)).$((number % 1000 / 10)) | $what: $said | $warnings | $result |"
  finish
done
exit $failed
