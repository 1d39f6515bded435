"""Loads ggml's backends, which are separate files in this build of llama-cpp-python.

scripts/wheels/portable.py puts this module into the package, as `llama_cpp._backends`.
ggml loads the backend of the highest level that this processor supports. By default ggml
searches only the folder of the program and the current folder, so this module passes the
folder of ggml's library to it.
"""

import ctypes
import os
import pathlib
import sys

from llama_cpp import llama_cpp

folder = os.environ.get("LLAMA_CPP_LIB_PATH") or pathlib.Path(__file__).parent / "lib"
if sys.platform == "win32":
    # Windows finds a function only in the library that defines it.
    libggml = ctypes.CDLL(str(pathlib.Path(folder) / "ggml.dll"))
else:
    libggml = llama_cpp._lib  # noqa: SLF001 - of the same package, once it is there
if libggml.ggml_backend_reg_count() == 0:
    libggml.ggml_backend_load_all_from_path(os.fsencode(folder))
