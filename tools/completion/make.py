#!/usr/bin/env python3
"""Writes the completions for zsh and fish from what the command itself says: usage: make.py FOLDER GPUPEAK…

The build runs it, so that they never offer what the command does not have. GPUPEAK may be two words or more: an
emulator of another machine and the command.
"""
import os
import re
import subprocess
import sys

LOGS = "gplog|gpbundle|gpz|zst|json"


def said(command, *words):
    return subprocess.run([*command, *words], stdout=subprocess.PIPE, text=True, check=True).stdout


def verbs(command):
    """(name, description) of each."""
    text = said(command, "--help").split("Subcommands:")[1].split("Examples:")[0]
    return re.findall(r"^  (\S+)  +(\S.*)", text, re.M)


def options(command, verb):
    """(letter or "", name, value or "", values or [], description) of each."""
    found = []
    lines = said(command, verb, "--help").split("\nExamples:")[0].splitlines()
    for i, line in enumerate(lines):
        entry = re.match(r" +(?:-(\w),)?--([\w-]+)((?: (?! )\S+)*)(?:  +(.*))?$", line)
        if not entry:
            continue
        description = entry[4] or (lines[i + 1].strip() if i + 1 < len(lines) else "")
        values = re.search(r"\{([^}]*)\}", entry[3] or "")
        value = re.sub(r"[:{=].*|\.\.\.", "", (entry[3] or "").strip()).strip()
        if entry[2] == "top":
            value = "N"
        found.append((entry[1] or "", entry[2], value if (entry[3] or "").strip() else "", values[1].split(",") if values else [],
                      description))
    return found


def formats(command):
    return re.findall(r"^  (\S+)  +(\S.*)", said(command, "export", "--help").split("Formats:")[1], re.M)


def fish(command):
    def quoted(text):
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = ["# fish completion for gpupeak. Made by tools/completion/make.py.",
             "complete -c gpupeak -f",
             "complete -c gpupeak -n __fish_use_subcommand -l help -s h -d 'Print help'",
             "complete -c gpupeak -n __fish_use_subcommand -l version -s V -d 'Print the version'"]
    for name, description in verbs(command):
        lines.append(f"complete -c gpupeak -n __fish_use_subcommand -a {name} -d {quoted(description)}")
        seen = f"'__fish_seen_subcommand_from {name}'"
        if name not in ("run", "sweep", "rules", "export"):
            lines.append(f"complete -c gpupeak -n {seen} -F")
        for letter, option, value, values, description in options(command, name):
            line = f"complete -c gpupeak -n {seen} -l {option}" + (f" -s {letter}" if letter else "")
            if values:
                line += f" -x -a {quoted(' '.join(values))}"
            elif value:
                line += " -r" + (" -F" if "FILE" in value or "DIR" in value else "")
            lines.append(f"{line} -d {quoted(description)}")
    for name, description in formats(command):
        lines.append(f"complete -c gpupeak -n '__fish_seen_subcommand_from export; and not __fish_seen_subcommand_from "
                     f"{' '.join(n for n, _ in formats(command))}' -a {name} -d {quoted(description)}")
    lines.append("complete -c gpupeak -n '__fish_seen_subcommand_from export' -F")
    lines.append("complete -c gpupeak -n '__fish_seen_subcommand_from run' -x -a '(__fish_complete_subcommand --fcs-skip=2)'")
    return "\n".join(lines) + "\n"


def zsh(command):
    def quoted(text):
        return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")

    lines = ["#compdef gpupeak", "# zsh completion for gpupeak. Made by tools/completion/make.py.", "", "_gpupeak() {",
             "  local -a verbs", "  verbs=("]
    lines += [f"    '{name}:{quoted(description)}'" for name, description in verbs(command)]
    lines += ["  )", "  if (( CURRENT == 2 )); then", "    _describe verb verbs",
              f"    _files -g '*.({LOGS})'", "    _values -w option --help --version", "    return", "  fi",
              "  local verb=$words[2]", "  shift words; (( CURRENT-- ))", "  case $verb in"]
    for name, _ in verbs(command):
        lines.append(f"    {name})")
        lines.append("      _arguments -s \\")
        for letter, option, value, values, description in options(command, name):
            text = f"[{quoted(description)}]"
            if values:
                text += f":{quoted(option)}:({' '.join(values)})"
            elif value:
                action = "_files -/" if "DIR" in value else "_files" if "FILE" in value else " "
                text += f":{quoted(value)}:{action}"
            names = f"{{-{letter},--{option}}}" if letter else f"--{option}"
            lines.append(f"        '*'{names}'{text}' \\")
        if name in ("run", "sweep"):
            lines.append("        '*::program:_normal'")
        elif name == "export":
            lines.append(f"        '1:format:({' '.join(n for n, _ in formats(command))})' '*:log:_files'")
        elif name == "rules":
            lines.append("        '1:set:(" + " ".join(re.findall(r"^([\w-]+) ", said(command, "rules"), re.M)) + ")'")
        else:
            lines.append(f"        '*:log:_files -g \"*.({LOGS})\"'")
        lines.append("      ;;")
    lines += ["  esac", "}", "", "_gpupeak \"$@\""]
    return "\n".join(lines) + "\n"


def main():
    folder, *command = sys.argv[1:]
    for name, make in (("gpupeak.fish", fish), ("_gpupeak", zsh)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(make(command))


if __name__ == "__main__":
    main()
