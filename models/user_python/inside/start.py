"""The program that a user's own interpreter runs: `python start.py FRAMEWORK REQUESTS REPLIES`, with the numbers of
two pipes. FRAMEWORK is torch or tensorflow.

This folder is imported as a package of another name than transload, which is not installed there.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

_PACKAGE = "transload_inside"


def import_own_folder() -> None:
    """Import this folder as a package, and take it off sys.path: its modules hide none of the user's."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != folder]
    place = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(_PACKAGE, place, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(place)
    module = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    import_own_folder()
    importlib.import_module(f"{_PACKAGE}.conversation").serve(sys.argv[1], *map(int, sys.argv[2:]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the libraries' own teardown takes long, and has crashed
