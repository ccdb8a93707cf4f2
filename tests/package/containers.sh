#!/usr/bin/env bash
# docs/hurry/containers.md, tried with podman or docker (as root): images made of a root file system of debootstrap's, the portable archive,
# a client of the simulated driver. Prints what held. 77: no container can be run here, and why. Podman needs runc or crun, catatonit for pods.
# usage: containers.sh podman|podman:USER|docker PORTABLE_FOLDER BUILD_FOLDER ROOT
# podman:USER: without root, as that user, who has ids in /etc/subuid. docker: with the daemon that runs, else one of its own.
set -euo pipefail
kind=$1 portable=$(cd "$2" && pwd) build=$(cd "$3" && pwd) root=$(cd "$4" && pwd)
page=$(cd "$(dirname "$0")/../../docs/hurry" && pwd)/containers.md
bench=localhost/gpupeak-bench:1 tools=localhost/gpupeak-tools:1 peak=795344896
work=$(mktemp -d)
daemon=
# Without these podman asks for limits that are higher than a container's own; runc goes with cgroups of either version.
{
  printf '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=10000:10000"]\n'
  if command -v runc >/dev/null; then printf '[engine]\nruntime = "runc"\n'; fi
} >"$work/containers.conf"
export CONTAINERS_CONF=$work/containers.conf
user=${kind#podman:} version=(--version)
case $kind in
  podman) engine() { podman "$@"; } ;;
  podman:*) engine() { runuser -u "$user" -- env -C / "HOME=$(getent passwd "$user" | cut -d: -f6)" podman "$@"; } ;;
  docker)
    engine() { docker "$@"; }
    version=(version -f 'docker {{.Server.Version}}')
    ;;
  *) sed -n '4s/^# //p' "$0" >&2; exit 2 ;;
