"""The journal's file: complete, shared, or refused without any change."""

from __future__ import annotations

import dataclasses
import json
import math
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from fake_engine import answer, text_of
from hypothesis import example, given
from hypothesis import strategies as st
from journalled import entries, many, request, run
from llamaherd import JournalError, journal_read
from llamaherd.calls.journal import sqlite as journal_look
from llamaherd.calls.journal.entry import _digest
from llamaherd.calls.journal.journal import _SELECT_ALL, Journal
from thorough import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.calls.journal.entry import JournalEntry


# ---- files that are no journals, or damaged --------------------------------------------


def other_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE result (key BLOB)")
    db.close()


def later_format(path: Path) -> None:
    Journal(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()


def truncated(path: Path) -> None:
    Journal(path).close()
    path.write_bytes(path.read_bytes()[:-4096])


def overwritten(path: Path) -> None:
    Journal(path).close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"x" * (len(content) - 4096))


def with_more(sql: str) -> Callable[[Path], None]:
    """Create a journal that contains something that no journal has."""

    def make(path: Path) -> None:
        Journal(path).close()
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(sql)

    return make


NO_JOURNALS: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda path: path.write_text("a,b\n1,2\n"), "is not a journal: file is not"),
    "empty": (lambda path: path.write_bytes(b""), "is not a journal: it is empty"),
    "sqlite": (other_sqlite, "SQLite file of another application"),
    "later": (later_format, "is a journal in format 2"),
    "truncated": (truncated, "is damaged|cannot be used"),
    "overwritten": (overwritten, "is damaged|cannot be used"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
    "trigger": (
        with_more(
            "CREATE TRIGGER t AFTER INSERT ON result BEGIN "
            "DELETE FROM result WHERE id = new.id; END"
        ),
        "it has the trigger 't', which no journal has",
    ),
    "view": (with_more("CREATE VIEW v AS SELECT 1"), "it has the view 'v'"),
    "index": (with_more("CREATE INDEX i ON result (abs(text))"), "it has the index 'i'"),
}


@pytest.mark.parametrize("kind", NO_JOURNALS)
def test_what_is_no_journal_is_left_as_it_is(folder: Path, kind: str) -> None:
    make, message = NO_JOURNALS[kind]
    path = folder / "run.sqlite"
    make(path)
    before = None if path.is_dir() else path.read_bytes()
    for name, use in (("journal", Journal), ("path", journal_read)):
        with pytest.raises(JournalError, match=message) as caught:
            use(path)
        assert str(caught.value).startswith(f"{name}: ")
        assert "run.sqlite" in str(caught.value)
    assert before is None or path.read_bytes() == before
    assert sorted(item.name for item in folder.iterdir()) == ["model.gguf", "run.sqlite"]


COLUMNS = ("model", "model_sha256", "settings", "version", "key", "prompt",
           "n_prompt_tokens", "seed", "text", "tokens", "finish_reason", "error",
           "numbers", "created")  # fmt: skip
ODD = (None, 7, -1, 2**62, 1.5, math.inf, 1e300, "text", b"bytes", b"")


@pytest.mark.more(reason="a process for each case", cases=61)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_values_that_no_result_has_are_damage(
    folder: Path, column: str, value: object
) -> None:
    prompt = request([1, 2])
    object.__setattr__(prompt, "logprobs", 1)
    run(folder, [prompt])
    path = folder / "run.sqlite"
    place = COLUMNS.index(column)
    with closing(sqlite3.connect(path)) as db, db:
        row = list(db.execute(_SELECT_ALL).fetchone())
        row[place] = value
        table = "origin" if place < 4 else "result"
        try:
            db.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except sqlite3.IntegrityError:
            return  # SQLite itself refuses it
        stored = db.execute(_SELECT_ALL).fetchone()
        db.execute("UPDATE result SET digest = ?", (_digest(stored[:-1]),))
    with suppress(JournalError):
        for entry in journal_read(path):
            assert isinstance(entry.text, str)
            assert entry.created.year < 10000
    with suppress(JournalError):
        results, _ = run(folder, [prompt])
        assert isinstance(results[0].text, str)


def test_places_that_cannot_be_used(folder: Path) -> None:
    with pytest.raises(JournalError, match="there is no folder"):
        Journal(folder / "none" / "run.sqlite")
    with pytest.raises(JournalError, match=r"path: .*none.sqlite.* cannot be used"):
        journal_read(folder / "none.sqlite")
    assert not (folder / "none.sqlite").exists()
    with pytest.raises(TypeError, match="journal must be a path, not 5"):
        Journal(5)
    if sys.platform == "linux":  # files cannot be created there
        with pytest.raises(JournalError, match=r"'/proc/run.sqlite' cannot be used"):
            Journal("/proc/run.sqlite")


def test_names_with_odd_characters(folder: Path) -> None:
    mark = "" if sys.platform == "win32" else "?"  # Windows has no names with "?"
    path = folder / f"a{mark}b#c%20d é.sqlite"
    Journal(path).close()
    assert journal_read(str(path)) == []
    assert path.exists()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    (folder / "model.gguf").write_bytes(b"GGUF")
    run(folder, [request([i, i, 1], 40) for i in range(60)])
    return folder / "run.sqlite"


