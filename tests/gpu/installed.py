"""What of the frameworks is on this machine."""
import importlib.util
import os


def has(module):
    return importlib.util.find_spec(module) is not None


def nvidia_folders():
    """Where pip has put the CUDA libraries that ONNX Runtime's provider needs."""
    try:
        import nvidia
    except ImportError:
        return []
    root = list(nvidia.__path__)[0]
    return [os.path.join(root, name, "lib") for name in ("cu13", "cudnn")]
