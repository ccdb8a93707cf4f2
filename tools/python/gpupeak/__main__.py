"""``python -m gpupeak``: the command."""
import os
import sys

from ._command import GpupeakError, command


def main() -> None:
    try:
        path = command()
    except GpupeakError as error:
        sys.exit("gpupeak: {}".format(error))
    os.execv(path, ["gpupeak", *sys.argv[1:]])


if __name__ == "__main__":
    main()
