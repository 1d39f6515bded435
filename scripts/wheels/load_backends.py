"""Loads ggml's backends, which are files of their own in this build of llama-cpp-python.

scripts/wheels/portable.py puts this module into the package, as `llama_cpp._backends`.
ggml takes the backend of the highest level of processor that runs here. It looks for them
beside the program and in the current folder only, so it gets the folder of its library.
"""

import ctypes
import os
import pathlib
import sys

from llama_cpp import llama_cpp

folder = os.environ.get("LLAMA_CPP_LIB_PATH") or pathlib.Path(__file__).parent / "lib"
if sys.platform == "win32":  # which finds a library's functions in that library alone
    libggml = ctypes.CDLL(str(pathlib.Path(folder) / "ggml.dll"))
else:
    libggml = llama_cpp._lib  # noqa: SLF001 - of the same package, once it is there
if libggml.ggml_backend_reg_count() == 0:
    libggml.ggml_backend_load_all_from_path(os.fsencode(folder))
