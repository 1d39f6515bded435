"""JSON that is nested too deeply is a damaged text, and no crash, for each reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.coding.annotation.spans import spans_of_cell
from llamaherd.coding.reports.report_data import read_report
from llamaherd.coding.selection import compare
from llamaherd.engine.hub.cache import list_ollama_models, note_of, note_path
from llamaherd.engine.hub.download import FileRequest
from llamaherd.optimize import fastest_files
from llamaherd.server.tools import ToolUse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "read",
    [
        lh.Calibration.from_json,
        lh.types.CodebookChoice.from_json,
        lh.types.CodebookComparison.from_json,
        lh.GoldSample.from_json,
        spans_of_cell,
    ],
)
def test_texts_of_users_are_refused(read: Callable[[str], Any]) -> None:
    with pytest.raises(lh.ArgumentError):
        read(DEEP)


@pytest.mark.parametrize("read", [read_report, lh.read_spans])
def test_files_of_users_are_refused(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "deep.json"
    path.write_text(DEEP)
    with pytest.raises(lh.ArgumentError, match=r"deep\.json"):
        read(path)


def test_damaged_records_count_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.touch()
    note_path(path).write_text(DEEP)
    assert note_of(path) == {}
    request = FileRequest(url="https://example.org/x", target=path, source="x")
    request.state_path.write_text(DEEP)
    assert request.state() == {}
    (tmp_path / fastest_files._RESULT).write_text(DEEP)
    assert fastest_files.look(path, tmp_path) is None


def test_damaged_times_count_as_a_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "run.journal.times.json"
    path.write_text(DEEP)
    assert compare._read(path) is None  # it is not replaced


def test_a_damaged_model_of_ollama_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = tmp_path / "manifests" / "registry.ollama.ai" / "library" / "x" / "latest"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(DEEP)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    assert not [each for each in list_ollama_models() if each.name.startswith("x:")]


def test_an_answer_to_tools_is_then_text() -> None:
    use = ToolUse([], forced=("one", "two"))
    assert use._forced(DEEP, "stop") == (DEEP, [], "tool_calls")
