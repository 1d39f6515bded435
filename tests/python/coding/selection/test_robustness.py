"""Tests of coding the same texts with other words, orders, models and seeds."""

from __future__ import annotations

import warnings
from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.selection.variants import drawn_rows, variants_of

BOOK = lh.Codebook("Which topic?", {"a": "x", "b": "y", "c": ""})
OTHER = lh.Codebook("Say the topic.", ["c", "b", "a"])
SCALE = lh.Codebook("How?", ["low", "mid", "high"], type="ordinal")


def test_variants_differ_in_one_thing_each() -> None:
    books, contexts = {"1": BOOK, "2": OTHER}, {"s": "small", "m": "medium"}
    variants = variants_of(books, contexts, orders=[["c", "a", "b"]])
    assert {name: (v.codebook.names, v.context) for name, v in variants.items()} == {
        "codebook 1, context s": (("a", "b", "c"), "small"),
        "codebook 2, context s": (("c", "b", "a"), "small"),
        "codebook 1, order 2, context s": (("c", "a", "b"), "small"),
        "codebook 1, context m": (("a", "b", "c"), "medium"),
    }
    reordered = variants["codebook 1, order 2, context s"].codebook
    assert reordered.labels == {"c": "", "a": "x", "b": "y"}
    assert len(variants_of(books, contexts, orders=2, crossed=True)) == 2 * 2 * 3


def test_orders_are_drawn_by_the_seed() -> None:
    def orders(n: int, seed: int) -> list[tuple[str, ...]]:
        variants = variants_of({"1": BOOK}, {"1": None}, orders=n, seed=seed)
        return [variant.codebook.names for variant in variants.values()]

    assert orders(3, 1) == orders(3, 1)
    assert len({tuple(orders(2, seed)) for seed in range(20)}) > 3
    assert len(set(orders(5, 1))) == 6
    assert orders(50, 1)[0] == BOOK.names
    assert len(orders(50, 1)) == 6  # only six orders exist


def test_rows_are_drawn_by_the_seed() -> None:
    texts = ["x", None, *["y"] * 50]
    assert drawn_rows(texts, None, 1) == [0, *range(2, 52)]
    drawn = drawn_rows(texts, 10, 1)
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 10
    assert 1 not in drawn
    assert drawn == drawn_rows(texts, 10, 1) != drawn_rows(texts, 10, 2)


def compared(labels: list[Any], rows: list[int]) -> lh.types.Robustness:
    return lh.types.Robustness(
        variants=("x", "y", "z"), codebook=BOOK, rows=rows, labels=labels, runs=[{}] * 3
    )


def test_labels_are_compared() -> None:
    labels = [["a", "a", "b", None], ["a", "b", "b", "c"], ["c", "b", None, "c"]]
    trial = compared(labels, [0, 1, 2, 3])
    np.testing.assert_allclose(trial.flips, [0, 1 / 3, 1])
    np.testing.assert_allclose(
        trial.pairwise, [[0, 1 / 3, 1], [1 / 3, 0, 1 / 3], [1, 1 / 3, 0]]
    )
    assert trial.agreement == pytest.approx(1 - (1 / 3 + 1 + 1 / 3) / 3)
    np.testing.assert_allclose(
        trial.shares, [[2 / 3, 1 / 3, 0], [0.25, 0.5, 0.25], [0, 1 / 3, 2 / 3]]
    )
    np.testing.assert_allclose(trial.ranges[0], [0, 2 / 3])
    np.testing.assert_allclose(trial.unstable, [1 / 3, 1 / 3, 0, 0])
    assert str(trial).startswith("<Robustness: 4 texts, 3 variants>")
    alpha = lh.krippendorff_alpha(labels, levels=BOOK.names).value
    assert trial.alpha == pytest.approx(alpha)
    nothing = compared([[], [], []], [])
    assert nothing.alpha is None
    assert np.isnan(nothing.agreement)


def test_what_is_wrong() -> None:
    def refused(message: str, books: Any, **arguments: Any) -> None:
        with pytest.raises(ValueError, match=message):
            variants_of(books, {"1": None}, **arguments)

    refused("nothing to compare", {"1": BOOK})
    refused("must have the same labels", {"1": BOOK, "2": SCALE})
    refused("order has a meaning", {"1": SCALE}, orders=1)
    refused(r"orders\[0\] must have each label once", {"1": BOOK}, orders=[["a", "b"]])
    refused("seeds have an effect only", {"1": BOOK}, seeds=[1, 2])
    fields = lh.Codebook("Q", type="fields", schema={"properties": {}})
    refused("has none", {"1": fields})


DATA = {"text": [f"Text {i}" for i in range(9)] + [None]}


