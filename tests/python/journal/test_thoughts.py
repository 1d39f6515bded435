"""Thoughts in a journal: stored with their answers, and found again."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fake_engine import FakeEngine, make_loop
from journalled import SIZES, entries, recorded, request, run
from llamaherd import JournalError, journal_read
from llamaherd.calls.journal.journal import Journal
from llamaherd.engine.core.request import ThoughtStage

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.engine.core.request import Request

PLAIN = [request([i, 1]) for i in range(4)]


def thinking(budget: int, **fields: object) -> list[Request]:
    stage = ThoughtStage(budget=budget, is_open=True, end=(7,), closing=(5, 7))
    return [replace(request, thought=replace(stage, **fields)) for request in PLAIN]


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_master")}


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(sql)


def test_a_thought_is_stored_and_found_again(folder: Path) -> None:
    first, _ = run(folder, thinking(50))
    again, engine = run(folder, thinking(50))
    assert engine.n_submitted == 0
    assert again.stats.n_journal == 4
    for one, other in zip(first, again, strict=True):
        assert one.thinking
        assert one.thinking == other.thinking
        assert one.n_thinking_tokens == other.n_thinking_tokens == 6
        assert one.thinking_complete is other.thinking_complete is True
    read = entries(folder)
    assert [entry.thinking.strip() for entry in read] == first.thinking
    assert {entry.n_thinking_tokens for entry in read} == {6}
    assert {entry.thinking_complete for entry in read} == {True}
    # Statistics do not include thoughts from the journal, because they were not
    # computed.
    assert (first.stats.n_thoughts, first.stats.n_thinking_tokens) == (4, 24)
    assert (again.stats.n_thoughts, again.stats.n_thinking_tokens) == (0, 0)


def test_another_budget_is_another_result(folder: Path) -> None:
    run(folder, thinking(50))
    closed, engine = run(folder, thinking(2))
    assert engine.n_submitted == 4
    assert closed.stats.n_thoughts_closed == 4
    run(folder, PLAIN)
    assert [entry.thinking_complete for entry in entries(folder)] == [
        *[True] * 4,
        *[False] * 4,
        *[None] * 4,
    ]


def test_a_journal_without_thoughts_is_the_file_of_earlier_versions(folder: Path) -> None:
    run(folder, PLAIN)
    assert "thought" not in tables(folder / "run.sqlite")
    run(folder, thinking(50))
    assert "thought" in tables(folder / "run.sqlite")
    Journal(folder / "run.sqlite").close()  # the journal is valid


def test_seeds_of_thoughts_do_not_multiply_settings(folder: Path) -> None:
    drawn = [
        replace(request, thought=replace(request.thought, seed=i))
        for i, request in enumerate(thinking(50))
    ]
    run(folder, drawn)
    assert len({entry.settings for entry in entries(folder)}) == 1


def test_a_changed_or_lost_thought_is_seen(folder: Path) -> None:
    run(folder, thinking(50))
    path = folder / "run.sqlite"
    change(path, "UPDATE thought SET text = 'Other' WHERE rowid = 1")
    with pytest.raises(JournalError, match=r"thought .* was changed"):
        journal_read(path)
    with pytest.raises(JournalError, match=r"thought .* was changed"):
        run(folder, thinking(50))
    change(path, "DELETE FROM thought WHERE rowid = 1")
    with pytest.raises(JournalError, match=r"the thought before .* is missing"):
        journal_read(path)
    change(path, "DROP TABLE thought")
    with pytest.raises(JournalError, match=r"the thought before .* is missing"):
        run(folder, thinking(50))


@pytest.mark.skipif(
    sys.platform == "win32", reason="a file that is open cannot be removed there"
)
def test_thoughts_move_with_the_journal(folder: Path) -> None:
    """A file that is removed while it is open is created again with its thoughts."""
    run(folder, thinking(50))
    path = folder / "run.sqlite"
    engine = FakeEngine(4096, 12)
    run_once = engine.run

    def remove_and_run(*args: object, **options: object) -> object:
        path.unlink(missing_ok=True)
        return run_once(*args, **options)

    engine.run = remove_and_run
    call = recorded(folder, thinking(2))
    call.run(make_loop(SIZES, engine))
    assert "removed, moved or replaced" in call.problem
    assert [entry.thinking_complete for entry in entries(folder)] == [
        *[True] * 4,
        *[False] * 4,
    ]
