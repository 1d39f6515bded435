"""Names cut to the width of a column."""

from __future__ import annotations

import warnings

import llamaherd as lh
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.coding.sentences import shorten_names


@given(st.lists(st.text("ab", max_size=40), unique=True, max_size=9), st.integers(12, 30))
def test_shortened_names_stay_distinct_and_fit(names: list[str], room: int) -> None:
    short = shorten_names(names, room)
    assert len(set(short)) == len(names)
    assert all(
        len(cut) <= room and (cut == name or len(name) > room)
        for cut, name in zip(short, names, strict=True)
    )


def test_printed_estimates_fit_with_long_labels() -> None:
    topic = "Statements that criticise the economic policy, part"
    labels = [f"{topic} {i % 3}" for i in range(90)]
    codes = [None if i > 59 else f"{topic} {i // 2 % 3}" for i in range(90)]
    estimates = lh.estimate({"label": labels}, codes, prob="simple")
    lines = str(estimates).splitlines()
    rows = [line for line in lines if line.startswith("  Statements")]
    assert len({line[:38] for line in rows}) == 3
    assert max(map(len, rows)) <= 80


def test_sentences_about_long_labels_stay_short() -> None:
    """Labels that nobody gave, that the model never gave, and that few texts have."""
    topics = [f"{'A very long definition ' * 200}{i}" for i in range(4)]
    labels = [topics[i % 2] for i in range(200)]
    codes = [topics[2] if i < 2 else topics[i % 2] for i in range(60)] + [None] * 140
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimates = lh.estimate({"label": labels}, codes, prob="simple")
    warned = "\n".join(str(warning.message) for warning in caught)
    sentences = warned.splitlines() + str(estimates).splitlines()
    assert any("definition" in sentence for sentence in sentences)
    assert max(map(len, sentences)) < 500