@given(place=st.integers(0, 10**6), change=st.integers(1, 255))
@example(place=3399, change=1)  # the name of a column in a CHECK
@example(place=3118, change=1)  # the name of a column that only reading asks for
@examples(300)
def test_no_changed_byte_changes_an_answer(sound: Path, place: int, change: int) -> None:
    expected = journal_read(sound)
    content = bytearray(sound.read_bytes())
    place %= len(content)
    content[place] ^= change
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_look, "_RETRY_S", (0.0,))  # no other process writes to it
        damaged = Path(name) / "run.sqlite"
        damaged.write_bytes(content)
        try:
            read = journal_read(damaged)
        except JournalError:
            read = []
            with pytest.raises(JournalError):
                find_all(damaged, expected)
        else:
            assert read == expected
            assert find_all(damaged, expected) == expected
        assert len(list(Path(name).iterdir())) == 1
        assert damaged.read_bytes() == content or read


def find_all(path: Path, expected: list[JournalEntry]) -> list[JournalEntry | None]:
    journal = Journal(path)
    try:
        return [journal.find(bytes.fromhex(entry.key)) for entry in expected]
    finally:
        journal.close()


# ---- several at once -------------------------------------------------------------------


PROCESS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from journalled import many, run
run(Path(sys.argv[2]), many(int(sys.argv[3])))
"""


def test_processes_share_a_journal(folder: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(Path(__file__).parents[1]), str(folder)]
    processes = [subprocess.Popen([*command, str(start)]) for start in (0, 500, 1000)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    stored = entries(folder)
    assert len(stored) == len({entry.key for entry in stored}) == 1500
    for entry in stored:
        tokens = [int(token) for token in entry.prompt.split()]
        assert entry.text == text_of(answer(request(tokens))[0])
    _, engine = run(folder, many(0))
    assert engine.n_submitted == 0


def test_a_journal_that_gets_another_ones_log_is_looked_at_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first page is written first, so the file is shorter than it states for a
    # moment.
    run(folder, many(1000))
    path = folder / "run.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(JournalError, match="is damaged: database disk image"):
        Journal(path)
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if seconds == journal_look._RETRY_S[-1]:
            path.write_bytes(whole)

    monkeypatch.setattr(journal_look, "time", SimpleNamespace(sleep=wait))
    Journal(path).close()
    assert pauses[-1] == journal_look._RETRY_S[-1]


def test_a_journal_in_use_can_be_read(folder: Path) -> None:
    run(folder, [request([1])])
    journal = Journal(folder / "run.sqlite")
    (entry,) = entries(folder)
    journal.add([dataclasses.replace(entry, key="ab" * 32)])
    assert [stored.key for stored in entries(folder)] == [entry.key, "ab" * 32]
    journal.close()


OPEN_AND_CLOSE = """
import sys
from llamaherd.calls.journal.journal import Journal
Journal(sys.argv[1]).close()
"""


def test_reading_a_journal_leaves_the_locks_of_its_writer(folder: Path) -> None:
    # When a process closes a file, it loses all its locks on this file (POSIX). Without
    # the writer's lock, the last of the other processes would remove the writer's log.
    run(folder, [request([1])])
    journal = Journal(folder / "run.sqlite")
    (entry,) = entries(folder)
    Journal(folder / "run.sqlite").close()
    journal.add([dataclasses.replace(entry, key="ab" * 32)])
    command = [sys.executable, "-c", OPEN_AND_CLOSE, str(folder / "run.sqlite")]
    subprocess.run(command, check=True)
    journal.add([dataclasses.replace(entry, key="cd" * 32)])
    assert [stored.key for stored in entries(folder)] == [entry.key, "ab" * 32, "cd" * 32]
    journal.close()


# ---- reading ---------------------------------------------------------------------------


def test_entries_tell_people_what_there_is(folder: Path) -> None:
    prompt = request([1, 2], 3, temperature=0.5, seed=2**32 - 1)
    as_tokens = dataclasses.replace(request([9]), text=None)
    odd = dataclasses.replace(request([5]), text="NUL \0, é, 🎉 and 'quotes'")
    results, _ = run(folder, [prompt, as_tokens, odd])
    by_tokens = {entry.n_prompt_tokens: entry for entry in entries(folder)}
    entry = by_tokens[2]
    assert (entry.prompt, entry.text, entry.error) == ("1 2", results[0].text, None)
    assert entry.tokens == results[0].tokens
    assert entry.n_generated_tokens == len(entry.tokens)
    assert (entry.finish_reason, entry.seed) == (results[0].finish_reason, 2**32 - 1)
    assert entry.created.tzinfo is UTC
    assert json.loads(entry.settings) == {
        "max_tokens": 3,
        "stop": [],
        "temperature": 0.5,
        "type_k": "f16",
    }
    prompts = {entry.prompt for entry in entries(folder)}
    assert prompts == {"1 2", "written out: 9", odd.text}
