"""Agreement, accuracy and calibration: arrays as input, frozen dataclasses as result."""

from llamaherd.research.statistics.accuracy import Accuracy, LabelScores, accuracy_of
from llamaherd.research.statistics.agreement import cohen_kappa
from llamaherd.research.statistics.calibration import (
    CalibrationBin,
    CalibrationError,
    CoverageCurve,
    brier_score,
    calibration_error,
    coverage_curve,
    for_people,
)
from llamaherd.research.statistics.intervals import Measure
from llamaherd.research.statistics.many_coders import (
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
)
from llamaherd.research.statistics.number_agreement import (
    NumberAgreement,
    number_agreement,
)
from llamaherd.research.statistics.ratings import Agreement

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
