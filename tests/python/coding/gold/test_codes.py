"""Tests of the code and label of a text: with several coders, or several labels."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.coding.annotation.label_sets import has_several

N, N_GOLD = 600, 200


def estimates(fit: lh.types.Estimates) -> list[float]:
    return [row.estimate for row in fit.rows]


def test_ties_of_coders_are_told() -> None:
    rng = np.random.default_rng(1)
    truth = rng.choice(["a", "b"], N)
    data = {"label": np.where(rng.random(N) < 0.8, truth, "a").tolist()}
    drawn = lh.gold_sample(data, N_GOLD, label="label", seed=1)
    ann = [str(truth[row]) for row in drawn.rows]
    ben = [code if i % 4 else "b" for i, code in enumerate(ann)]
    n_ties = sum(a != b for a, b in zip(ann, ben, strict=True))
    two = drawn.with_codes({"ann": ann, "ben": ben})
    fit = lh.estimate(data, two)
    note = f"{n_ties} of 200 codes are ties, decided by the first coder (ann before ben)"
    assert n_ties > 20
    assert any(line.startswith(note) for line in fit.notes)
    assert estimates(fit) == estimates(lh.estimate(data, drawn.with_codes(ann)))
    other = lh.estimate(data, drawn.with_codes({"ben": ben, "ann": ann}))
    assert estimates(other) != estimates(fit)
    # A third coder decides where the other coders differ.
    chief = [b if a != b else None for a, b in zip(ann, ben, strict=True)]
    decided = lh.estimate(data, two.with_codes({"chief": chief}))
    assert not any("ties" in line for line in decided.notes)
    assert estimates(decided) == estimates(lh.estimate(data, drawn.with_codes(ben)))


def of_several(n: int = N) -> dict[str, Any]:
    """Return texts that may have the topics a and b; the model misses some topics."""
    rng = np.random.default_rng(5)
    code, label = rng.random((n, 2)) < [0.5, 0.3], rng.random((n, 2)) < 0.85
    return {
        "label": [joined(row) for row in code & label],
        "code": [joined(row) for row in code],
        "party": rng.choice(["X", "Y"], n).tolist(),
        "age": rng.integers(20, 80, n).astype(float).tolist(),
    }


def joined(has: Any) -> str:
    return "; ".join(name for name, present in zip("ab", has, strict=True) if present)


DATA = of_several()
CODES = [code if i % 3 == 0 else None for i, code in enumerate(DATA["code"])]


def alone(values: list[Any], name: str) -> list[Any]:
    return [None if cell is None else name in cell.split("; ") for cell in values]


def coded_by(kind: str) -> lh.Coded:
    book = lh.Codebook("Which?", ["a", "b", "c"], type=kind)
    return lh.Coded(
        frame=DATA, text="label", codebook=book, columns={"label": "label"},
        names=book.names, labels=DATA["label"], probs=None, errors=[None] * N, run={},
        stats=None,
    )  # fmt: skip


@pytest.mark.parametrize("outcome", ["a", ["b", "a"], None])
def test_a_label_counts_where_it_is_among_several(outcome: Any) -> None:
    fit = lh.estimate(DATA, CODES, outcome=outcome, prob="simple", several=True)
    names = ["a", "b"] if outcome is None else list(outcome)
    assert list(dict.fromkeys(row.outcome for row in fit.rows)) == names
    for name in names:
        data = {**DATA, "label": alone(DATA["label"], name)}
        codes = alone(CODES, name)
        expected = lh.estimate(data, codes, outcome="True", prob="simple")
        rows = [row for row in fit.rows if row.outcome == name]
        assert [row.estimate for row in rows] == estimates(expected)
        assert [row.std_error for row in rows] == [row.std_error for row in expected.rows]
    with pytest.raises(ValueError, match="among the labels a, b, not 'a; b'"):
        lh.estimate(DATA, CODES, outcome="a; b", prob="simple", several=True)
    with pytest.raises(ValueError, match="outcome must be labels, not numbers"):
        lh.estimate(DATA, CODES, outcome={"a": 1, "b": 2}, prob="simple", several=True)


@pytest.mark.filterwarnings("ignore:the codes are hardly")  # codes from strata
@pytest.mark.filterwarnings("ignore:people gave labels")  # several labels in one cell
def test_the_codebook_or_the_sample_knows_of_several() -> None:
    expected = lh.estimate(DATA, CODES, prob="simple", several=True)
    several = lh.estimate(coded_by("multiple"), CODES, prob="simple")
    assert estimates(several) == estimates(expected)
    one = lh.estimate(coded_by("label"), CODES, prob="simple", outcome="a; b")
    assert estimates(one) != estimates(expected)
    drawn = lh.gold_sample({"label": DATA["label"]}, N_GOLD, label="label", seed=2)
    drawn = dataclasses.replace(
        drawn, names=(), design={**drawn.design, "several": True},
        codes=[[DATA["code"][row] for row in drawn.rows]], coders=["ann"],
    )  # fmt: skip
    fit = lh.estimate({"label": DATA["label"]}, drawn)
    assert {row.outcome for row in fit.rows} == {"a", "b"}
    two = dataclasses.replace(
        drawn, codes=[drawn.codes[0], ["a; b"] * N_GOLD], coders=["ann", "ben"]
    )
    n_ties = sum(code != "a; b" for code in drawn.codes[0])
    notes = lh.estimate({"label": DATA["label"]}, two, outcome="a").notes
    assert any(note.startswith(f"{n_ties} of 200 codes are ties") for note in notes)


def test_formulas_name_one_of_several() -> None:
    options: dict[str, Any] = {"prob": "simple", "several": True}
    ols = lh.estimate(DATA, CODES, "has_label(label, 'a') ~ party + age", **options)
    data = {**DATA, "label": [float(cell) for cell in alone(DATA["label"], "a")]}
    codes = [None if cell is None else float(cell) for cell in alone(CODES, "a")]
    expected = lh.estimate(data, codes, "label ~ party + age", prob="simple")
    assert estimates(ols) == estimates(expected)
    short = lh.estimate(DATA, CODES, "~ party + age", "a", **options)
    assert estimates(short) == estimates(ols)
    right = lh.estimate(DATA, CODES, "age ~ has_label(label, 'a') + party", **options)
    expected = lh.estimate(data, codes, "age ~ label + party", prob="simple")
    by_name = {row.term: row.estimate for row in right.by("dsl")}
    assert by_name["has_label(label, 'a')"] == pytest.approx(
        next(row.estimate for row in expected.by("dsl") if row.term == "label")
    )
    for formula in ("label == 'a' ~ age", "has_label(label, 'a') ~ age + label"):
        with pytest.raises(ValueError, match=r"as in has_label\(label, 'x'\) ~ age, "):
            lh.estimate(DATA, CODES, formula, **options)
    # For texts with one label, has_label() equals ==.
    one = {**DATA, "label": [cell or "b" for cell in DATA["label"]]}
    fit = lh.estimate(one, one["label"], "has_label(label, 'a') ~ age", prob="simple",
        methods=["naive"])  # fmt: skip
    assert fit.rows[0].estimate < 1


def test_codes_in_other_spelling_are_no_labels_of_their_own() -> None:
    labels = ["Sports", "Politics"] * 20
    frame = {"text": [f"Text {i}." for i in range(40)], "label": labels}
    codes = [label.lower() if i % 2 else None for i, label in enumerate(labels)]
    with pytest.raises(ValueError, match=r"'politics'.* did you mean 'Politics'"):
        lh.estimate(frame, codes, label="label", prob="simple")
    with pytest.raises(ValueError, match="did you mean 'Sports'"):
        lh.validate(labels, [label.upper() for label in labels], labels=["Sports", "x"])


def test_samples_of_one_label_and_of_several_do_not_mix() -> None:
    frame = {"text": [f"Text {i}." for i in range(40)], "label": ["a", "b"] * 20}
    sample = lh.gold_sample(frame, 10, text="text", label="label", several=True, seed=1)
    kind = SimpleNamespace(is_several=False)
    coded = SimpleNamespace(codebook=SimpleNamespace(type="label", kind=kind))
    with pytest.raises(ValueError, match="gold was drawn for several labels"):
        has_several(coded, sample)
    assert has_several(frame, sample)
    assert not has_several(coded, ["a"])


@pytest.mark.filterwarnings("ignore:few|.*few|.*unreliable|.*outside 0 to 1|.*hardly")
def test_codes_that_are_no_label_are_reported() -> None:
    frame = pd.DataFrame({"label": ["yes", "no"] * 100})
    codes = [None if i % 2 else ("yes", "no", "unclear")[i % 3] for i in range(200)]
    n = codes.count("unclear")
    match = rf"labels that no text has: 'unclear' \({n}\)\. If they are misspelt"
    with pytest.warns(UserWarning, match=match):
        lh.estimate(frame, codes, label="label", prob="simple", outcome="yes")
    typed = ["ye" if code == "unclear" else code for code in codes]
    with pytest.raises(ValueError, match="'ye', which is no label: did you mean 'yes'"):
        lh.estimate(frame, typed, label="label", prob="simple", outcome="yes")
    several = pd.DataFrame({"label": ["a; b", "a", ""] * 60})
    sets = [None if i % 2 else ("a", "a, b")[i % 3 == 0] for i in range(180)]
    with pytest.warns(UserWarning, match=r"no text has: 'a, b' \(30\)"):
        lh.estimate(several, sets, label="label", prob="simple", several=True)


def test_codes_that_are_labels_are_not_reported(recwarn: pytest.WarningsRecorder) -> None:
    values = pd.Categorical(["yes", "no"] * 100, ["yes", "no", "rare"])
    frame = pd.DataFrame({"label": values})
    codes = [None if i % 2 else ("yes", "no", "rare")[i % 3] for i in range(200)]
    lh.estimate(frame, codes, label="label", prob="simple", outcome="yes")
    assert not [warning for warning in recwarn if "no text has" in str(warning.message)]
