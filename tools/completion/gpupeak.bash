# bash completion for gpupeak

# By grep and not by a pattern of alternatives, which only shells with extglob have.
_gpupeak_logs() {
  compgen -f -- "$1" | grep -E '\.(gplog|gpbundle|gpz|zst|json)$'
  compgen -d -- "$1"
}

_gpupeak() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "run attach detach start stop mark watch top serve tables report diff check fit sweep phases arenas tags rules metrics merge symbolize bundle compress tree flame held whatif view mcp leaks temporary timeline compare export dump help version --help --version" -- "$word"; _gpupeak_logs "$word")
    return
  fi
  case $before in
    --arena) mapfile -t COMPREPLY < <(compgen -W "same-as-requested" -- "$word"); return ;;
    --by) mapfile -t COMPREPLY < <(compgen -W "site function line file module phase tag kind thread ip" -- "$word"); return ;;
    --host) mapfile -t COMPREPLY < <(compgen -W "auto full sampled counters off" -- "$word"); return ;;
    --of) mapfile -t COMPREPLY < <(compgen -W "gpu host" -- "$word"); return ;;
    --children) mapfile -t COMPREPLY < <(compgen -W "gpu all none cuda" -- "$word"); return ;;
    --python) mapfile -t COMPREPLY < <(compgen -W "auto off" -- "$word"); return ;;
    --scope) mapfile -t COMPREPLY < <(compgen -W "device device:0 host host/heap host/mmap_anon host/pinned total" -- "$word"); __ltrim_colon_completions "$word" 2>/dev/null; return ;;
    --size) mapfile -t COMPREPLY < <(compgen -W "screen page column" -- "$word"); return ;;
    --names) mapfile -t COMPREPLY < <(compgen -W "auto own all none" -- "$word"); return ;;
    --compress) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$word"); return ;;
    --sort) [ "$verb" = compare ] && mapfile -t COMPREPLY < <(compgen -W "name host device time change" -- "$word") && return; mapfile -t COMPREPLY < <(compgen -W "memory peak growth events name" -- "$word"); return ;;
    --color) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$word"); return ;;
    --max | --max-increase) compopt -o nospace; mapfile -t COMPREPLY < <(compgen -S = -W "device.peak_bytes device.live_bytes device.alloc_bytes device.alloc_count host.peak_bytes host.kind.heap.peak_bytes host.kind.pinned.peak_bytes host.rss.peak_bytes" -- "$word"); return ;;
    --format) [ "$verb" = tables ] && mapfile -t COMPREPLY < <(compgen -W "auto parquet ndjson" -- "$word") && return; mapfile -t COMPREPLY < <(compgen -W "text jsonl bencher github-benchmark google-benchmark mlflow wandb otlp-json openmetrics" -- "$word"); return ;;
    --sysroot | --debug-dir | --procfs) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    --rules) mapfile -t COMPREPLY < <(compgen -W "none auto titles languages cuda onnxruntime tensorrt openvino llamacpp jax pytorch vllm sglang tensorrt-llm" -- "$word"; compgen -f -X '!*.toml' -- "$word"; compgen -d -- "$word"); return ;;
    --baseline) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
  esac
  if [ "$verb" = run ] || [ "$verb" = sweep ]; then
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
      if [ "${COMP_WORDS[i]}" = -- ]; then  # the program and its arguments
        if [ "$i" -eq $((COMP_CWORD - 1)) ]; then mapfile -t COMPREPLY < <(compgen -c -- "$word")
        else mapfile -t COMPREPLY < <(compgen -f -- "$word"); fi
        return
      fi
    done
    if [ "$verb" = run ]; then
      mapfile -t COMPREPLY < <(compgen -W "--out --quiet --host --dormant --log-mode --log-max --compress --names --children --python --audit --last-use --ort-nodes --torch-modules --phase-on-output --limit --gpu --pool-rules --help --" -- "$word")
      return
    fi
  fi
  if [ "$verb" = export ] && [ "$COMP_CWORD" -eq 2 ] && [[ $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "massif heaptrack pprof chrome perfetto speedscope folded sqlite torch-snapshot mxnet-csv csv" -- "$word")
    return
  fi
  if [ "$verb" = rules ] && [[ $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "titles languages cuda onnxruntime tensorrt openvino llamacpp jax pytorch vllm sglang tensorrt-llm" -- "$word")
    return
  fi
  local options="--help"
  case $verb in
    attach) options="--out --host --wait --help" ;;
    detach) options="--wait --help" ;;
    start) options="--host --wait --help" ;;
    stop) options="--wait --help" ;;
    report) options="--full --html --no-source --json --csv --short --by --at --byte-seconds --last-use --top --process --strict --out --color --bytes --help" ;;
    phases) options="--csv --json --process --strict --out --color --bytes --help" ;;
    tags) options="--scope --at --top --csv --json --process --strict --out --color --bytes --help" ;;
    diff) options="--by --at --top --json --markdown --strict --out --color --bytes --help" ;;
    watch) options="--max --every --wait --quiet --strict --color --bytes --help" ;;
    tables) options="--run --partial --ranks --label --format --duckdb --top --quiet --help" ;;
    top) options="--once --every --sort --filter --color --bytes --help" ;;
    serve) options="--listen --otlp --procfs --textfile --every --logs --help" ;;
    check) options="--max --max-growth --baseline --max-increase --json --out --junit --markdown --strict --allow-no-device --color --bytes --help" ;;
    fit) options="--capacity --gpu --top --json --out --color --bytes --help" ;;
    sweep) options="--parameter --of --capacity --gpu --verify --out --again --host --quiet --json --export --html --color --bytes --help --" ;;
    timeline) options="--scope --by --height --svg --pdf --png --size --dark --csv --json --process --strict --out --color --bytes --help" ;;
    compare) options="--scope --html --no-source --top --against --sort --only --csv --json --process --strict --out --color --bytes --help" ;;
    metrics) options="--format --metric --label --benchmark --strict --out --help" ;;
    merge) options="--json --partial --strict --out --color --bytes --help" ;;
    symbolize | bundle) options="--out --quiet --help" ;;
    compress) options="--out --quiet --undo --help" ;;
    tree | flame) options="--scope --at --min-percent --depth --json --process --strict --out --color --bytes --help" ;;
    held) options="--within --at --scope --top --json --process --strict --out --color --bytes --help" ;;
    view) options="--scope --process --once --help" ;;
    whatif) options="--without --scale --expandable-segments --arena --no-preallocation --free-at-last-use --without-unused --take-at-first-use --top --json --html --out --rules --color --bytes --help" ;;
    mcp) options="--help" ;;
    export) options="--out --scope --at --process --strict --help" ;;
    dump) options="--out --help" ;;
    arenas | pools) options="--at --scope --top --json --process --strict --out --color --bytes --help" ;;
    leaks | temporary) options="--scope --top --json --process --strict --out --color --bytes --help" ;;
  esac
  case $verb in
    attach | detach | start | stop | mark | watch | serve | rules | mcp) ;;
    *) options+=" --sysroot --debug-dir" ;;
  esac
  case $verb in
    report | phases | arenas | pools | tags | diff | check | fit | sweep | top | tables | timeline | compare | tree | flame | held | whatif | view | leaks | temporary | export)
      options+=" --rules --phase --tag" ;;
  esac
  case $verb in
    attach | detach | start | stop | mark | watch | serve | rules | mcp | symbolize | bundle | compress) ;;
    *) options+=" --confidential" ;;
  esac
  case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
    *) mapfile -t COMPREPLY < <(_gpupeak_logs "$word") ;;
  esac
}
complete -o filenames -F _gpupeak gpupeak
