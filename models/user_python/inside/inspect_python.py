"""Describe the interpreter that runs this file, as one line of JSON. It imports nothing but the standard library.

Run as a program; every Python 3 can, so that an old one is refused by its version.
"""

import hashlib
import importlib.util
import json
import os
import sys

MARK = "transload:"  # before the line: a .pth file may print, too


def describe_interpreter():  # type: ignore[no-untyped-def]  # Python 3.4 runs it, too
    """Return what transload has to know of this interpreter."""
    record = dict(describe_folders())  # type: ignore[no-untyped-call]
    if sys.version_info >= (3, 9):
        record.update(describe_packages(record["path"]))  # type: ignore[no-untyped-call]
    return record


def describe_folders():  # type: ignore[no-untyped-def]
    """Return its version, and the folders that it reads."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable___"):  # setuptools' finder of packages that are installed from their checkout
            folders.extend(getattr(module, "MAPPING", {}).values())
    return {
        "version": "%d.%d.%d" % sys.version_info[:3],
        "executable": os.path.realpath(sys.executable),
        "folders": folders,
        "path": [path for path in sys.path[1:] if path and os.path.exists(path)],
    }


def describe_packages(search):  # type: ignore[no-untyped-def]
    """Return the versions of what is installed there; `search` is its sys.path."""
    import site
    from importlib import metadata

    versions = {}
    for row in metadata.distributions():
        name = row.metadata["Name"]
        if name and name.lower() not in versions:
            versions[name.lower()] = row.version
    library = os.path.dirname(os.__file__)
    own = (library, os.path.join(library, "lib-dynload"))
    lines = sorted("%s==%s" % item for item in versions.items())
    known = {}
    for name in ("torch", "tensorflow", "keras", "numpy"):
        if importlib.util.find_spec(name) is not None:
            rows = _distributions_of(name)  # type: ignore[no-untyped-call]
            known[name] = next((versions[row] for row in rows if row in versions), "unknown")
    return {
        "packages": [path for path in search if path not in own and not path.endswith(".zip")],
        # Recorded only where it counts: a model is another one with another record.
        "user_base": site.getuserbase() if site.getusersitepackages() in search else "",
        "digest": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        **known,
    }


def _distributions_of(name):  # type: ignore[no-untyped-def]
    """Return the names, in lower case, of the packages that a module may have come with."""
    return [name, *("%s%s%s" % (name, sign, kind) for kind in ("cpu", "gpu", "intel", "macos") for sign in "-_")]


if __name__ == "__main__":
    description = describe_interpreter()  # type: ignore[no-untyped-call]
    sys.stdout.write("\n" + MARK + json.dumps(description) + "\n")
