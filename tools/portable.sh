#!/usr/bin/env bash
# gpupeak for every Linux with glibc 2.17 or newer, on x86-64 or, cross-compiled, aarch64: the command with everything inside,
# the library that is preloaded, and beside it libunwind of Debian 11, which asks for no newer glibc. As archive, wheel for pip,
# .deb and, where rpmbuild is, .rpm; what debuggers need is in an archive of its own. The same source gives the same
# files.
# usage: portable.sh [--aarch64] [OUT_FOLDER] [-DNAME=VALUE…]   (GPUPEAK_DEBIAN_MIRROR: where Debian 11's packages are)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/build/portable options=()
processor=x86_64 debian=amd64 tools= its_root= build=build/static
sha256=(a8cc1181a479375aeb603cfe748cc19dc3a700a47ffdcb09fa025fe02b0c73bf 1c79a02415ca5ee7234ac60502fb33ee94fa70b02d1c329a6a14178f8329c435)
for argument in "$@"; do
  case $argument in
    -D*) options+=("$argument") ;;
    --aarch64)
      processor=aarch64 debian=arm64 tools=aarch64-linux-gnu- its_root=$root/build/aarch64/root build=build/aarch64/static
      sha256=(2a93283482cd89b6e6d3e1ee16497c911d6aacdc7414b9d24ca6851e221cf66c d865bba41952c707b3fa3ae8cab4d4bd337ee92991d2aead66c925bf7cc48846)
      options+=(--toolchain cmake/aarch64.cmake "-DGPUPEAK_AARCH64_ROOT=$its_root")
      ;;
    *) out=$argument ;;
  esac
done
"$root/tools/bootstrap.sh" build page portable
if [ -n "$its_root" ]; then "$root/tools/aarch64_root.sh" "$its_root"; fi
mkdir -p "$root/build" "$out"
out=$(cd "$out" && pwd)
cd "$root"
work=$(mktemp -d)
export SOURCE_DATE_EPOCH=315532800 # 1980: all files say so; rpm takes 0 for none
trap 'rm -rf "$work"' EXIT

# apt-get on lists of its own: those of this machine stay as they are.
old_apt() {
  apt-get -o APT::Architecture=$debian -o APT::Architectures=$debian -o Dir::Etc::sourcelist="$work/apt/sources.list" \
    -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/apt/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User=root "$@"
}
# old_package NAME SHA256: unpacks it, as Debian 11 has it, into $work/old. Its checksum is what is trusted, not the mirror.
old_package() {
  (cd "$work/apt" && old_apt -qq download "$1") >/dev/null
  echo "$2  $(ls "$work/apt/$1"_*.deb)" | sha256sum -c --quiet
  dpkg-deb -x "$work/apt/$1"_*.deb "$work/old"
}
mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/beside"
echo "deb [trusted=yes] ${GPUPEAK_DEBIAN_MIRROR:-http://deb.debian.org/debian} bullseye main" >"$work/apt/sources.list"
old_apt -qq update
old_package libunwind8 "${sha256[0]}"
old_package liblzma5 "${sha256[1]}"
cp -L "$work"/old/usr/lib/$processor-linux-gnu/libunwind.so.8 "$work"/old/lib/$processor-linux-gnu/liblzma.so.5 "$work/beside"
patchelf --set-rpath '$ORIGIN' "$work/beside/libunwind.so.8" # it asks for liblzma

# Whose code is inside, under which licence.
mkdir "$work/licences"
for package in libunwind8 liblzma5; do cp "$work/old/usr/share/doc/$package/copyright" "$work/licences/$package"; done
for package in libc6 libstdc++6 libdw1 libelf1 libfmt-dev libspdlog-dev libcli11-dev libzstd1 libmd0 nlohmann-json3-dev \
  libtomlplusplus-dev libsqlite3-0 zlib1g libbz2-1.0 libprotozero-dev libncursesw6 libiberty-dev libutf8proc-dev; do
  for place in "$its_root/usr/share/doc/$package" "$its_root/usr/share/doc/${package}t64"; do
    if [ -e "$place/copyright" ]; then cp -L "$place/copyright" "$work/licences/$package"; fi
  done
done

flags="-ffile-prefix-map=$root=gpupeak" # the paths of this machine are in no file
export CCACHE_DISABLE=1 # whose relative paths would be, and so another build-id
{
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGPUPEAK_STATIC=ON -DGPUPEAK_BUILD_TESTS=OFF \
    -DGPUPEAK_UNITY=ON "-DGPUPEAK_STATIC_BESIDE=$work/beside" "-DGPUPEAK_STATIC_LICENCES=$work/licences" \
    -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_ASM_FLAGS="$flags" ${options[@]+"${options[@]}"} &&
    cmake --build "$build" -j "$(nproc)" --target gpupeak gpupeak_audit gpupeak_tool
} >"$out/build.log" 2>&1 || {
  tail -n 40 "$out/build.log" >&2
  echo "portable: the build failed; all it said is in $out/build.log" >&2
  exit 1
}
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
name=gpupeak-$version-linux-$processor
cmake --install "$build" --prefix "$work/$name" >/dev/null

mkdir -p "$work/$name-debug/lib/gpupeak" "$work/$name-debug/bin"
for file in bin/gpupeak lib/gpupeak/libgpupeak.so lib/gpupeak/libgpupeak_audit.so; do
  ${tools}objcopy --only-keep-debug "$work/$name/$file" "$work/$name-debug/$file.debug"
  ${tools}strip --strip-unneeded "$work/$name/$file"
  (cd "$work/$name-debug/$(dirname "$file")" && ${tools}objcopy --add-gnu-debuglink="$(basename "$file").debug" "$work/$name/$file")
done
for folder in "$name" "$name-debug"; do
  tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go-w,a+rX -cf - "$folder" | gzip -9n >"$out/$folder.tar.gz"
done
python3 tools/wheel.py "$work/$name" "$version" "$out" "manylinux2014_$processor" >/dev/null
generators=DEB packages=(-D "CPACK_DEBIAN_PACKAGE_ARCHITECTURE=$debian" -D "CPACK_RPM_PACKAGE_ARCHITECTURE=$processor")
if command -v rpmbuild >/dev/null; then generators="DEB;RPM"; fi
(cd "$work" && cpack -G "$generators" "${packages[@]}" --config "$root/$build/CPackConfig.cmake" -B "$work/packages" >"$out/cpack.log" 2>&1) || {
  cat "$out/cpack.log" >&2
  exit 1
}
mv "$work"/packages/*.deb "$out"
if [[ $generators == *RPM ]]; then mv "$work"/packages/*.rpm "$out"; fi
ls -l "$out"/gpupeak*
