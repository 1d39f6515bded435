"""Tests damage to journals: crashes, full disks, other files: prints JSON lines.

    python tests/strangers/journal.py

Needs LLAMAHERD_TEST_SMOLLM2, the path of a model, and Rscript with the R package.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "faults"), str(ROOT / "python")]

import disk
import faults
import llamaherd as lh
from llamaherd.calls.journal.journal import Journal
from rows import tell

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = os.environ["LLAMAHERD_TEST_SMOLLM2"]
PROMPTS = [f"Word {i}" for i in range(150)]


def row(what: str, held: list[bool], note: str = "") -> None:
    tell(1, what, len(held), sum(held), note)


def generate(context: lh.Context, journal: Path) -> tuple[lh.Results, list[str]]:
    """Run a call on the real model; return results and warnings about the journal."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = lh.generate_parallel(context, PROMPTS, max_tokens=2, journal=journal)
    names = [warning.category.__name__ for warning in caught]
    return results, [name for name in names if name == "JournalWarning"]


# ---- the disk --------------------------------------------------------------------------


def failing_disk(folder: Path) -> None:
    out = folder / "disk.json"
    library = faults.build(folder, "disk")
    faults.run(library, ROOT / "faults" / "disk.py", out, timeout_s=600)
    for what, tries in json.loads(out.read_text(encoding="utf-8")).items():
        held = [True] * tries["held"] + [False] * (tries["tries"] - tries["held"])
        row(
            f"{what}, for every k; run again",
            held,
            f"{disk.N_GROUPS} commits, a checkpoint of SQLite's log every "
            f"{disk.LOG_PAGES} pages",
        )


def small_disk(folder: Path) -> None:
    place, out = folder / "disk", folder / "levels.json"
    place.mkdir()
    script = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" "$3" "$1" "$4"'
    program = [sys.executable, ROOT / "faults" / "small_disk.py"]
    own_disk = ["unshare", "--map-root-user", "--mount"]
    subprocess.run(
        [*own_disk, "sh", "-c", script, "sh", place, *program, out], check=True
    )
    levels = json.loads(out.read_text(encoding="utf-8"))
    first = [level["first"] for level in levels]
    row(
        "a call on a disk of 1 MB that is almost full; the call again; the call again "
        "with free space",
        [not level["problems"] for level in levels],
        f"the first call: {first.count('refused')} refused before the computation, "
        f"{first.count('warned')} with a warning, "
        f"{first.count('stored')} stored all results",
    )


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
from journal import MODEL, generate
from pathlib import Path
import llamaherd as lh
with lh.Model(MODEL) as model, lh.Context(model, n_threads=2, n_seq_max=16) as context:
    generate(context, Path(sys.argv[2]))
"""


def n_read(journal: Path) -> int:
    return len(lh.journal_read(journal)) if journal.exists() else 0


def killed(folder: Path, context: lh.Context) -> None:
    journal, chance = folder / "killed.sqlite", random.Random(1)
    held, before = [], set()
    for n_stored in (1, 30, 60, 90, 120):
        command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(journal)]
        with subprocess.Popen(command) as process:
            while process.poll() is None and n_read(journal) < n_stored:
                time.sleep(chance.uniform(0.0, 0.1))
            process.kill()
        entries = lh.journal_read(journal)
        keys = {entry.key for entry in entries}
        held.append(len(keys) == len(entries) and before <= keys)
        before = keys
    results, _ = generate(context, journal)
    held.append(results.stats.n_journal == len(before) and None not in results.texts)
    row(
        "SIGKILL in the middle of a call; run again",
        held,
        f"{len(before)} of {len(PROMPTS)} were stored before the last run",
    )


# ---- the file --------------------------------------------------------------------------


def each_of(path: Path, do: Callable[[Path], object], *suffixes: str) -> None:
    for suffix in suffixes:
        do(path.with_name(path.name + suffix))


def moved_all(path: Path) -> None:
    other = path.parent / "other"
    other.mkdir()
    each_of(path, lambda file: file.rename(other / file.name), "", "-wal", "-shm")


def moved_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name(f"{path.parent.name}-moved"))
    path.parent.mkdir()


def replaced(path: Path) -> None:
    other = path.with_name("other.sqlite")
    Journal(other).close()
    other.replace(path)


WAYS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "removed with its log": lambda path: each_of(path, Path.unlink, "", "-wal", "-shm"),
    "moved": lambda path: path.rename(path.with_name("kept.sqlite")),
    "moved with its log": moved_all,
    "moved with its folder": moved_folder,
    "replaced by another journal": replaced,
    "left without its log": lambda path: each_of(path, Path.unlink, "-wal", "-shm"),
}


def happens(path: Path, what: Callable[[Path], object], is_over: Event) -> None:
    """Run `what` when some results of the call are stored."""
    while not is_over.wait(0.05):
        if path.exists() and len(lh.journal_read(path)) > 30:
            what(path)
            return


def moved(folder: Path, context: lh.Context) -> None:
    for name, what in WAYS.items():
        place = folder / name.replace(" ", "-")
        place.mkdir()
        path, is_over = place / "run.sqlite", Event()
        thread = Thread(target=happens, args=(path, what, is_over))
        thread.start()
        results, warned = generate(context, path)
        is_over.set()
        thread.join()
        again, told_again = generate(context, path)
        row(
            f"the journal is {name} during a call",
            [
                warned == ["JournalWarning"]
                and all(result.is_finished for result in results)
                and again.stats.n_journal == len(PROMPTS)
                and told_again == []
            ],
            f"one warning; {again.stats.n_journal} of {len(PROMPTS)} in the file at its "
            "path",
        )


WRITER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import dataclasses, disk
from llamaherd.calls.journal.journal import Journal
journal = Journal(Path(sys.argv[2]))
print("open", flush=True)
for i in range(40):
    key = f"{int(sys.argv[3]) * 1000 + i:064x}"
    journal.add([dataclasses.replace(disk.ENTRIES[0], key=key)])
    time.sleep(0.01)
sys.stdin.readline()
journal.add([])
journal.close()
"""


