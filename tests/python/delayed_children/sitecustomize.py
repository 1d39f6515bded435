"""Delays a Python process that a test started, see `delays.py`, if it uses llamaherd."""

import os
import sys
from pathlib import Path


class _Finder:
    """Finds nothing, but learns that llamaherd is imported."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name != "llamaherd" or "pytest" in sys.modules:
            return
        sys.meta_path.remove(_Finder)
        sys.path.append(str(Path(__file__).parent.parent))
        import delays  # noqa: F401 - it delays what was imported so far

        sys.path.pop()


if "LLAMAHERD_TEST_DELAYS" in os.environ:
    sys.meta_path.insert(0, _Finder)
