"""Changes sources of llama-cpp-python for a build that runs on any processor.

    portable.py FOLDER

FOLDER contains the unpacked source distribution. The build gets the version
X.Y.Z+portable, which pip prefers to the source distribution X.Y.Z and which distinguishes
the two, and a module that loads ggml's backends when `llama_cpp` is imported. It omits
libllama-common, which no Python code uses, and the levels of ARM processors with SME:
compilers before GCC 14 do not know SME, and ggml computes nothing with it unless it is
built with KleidiAI.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LABEL = "portable"
COMMON = "set(LLAMA_BUILD_COMMON ON "
MODULE = Path(__file__).with_name("load_backends.py")
IMPORT = "from . import _backends\n"
LEVELS = "vendor/llama.cpp/ggml/src/CMakeLists.txt"
SME = re.compile(r"^ *ggml_add_cpu_backend_variant\(armv\S+ .*\bSME\)\n", re.MULTILINE)


def adapt(folder: Path) -> str:
    """Change the sources and return the new version; a second call changes nothing."""
    package = folder / "llama_cpp"
    start = package / "__init__.py"
    text, n = re.subn(
        r'^__version__ = "([0-9.]+)(?:\+\w+)?"$',
        rf'__version__ = "\1+{LABEL}"',
        start.read_text(),
        flags=re.MULTILINE,
    )
    version = re.search(r'^__version__ = "(.*)"$', text, flags=re.MULTILINE)
    if n != 1 or version is None:
        sys.exit(f"{start} has no line __version__")
    start.write_text(text if text.endswith(IMPORT) else text.rstrip() + "\n\n" + IMPORT)
    (package / "_backends.py").write_text(MODULE.read_text())
    build = folder / "CMakeLists.txt"
    build.write_text(build.read_text().replace(COMMON, COMMON.replace(" ON ", " OFF ")))
    levels = folder / LEVELS
    levels.write_text(SME.sub("", levels.read_text()))
    return version[1]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(adapt(Path(sys.argv[1])))
