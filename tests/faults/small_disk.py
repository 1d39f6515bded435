"""Runs calls with a journal on a small disk that is almost full, and then has free space.

    python small_disk.py FOLDER OUT.json

FOLDER is an empty disk of about 1 MB.
"""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))

from fake_engine import answer, text_of
from journalled import FakeContext, recorded, request
from llamaherd import JournalError, JournalWarning, journal_read
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.calls.run.job import Job

KIB = 1024
LEVELS_KIB = [0, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512, 900]
REQUESTS = [request([i % 100, i // 100, 1], 40) for i in range(250)]


def tried(folder: Path, n_free: int) -> dict[str, object]:
    """Run a call twice with `n_free` free bytes, and once with the whole disk free."""
    (folder / "model.gguf").write_bytes(b"GGUF")
    filler = folder / "filler"
    filler.write_bytes(bytes(max(0, shutil.disk_usage(folder).free - n_free)))
    problems: list[str] = []
    first, stored = call(folder, problems)
    again, stored_again = call(folder, problems)
    if not stored <= stored_again:
        problems.append("results are gone after the second call")
    filler.unlink()
    last, stored = call(folder, problems)
    if last != "stored" or len(stored) != len(REQUESTS) or not stored_again <= stored:
        problems.append(f"with room again: {last}, {len(stored)} results")
    if sorted(file.name for file in folder.iterdir()) != ["model.gguf", "run.sqlite"]:
        problems.append(f"left: {sorted(file.name for file in folder.iterdir())}")
    for file in folder.iterdir():
        file.unlink()
    return {"free": n_free, "first": first, "again": again, "problems": problems}


def call(folder: Path, problems: list[str]) -> tuple[str, set[str]]:
    """Run the call; return its outcome and the keys of the stored results."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            results = Job(HostedCall(FakeContext(), recorded(folder, REQUESTS))).results()
        except JournalError as error:
            # The error occurs before the computation: not even an empty journal fits.
            if "cannot be used" not in str(error):
                problems.append(str(error))
            how = "refused"
        else:
            how = "warned" if caught else "stored"
            expected = [text_of(answer(one)[0]) for one in REQUESTS]
            if results.texts != expected:
                problems.append("the call does not return all of its results")
    if any(item.category is not JournalWarning for item in caught):
        problems.append(f"warned of {[str(item.message) for item in caught]}")
    if not (folder / "run.sqlite").exists():
        return how, set()
    entries = journal_read(folder / "run.sqlite")
    keys = {entry.key for entry in entries}
    if len(keys) != len(entries):
        problems.append("results are there twice")
    if how == "stored" and len(keys) != len(REQUESTS):
        problems.append("not all is stored, and nobody told")
    return how, keys


def main() -> None:
    """Write the outcome for each amount of free space, as JSON."""
    folder, out = map(Path, sys.argv[1:])
    levels = [tried(folder, n * KIB) for n in LEVELS_KIB]
    out.write_text(json.dumps(levels, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
