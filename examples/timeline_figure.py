"""A figure of memory over time with matplotlib, from `gpupeak timeline --by tag --csv LOG > bert.csv`.

usage: timeline_figure.py bert.csv bert.pdf [SCOPE]

Each part of the scope (device:0, host …; the first one of the file unless told) is an area upon those before it. A part keeps its
bytes until its next row, so areas have steps. The file's ending says the format: pdf, svg, png.
"""
import csv
import sys


def read(path, wanted):
    """The scope, seconds, and MiB of each part at these."""
    seconds, parts, scope = [], {}, wanted
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if "part" not in (rows.fieldnames or []):
            sys.exit(f"{path} is not what `gpupeak timeline --by site|tag|kind|phase --csv` writes")
        for row in rows:
            scope = scope or row["scope"]
            if row["scope"] != scope:
                continue
            part = parts.setdefault(row["part"], [])
            part.append(int(row["bytes"]) / 2**20)
            if len(part) > len(seconds):
                seconds.append(int(row["time_ns"]) / 1e9)
    return scope, seconds, parts


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    scope, seconds, parts = read(sys.argv[1], sys.argv[3] if len(sys.argv) == 4 else None)
    if not parts:
        sys.exit(f"{sys.argv[1]} has no {scope or 'rows'}")
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed, so there is no figure: pip install matplotlib")
        return
    matplotlib.use("Agg")  # no window
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(3.33, 2.6), layout="constrained")  # inches: one column of a paper
    axes.stackplot(seconds, parts.values(), labels=parts, step="post", linewidth=0)
    axes.set(xlabel="time (s)", ylabel="MiB", title=scope, xlim=(0, None), ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=2, fontsize="x-small", frameon=False)
    figure.savefig(sys.argv[2])


main()