esac
finish() {
  {
    engine pod rm -f gpupeak-pod
    engine rm -f gpupeak-killed
    engine volume rm -f gpupeak-logs gpupeak-claim tools
    engine rmi -f "$bench" "$tools"
    if [ -n "$daemon" ]; then kill "$daemon" && wait "$daemon"; fi
  } >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT
cannot() {
  echo "containers: cannot be run here: $*"
  exit 77
}
if [ "$kind" = docker ] && ! docker version >/dev/null 2>&1; then
  command -v dockerd >/dev/null || cannot "no daemon runs, and there is no dockerd (Debian: docker.io)"
  export DOCKER_HOST=unix://$work/docker.sock
  dockerd --host "$DOCKER_HOST" --data-root "$work/docker" --exec-root "$work/run" --pidfile "$work/docker.pid" \
    --storage-driver vfs --bridge none --iptables=false --ip6tables=false >"$work/docker.log" 2>&1 &
  daemon=$!
  for _ in $(seq 300); do docker version >/dev/null 2>&1 && break || sleep 0.1; done
  docker version >/dev/null 2>&1 || cannot "$(tail -n 3 "$work/docker.log")"
fi

mkdir -p "$work/tools/opt/gpupeak" "$work/logs" "$work"/bench/{bench,kept}
tar -C "$work/tools/opt/gpupeak" --strip-components 1 -xzf "$portable"/gpupeak-*-linux-x86_64.tar.gz
cp "$build/examples/cuda_benchmark" "$work/bench/bench"
cp -L "$build"/tests/fake_cuda/lib{cuda,nvidia-ml}.so.1 "$work/bench/bench"
chmod 755 "$work"
# The container's user, as the host sees it; an empty volume gets the owner of what the image has in its place.
if [ "$user" = "$kind" ]; then chown 65534:65534 "$work/logs"; else
  chown "$user:" "$work/logs"
  engine unshare chown 65534:65534 "$work/logs"
fi
chown 65534:65534 "$work/bench/kept"
# image NAME FOLDER PATH…: the root with what the folder has there.
image() {
  tar --exclude ./proc --exclude ./sys -cf - -C "$root" . -C "$2" "${@:3}" | engine import --change 'ENV PATH=/usr/bin:/bin' - "$1" >/dev/null 2>"$work/said" ||
    cannot "no image: $(cat "$work/said")"
}
image "$bench" "$work/bench" ./bench ./kept
image "$tools" "$work/tools" ./opt/gpupeak
engine run --rm --network none "$bench" true 2>"$work/said" || cannot "$(cat "$work/said")"

failed=0
# check WHAT COMMAND…
check() {
  local what=$1
  shift
  ("$@") >"$work/said" 2>&1 & # by itself, so that its first failure ends it
  if wait $!; then echo "| $what | holds |"; else
    echo "| $what | fails: $(tail -n 3 "$work/said" | tr '\n' ' ') |"
    failed=1
  fi
}
command=$work/tools/opt/gpupeak/bin/gpupeak
exact() {
  [ $# -gt 0 ] || { echo "no log"; return 1; }
  local log
  for log in "$@"; do
    "$command" report --json "$log" >"$work/report.json" && grep -q '"exact": *true' "$work/report.json" && grep -q "\"device.peak_bytes\": *$peak" "$work/report.json" ||
      { echo "$log is not exact"; return 1; }
  done
}
# As the page has it, without any privilege and with a root that cannot be written.
confined=(--rm --network none --read-only --cap-drop=ALL --security-opt=no-new-privileges --user 65534:65534 -v "$work/tools/opt/gpupeak:/opt/gpupeak:ro")
benchmark() { engine run "${confined[@]}" -e LD_LIBRARY_PATH=/bench -e LD_PRELOAD=/opt/gpupeak/lib/gpupeak/libgpupeak.so "$@"; }

alone() {
  benchmark --hostname box -v "$work/logs:/logs" -e GPUPEAK_OUT=/logs/%n.%h.%p.gplog "$bench" /bench/cuda_benchmark
  grep -q "Peak device memory (GPU 0): $peak bytes" "$work/said" && exact "$work/logs/cuda_benchmark.box.1.gplog"
}
own_exit_code() {
  local code=0
  benchmark -v "$work/logs:/logs" -e GPUPEAK_OUT=/logs/shell.gplog "$bench" sh -c 'echo out; exit 7' >"$work/out" || code=$?
  [ $code = 7 ] && [ "$(cat "$work/out")" = out ]
}
two_of_one_name() {
  local running=() one
  for _ in 1 2; do
    benchmark -v "$work/logs:/logs" -e GPUPEAK_OUT=/logs/same.gplog "$bench" /bench/cuda_benchmark &
    running+=($!)
  done
  for one in "${running[@]}"; do wait "$one"; done
  exact "$work"/logs/same*.gplog
}
volume() {
  engine volume create gpupeak-logs
  benchmark -v gpupeak-logs:/kept -e GPUPEAK_OUT=/kept/kept.gplog "$bench" /bench/cuda_benchmark
  exact "$(engine volume inspect -f '{{.Mountpoint}}' gpupeak-logs)/kept.gplog"
}
reported_inside() {
  engine run "${confined[@]}" -v "$work/logs:/logs:ro" "$bench" /opt/gpupeak/bin/gpupeak report /logs/cuda_benchmark.box.1.gplog
  grep -q "peak 758 MiB" "$work/said"
}
killed() {
  benchmark --name gpupeak-killed -d -v "$work/logs:/logs" -e GPUPEAK_OUT=/logs/killed.gplog "$bench" sh -c 'while :; do :; done'
  for _ in $(seq 100); do [ -e "$work/logs/killed.gplog" ] && break || sleep 0.1; done
  engine kill gpupeak-killed
  "$command" report "$work/logs/killed.gplog" && grep -q 'GP002' "$work/said"
}
# The page's own pod: these images, the client, a volume of its own, since the one above is user 65534's.
pod() {
  {
    printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: gpupeak-pod}\n'
    sed -n '/^```yaml/,/^```$/{/^```/d;p}' "$page" | sed -E "s|^spec:|&\n  restartPolicy: Never|; s|IMAGE_WITH_GPUPEAK|$tools|; s|claimName: logs|claimName: gpupeak-claim|
      s|image: IMAGE\$|image: $bench\n      command: [/bench/cuda_benchmark]|; s|^      env:|&\n        - {name: LD_LIBRARY_PATH, value: /bench}|"
  } >"$work/pod.yaml"
  engine play kube --network=host "$work/pod.yaml"
  for _ in $(seq 100); do [ "$(engine inspect -f '{{.State.Status}}' gpupeak-pod-bench)" = exited ] && break || sleep 0.1; done
  exact "$(engine volume inspect -f '{{.Mountpoint}}' gpupeak-claim)/cuda_benchmark.gpupeak-pod.1.gplog"
}

echo "| $(engine "${version[@]}") | |"
echo '|---|---|'
check "read-only root, no capabilities, no new privileges, user 65534: the log is exact" alone
check "exit code and output are the program's" own_exit_code
check "two at once with one name in one folder: each has its own, exact log" two_of_one_name
check "a named volume keeps the log" volume
check "the command reports inside, in the same confines" reported_inside
check "killed: the log can be read, and says that it has no end" killed
[ "$kind" = docker ] || check "the pod of Kubernetes, by podman play kube: init container, emptyDir, claim, read-only root, no capabilities" pod
exit $failed
