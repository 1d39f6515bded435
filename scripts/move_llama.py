"""Changes the pinned version of llama-cpp-python in all files.

    move_llama.py VERSION

The files are the pages and declarations that check_versions.py compares, the hash of the
source distribution in fetch_templates.py, and the record of reviewed architectures, from
which new and changed architectures are removed. docs/moving-llama.md has the next steps.
"""

from __future__ import annotations

import re
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import check_versions
import fetch_templates
import llama_names

ROOT = Path(__file__).resolve().parent.parent


def with_pin(text: str, version: str) -> str:
    """Return a text in which each pin names another version."""
    return check_versions.PIN.sub(rf"\g<1>{version}", text)


def main(version: str) -> None:
    """Change the files."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        archive = fetch_templates.download(Path(name), f"llama-cpp-python=={version}")
        digest = sha256(archive.read_bytes()).hexdigest()
    llama_names.main(["record", version])
    for name in check_versions.PINNED:
        path = ROOT / name
        newest = check_versions.newest(name)
        rest = path.read_text(encoding="utf-8").removeprefix(newest)
        path.write_text(with_pin(newest, version) + rest, encoding="utf-8")
    script = ROOT / "scripts" / "fetch_templates.py"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace(fetch_templates.SHA256, digest), encoding="utf-8")
    check_versions.main()


if __name__ == "__main__":
    main(*sys.argv[1:] or [""])
