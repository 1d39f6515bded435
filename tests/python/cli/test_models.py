"""`llamaherd models`: the cache of model files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from commands import Commands


@pytest.fixture(autouse=True)
def cache(own_cache: Path) -> Path:
    own_cache.mkdir(parents=True)
    return own_cache


def add(cache: Path, name: str, content: bytes = b"GGUF") -> Path:
    path = cache / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_models_are_listed(cli: Commands, cache: Path) -> None:
    assert cli("models list") == ("", "")  # output for programs has no hints
    path = add(cache, "owner--repo/tiny-Q8_0.gguf", b"x" * 2_000_000)
    note = '{"source": "hf:owner/repo/tiny-Q8_0.gguf"}'
    path.with_name(path.name + ".json").write_text(note)
    (line,) = cli("models list").out.splitlines()
    name, size, unit, _, source = line.split()
    assert (name, size, unit) == ("tiny-Q8_0.gguf", "2", "MB")
    assert source == "hf:owner/repo/tiny-Q8_0.gguf"
    (row,) = json.loads(cli("models list --json").out)
    assert (row["path"], row["size_bytes"]) == (str(path), 2_000_000)


def test_names_of_files_do_nothing_to_a_terminal(cli: Commands, cache: Path) -> None:
    add(cache, "a\x1b[31m\nb.gguf")
    assert cli("models list").out.startswith("a?[31m?b.gguf ")


def test_a_path_is_that_of_a_file_that_is_here(cli: Commands, cache: Path) -> None:
    path = add(cache, "owner--repo/tiny-Q8_0.gguf")
    for source in ("tiny", "hf:owner/repo", "hf:owner/repo:Q8_0", str(path)):
        assert cli("models path", source).out == f"{path}\n"
    # No question is asked.
    assert cli("models download hf:owner/repo:Q8_0").out == f"{path}\n"


@pytest.mark.parametrize(
    "source", ["hf:owner/other", "https://example.org/x.gguf", "none.gguf", "ollama:x"]
)
def test_a_path_is_never_downloaded(
    source: str, cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("this asks the network")

    monkeypatch.setattr("llamaherd.engine.hub.download.download", refuse)
    monkeypatch.setattr("llamaherd.engine.hub.repository._repository", refuse)
    name = source.removeprefix("ollama:")
    assert cli("models path", source, status=1, err=name).out == ""


def test_a_model_is_removed_with_all_that_is_its(cli: Commands, cache: Path) -> None:
    parts = [add(cache, f"big-0000{i}-of-00002.gguf") for i in (1, 2)]
    other = add(cache, "other.gguf")
    note = parts[0].with_name(parts[0].name + ".json")
    note.write_text('{"source": "hf:owner/big"}')
    cli("models remove big", status=2, err="--yes")  # no terminal for a question
    assert all(part.exists() for part in parts)
    cli("models remove big --yes")
    assert not any(path.exists() for path in (*parts, note))
    assert other.exists()


def test_files_of_others_are_not_removed(
    tmp_path: Path, cli: Commands, cache: Path
) -> None:
    mine = add(tmp_path, "mine.gguf")
    (cache / "link.gguf").symlink_to(mine)
    for source in (mine, "link"):
        cli("models remove --yes", source, status=1, err="remove it yourself")
    assert mine.exists()


def test_models_are_suggested_by_memory(cli: Commands) -> None:
    rows = json.loads(cli("models suggest --memory 8 --json").out)
    assert [row["fits"] for row in rows] == [True, True, False, False]
    lines = cli("models suggest --memory 8").out.splitlines()
    assert lines[0].endswith("fits")
    assert "    measured here: not measured" in lines
    cli("models suggest --memory 0", status=2)
