"""Runs the README's examples in R and Python, and that of docs/c.md, as a reader would.

The model and the texts are linked into a scratch folder under the names that the
examples use.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import llamaherd

ROOT = Path(__file__).resolve().parent.parent
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILES = {"r": "answers.R", "python": "answers.py", "c": "answers.c"}
INSTALLS = "remotes::install"  # what is installed already
N_BLOCKS = {"r": 6, "python": 2, "c": 1}  # those of R go on with the first


def blocks(text: str) -> dict[str, str]:
    """The first code blocks of each language, joined."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return {
        language: "\n".join(
            [code for name, code in found if name == language and INSTALLS not in code][
                :n
            ]
        )
        for language, n in N_BLOCKS.items()
    }


def commands(language: str, code: str, folder: Path) -> list[list[str]]:
    """Write an example to `folder`; return what compiles and runs it."""
    path = folder / FILES[language]
    path.write_text(code, encoding="utf-8")
    if language == "r":
        return [["Rscript", "--vanilla", str(path)]]
    if language == "python":
        return [[sys.executable, str(path)]]
    herd = llamaherd.__path__[0]
    build = ["cc", "-Wall", "-Werror", str(path), f"-I{herd}/include", f"-L{herd}"]
    build += ["-lllamaherd", f"-Wl,-rpath,{herd}", "-o", "answers"]
    return [build, ["./answers"]]


def main() -> None:
    """Run each example; exit with 1 if one fails."""
    model = Path(os.environ["LLAMAHERD_TEST_SMOLLM2"]).with_name(MODEL)
    pages = ("README.md", "docs/c.md")
    examples = blocks("\n".join((ROOT / p).read_text(encoding="utf-8") for p in pages))
    env = {**os.environ, "MPLBACKEND": "agg"}  # no window
    passed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = ROOT / "r_package/inst/extdata/headlines.csv"
        (folder / texts.name).symlink_to(texts)
        (folder / MODEL).symlink_to(model)
        for language in FILES:
            print(f"--- {language}", flush=True)
            steps = commands(language, examples[language], folder)
            passed += all(
                subprocess.run(step, cwd=folder, env=env, check=False).returncode == 0
                for step in steps
            )
    print(f"{passed} passed, {len(FILES) - passed} failed")
    sys.exit(passed != len(FILES))


if __name__ == "__main__":
    main()
