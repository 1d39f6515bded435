"""One command for installation, which never searches a package index for llamaherd."""

from __future__ import annotations

import re
from pathlib import Path

from llamaherd.engine.core import phrases

ROOT = Path(__file__).resolve().parents[3]
REPOSITORY = "https://github.com/llamaherd/llamaherd"


def test_the_command_names_the_repository() -> None:
    """Also with extras and options."""
    assert phrases.install_command() == f'pip install "git+{REPOSITORY}"'
    extras = f'pip install -U "llamaherd[docx,plot] @ git+{REPOSITORY}"'
    assert phrases.install_command("docx", "plot", options="-U") == extras


def test_no_text_asks_an_index_for_llamaherd() -> None:
    """This includes sources, documents and help pages."""
    folders = ("python_core", "r_package", "docs", "capi_shim", "scripts", "examples")
    files = [ROOT / "README.md"]
    for folder in folders:
        files += [p for p in (ROOT / folder).rglob("*") if p.is_file()]
    kinds = {".py", ".R", ".Rd", ".Rmd", ".md", ".sh", ".cpp", ".hpp", ".toml"}
    asked = re.compile(
        r"""pip3? install [^\n|`]*?(?<![\w/.+-])llamaherd(\[[\w,]+\])?"""
        r"""["'` .:)]*(?! ?@)(\s|$)"""
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        if path.suffix in kinds
        for line in path.read_text(encoding="utf-8").splitlines()
        if asked.search(line)
    ]
    assert found == []
