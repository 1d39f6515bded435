"""Methods paragraphs of codings and of reports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.coding.reports.methods import methods_of
from llamaherd.coding.reports.report import DEFAULT_TITLE, contents_for
from llamaherd.coding.reports.report_file import damages, read_report
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.estimation.robustness_result import Robustness
    from llamaherd.coding.reports.methods import MethodsText
    from llamaherd.coding.reports.report import EstimatesGiven
    from llamaherd.coding.selection.evaluation import Evaluation
    from llamaherd.coding.validation.validation import Validation


def methods_text(
    coded: Coded | str | os.PathLike[str],
    validation: Validation | None = None,
    estimates: EstimatesGiven = None,
    robustness: Robustness | None = None,
    *,
    evaluation: Evaluation | None = None,
) -> MethodsText:
    """Write a methods paragraph, with BibTeX entries of the works that it cites.

    All sentences come from the data: model, codebook, temperature, thinking, calibration,
    sampling of the coded texts, agreement, estimators. Missing steps, such as a
    validation, are not mentioned; the checklist of `report` marks them as open.

    Args:
        coded: Result of `annotate`; or path of a report, which contains all other
            results.
        validation: Result of `validate`.
        estimates: Result of `estimate`; or several results, as in `report`.
        robustness: Result of `robustness`.
        evaluation: Result of `evaluate_codebook` for the codebook, settings and model of
            the coding.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Results belong to other texts or labels; the file is not a report; or
            results were passed together with a report.
        OSError: The report cannot be read.
    """
    others = {
        "validation": validation,
        "estimates": estimates,
        "robustness": robustness,
        "evaluation": evaluation,
    }
    if isinstance(coded, (str, os.PathLike)):
        for name, value in others.items():
            if value is not None:
                raise ArgumentError(
                    "must be omitted: the report has its own results", argument=name
                )
        path = Path(os.fsdecode(coded)).expanduser()
        with damages(path):
            return methods_of(read_report(path))
    return methods_of(
        contents_for(
            coded,
            validation,
            estimates,
            robustness,
            evaluation=evaluation,
            title=DEFAULT_TITLE,
            texts=False,
            n_examples=0,
        )
    )
