"""Libraries and packages from npm, each fetched once."""
import glob
import os
import shutil
import subprocess
import tempfile


def npm_library(work, package, version, library):
    """The path of `library` (such as libduckdb.so), which is at the top of the package; None if it cannot be fetched."""
    place = os.path.join(work, f"{os.path.splitext(library)[0].removeprefix('lib')}-{version}")
    found = os.path.join(place, library)
    if os.path.exists(found):
        return found
    if shutil.which("npm") is None:
        return None
    os.makedirs(work, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        if subprocess.run(["npm", "pack", "--silent", f"{package}@{version}"], cwd=folder, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return None
        subprocess.run(["tar", "xzf", glob.glob(os.path.join(folder, "*.tgz"))[0], "--strip-components", "1"], cwd=folder, check=True)
        os.makedirs(place, exist_ok=True)
        os.rename(os.path.join(folder, library), found)
    return found


def npm_modules(work, package, version):
    """A folder whose node_modules has the package and its dependencies; None if they cannot be fetched. None of their scripts is run."""
    place = os.path.join(work, f"{package.strip('@').replace('/', '-')}-{version}")
    if os.path.isdir(place):
        return place
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    os.makedirs(work, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        whole = os.path.join(folder, "whole")
        os.mkdir(whole)
        with open(os.path.join(whole, "package.json"), "w", encoding="ascii") as file:
            file.write('{"private": true}')
        if subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", f"{package}@{version}"], cwd=whole,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return None
        try:
            os.rename(whole, place)
        except OSError:  # another test has brought it meanwhile
            pass
    return place
