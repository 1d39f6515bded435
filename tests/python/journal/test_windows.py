"""Journals under the rules of Windows, which never removes or renames an open file."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
import windows_rules
from llamaherd.calls.journal.journal import Journal, journal_read
from llamaherd.engine.core.errors import JournalError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="imitates Windows by /proc"
)


@pytest.fixture
def drafted(tmp_path: Path) -> tuple[Path, Path]:
    """Journal, and the draft that its writer had no time to remove."""
    path = tmp_path / "run.sqlite"
    Journal(path).close()
    draft = path.with_name("run.sqlite.1-abc.new")
    os.link(path, draft)
    return path, draft


def test_a_draft_that_cannot_be_removed_is_ignored(
    drafted: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, draft = drafted
    windows_rules.imitate(monkeypatch)
    with path.open("rb"):  # another process
        journal = Journal(path)
        assert draft.exists()
        assert journal_read(path) == []
        journal.close()
    Journal(path).close()
    assert not draft.exists()


def test_a_journal_is_created_while_others_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.sqlite"
    opened = []
    link = os.link

    def link_and_open(draft: Path, target: Path) -> None:
        link(draft, target)
        opened.append(target.open("rb"))  # by another process, at once

    monkeypatch.setattr(os, "link", link_and_open)
    windows_rules.imitate(monkeypatch)
    Journal(path).close()
    (other,) = opened
    assert len(list(tmp_path.iterdir())) == 2
    other.close()
    Journal(path).close()
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_does_not_keep_a_damaged_journal_open(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    Journal(path).close()
    content = path.read_bytes()
    assert content.count(b"finish_reason IN") == 1
    # The text of the schema is not UTF-8.
    path.write_bytes(content.replace(b"finish_reason IN", b"finish\xffreason IN"))
    for use in (Journal, journal_read):
        with pytest.raises(JournalError, match=r"is damaged|cannot be used") as caught:
            use(path)
        assert caught.value.__cause__ is not None
        assert not windows_rules.is_open(path)
