# bash completion for gpupeak
_gpupeak() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "run report dump --help --version" -- "$word")
    return
  fi
  case $before in
    --by) mapfile -t COMPREPLY < <(compgen -W "site function module phase kind thread ip" -- "$word"); return ;;
    --host) mapfile -t COMPREPLY < <(compgen -W "full sampled counters off" -- "$word"); return ;;
    --children) mapfile -t COMPREPLY < <(compgen -W "cuda all none" -- "$word"); return ;;
    --color) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$word"); return ;;
  esac
  if [ "$verb" = run ]; then
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
      if [ "${COMP_WORDS[i]}" = -- ]; then  # the program and its arguments
        if [ "$i" -eq $((COMP_CWORD - 1)) ]; then mapfile -t COMPREPLY < <(compgen -c -- "$word")
        else mapfile -t COMPREPLY < <(compgen -f -- "$word"); fi
        return
      fi
    done
    mapfile -t COMPREPLY < <(compgen -W "--out --quiet --host --children --help --" -- "$word")
    return
  fi
  case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "--json --csv --short --by --top --strict --out --color --help" -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -X '!*.gplog' -- "$word"; compgen -d -- "$word") ;;
  esac
}
complete -o filenames -F _gpupeak gpupeak
