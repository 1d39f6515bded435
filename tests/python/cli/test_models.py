from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from llamaherd.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache(own_cache: Path) -> Path:
    own_cache.mkdir(parents=True)
    return own_cache


def add(cache: Path, name: str, content: bytes = b"GGUF") -> Path:
    path = cache / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_models_are_listed(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list"]) == 0
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "")  # output for programs has no hints
    path = add(cache, "owner--repo/tiny-Q8_0.gguf", b"x" * 2_000_000)
    note = '{"source": "hf:owner/repo/tiny-Q8_0.gguf"}'
    path.with_name(path.name + ".json").write_text(note)
    assert main(["models", "list"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    name, size, unit, _, source = line.split()
    assert (name, size, unit) == ("tiny-Q8_0.gguf", "2", "MB")
    assert source == "hf:owner/repo/tiny-Q8_0.gguf"
    assert main(["models", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["path"] == str(path)
    assert row["size_bytes"] == 2_000_000


def test_names_of_files_do_nothing_to_a_terminal(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(cache, "a\x1b[31m\nb.gguf")
    assert main(["models", "list"]) == 0
    assert capsys.readouterr().out.startswith("a?[31m?b.gguf ")


def test_a_path_is_that_of_a_file_that_is_here(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = add(cache, "owner--repo/tiny-Q8_0.gguf")
    for source in ("tiny", "hf:owner/repo", "hf:owner/repo:Q8_0", str(path)):
        assert main(["models", "path", source]) == 0
        assert capsys.readouterr().out == f"{path}\n"
    assert main(["models", "download", "hf:owner/repo:Q8_0"]) == 0  # no question is asked
    assert capsys.readouterr().out == f"{path}\n"


@pytest.mark.parametrize(
    "source", ["hf:owner/other", "https://example.org/x.gguf", "none.gguf", "ollama:x"]
)
def test_a_path_is_never_downloaded(
    source: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("this asks the network")

    monkeypatch.setattr("llamaherd.engine.hub.download.download", refuse)
    monkeypatch.setattr("llamaherd.engine.hub.repository._repository", refuse)
    assert main(["models", "path", source]) == 1
    seen = capsys.readouterr()
    assert seen.out == ""
    assert source.removeprefix("ollama:") in seen.err


def test_a_model_is_removed_with_all_that_is_its(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [add(cache, f"big-0000{i}-of-00002.gguf") for i in (1, 2)]
    other = add(cache, "other.gguf")
    note = parts[0].with_name(parts[0].name + ".json")
    note.write_text('{"source": "hf:owner/big"}')
    assert main(["models", "remove", "big"]) == 2  # no terminal for a question
    assert "--yes" in capsys.readouterr().err
    assert all(part.exists() for part in parts)
    assert main(["models", "remove", "big", "--yes"]) == 0
    assert not any(path.exists() for path in (*parts, note))
    assert other.exists()


def test_files_of_others_are_not_removed(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = add(tmp_path, "mine.gguf")
    (cache / "link.gguf").symlink_to(mine)
    for source in (str(mine), "link"):
        assert main(["models", "remove", source, "--yes"]) == 1
        assert "remove it yourself" in capsys.readouterr().err
    assert mine.exists()


def test_models_are_suggested_by_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "suggest", "--memory", "8", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["fits"] for row in rows] == [True, True, False, False]
    assert main(["models", "suggest", "--memory", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("fits")
    assert "    measured here: not measured" in lines
    assert main(["models", "suggest", "--memory", "0"]) == 2
