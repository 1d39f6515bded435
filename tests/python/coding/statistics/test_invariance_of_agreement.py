"""Tests of identities that hold for every measure of agreement and accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.coding.statistics.number_agreement import number_agreement

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 90
RNG = np.random.default_rng(2)
TRUE = RNG.integers(1, 4, N)


def coder(right: float, missing: float = 0.15) -> list[int | None]:
    codes = np.where(RNG.random(N) < right, TRUE, RNG.integers(1, 4, N))
    return [
        None if gone else int(code)
        for code, gone in zip(codes, RNG.random(N) < missing, strict=True)
    ]


CODES = [coder(0.9), coder(0.85), coder(0.8)]
WEIGHTS = RNG.integers(1, 4, N).tolist()
COEFFICIENTS: dict[str, Callable[..., Any]] = {
    **{
        f"alpha {scale}": lambda codes, scale=scale, **options: lh.krippendorff_alpha(
            codes, scale=scale, **options
        )
        for scale in ("nominal", "ordinal", "interval", "ratio")
    },
    "ac1": lh.gwet_ac1,
    "percent": lh.percent_agreement,
    "percent all": lambda codes, **o: lh.percent_agreement(codes, kind="all", **o),
    "percent near": lambda codes, **o: lh.percent_agreement(codes, tolerance=1, **o),
    **{
        f"kappa {way}": lambda codes, way=way, **options: lh.cohen_kappa(
            codes[0], codes[1], weights=way, **options
        )
        for way in ("none", "linear", "quadratic")
    },
}


def numbers(measure: Any) -> np.ndarray:
    names = ("value", "low", "high", "se", "observed", "expected", "n_units")
    return np.array([getattr(measure, name) for name in names], dtype=float)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_neither_order_nor_names_of_coders_nor_types_matter(name: str) -> None:
    of = COEFFICIENTS[name]
    expected = numbers(of(CODES, unit_weights=WEIGHTS))
    order = np.random.default_rng(1).permutation(N)
    mixed = [[codes[i] for i in order] for codes in CODES]
    swapped = [CODES[1], CODES[0], *CODES[2:]]
    texts = [[None if code is None else f"{code}.0" for code in row] for row in CODES]
    floats = np.array([[np.nan if x is None else x for x in row] for row in CODES], float)
    values = [
        of(mixed, unit_weights=[WEIGHTS[i] for i in order]),
        *(of(row, unit_weights=WEIGHTS) for row in (swapped, texts, floats)),
        of(CODES, unit_weights=[3.7 * w for w in WEIGHTS]),
    ]
    for row in values:
        np.testing.assert_allclose(numbers(row), expected, rtol=1e-9)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_units_without_weight_or_code_do_not_count(name: str) -> None:
    of = COEFFICIENTS[name]
    expected = numbers(of(CODES, unit_weights=WEIGHTS))
    without_code = [[*codes, *[None] * 6] for codes in CODES]
    without_weight = [[*codes, *codes[:6]] for codes in CODES]
    for codes, more in ((without_code, 2), (without_weight, 0)):
        measure = of(codes, unit_weights=[*WEIGHTS, *[more] * 6])
        np.testing.assert_allclose(numbers(measure), expected, rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in COEFFICIENTS if "alpha" not in name])
def test_whole_weights_count_like_repeated_units(name: str) -> None:
    """Alpha is left out: its expected disagreement depends on the number of codes."""
    of = COEFFICIENTS[name]
    repeated = [np.repeat(np.array(c, dtype=object), WEIGHTS).tolist() for c in CODES]
    weighted = of(CODES, unit_weights=WEIGHTS).value
    assert weighted == pytest.approx(of(repeated).value, abs=1e-12)


def test_scales_have_the_invariances_of_their_distances() -> None:
    def changed(scale: str, to: Callable[[int], float]) -> float:
        codes = [[None if x is None else to(x) for x in row] for row in CODES]
        return COEFFICIENTS[f"alpha {scale}"](codes).value

    for scale, to in (
        ("nominal", lambda x: {1: 7, 2: -1, 3: 0}[x]),  # any other values
        ("ordinal", lambda x: 4 - x),
        ("ordinal", lambda x: x**5),
        ("interval", lambda x: 10 - 3 * x),
        ("interval", lambda x: 1e-9 * x),
        ("ratio", lambda x: 7 * x),
    ):
        expected = COEFFICIENTS[f"alpha {scale}"](CODES).value
        assert changed(scale, to) == pytest.approx(expected, abs=1e-9)


def measures(ratings: np.ndarray, **options: Any) -> dict[str, np.ndarray]:
    agreement = number_agreement(ratings, **options).measures
    return {name: np.array([m.value, m.low, m.high]) for name, m in agreement.items()}


@pytest.mark.parametrize("unit", [1e-9, 1e-6, 1e6])
def test_agreement_of_numbers_has_any_unit(unit: float) -> None:
    rng = np.random.default_rng(3)
    first = rng.normal(5, 2, 60)
    ratings = np.array([first, first + rng.normal(0, 1, 60)])
    weights = rng.uniform(0.5, 3, 60)
    base = measures(ratings, unit_weights=weights)
    for name, values in measures(ratings * unit, unit_weights=weights).items():
        times = unit if name in {"rmse", "mae", "bias"} else 1
        np.testing.assert_allclose(values / times, base[name], rtol=1e-7, err_msg=name)
    swapped = measures(ratings[::-1], unit_weights=weights)
    swapped["bias"] = -swapped["bias"][[0, 2, 1]]
    for name, values in swapped.items():
        np.testing.assert_allclose(values, base[name], rtol=1e-9)


def test_numbers_that_differ_by_rounding_have_no_correlation() -> None:
    rounded = np.full(12, 0.3)
    rounded[::2] = 0.1 + 0.2
    agreement = measures(np.array([rounded, rounded[::-1]]))
    assert np.isnan(agreement["pearson"]).all()
    assert np.isnan(agreement["icc"]).all()


def validated(data: pd.DataFrame, **options: Any) -> dict[str, np.ndarray]:
    arguments = {"truth": ["a", "b", "c"], "prob": "sure", **options}
    validation = lh.validate(data, **arguments)
    accuracy, people = validation.accuracy, validation.ceiling
    named = {
        name: getattr(accuracy, name)
        for name in ("accuracy", "balanced_accuracy", "macro_f1", "majority_accuracy")
    }
    for score in accuracy.per_label:
        for part in ("precision", "recall", "f1"):
            named[f"{part} of {score.label}"] = getattr(score, part)
    named |= {
        f"ceiling {name}": getattr(people, name) for name in ("people", "difference")
    }
    named |= {f"model {score.name}": score for score in validation.model_agreement}
    named |= {f"coders {score.name}": score for score in validation.coder_agreement}
    return {key: np.array([m.value, m.low, m.high]) for key, m in named.items()}


def coded() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    label = np.where(rng.random(N) < 0.8, TRUE, rng.integers(1, 4, N))
    columns = {
        name: pd.Series(c, dtype=object) for name, c in zip("abc", CODES, strict=True)
    }
    sure = rng.uniform(0.3, 1, N)
    return pd.DataFrame({"label": label, **columns, "w": WEIGHTS, "sure": sure})


def test_a_validation_does_not_depend_on_rows_that_say_nothing() -> None:
    data = coded()
    expected = validated(data, weights="w")
    empty = pd.DataFrame({"label": [1] * 5 + [None] * 5, "w": 2, "sure": 0.5})
    swapped = data.rename(columns={"a": "b", "b": "a"})  # decides ties otherwise
    for other in (
        data.sample(frac=1, random_state=1),
        pd.concat([data, empty.astype({"label": object})]),
        pd.concat([data, data.head(10).assign(w=0)]),
        data.assign(w=data["w"] * 0.3),
        swapped,
    ):
        numbers_now = validated(other.reset_index(drop=True), weights="w")
        assert numbers_now.keys() == expected.keys()
        for name, values in numbers_now.items():
            if other is swapped and not name.startswith(("ceiling", "coders")):
                continue
            np.testing.assert_allclose(values, expected[name], atol=1e-9, err_msg=name)