def shared(folder: Path) -> None:
    """Check that each process commits again after all results are stored, like a call."""
    held = []
    for i in range(6):
        path = folder / f"shared-{i}" / "run.sqlite"
        path.parent.mkdir()
        Journal(path).close()
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(ROOT / "faults"), str(path), str(j)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for j in range(3)
        ]
        for process in processes:
            process.stdout.readline()
        time.sleep(0.1 * i)
        (Path.unlink if i % 2 else WAYS["moved"])(path)
        time.sleep(1)
        codes = [
            process.communicate(b"\n")[0] or process.returncode for process in processes
        ]
        with sqlite3.connect(path) as db:
            is_whole = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.close()
        held.append(is_whole and codes == [0, 0, 0] and len(lh.journal_read(path)) == 120)
    what = "the journal is removed or moved while three processes write to it"
    row(what, held, "120 of 120 results")


def refused(path: str | Path) -> bool:
    """Return True if reading and writing raise the right error with a short message."""
    return all(0 < len(message(use, path)) < 1000 for use in (Journal, lh.journal_read))


def message(use: Callable[[str | Path], object], path: str | Path) -> str:
    try:
        use(path)
    except lh.JournalError as error:
        return str(error)
    return ""


def names(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    bad: list[str | Path] = [
        f"{folder}/a\0b",
        f"{folder}/\ud800",
        folder / ("n" * 219),
        folder / ("n" * 300),
        folder / ("n" * 100_000),
        folder / "/".join(["d" * 200] * 30),
        folder,
        "",
        folder / "none" / "run",
        folder / "disk.json" / "run",
        folder / "fifo",
        folder / "a",
        "/dev/null",
        "/dev/zero",
        "/proc/run.sqlite",
        "/proc/self/maps",
    ]
    held = [refused(path) for path in bad]
    row("paths that cannot be a journal: JournalError", held)
    path, second = folder / "one.sqlite", folder / "two.sqlite"
    journal = Journal(path)
    os.link(path, second)
    journal.add(disk.ENTRIES[:3])
    held = [refused(path), refused(second)]
    second.unlink()
    held.append(lh.journal_read(path) == disk.ENTRIES[:3])
    journal.close()
    row("a hard link to a journal in use: an error, because its log cannot be read", held)


def half_moved_log(path: Path) -> int:
    """Write a journal with a crash during a checkpoint; return the number of results."""
    journal = Journal(path)
    journal.add(disk.ENTRIES)
    shutil.copy(f"{path}-wal", f"{path}-kept")
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    Path(f"{path}-kept").rename(f"{path}-wal")
    return len(disk.ENTRIES)


def foreign(folder: Path) -> None:
    held = []
    for mode in ("WAL", "DELETE"):
        place = folder / f"foreign-{mode}"
        place.mkdir()
        path = place / "run.sqlite"
        db = sqlite3.connect(place / "live", isolation_level=None)
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("PRAGMA cache_size = 1")
        db.execute("CREATE TABLE t (x)")
        db.execute("BEGIN")
        for _ in range(20):
            db.execute("INSERT INTO t VALUES (randomblob(9000))")
        if mode == "WAL":
            db.execute("COMMIT")
        for file in place.glob("live*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, str(file).replace("live", "run.sqlite"))
        db.close()
        for file in place.glob("live*"):
            file.unlink()
        before = {file.name: file.read_bytes() for file in place.iterdir()}
        held.append(refused(path))
        held.append(before == {file.name: file.read_bytes() for file in place.iterdir()})
    row("another application's SQLite file after a crash: an error, file unchanged", held)


def from_r(folder: Path) -> None:
    path = folder / "crashed.sqlite"
    n = half_moved_log(path)
    code = "cat('rows', nrow(llamaherd::journal_read(commandArgs(TRUE)[[1]])))"
    environment = {**os.environ, "RETICULATE_PYTHON": sys.executable}
    done = subprocess.run(
        ["Rscript", "--vanilla", "-e", code, str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    row(
        "journal_read() in R after a crash during a checkpoint of the journal",
        [f"rows {n}" in done.stdout],
    )
    bad = [folder, folder / "none" / "run", folder / ("n" * 300), folder / "fifo"]
    done = subprocess.run(
        ["Rscript", "--vanilla", ROOT / "cross" / "journal_paths.R", MODEL, *bad],
        env=environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    lines = [
        line for line in done.stdout.splitlines() if line.startswith(("read ", "write "))
    ]
    held = ["llamaherd_error_journal: " in line for line in lines]
    row("invalid paths of journals in R: an error of class llamaherd_error_journal", held)


def main() -> None:
    """Run all trials."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for tries in (failing_disk, small_disk, shared, names, foreign, from_r):
            tries(folder)
        with lh.Model(MODEL) as model, lh.Context(model, n_threads=2) as context:
            killed(folder, context)
            moved(folder, context)


if __name__ == "__main__":
    main()
