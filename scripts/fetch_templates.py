"""Fetches the chat templates of llama.cpp from the source of llama-cpp-python.

    fetch_templates.py FOLDER

Tests render the templates, and scripts/docs_templates.py describes them. The folder gets
its name only when it is complete.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PIN = re.search(
    r"llama-cpp-python==[\d.]+", (ROOT / "pyproject.toml").read_text("utf-8")
)
SOURCE = _PIN[0] if _PIN else sys.exit("error: pyproject.toml pins no llama-cpp-python")
# Of the source distribution; `make move-llama` writes it.
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
_INSIDE = "/vendor/llama.cpp/models/templates/"


def main(folder: Path) -> None:
    """Fetch the templates into `folder`, if it does not exist."""
    if folder.is_dir():
        return
    print(f"==> fetching the chat templates of {SOURCE} (77 MB, once) into {folder}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as name:
        archive = download(Path(name), SOURCE)
        found = sha256(archive.read_bytes()).hexdigest()
        if found != SHA256:
            sys.exit(f"error: {archive.name} has SHA-256 {found}, not {SHA256}")
        target = Path(name, "templates")
        target.mkdir()
        with tarfile.open(archive) as content:
            for member in content:
                if _INSIDE in member.name and member.name.endswith(".jinja"):
                    file = content.extractfile(member)
                    if file is not None:
                        (target / Path(member.name).name).write_bytes(file.read())
        target.rename(folder)


def download(folder: Path, source: str) -> Path:
    """Download the source of a package with pip, without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
    command += ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder)]
    command += ["--disable-pip-version-check", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}error: pip could not download {source}")
    (path,) = folder.glob("*.tar.gz")
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]))
