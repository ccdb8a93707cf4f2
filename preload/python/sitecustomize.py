"""`gpupeak run --torch-modules` or `--phase` puts this folder first on PYTHONPATH, so Python imports this file at its start. It has
torch_modules begin, takes the folder from sys.path again, and goes on with the sitecustomize that Python
would have found without it. Python 2 reads this file, too."""
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _watch():
    if sys.version_info < (3, 8):
        return
    try:
        import gpupeak_torch_modules
        gpupeak_torch_modules.begin()
    except Exception:  # whatever it is, the program goes on as without us
        pass


def _go_on():
    sys.path[:] = [folder for folder in sys.path if folder != _FOLDER]
    sys.path_importer_cache.pop(_FOLDER, None)
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # the next one on the path
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


_watch()
_go_on()
