"""Tests of comparing texts in pairs: result, checks and agreement."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.coding.pairs.compare import LABELS
from llamaherd.coding.pairs.design import LAYOUT, PairWork
from same_results import same_results

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    ComparisonOf = Callable[[list[float], list[tuple[int, int, float]]], Any]

TEXTS = {
    "calm": "The train leaves at nine.",
    "angry": "I hate this!",
    "glad": "What a lovely day.",
    "sad": "She cried.",
    "dull": "It is grey.",
}
QUESTION = "Which text is angrier?"
pytestmark = pytest.mark.filterwarnings(
    "ignore:the model favours", "ignore:.*of 5 texts won"
)


@pytest.fixture(scope="module")
def comparison(context: lh.Context) -> lh.types.PairComparison:
    return lh.compare_pairs(TEXTS, QUESTION, context)


def work(**fields: Any) -> PairWork:
    texts = {"texts": tuple(TEXTS.values()), "names": tuple(TEXTS), "labels": LABELS}
    design = {"n_pairs": 10, "design": "random", "seed": 1, "level": 0.95}
    return PairWork(**{"layout": LAYOUT, **texts, **design, **fields})


def test_a_pair_is_scored_in_both_orders(
    context: lh.Context, comparison: lh.types.PairComparison
) -> None:
    task = work(question=QUESTION)
    pair = comparison.pairs[0]
    prompts = [
        task.prompt(pair.first, pair.second),
        task.prompt(pair.second, pair.first),
    ]
    scored = lh.classify_parallel(context, prompts, ["A", "B"])
    odds = scored.logprobs[:, 0] - scored.logprobs[:, 1]
    assert pair.forward == pytest.approx(odds[0], abs=0.01)
    assert pair.backward == pytest.approx(-odds[1], abs=0.01)
    assert pair.log_odds == pytest.approx((odds[0] - odds[1]) / 2, abs=0.01)
    assert pair.position_bias == pytest.approx((odds[0] + odds[1]) / 2, abs=0.01)
    assert pair.is_consistent == (odds[0] * odds[1] < 0)
    assert 0 < pair.coverage < 1


def test_all_pairs_of_few_texts_are_compared(comparison: lh.types.PairComparison) -> None:
    assert len(comparison.pairs) == 10
    assert comparison.is_connected
    assert comparison.is_converged
    assert [row.name for row in comparison.strengths] == list(TEXTS)
    assert sum(row.strength for row in comparison.strengths) == pytest.approx(0, abs=1e-9)
    assert sorted(row.rank or 0 for row in comparison.strengths) == [1, 2, 3, 4, 5]
    assert all(row.low < row.strength < row.high for row in comparison.strengths)
    assert all(row.n_pairs == 4 for row in comparison.strengths)
    table = comparison.to_pandas()
    assert table["name"].tolist() == list(TEXTS)
    assert len(comparison.pairs_to_pandas()) == 10
    page = str(comparison)
    assert "5 texts, 10 pairs" in page
    assert "position bias" in page
    assert "connected      yes" in comparison.summary()


def test_the_same_seed_draws_the_same_pairs(
    context: lh.Context, comparison: lh.types.PairComparison, tmp_path: Path
) -> None:
    journal = tmp_path / "pairs.journal"
    one = lh.compare_pairs(TEXTS, QUESTION, context, n_pairs=7, journal=journal)
    seen: list[lh.types.Progress] = []
    two = lh.compare_pairs(
        TEXTS, QUESTION, context, n_pairs=7, journal=journal, progress=seen.append
    )
    assert one.pairs == two.pairs
    assert one.strengths == two.strengths
    assert seen[-1].n_done == seen[-1].n_total == 14
    assert len(lh.journal_read(journal)) == 14
    other = lh.compare_pairs(TEXTS, QUESTION, context, n_pairs=7, seed=5)
    assert [(p.first, p.second) for p in other.pairs] != [
        (p.first, p.second) for p in one.pairs
    ]
    job = lh.start_compare_pairs(TEXTS, QUESTION, context)
    assert job.results().strengths == comparison.strengths


def test_an_interval_that_is_unknown_is_not_printed(context: lh.Context) -> None:
    with pytest.warns(UserWarning, match="There are no standard errors"):
        comparison = lh.compare_pairs(["good", "bad"], QUESTION, context)
    (line,) = [row for row in str(comparison).splitlines() if "position bias" in row]
    assert "nan" not in line
    assert "log-odds for the text" in line


def test_a_pair_that_fails_is_left_out(context: lh.Context) -> None:
    texts = {**TEXTS, "long": "word " * 5000}
    with pytest.warns(UserWarning, match="5 of 15 pairs failed|pairs do not connect"):
        comparison = lh.compare_pairs(texts, QUESTION, context)
    assert comparison.n_failed == 5
    assert not comparison.is_connected
    assert comparison.n_parts == 2
    lost = comparison.strengths[-1]
    assert math.isnan(lost.strength)
    assert lost.rank is None
    assert sorted(row.rank or 0 for row in comparison.strengths) == [0, 1, 2, 3, 4, 5]


def test_braces_and_marks_in_texts_are_text() -> None:
    layout = "{question}|{a}:{first}|{b}:{second}"
    task = work(
        question="Q {first}?", labels=("1", "2"), layout=layout, texts=("{second}", r"\1")
    )
    assert task.prompt(0, 1) == r"Q {first}?|1:{second}|2:\1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": ["one"]}, "texts must have 2 to 5,000 texts, not 1"),
        ({"texts": "one"}, "texts must be a list of texts"),
        ({"texts": ["one", " "]}, r"texts\[1\] must not be blank"),
        ({"texts": ["one", None]}, r"texts\[1\] must be"),
        ({"question": " "}, "question must not be empty"),
        ({"labels": ["A", "A"]}, "labels must be two different texts"),
        ({"labels": "AB"}, "labels must be two texts"),
        ({"layout": "{first}"}, r"layout must have \{question\}, \{second\}"),
        ({"n_pairs": 3}, "n_pairs must be between 5 and 10, not 3"),
        ({"design": "best"}, "design must be one of 'adaptive', 'random'"),
        ({"level": 2}, "level must be between"),
        ({"on_error": "stop"}, "there is no argument 'on_error'"),
    ],
)
def test_bad_arguments_are_named(
    context: lh.Context, arguments: dict[str, Any], message: str
) -> None:
    options = {"texts": TEXTS, "question": QUESTION, **arguments}
    with pytest.raises((ValueError, TypeError), match=message):
        lh.compare_pairs(**options, context=context)


@pytest.fixture
def comparison_of(comparison: lh.types.PairComparison) -> ComparisonOf:
    """Return a function that makes a comparison from strengths and log-odds of pairs."""

    def make(strengths: list[float], pairs: list[tuple[int, int, float]]) -> Any:
        texts = [
            lh.types.TextStrength(
                name=f"t{i}",
                text="",
                strength=strength,
                std_error=0.1,
                low=strength - 1,
                high=strength + 1,
                rank=1,
                n_pairs=1,
            )
            for i, strength in enumerate(strengths)
        ]
        results = [
            lh.types.ComparedPair(
                first=i, second=j, round=1, forward=d, backward=d, coverage=1.0
            )
            for i, j, d in pairs
        ]
        return replace(comparison, strengths=tuple(texts), pairs=tuple(results))

    return make


def test_agreement_with_pairs_of_people(comparison_of: ComparisonOf) -> None:
    x = comparison_of([2, 1, 0, -3], [(0, 1, -1.0), (3, 2, -2.0)])
    people = [
        ("t0", "t1", "t0"),
        ("t2", "t3", "t2"),
        ("t1", "t3", "t3"),
        ("t0", "t2", None),
    ]
    agreement = lh.pair_agreement(x, people)
    accuracy, direct = (agreement.measures[name] for name in ("accuracy", "direct"))
    assert (accuracy.value, accuracy.n) == (pytest.approx(2 / 3), 3)
    assert (direct.value, direct.n) == (0.5, 2)
    assert 0 <= accuracy.low < accuracy.value < accuracy.high <= 1
    assert agreement.n_ties == 1
    frame = pd.DataFrame(people, columns=["first", "second", "winner"])
    assert lh.pair_agreement(x, frame).measures == agreement.measures
    assert "1 pair without a winner is left out" in str(agreement)


def test_pairs_with_a_common_text_widen_the_interval(comparison_of: ComparisonOf) -> None:
    """Pairs with a common text are not independent."""
    x = comparison_of([0.0, *range(1, 21)], [])
    hub = [("t0", f"t{i}", "t0" if i % 2 else f"t{i}") for i in range(1, 21)]
    disjoint = [
        (f"t{i}", f"t{i + 1}", f"t{i + 1 - i // 2 % 2}") for i in range(0, 20, 2)
    ] * 2
    one, two = (
        lh.pair_agreement(x, codes).measures["accuracy"] for codes in (hub, disjoint)
    )
    assert one.value == two.value == 0.5
    assert one.n == two.n == 20
    alone = np.array([0.299, 0.701])  # Wilson's interval for 20 independent pairs
    np.testing.assert_allclose([one.low, one.high], alone, atol=0.01)
    assert two.high - two.low > 0.5  # each pair occurs twice


def test_agreement_with_known_scores(comparison_of: ComparisonOf) -> None:
    x = comparison_of([2.0, 1.0, 0.5, -3.0], [])
    known = {"t0": 5.0, "t1": 4.0, "t3": -1.0, "t2": 3.9}
    by_name = lh.pair_agreement(x, known=known).measures
    by_order = lh.pair_agreement(x, known=[5, 4, 3.9, -1]).measures
    assert same_results(by_name, by_order)
    assert by_name["spearman"].value == pytest.approx(1)
    expected = np.corrcoef([2, 1, 0.5, -3], [5, 4, 3.9, -1])[0, 1]
    assert by_name["pearson"].value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "pairs must be given"),
        ({"pairs": [("t0", "x", "x")]}, r"pairs\[0\] must have names of texts, not 'x'"),
        ({"pairs": [("t0", "t1", "t2")]}, r"pairs\[0\] must have two texts"),
        ({"pairs": [("t0", "t1")]}, r"pairs\[0\] must be a first text"),
        ({"known": [1]}, "known must have 3 numbers"),
        ({"known": {"x": 1}}, "known must have names of texts, not 'x'"),
        ({"known": ["a", 1, 2]}, r"known\[0\] must be"),
    ],
)
def test_bad_codes_of_people_are_named(
    comparison_of: ComparisonOf, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        lh.pair_agreement(comparison_of([2, 1, 0], []), **arguments)


def test_strengths_are_drawn(
    comparison: lh.types.PairComparison, comparison_of: ComparisonOf
) -> None:
    axes = lh.plot(comparison)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert sorted(names) == sorted(TEXTS)
    many = comparison_of([float(i) for i in range(80)], [])
    assert "25 strongest" in lh.plot(many).get_title(loc="left")