def test_all_variants_are_checked_before_the_first_is_coded(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def coded(*_: object, **__: object) -> None:
        pytest.fail("a variant was coded")

    monkeypatch.setattr("llamaherd.coding.selection.compare.annotate_quietly", coded)
    frame = {"text": ["a", "b"]}
    book = lh.Codebook("Which?", ["a", "b"])
    with pytest.raises(ValueError, match="thinking needs chat=True"):
        lh.robustness(frame, "text", book, context, thinking=[False, 8])
    with pytest.raises(TypeError, match="there is no argument 'spilt'; did you mean"):
        lh.robustness(frame, "text", book, context, orders=1, spilt="first")


def test_a_missing_context_is_named() -> None:
    with pytest.raises(TypeError, match="context"):
        lh.robustness(DATA, "text", BOOK, {"small": None}, orders=1)  # type: ignore[dict-item]


def test_each_variant_is_what_annotate_says(context: lh.Context) -> None:
    updates: list[lh.types.Progress] = []
    trial = lh.robustness(
        DATA, "text", {"plain": BOOK, "short": OTHER}, context, orders=1, n_texts=5,
        progress=updates.append,
    )  # fmt: skip
    assert trial.variants == (
        "codebook plain", "codebook short", "codebook plain, order 2",
    )  # fmt: skip
    some = {"text": [DATA["text"][row] for row in trial.rows]}
    assert trial.labels[0] == lh.annotate(some, "text", BOOK, context).labels
    assert trial.labels[1] == lh.annotate(some, "text", OTHER, context).labels
    assert trial.runs[1]["codebook"]["hash"] == OTHER.hash
    assert trial.flips[0] == 0
    assert updates[-1].n_total == 15
    done = [progress.n_done for progress in updates]
    assert done == sorted(done)


def test_seeds_draw(context: lh.Context) -> None:
    trial = lh.robustness(
        DATA, "text", BOOK, [context], seeds=[1, 2, 3], method="generate",
        temperature=3.0,
    )  # fmt: skip
    assert trial.variants == ("seed 1", "seed 2", "seed 3")
    assert [run["settings"]["seed"] for run in trial.runs] == [1, 2, 3]
    with pytest.raises(TypeError, match="columns is not an argument"):
        lh.robustness(DATA, "text", BOOK, context, orders=1, columns="x")


TEXTS = {"text": [f"Text {i}" for i in range(60)], "age": [i % 7 for i in range(60)]}


def sample(data: Any = TEXTS) -> lh.GoldSample:
    drawn = lh.gold_sample(data, 40, text="text", names=BOOK.names, seed=1)
    return drawn.with_codes(["abc"[i % 3] for i in range(40)])


@pytest.mark.parametrize(
    ("formula", "outcome"), [(None, None), (None, "b"), ("label == 'b' ~ age", None)]
)
def test_estimates_of_each_variant(
    context: lh.Context, formula: str | None, outcome: str | None
) -> None:
    data = {**TEXTS, "label": ["others'"] * 60}
    trial = lh.robustness(
        data, "text", {"plain": BOOK, "short": OTHER}, context,
        gold=sample(), formula=formula, outcome=outcome,
    )  # fmt: skip
    assert len(trial.estimates) == 2
    for labels, estimates in zip(trial.labels, trial.estimates, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            expected = lh.estimate(
                {**TEXTS, "label": labels}, sample(), formula, outcome, methods=["dsl"]
            )
        assert estimates is not None
        # compared as text, because NaN is not equal to NaN
        assert str(estimates.rows) == str(expected.rows)
    rows = trial.estimate_rows()
    assert {row["variant"] for row in rows} == set(trial.variants)
    first = next(row for row in rows if row["outcome"].endswith("b'" if formula else "b"))
    line = f"{first['estimate']:.3f} [{first['low']:.3f}, {first['high']:.3f}]"
    assert line in str(trial)
    assert ": from " in str(trial)


def test_a_gold_sample_that_does_not_fit(context: lh.Context) -> None:
    def refused(message: str, **options: Any) -> None:
        with pytest.raises(ValueError, match=message):
            lh.robustness(TEXTS, "text", BOOK, context, orders=1, **options)

    refused("drawn from other data", gold=sample({"text": TEXTS["text"][::-1]}))
    refused("fewer than two codes", gold=sample(), n_texts=1)
    refused("these need gold", outcome="a")
    with pytest.warns(UserWarning, match="has no estimate: outcome must be") as caught:
        trial = lh.robustness(
            TEXTS, "text", BOOK, context, orders=1, gold=sample(), outcome="d"
        )
    assert trial.estimates == (None, None)
    (warning,) = caught
    assert all(repr(name) in str(warning.message) for name in trial.variants)
    assert trial.estimate_rows() == []


def test_ctrl_c_keeps_whole_variants(context: lh.Context) -> None:
    def stop(progress: lh.types.Progress) -> None:
        if progress.n_done >= 10:
            raise KeyboardInterrupt

    with pytest.raises(lh.Interrupted) as interrupted:
        lh.robustness(DATA, "text", BOOK, context, orders=3, progress=stop)
    trial = interrupted.value.results
    assert trial is None or 1 <= len(trial.variants) < 4
