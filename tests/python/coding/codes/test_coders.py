"""Tests that notes, dates and row numbers are not taken for the codes of a coder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pandas as pd
import pytest
from llamaherd.coding.codes import check_coders
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

N = 60
LABELS = [("yes", "no", "no")[i % 3] for i in range(N)]


def drawn(
    *, between: str = "", names: tuple[str, ...] = ()
) -> tuple[pd.DataFrame, lh.GoldSample, list[str]]:
    """Return labelled texts, a sample that was drawn before them, and Anna's codes."""
    texts = pd.DataFrame({"text": [f"Text {i}." for i in range(N)]})
    several = bool(between)
    gold = lh.gold_sample(texts, 40, text="text", seed=1, several=several, names=names)
    labels = [f"{label}{between}maybe" if between else label for label in LABELS]
    texts["label"] = labels if between else pd.Categorical(labels, ["yes", "no"])
    # Every fourth code differs from the label.
    return texts, gold, [labels[row - row % 4 // 3] for row in gold.rows]


OTHERS = {
    "some remarks": lambda n: ["see below"] + [None] * (n - 1),
    "remarks": lambda n: [f"remark {i}" for i in range(n)],
    "row numbers": lambda n: [str(i + 1) for i in range(n)],
    "a date": lambda n: ["2026-11-27"] * n,
}
USES: dict[str, Callable[..., Any]] = {"estimate": lh.estimate, "validate": lh.validate}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("use", ["estimate", "validate"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_column_without_labels_is_refused(
    use: str, other: Callable[[int], list[Any]], is_first: bool
) -> None:
    texts, gold, codes = drawn()
    columns = {"anna": codes, "extra": other(len(gold))}
    if is_first:
        columns = dict(reversed(columns.items()))
    with pytest.raises(ArgumentError, match="has a column 'extra' without any label"):
        USES[use](texts, gold.with_codes(columns))


@pytest.mark.parametrize("use", ["estimate", "validate"])
def test_a_column_without_labels_is_refused_beside_sets_of_labels(use: str) -> None:
    texts, gold, codes = drawn(between="; ")
    gold = gold.with_codes({"anna": codes, "extra": ["see below"] * len(gold)})
    with pytest.raises(ArgumentError, match="has a column 'extra' without any label"):
        USES[use](texts, gold, several=True)


def test_a_coder_of_labels_that_the_model_never_gave_is_a_coder() -> None:
    check_coders(["a", "b"], [["a", "c"], ["c", None]], ["anna", "ben"], ())
    check_coders(["a", "b"], [["a", "b"], ["c", None]], ["anna", "ben"], ("a", "b", "c"))
    check_coders(["a", "b"], [["a", "b"], [None, None]], ["anna", "ben"], ())
    check_coders([1, 2], [[1, 2], [3, None]], ["anna", "ben"], ())


@pytest.mark.filterwarnings("ignore:.*intervals are unreliable:UserWarning")
@pytest.mark.parametrize("use", ["estimate", "validate"])
@pytest.mark.parametrize("between", ["", "; "], ids=["one label", "several labels"])
def test_a_coder_who_gave_only_declared_codes_is_a_coder(use: str, between: str) -> None:
    texts, gold, codes = drawn(between=between, names=("yes", "no", "maybe", "unclear"))
    ben = ["unclear"] * 3 + [None] * (len(gold) - 3)
    gold = gold.with_codes({"anna": codes, "ben": ben})
    assert USES[use](texts, gold, several=bool(between)) is not None


@pytest.mark.parametrize("use", ["estimate", "validate"])
def test_a_coder_who_skipped_all_texts_is_a_coder(use: str) -> None:
    texts, gold, codes = drawn()
    skipped = ["", "NA", None, "n/a"] * (len(gold) // 4)
    assert USES[use](texts, gold.with_codes({"anna": codes, "ben": skipped})) is not None


def test_a_refused_coder_reads_what_to_do() -> None:
    texts, gold, codes = drawn()
    gold = gold.with_codes({"anna": codes, "ben": ["unclear"] * len(gold)})
    with pytest.raises(ArgumentError, match=r"leave these cells empty.*declare all la"):
        lh.validate(texts, gold)


def test_codes_that_no_label_equals_are_left_to_other_checks() -> None:
    check_coders(["a"], [["x"], ["y"]], ["anna", "ben"], ())


@pytest.mark.filterwarnings("ignore:The model never gives the label 'unclear'")
@pytest.mark.parametrize("formula", [None, "label == 'yes' ~ 1"])
def test_a_code_beside_the_declared_labels_is_noted(formula: str | None) -> None:
    texts, gold, codes = drawn()
    gold = gold.with_codes({"anna": ["unclear"] * 8 + codes[8:]})
    notes = lh.estimate(texts, gold, formula).notes
    assert any("People gave 8 texts a code that is not among" in note for note in notes)
    clean = lh.estimate(texts, gold.with_codes({"anna": codes}), formula).notes
    assert not any("not among the labels" in note for note in clean)


def test_a_code_that_loses_the_majority_is_reported_too() -> None:
    texts, gold, codes = drawn()
    other = ["?"] * 8 + codes[8:]
    gold = gold.with_codes({"anna": codes, "ben": other})
    notes = lh.estimate(texts, gold).notes
    assert any("8 texts a code that is not among the labels (?)" in n for n in notes)
    validation = lh.validate(texts, gold)
    assert "People gave labels that the model cannot give: ?." in validation.warnings
