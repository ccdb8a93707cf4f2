"""Notebooks: ``%load_ext gpupeak`` and ``%%gpupeak``.

A kernel is recorded from its start if it is of the kind that ``python3 -m gpupeak.notebook install`` makes: "Python 3 (gpupeak)".
"""
from __future__ import annotations

import argparse
import html
import json
import os
import sys
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _command, _live
from ._sizes import size_text

_BLOCKS = "▁▂▃▄▅▆▇█"
_numbers: Dict[str, int] = {}


class CellMemory:
    """What a cell took: as text, and as HTML with a curve. ``figures`` has the bytes by scope: start, peak, end."""

    def __init__(self, name: str, figures: Dict[str, Tuple[int, int, int]], held: Dict[str, Dict[str, Any]], caveats: List[str]) -> None:
        self.name, self.figures, self.held, self.caveats = name, figures, held, caveats

    def _rows(self) -> List[Tuple[str, str, str, str, str]]:
        return [(scope, size_text(peak), size_text(peak - start), size_text(end - start), scope) for scope, (start, peak, end) in self.figures.items()]

    def _holders(self, scope: str) -> List[Tuple[str, str]]:
        moment = self.held.get(scope)
        if moment is None or moment["bytes"] is None:
            return []
        rows = [(size_text(row["bytes"]), row["site"] or "(no stack)") for row in moment["holders"]]
        return rows + ([(size_text(moment["other_bytes"]), "{} more".format(moment["other_sites"]))] if moment["other_bytes"] else [])

    def _curve(self, scope: str) -> List[Tuple[int, int]]:
        return [(point[0], point[1]) for point in self.held.get(scope, {}).get("curve") or []]

    def __repr__(self) -> str:
        lines = ["gpupeak: " + caveat for caveat in self.caveats]
        for scope, peak, added, kept, _ in self._rows():
            lines.append("{}: peak {}, + {}, kept {}".format(scope, peak, added, kept))
            values = [value for _, value in self._curve(scope)]
            if values:
                top, step = max(values) or 1, max(1, -(-len(values) // 60))
                lines.append("  " + "".join(_BLOCKS[min(7, 8 * max(values[i:i + step]) // top)] for i in range(0, len(values), step)))
            lines += ["  {:>9}  {}".format(size, site) for size, site in self._holders(scope)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = ["<p>gpupeak: {}</p>".format(html.escape(caveat)) for caveat in self.caveats]
        for scope, peak, added, kept, _ in self._rows():
            parts.append("<div class='gpupeak'><b>{}</b> peak <b>{}</b>, + {}, kept {}".format(*(html.escape(t) for t in (scope, peak, added, kept))))
            parts.append(_svg(self._curve(scope)))
            rows = "".join("<tr><td style='text-align:right'>{}</td><td style='text-align:left'>{}</td></tr>".format(html.escape(size), html.escape(site))
                           for size, site in self._holders(scope))
            parts.append("<table>{}</table></div>".format(rows))
        return "".join(parts)


def _svg(points: Sequence[Tuple[int, int]], width: int = 480, height: int = 60) -> str:
    """Steps from point to point; the highest is marked and written beside."""
    if len(points) < 2:
        return ""
    begin, top = points[0][0], max(value for _, value in points) or 1
    span = max(points[-1][0] - begin, 1)
    path, last = "", 0.0
    for time, value in points:
        x, y = (time - begin) * width / span, height - value * height / top
        path += "M{:.1f},{:.1f}".format(x, y) if not path else "L{:.1f},{:.1f}L{:.1f},{:.1f}".format(x, last, x, y)
        last = y
    highest = max(points, key=lambda point: point[1])
    x = (highest[0] - begin) * width / span
    return ("<svg width='{w}' height='{h}' viewBox='0 -4 {w} {h}' role='img' aria-label='memory over {s:.3f} s, at most {t}'>"
            "<path d='{p}L{w},{l:.1f}L{w},{b}L0,{b}Z' fill='#4c78a8' fill-opacity='.25'/><path d='{p}' fill='none' stroke='#4c78a8'/>"
            "<circle cx='{x:.1f}' cy='0' r='3' fill='#d62728'/></svg><span> {s:.3f} s</span>").format(
                w=width, h=height + 8, b=height, p=path, l=last, x=x, s=span / 1e9, t=size_text(highest[1]))


def measure(run: Any, name: str, top: int = 5) -> Optional[CellMemory]:
    """Calls ``run`` within a phase of that name; None: nothing is recorded."""
    if not _live.active():
        run()
        return None
    phase = _live.phase(name)
    try:
        with phase:
            run()
    finally:
        figures: Dict[str, Tuple[int, int, int]] = {}
        for scope in phase.scopes():
            found = phase._figures(scope) if scope == "host.heap" or (scope.startswith("device:") and "." not in scope) else None
            if found is not None:
                figures[scope] = found
        held: Dict[str, Dict[str, Any]] = {}
        caveats: List[str] = []
        log = _live.log_path()
        for scope in figures:
            try:
                found_json = _command.ask("report", "--held", "--json", "--top", str(top), "--scope", scope.replace(".", "/", 1), "--within", name, "--", log or "",
                                          within=60)
                held[scope] = found_json["moments"][0]
                if not found_json["quality"]["exact"]:
                    caveats += [w["message"] for w in found_json["quality"]["warnings"] if w["message"] not in caveats]
            except _command.GpupeakError as error:
                caveats.append(str(error))
        result = CellMemory(name, figures, held, caveats)
    return result


def load(shell: Any) -> None:
    """Registers the magics; ``%load_ext gpupeak`` calls it."""

    def magic(line: str, cell: Optional[str] = None) -> Any:
        parser = argparse.ArgumentParser(prog="%%gpupeak", add_help=False)
        parser.add_argument("-n", "--name", default="")
        parser.add_argument("--top", type=int, default=5)
        known, rest = parser.parse_known_args(line.split())
        code = cell if cell is not None else " ".join(rest)
        name = known.name or "cell [{}]".format(shell.execution_count)
        _numbers[name] = _numbers.get(name, 0) + 1
        if _numbers[name] > 1:
            name = "{} #{}".format(name, _numbers[name])
        result: Any = None

        def run() -> None:
            nonlocal result
            shell._showtraceback = lambda *_: None  # an error is shown once, by raise_error() below
            try:
                result = shell.run_cell(code)
            finally:
                del shell._showtraceback
        memory = measure(run, name, known.top)
        if memory is not None:
            from IPython.display import display
            display(memory)
        else:
            print("gpupeak does not record this kernel. Choose one that is recorded: `python3 -m gpupeak.notebook install`, then the kernel "
                  "\"Python 3 (gpupeak)\"; or start Jupyter with `gpupeak run --children all -- jupyter lab`.", file=sys.stderr)
        if result is not None:
            result.raise_error()  # who runs notebooks unattended must see it
        return None

    shell.register_magic_function(magic, magic_kind="line_cell", magic_name="gpupeak")


def install(prefix: Optional[str] = None, name: str = "gpupeak-python3") -> str:
    """Makes a kernel whose programs are recorded, for the Python that runs this. Returns its folder."""
    folder = os.path.join(prefix, "share/jupyter/kernels", name) if prefix else os.path.join(
        os.environ.get("JUPYTER_DATA_DIR") or os.path.expanduser("~/.local/share/jupyter"), "kernels", name)
    os.makedirs(folder, exist_ok=True)
    env = {"LD_PRELOAD": _command.library(), "GPUPEAK_SUMMARY": "off", "GPUPEAK_QUIET": "1",
           "GPUPEAK_OUT": os.path.join(tempfile.gettempdir(), "gpupeak-notebook.%p.gplog")}
    with open(os.path.join(folder, "kernel.json"), "w", encoding="utf-8") as file:
        json.dump({"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Python 3 (gpupeak)",
                   "language": "python", "env": env}, file, indent=1)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m gpupeak.notebook")
    parser.add_argument("action", choices=("install",), help="make the kernel \"Python 3 (gpupeak)\"")
    parser.add_argument("--prefix", help="below this folder, as of a virtual environment (default: the user's own)")
    options = parser.parse_args()
    print("gpupeak: the kernel \"Python 3 (gpupeak)\" is in {}".format(install(options.prefix)))


if __name__ == "__main__":
    main()
