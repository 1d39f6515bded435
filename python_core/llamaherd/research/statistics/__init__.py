"""Agreement, accuracy, calibration: arrays in, frozen dataclasses out."""

from llamaherd.research.statistics.agreement import (
    Agreement,
    cohen_kappa,
    gwet_ac1,
    percent_agreement,
)
from llamaherd.research.statistics.krippendorff import krippendorff_alpha

__all__ = [
    "Agreement",
    "cohen_kappa",
    "gwet_ac1",
    "krippendorff_alpha",
    "percent_agreement",
]
