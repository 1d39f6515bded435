"""What one caller says and gets: options, requests, calls, journals, answers."""

import lazy_loader as _lazy_loader  # type: ignore[import-untyped]

# The public module `llamaherd.structured` is imported on its first use.
__getattr__, _, _ = _lazy_loader.attach(__name__, submodules=["structured"])
