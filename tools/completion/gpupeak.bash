# bash completion for gpupeak. Verbs, options and their values are what the command's own help says.

# By grep and not by a pattern of alternatives, which only shells with extglob have.
_gpupeak_logs() {
  compgen -f -- "$1" | grep -E '\.(gplog|gpbundle|gpz|zst|json)$'
  compgen -d -- "$1"
}

_gpupeak() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} i
  local command=${COMP_WORDS[0]/#\~/$HOME} help option
  _gpupeak_offer() { mapfile -t COMPREPLY < <(compgen "$@" -- "$word"); }
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    help=$("$command" --help 2>/dev/null | sed -n '/^Subcommands:/,/^Examples:/s/^  \([a-z]\+\)  .*/\1/p')
    mapfile -t COMPREPLY < <(compgen -W "$help help version --help --version" -- "$word"; _gpupeak_logs "$word")
    return
  fi
  if [ "$verb" = run ] || [ "$verb" = sweep ]; then
    for ((i = 2; i < COMP_CWORD; i++)); do  # behind --: the program and its arguments
      [ "${COMP_WORDS[i]}" = -- ] || continue
      if [ "$i" -eq $((COMP_CWORD - 1)) ]; then _gpupeak_offer -c; else _gpupeak_offer -f; fi
      return
    done
  fi
  help=$("$command" "$verb" --help 2>/dev/null | sed '/^Examples:/,$d')
  option=$(grep -E -m1 -e "^ +(-[[:alnum:]],)?$before( |\$)" <<<"$help")
  case "$verb $before $option" in
    *" --scope "*) _gpupeak_offer -W "device device:0 host host/heap host/mmap_anon host/pinned total"; __ltrim_colon_completions "$word" 2>/dev/null; return ;;
    *" --max "* | *" --max-increase "*) compopt -o nospace; _gpupeak_offer -S = -W "device.peak_bytes device.live_bytes device.alloc_bytes device.alloc_count host.peak_bytes host.kind.heap.peak_bytes host.kind.pinned.peak_bytes host.rss.peak_bytes"; return ;;
    *" --rules "*)
      mapfile -t COMPREPLY < <(compgen -W "none auto $("$command" rules | cut -d' ' -f1)" -- "$word"; compgen -f -X '!*.toml' -- "$word"; compgen -d -- "$word")
      return
      ;;
    *" --"*"{"*"}"*) option=${option#*\{} && option=${option%%\}*} && _gpupeak_offer -W "${option//,/ }"; return ;;
    *" --"*" DIR "*) _gpupeak_offer -d; return ;;
    *" --"*" FILE "*) _gpupeak_offer -f; return ;;
    "rules "*) [[ $word == -* ]] || { _gpupeak_offer -W "$("$command" rules | cut -d' ' -f1)"; return; } ;;
    "export export "*) [[ $word == -* ]] || { _gpupeak_offer -W "$(sed -n 's/^  format .*{\(.*\)}.*/\1/p' <<<"$help" | tr , ' ')"; return; } ;;
  esac
  case $word in
    -*) _gpupeak_offer -W "$(grep -oE -e '^ +(-[[:alnum:]],)?--[a-z-]+' <<<"$help" | sed 's/.*--/--/') --" ;;
    *) mapfile -t COMPREPLY < <(_gpupeak_logs "$word") ;;
  esac
}
complete -o filenames -F _gpupeak gpupeak
