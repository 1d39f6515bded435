"""Tests of ready codebooks: files are valid, sources are cited, targets are required."""

from __future__ import annotations

import json
from pathlib import Path

import llamaherd as lh
import pytest
from llamaherd.coding.annotation.codebook_file import codebook_from, is_ready, sources_of

ROOT = Path(__file__).resolve().parents[4]
LISTED = lh.list_ready_codebooks()
NAMES = [book.name for book in LISTED]


@pytest.mark.parametrize("ready", LISTED, ids=NAMES)
def test_each_is_a_codebook_that_a_file_keeps(
    ready: lh.types.ReadyCodebook, tmp_path: Path
) -> None:
    book = lh.ready_codebook(ready.name, "taxes" if ready.needs_target else None)
    assert "{" not in str(book.to_dict()).replace("{'", "").replace("{}", "")
    assert book.type == ready.type
    assert len(book.names) == ready.n_labels
    assert ready.sources
    lh.write_codebook(book, tmp_path / "book.yaml")
    assert lh.read_codebook(tmp_path / "book.yaml").hash == book.hash


def test_a_target_is_a_part_of_the_text_only() -> None:
    book = lh.ready_codebook("stance", "the {new} 'tax'")
    assert "the {new} 'tax'" in book.question
    assert all("{target}" not in definition for definition in book.definitions.values())
    assert book.names == ("favour", "against", "neither")


def test_wrong_names_and_targets_are_named() -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        lh.ready_codebook("sentimnt")
    assert caught.value.argument == "name"
    for name, target in (("stance", None), ("stance", " "), ("emotion", "x")):
        with pytest.raises(lh.ArgumentError) as caught:
            lh.ready_codebook(name, target)
        assert caught.value.argument == "target"


def test_a_source_names_a_file_or_a_ready_one(tmp_path: Path) -> None:
    assert codebook_from("ready:stance:a: b") == lh.ready_codebook("stance", "a: b")
    path = tmp_path / "own.yaml"
    lh.write_codebook(lh.ready_codebook("toxicity"), path)
    assert codebook_from(path) == lh.ready_codebook("toxicity")
    assert is_ready("ready:x")
    assert not is_ready(str(path))


def test_sources_are_those_of_an_unchanged_definition() -> None:
    book = lh.ready_codebook("sentiment")
    with_example = lh.Codebook.from_dict(
        {**book.to_dict(), "examples": [{"text": "Good.", "label": "positive"}]}
    )
    assert sources_of(with_example) == ("rosenthal2017",)
    assert sources_of(lh.ready_codebook("stance", "x")) == ("mohammad2016",)
    other = {**book.to_dict(), "labels": {**book.definitions, "neutral": "Changed."}}
    assert sources_of(lh.Codebook.from_dict(other)) == ()
    assert sources_of(lh.Codebook("Which?", ["a", "b"])) == ()


def test_what_was_measured_is_what_the_page_has() -> None:
    folder = ROOT / "python_core/llamaherd/coding/annotation/ready"
    measured = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/codebooks.md").read_text(encoding="utf-8")
    for book in LISTED:
        assert book.measured == measured.get(book.name, "not measured")
        assert f"| `{book.name}` |" in page
    for name, words in measured.items():
        share = words.partition("%")[0]
        rows = [line for line in page.splitlines() if line.startswith(f"| `{name}` | ")]
        assert any(f"| {share}." in row or f"{int(share) - 1}." in row for row in rows)
