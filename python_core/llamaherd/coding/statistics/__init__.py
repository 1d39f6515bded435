"""Agreement, accuracy and calibration: arrays as input, frozen dataclasses as result."""

from llamaherd.coding.statistics.accuracy import Accuracy, LabelScores, accuracy_of
from llamaherd.coding.statistics.agreement import cohen_kappa
from llamaherd.coding.statistics.calibration import (
    CalibrationBin,
    CalibrationError,
    CoverageCurve,
    brier_score,
    calibration_error,
    coverage_curve,
    for_people,
)
from llamaherd.coding.statistics.intervals import Measure
from llamaherd.coding.statistics.many_coders import (
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
)
from llamaherd.coding.statistics.number_agreement import NumberAgreement, number_agreement
from llamaherd.coding.statistics.ratings import Agreement

__all__ = [
    "Accuracy",
    "Agreement",
    "CalibrationBin",
    "CalibrationError",
    "CoverageCurve",
    "LabelScores",
    "Measure",
    "NumberAgreement",
    "accuracy_of",
    "brier_score",
    "calibration_error",
    "cohen_kappa",
    "coverage_curve",
    "for_people",
    "gwet_ac1",
    "krippendorff_alpha",
    "number_agreement",
    "percent_agreement",
]
