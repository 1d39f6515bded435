"""Calibrations, compared with numbers computed by hand."""

from __future__ import annotations

import math

import llamaherd as lh
import numpy as np
import pytest

NAN = math.nan


def results(probs: list[list[float]]) -> lh.ClassifyResults:
    values = np.array(probs)
    return lh.ClassifyResults(
        names=("yes", "no"),
        probs=values,
        logprobs=np.log(values / 2),
        normalize="sum",
        errors=[None] * len(probs),
        finish_reasons=["stop"] * len(probs),
        stats=lh.Stats(),
    )


def test_contextual_by_hand() -> None:
    # Without content: the mean of (0.7, 0.3) and (0.9, 0.1), (0.8, 0.2). A text at
    # (0.75, 0.25): 0.75 / 0.8 = 0.9375 and 0.25 / 0.2 = 1.25, of 2.1875 in all.
    calibration = lh.calibrate_contextual(results([[0.7, 0.3], [0.9, 0.1]]))
    assert calibration.prior == pytest.approx((0.8, 0.2))
    assert (calibration.method, calibration.n) == ("contextual", 2)
    found = results([[0.75, 0.25]]).calibrated(calibration)
    assert found.probs == pytest.approx(np.array([[3 / 7, 4 / 7]]))
    assert found.labels == ["no"]
    assert found.calibration is calibration
    assert found.logprobs == pytest.approx(np.log([[0.375, 0.125]]))


def test_batch_by_hand() -> None:
    # The mean of (0.9, 0.1), (0.6, 0.4), (0.6, 0.4) is (0.7, 0.3); so the second is
    # 0.6 / 0.7 = 6/7 and 0.4 / 0.3 = 4/3, of 46/21: 9/23 and 14/23. A failed row is
    # left out.
    rows = [[0.9, 0.1], [0.6, 0.4], [NAN, NAN], [0.6, 0.4]]
    calibration = lh.calibrate_batch(np.array(rows))
    assert calibration.prior == pytest.approx((0.7, 0.3))
    assert calibration.n == 3
    found = results(rows).calibrated(calibration)
    # 0.9 / 0.7 = 9/7 and 0.1 / 0.3 = 1/3, of 34/21.
    assert found.probs[0] == pytest.approx([27 / 34, 7 / 34])
    assert found.probs[1] == pytest.approx([9 / 23, 14 / 23])
    assert np.isnan(found.probs[2]).all()
    assert found.labels == ["yes", "no", None, "no"]


def test_a_calibration_is_stored_and_applied_to_texts_to_come() -> None:
    calibration = lh.calibrate_batch(results([[0.25, 0.75], [0.1, 0.9]]))
    stored = lh.Calibration.from_json(calibration.to_json())
    assert stored == calibration
    probs = np.array([[0.2, 0.8], [0.0, 1.0]])
    assert stored.apply(probs).tolist() == calibration.apply(probs).tolist()
    assert stored.apply(probs)[1].tolist() == [0.0, 1.0]


def test_a_label_without_any_probability_divides_nothing_by_zero() -> None:
    calibration = lh.calibrate_batch(np.array([[1.0, 0.0]]))
    assert calibration.apply(np.array([[1.0, 0.0], [0.0, 0.0]])).tolist() == [
        [1.0, 0.0],
        [0.0, 0.0],
    ]


def test_what_does_not_fit_is_refused() -> None:
    made = results([[0.5, 0.5]])
    calibration = lh.calibrate_batch(made)
    with pytest.raises(ValueError, match="is for the labels"):
        lh.Calibration(
            names=("a", "b"), prior=(0.5, 0.5), method="batch", n=1
        ).check_names(("b", "a"))
    with pytest.raises(ValueError, match="is for 2 labels, not 3"):
        lh.calibrate_batch(made.probs).check_names(("a", "b", "c"))
    with pytest.raises(ValueError, match="2 columns, as the calibration has, not 3"):
        calibration.apply(np.ones((1, 3)))
    with pytest.raises(ValueError, match="not have 1 dimensions"):
        calibration.apply(np.ones(2))
    with pytest.raises(ValueError, match="calibrated already"):
        made.calibrated(calibration).calibrated(calibration)
    with pytest.raises(ValueError, match="calibrated already"):
        lh.calibrate_batch(made.calibrated(calibration))
    with pytest.raises(ValueError, match="no row of probabilities"):
        lh.calibrate_batch(results([[NAN, NAN]]))
    with pytest.raises(TypeError, match="probs must be a matrix of numbers, not 'x'"):
        lh.calibrate_batch("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"names": ["a"], "prior": [0.5, 0.5], "method": "batch", "n": 1}',
        '{"names": [], "prior": [2], "method": "batch", "n": 1}',
        '{"names": [], "prior": [1], "method": "magic", "n": 1}',
    ],
)
def test_what_is_no_stored_calibration_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="not a stored calibration"):
        lh.Calibration.from_json(text)
