"""Tests of validations: inputs, results and warnings."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from llamaherd.coding.sentences import with_interval
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.coding.statistics.intervals import share_limits
from llamaherd.coding.validation.page import measures_of
from same_results import same_results

NAMES = ("positive", "neutral", "negative")


@dataclass
class Labelled:
    """The fields of a result of `annotate` that validations use."""

    labels: list[str | None]
    probs: Any = None
    names: tuple[str, ...] = NAMES
    frame: dict[str, list[Any]] = field(default_factory=dict)
    text: str | None = None


def sample(
    n_texts: int, rows: list[int], codes: list[list[Any]], probs: Any = 0.5, **more: Any
) -> lh.GoldSample:
    """Return texts that were drawn with these probabilities, and their codes."""
    all_probs = np.full(n_texts, 0.5)
    all_probs[rows] = probs
    fields = {"names": (), "design": {"kind": "given"}, **more}
    return lh.GoldSample(
        rows=rows,
        ids=list(map(str, rows)),
        texts=[None] * len(rows),
        all_probs=all_probs,
        strata=np.zeros(n_texts, dtype=np.int64),
        labels=[None] * len(rows),
        codes=codes,
        coders=[f"coder {i + 1}" for i in range(len(codes))],
        **fields,
    )


def coefficients(n_coders: int, scale: Any) -> list[str]:
    """Return the names of the coefficients of so many coders, in the order of tables."""
    codes: Any = [[]] * n_coders
    return [name for name, kind in COEFFICIENTS.items() if kind.fits(codes, scale)]


def study(
    n: int = 600, seed: int = 0
) -> tuple[Labelled, list[str], np.ndarray[Any, Any]]:
    """Return texts with labels and calibrated probabilities, and the true labels."""
    generator = np.random.default_rng(seed)
    raw = generator.normal(scale=2, size=(n, 3))
    probs = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    cut = np.cumsum(probs, axis=1)
    truth = [NAMES[j] for j in (generator.random((n, 1)) < cut).argmax(axis=1)]
    labels: list[str | None] = [NAMES[j] for j in probs.argmax(axis=1)]
    frame = {"text": [f"text {i}" for i in range(n)]}
    return Labelled(labels, probs, frame=frame, text="text"), truth, probs


def people(truth: list[str], rows: Any, error: float, seed: int = 0) -> list[str]:
    generator = np.random.default_rng(seed)
    return [
        truth[i] if generator.random() > error else str(generator.choice(NAMES))
        for i in rows
    ]


def test_all_of_it() -> None:
    coded, truth, probs = study()
    pi = np.where(probs.max(axis=1) < 0.7, 0.6, 0.3)
    rows = np.flatnonzero(np.random.default_rng(1).random(600) < pi).tolist()
    codes = [people(truth, rows, 0.1, 2), people(truth, rows, 0.1, 3)]
    checks = lh.validate(coded, sample(600, rows, codes, pi[rows]))
    assert (checks.n_texts, checks.n_gold, checks.coders) == (
        600,
        len(rows),
        ("coder 1", "coder 2"),
    )
    assert checks.is_weighted
    assert checks.labels == NAMES
    # On a tie the code of the first coder is right.
    hits = np.array([coded.labels[i] == r for i, r in zip(rows, codes[0], strict=True)])
    known = np.array([a == b for a, b in zip(*codes, strict=True)])
    w = 1 / pi[rows]
    assert checks.accuracy.accuracy.value == pytest.approx(np.average(hits, weights=w))
    assert [a.name for a in checks.model_agreement] == coefficients(2, "nominal")
    assert checks.coder_agreement[0].value == pytest.approx(np.average(known, weights=w))
    assert checks.coder_agreement[1].value == pytest.approx(
        lh.cohen_kappa(*codes, unit_weights=w).value
    )
    assert checks.ceiling is not None
    assert checks.ceiling.people.value == pytest.approx(np.average(known, weights=w))
    one = [
        (coded.labels[i] == codes[0][g]) / 2 + (coded.labels[i] == codes[1][g]) / 2
        for g, i in enumerate(rows)
    ]
    assert checks.ceiling.model.value == pytest.approx(np.average(one, weights=w))
    assert checks.ceiling.difference.low < checks.ceiling.difference.value
    assert checks.brier is not None
    assert checks.calibration is not None
    assert checks.calibration.ece < 0.12  # the probabilities are calibrated
    assert len(checks.wrong) == (~hits).sum()
    sure = [row.prob for row in checks.wrong]
    assert sure == sorted(sure, reverse=True)
    first = checks.wrong[0]
    assert first.text == f"text {first.row}"
    assert coded.labels[first.row] == first.label != first.truth
    assert any("decided by the first coder" in warning for warning in checks.warnings)


def test_each_measure_has_a_place_and_a_title_of_its_own() -> None:
    coded, truth, _ = study()
    codes = {"ann": people(truth, range(600), 0.1), "ben": people(truth, range(600), 0.2)}
    checks = lh.validate(coded, codes)
    rows = list(measures_of(checks.to_dict()))
    assert [row[:3] for row in rows] == [row[:3] for row in checks.rows()]
    assert len({row[:3] for row in rows}) == len(rows)
    titles = [(row.part, row.title) for row in rows if row.title]
    assert len(set(titles)) == len(titles)
    assert ("calibration", "Brier score") in titles
    assert all(not row.title for row in rows if row.part in ("label", "pair"))


def test_weights_make_the_numbers_those_of_all_texts() -> None:
    # Errors are drawn four times as often: without weights the accuracy is much too low.
    coded, truth, _ = study(4000)
    wrong = np.array([a != b for a, b in zip(coded.labels, truth, strict=True)])
    pi = np.where(wrong, 0.8, 0.2)
    rows = np.flatnonzero(np.random.default_rng(5).random(4000) < pi).tolist()
    codes = [[truth[i] for i in rows]]
    checks = lh.validate(coded, sample(4000, rows, codes, pi[rows])).accuracy.accuracy
    assert checks.low < (~wrong).mean() < checks.high
    naive = lh.validate(coded, sample(4000, rows, codes))
    assert naive.accuracy.accuracy.high < (~wrong).mean() - 0.05


def test_people_take_what_the_model_is_not_sure_of() -> None:
    coded, truth, probs = study(2000)
    coded.labels[7] = None
    coded.probs[7] = math.nan
    checks = lh.validate(coded, [truth[i] if i < 1500 else None for i in range(2000)])
    rows = checks.for_people(0.9)
    assert rows[0] == 7
    sure = probs.max(axis=1)
    kept = sorted(set(range(2000)) - set(rows))
    assert sure[kept].min() > max(sure[i] for i in rows[1:])
    judged = [i for i in kept if i < 1500]
    share = np.mean([coded.labels[i] == truth[i] for i in judged])
    assert 0.9 <= share < 0.92
    assert len(checks.for_people(0.9, sure=True)) > len(rows)
    assert len(checks.for_people(1.0, sure=True)) == 2000
    plain = lh.validate(coded.labels, truth)
    assert plain.calibration is None
    with pytest.raises(ValueError, match="prob is needed: validate with"):
        plain.for_people(0.9)


def test_labels_come_in_many_kinds() -> None:
    coded, truth, _ = study(200)
    sure = coded.probs.max(axis=1)
    columns = {"mine": coded.labels, "hers": truth, "p": sure.tolist()}
    base = lh.validate(coded.labels, truth, prob=sure, labels=NAMES)
    assert base.accuracy.accuracy.value == pytest.approx(
        np.mean([a == b for a, b in zip(coded.labels, truth, strict=True)])
    )
    assert (base.accuracy.accuracy.low, base.accuracy.accuracy.high) == pytest.approx(
        share_limits(base.accuracy.accuracy.value, 200, 0.95)
    )
    categorical = pd.Series(pd.Categorical(coded.labels, categories=list(NAMES)))
    for frame in (
        columns,
        pd.DataFrame(columns),
        pl.DataFrame(columns),
        pa.table(columns),
        pd.DataFrame(columns).assign(mine=categorical),
    ):
        checks = lh.validate(frame, label="mine", truth="hers", prob="p", labels=NAMES)
        assert repr(checks) == repr(base)
        again = lh.validate(frame, truth, label="mine", prob=sure, labels=NAMES)
        assert repr(again) == repr(base)
    matrix = lh.validate(coded.labels, truth, prob=coded.probs, labels=NAMES)
    assert matrix.brier is not None
    assert base.brier is None
    coded.text = None
    assert repr(lh.validate(coded, pd.Series(truth))) == repr(matrix)


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame])
def test_the_column_of_labels_is_found_as_in_estimate(kind: Any) -> None:
    labels, codes = ["a", "b", "a", "b"] * 10, ["a", "b", "b", "b"] * 10
    frame = kind({"text": [f"t{i}" for i in range(40)], "label": labels})
    expected = lh.validate(labels, codes).accuracy.accuracy
    assert lh.validate(frame, codes).accuracy.accuracy == expected
    other = kind({"text": [f"t{i}" for i in range(40)], "mine": labels, "label": codes})
    gold = lh.gold_sample(other, 40, label="mine", seed=1)
    gold = gold.with_codes([codes[row] for row in gold.rows])
    checks = lh.validate(other, gold)
    assert checks.accuracy.accuracy.value == 0.75
    assert lh.validate(other, codes).accuracy.accuracy.value == 1


def test_codes_of_several_people_come_in_many_kinds() -> None:
    coded, truth, _ = study(80)
    a, b = people(truth, range(80), 0.1, 1), people(truth, range(80), 0.2, 2)
    some = [code if i % 2 else None for i, code in enumerate(b)]
    base = lh.validate(coded, {"a": a, "b": some})
    assert base.coders == ("a", "b")
    assert base.n_gold == 80
    as_list = lh.validate(coded, [a, some])
    assert as_list.coders == ("coder 1", "coder 2")
    assert as_list.to_pandas()["value"].equals(base.to_pandas()["value"])
    coded.frame |= {"a": a, "b": some}
    for checks in (
        lh.validate(coded, pd.DataFrame({"a": a, "b": some})),
        lh.validate(coded, truth=["a", "b"]),
    ):
        assert repr(checks) == repr(base)
    assert base.coder_agreement[0].n_units == 40


def test_each_two_of_several_people_are_compared() -> None:
    coded, truth, _ = study(120)
    codes = {name: people(truth, range(120), 0.1 * i, i) for i, name in enumerate("abc")}
    codes["c"] = [None, *codes["c"][1:]]
    checks = lh.validate(coded, codes)
    pairs = {(pair.first, pair.second): pair.coefficients for pair in checks.pairs}
    assert list(pairs) == [
        *(("model", coder) for coder in "abc"),
        *(("a", "b"), ("a", "c"), ("b", "c")),
    ]
    columns = {"model": coded.labels, **codes}
    for (first, second), (alike, kappa) in pairs.items():
        assert kappa == lh.cohen_kappa(columns[first], columns[second], levels=NAMES)
        assert alike.n_units == 120 - (second == "c")
    page = repr(checks).splitlines()
    at = next(i for i, line in enumerate(page) if line.split()[-3:] == ["a", "b", "c"])
    assert [line.split()[0] for line in page[at + 1 : at + 4]] == ["model", "a", "b"]
    assert page[at + 3].count("[") == 1
    table = checks.to_pandas()
    row = table[(table["label"] == "a / c") & (table["measure"] == "kappa")]
    assert row["value"].item() == pairs["a", "c"][1].value
    many = {f"a coder of a long name {i}": codes["a"] for i in range(6)}
    assert max(map(len, repr(lh.validate(coded, many)).splitlines())) <= 88
    assert lh.validate(coded, truth).pairs == ()
    ordinal = lh.validate(coded, codes, scale="ordinal", labels=NAMES)
    assert [coefficient.name for coefficient in ordinal.pairs[0].coefficients] == [
        name for name in coefficients(2, "ordinal") if COEFFICIENTS[name].is_of_pairs
    ]


def test_what_most_people_say_is_right() -> None:
    checks = lh.validate(
        ["x", "x", "y", "y"],
        [["x", "x", "y", "x"], ["x", "y", "y", "y"], ["y", "x", None, None]],
    )
    assert checks.accuracy.n == 4  # on the last text people tie: the first coder decides
    assert checks.accuracy.accuracy.value == 0.75
    note = "1 of 4 codes is a tie, decided by the first coder (coder 1 before coder 2, co"
    assert any(line.startswith(note) for line in checks.warnings)


def test_ordered_labels() -> None:
    coded = ["low", "mid", "high", "low", "high", "mid"] * 5
    gold = ["low", "mid", "high", "mid", "high", "low"] * 5
    levels = ["low", "mid", "high"]
    checks = lh.validate(coded, gold, labels=levels, scale="ordinal")
    by_name = {coefficient.name: coefficient for coefficient in checks.model_agreement}
    assert list(by_name) == coefficients(2, "ordinal")
    weighted = lh.cohen_kappa(coded, gold, weights="quadratic", levels=levels)
    assert same_results(by_name["weighted kappa"], weighted)
    alpha = lh.krippendorff_alpha([coded, gold], scale="ordinal", levels=levels)
    assert same_results(by_name["alpha"], alpha)
    with pytest.raises(ValueError, match="levels must give the order"):
        lh.validate(coded, gold, scale="ordinal")
    with pytest.raises(ValueError, match="must have all labels: 'high' is missing"):
        lh.validate(coded, gold, labels=levels[:2], scale="ordinal")
    numbers = lh.validate([1, 2, 3, 3], [1, 2, 3, 2], scale="interval")
    alpha = lh.krippendorff_alpha([[1, 2, 3, 3], [1, 2, 3, 2]], scale="interval")
    by_name = {coefficient.name: coefficient for coefficient in numbers.model_agreement}
    assert by_name["alpha"].value == pytest.approx(alpha.value)


def test_codes_that_equal_no_label_are_reported() -> None:
    checks = lh.validate(["good", "bad"] * 30, [1, 2] * 30)
    (line,) = (line for line in checks.warnings if line.startswith("No code equals"))
    assert "Labels: bad, good; codes: 1, 2." in line
    alike: list[tuple[list[object], list[object]]] = [
        (["good", "bad"], ["good", "x"]),
        ([1, 1], [0, 2]),  # numbers of a scale
    ]
    for labels, codes in alike:
        checks = lh.validate(labels * 30, codes * 30)
        assert not any(line.startswith("No code equals") for line in checks.warnings)


def test_a_model_with_one_label_is_not_a_model_of_other_labels() -> None:
    labels = pd.Categorical(["good"] * 60, ["good", "bad"])
    for truth, is_told in (("bad", False), ("b", True)):
        checks = lh.validate(pd.DataFrame({"label": labels}), [truth] * 60)
        lines = [line for line in checks.warnings if line.startswith("No code equals")]
        assert bool(lines) == is_told


def test_no_texts_with_probabilities_are_no_error() -> None:
    checks = lh.validate(Labelled([], np.zeros((0, 3))), [])
    assert checks.n_texts == 0


def test_warnings() -> None:
    coded = Labelled(["positive"] * 30 + ["neutral"] * 8 + [None, None])
    gold: list[Any] = (
        ["positive"] * 28 + ["neutral"] * 2 + ["other"] * 8 + ["neutral"] * 2
    )
    page = "\n".join(lh.validate(coded, gold).warnings)
    assert "Only 38 texts are compared" in page
    assert "neutral (2), negative (0), other (8)" in page
    assert "Only one coder" in page
    assert "2 texts with codes have no label" in page
    assert "labels that the model cannot give: other" in page
    part = lh.validate(["a"] * 4, sample(4, [0, 1, 3], [["a", None, "a"]]))
    assert any("1 text of the sample has no code" in page for page in part.warnings)
    always = lh.validate(["a"] * 60 + ["b"] * 40, ["a"] * 50 + ["b"] * 30 + ["a"] * 20)
    page = next(text for text in always.warnings if "no better than always" in text)
    assert re.search(r"giving 'a', the code of \d+% of the texts", page)
    random = np.random.default_rng(0).choice(["a", "b"], (2, 100)).tolist()
    low = lh.validate(random[0], random)
    assert any("People agree little" in page for page in low.warnings)
    none = lh.validate(["a", None], [None, "a"])
    assert none.warnings[0].startswith("No text has both")
    assert (none.n_gold, none.accuracy.n) == (1, 0)
    assert "1 of 2 texts" in repr(none)


@pytest.mark.parametrize(
    ("near", "far", "scale", "is_warned"),
    [
        (10, 0, "ordinal", True),
        (10, 2, "interval", True),
        (10, 3, "ordinal", False),
        (10, 0, "nominal", False),
        (50, 0, "ordinal", False),
        (0, 0, "ordinal", False),
    ],
)
def test_large_differences_that_hardly_occur_are_named(
    near: int, far: int, scale: Any, is_warned: bool
) -> None:
    coded, codes = [1, 2, 3] * 20 + [1] * near + [1] * far, [1, 2, 3] * 20
    checks = lh.validate(coded, codes + [2] * near + [3] * far, scale=scale)
    assert any(f"more in {far} texts" in line for line in checks.warnings) == is_warned


def test_it_can_be_stored_and_read() -> None:
    coded, truth, _ = study(100)
    checks = lh.validate(coded, [truth, people(truth, range(100), 0.2)])
    stored = json.loads(json.dumps(checks.to_dict(), allow_nan=False))
    assert stored["accuracy"]["accuracy"]["value"] == checks.accuracy.accuracy.value
    assert len(stored["coverage"]["threshold"]) == len(checks.coverage.threshold)
    table = checks.to_pandas()
    assert " ".join(table.columns) == "part measure label value low high n"
    f1 = table[(table["measure"] == "f1") & (table["label"] == "neutral")]
    assert f1["value"].item() == checks.accuracy.per_label[1].f1.value
    assert set(table["part"]) == {
        *("accuracy", "baseline", "label", "pair", "ceiling", "calibration"),
        *("model and people", "between people"),
    }


def test_the_page_is_for_a_terminal() -> None:
    coded, truth, _ = study(300)
    coded.frame["text"] = ["a long text " * 20] * 300
    page = repr(lh.validate(coded, [truth, people(truth, range(300), 0.2)]))
    plain = page.splitlines()
    assert max(map(len, plain)) <= 88
    at = next(i for i, line in enumerate(plain) if line.startswith("wrong and"))
    assert max(map(len, plain[at : at + 6])) <= 80  # R's console
    assert "300 of 300 texts coded by 2 people" in plain[0]
    for title in ("accuracy", "macro F1", "always", "two people agree", "Brier score"):
        assert any(line.startswith(title) for line in plain), title
    for name in coefficients(2, "nominal"):
        title = COEFFICIENTS[name].title
        assert any(line.startswith(title) and line.count("[") == 2 for line in plain)
    wide = lh.validate(list("abcdefghij") * 3, list("abcdefghij") * 3)
    assert "model \\ people" not in repr(wide)


def test_numbers_are_what_people_wrote_as_text() -> None:
    labels = [1, 2, 3, 2.0, None]
    base = lh.validate(labels, [1, 2, 2, 2, 1], scale="ordinal")
    checks = lh.validate(labels, ["1", "2", "2", "2.0", "1"], scale="ordinal")
    assert repr(checks) == repr(base)
    drawn = sample(5, [0, 1, 2, 3, 4], [list("12221")], names=("1", "2", "3", "4"))
    ordered = lh.validate(labels, drawn, scale="ordinal")
    assert ordered.labels == (1, 2, 3, 4)
    kappas = [result.model_agreement[2].value for result in (ordered, base)]
    assert kappas[0] == pytest.approx(kappas[1])
    text = lh.validate(labels, ["1", "2", "2", "none", "1"])
    assert text.accuracy.accuracy.value == 0.5
    assert text.labels == ("1", "2", "3", "none")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coded": ["a"]}, "gold must have people's codes, or truth"),
        ({"coded": {"x": ["a"]}, "gold": ["a"]}, "label must be the name of the column"),
        ({"coded": {"x": ["a"]}, "gold": ["a"], "label": "y"}, "label must be a column"),
        ({"coded": ["a", "b"], "gold": ["a"]}, "for each of 2 texts, not 1"),
        ({"coded": ["a"], "gold": sample(1, [0], [["a", "b"]])}, "as many codes"),
        ({"coded": ["a"], "gold": sample(1, [0], [])}, "the sample has none yet"),
        ({"coded": ["a"], "gold": ["a"], "prob": [0.1, 0.2]}, "for each of 1 text,"),
        ({"coded": ["a"], "gold": ["a"], "prob": [[0.1]]}, r"each label \(none\), not 1"),
        ({"coded": ["a"], "gold": ["a"], "level": 95}, "level must be between"),
        ({"coded": ["a"], "gold": ["a"], "scale": "metric"}, "scale must be one of"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lh.validate(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": 5}, "weights must be a list of numbers, not 5"),
        ({"weights": True}, "weights must be a list of numbers, not True"),
        ({"weights": ["x", "y"]}, r"weights\[0\] must be a number, not 'x'"),
        ({"weights": [1, [2]]}, r"weights\[1\] must be a number, not \[2\]"),
        ({"prob": 0.5}, "prob must be a list of numbers, not 0.5"),
        ({"prob": [0.5, "x"]}, r"prob\[1\] must be a number, not 'x'"),
    ],
)
def test_numbers_of_other_types_are_named(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        lh.validate(["a", "b"], ["a", "b"], **arguments)


def test_weights_with_two_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="2 values, one for each text, not 2 x 2"):
        lh.validate(["a", "b"], ["a", "b"], weights=np.ones((2, 2)))


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA])
def test_a_missing_weight_is_refused_with_its_row(missing: object) -> None:
    with pytest.raises(ValueError, match=r"weights\[1\] must be finite"):
        lh.validate(["a", "b"], ["a", "b"], weights=[1, missing])


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(TypeError, match="coded must be a list"):
        lh.validate("a", ["a"])
    with pytest.raises(TypeError, match="gold must be a list"):
        lh.validate(["a"], 3)


def test_a_wrong_probability_is_named_with_its_row() -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        lh.validate(["a", "b"], ["a", "a"], prob=[0.5, 2.0])
    assert str(caught.value) == "prob[1] must be between 0 and 1, not 2"
    assert (caught.value.argument, caught.value.place) == ("prob", (1,))


def test_codes_may_be_a_column_of_the_labelled_data() -> None:
    data = pd.DataFrame({"label": ["a", "b", "a", "b"], "anna": ["a", "b", "b", None]})
    by_name = lh.validate(data, "anna")
    assert by_name.accuracy.accuracy.value == pytest.approx(2 / 3)
    assert str(by_name) == str(lh.validate(data, truth="anna"))
    with pytest.raises(ValueError, match="ben"):
        lh.validate(data, "ben")


@pytest.mark.parametrize("n_wrong", [0, 1])
def test_codes_that_may_be_a_copy_of_the_labels_are_told(n_wrong: int) -> None:
    labels = [NAMES[i % 3] for i in range(120)]
    codes = [NAMES[1] if i < n_wrong else label for i, label in enumerate(labels)]
    checks = lh.validate(labels, {"ann": codes, "ben": [NAMES[0], *[None] * 119]})
    copies = [line for line in checks.warnings if "equal the model's labels" in line]
    assert len(copies) == (n_wrong == 0)
    assert all("'ann'" in line and "'ben'" not in line for line in copies)
    half = [None if i % 2 else code for i, code in enumerate(codes * 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few errors
        notes = lh.estimate({"label": labels * 2}, half, prob=np.full(240, 0.5)).notes
    assert any("equal the model's labels" in line for line in notes) == (n_wrong == 0)


@pytest.mark.parametrize(("n", "n_rare"), [(99, 33), (300, 9)])
def test_codes_of_a_good_model_are_no_copies(n: int, n_rare: int) -> None:
    """Few codes, or few codes of rare labels, may all be right by chance."""
    labels = [NAMES[0] if i < n_rare else NAMES[1] for i in range(n)]
    checks = lh.validate(labels, {"ann": labels})
    assert not any("equal the model's labels" in line for line in checks.warnings)


@pytest.mark.parametrize("truth", [{"gold": "label"}, {"truth": ["code", "label"]}])
def test_the_labels_are_no_codes_of_people(truth: dict[str, Any]) -> None:
    data = {"label": ["a", "b"] * 30, "code": ["a", "b"] * 30}
    (name,) = truth
    with pytest.raises(ValueError, match=f"^{name} must be codes of people: 'label' is"):
        lh.validate(data, **truth)


def test_texts_that_the_data_leave_out_are_told() -> None:
    n = 40
    frame = pd.DataFrame(
        {
            "id": [f"t{i}" for i in range(n)],
            "text": [f"text {i}" for i in range(n)],
            "label": ["a", "b"] * (n // 2),
        }
    )
    gold = lh.gold_sample(frame, 20, id="id", seed=1)
    gold = gold.with_codes({"ann": ["a", "b"] * 10})
    note = "30 of 40 texts from which the sample was drawn are used, "
    checks = lh.validate(frame[:30], gold)
    (sentence,) = (line for line in checks.warnings if line.startswith(note))
    assert sentence.endswith("of the 20 drawn: results describe only the texts used.")
    assert not any(note in line for line in lh.validate(frame, gold).warnings)


@pytest.mark.parametrize(
    ("argument", "instead"),
    [
        ("consensus", "majority"),
        ("n_imputations", "majority"),
        ("n_bootstrap", "without a bootstrap"),
        ("seed", "without a bootstrap"),
    ],
)
def test_what_was_removed_says_what_is_computed(argument: str, instead: str) -> None:
    with pytest.raises(lh.ArgumentTypeError, match=f"was removed.*{instead}") as caught:
        lh.validate(["a", "b"], ["a", "b"], **{argument: 5})  # type: ignore[arg-type] # removed
    assert caught.value.code == "removed"


@pytest.mark.parametrize("n", [3, 8])
def test_long_labels_cut_no_numbers(n: int) -> None:
    names = [f"Statements that criticise the economic policy, part {i}" for i in range(n)]
    truth = [names[i % n] for i in range(20 * n)]
    labels = [name if i % 7 else names[0] for i, name in enumerate(truth)]
    checks = lh.validate(labels, truth, prob=[0.9] * len(truth))
    lines = str(checks).splitlines()
    assert max(map(len, lines)) <= 88
    scores = checks.accuracy.per_label
    for of_label in scores:
        score = with_interval(dataclasses.asdict(of_label.recall))
        assert any(score in line for line in lines)
    assert sum(line.count("[") for line in lines) >= 3 * n
    table = lines[next(i for i, line in enumerate(lines) if "\\ people" in line) :]
    counts = [line.split()[-n:] for line in table[1 : n + 1]]
    assert counts == [list(map(str, row)) for row in checks.accuracy.confusion]
    assert len({line[:25] for line in table[1 : n + 1]}) == n
