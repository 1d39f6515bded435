"""Runs the commands of docs/cli.md, and writes their output into the page.

    python scripts/docs_cli.py MODEL.gguf ENCODER.gguf

Commands are lines that begin with "$ " in blocks of type "console". The commands run one
after the other in a folder with model.gguf, encoder.gguf and headlines.csv.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/cli.md"
_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_HEADLINES = [
    "Team wins the cup after extra time",
    "Central bank leaves rates as they are",
    "Striker out for six weeks with a knee injury",
    "Shares fall as oil prices rise",
    "",
    "Coach leaves club after defeat in final",
]


def main() -> None:
    """Write the page."""
    model, encoder = (Path(path).resolve() for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="llamaherd-") as name:
        folder = Path(name)
        (folder / "model.gguf").symlink_to(model)
        (folder / "encoder.gguf").symlink_to(encoder)
        rows = "\n".join(f"{i},{text}" for i, text in enumerate(_HEADLINES, 1))
        (folder / "headlines.csv").write_text(f"id,text\n{rows}\n")
        text = PAGE.read_text(encoding="utf-8")
        text = _BLOCK.sub(lambda match: _block(match[0], folder), text)
    PAGE.write_text(text, encoding="utf-8")


def _block(block: str, folder: Path) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{_output(command[2:], folder)}" for command in commands)


def _output(command: str, folder: Path) -> str:
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    text = done.stdout
    for path, shown in (
        (str(folder), "/data"),
        (f"{ROOT}/", ""),
        (str(Path.home()), "~"),
    ):
        text = text.replace(path, shown)
    lines = [line.rstrip() for line in text.splitlines()]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
