"""Answers to the checklist on people's codes, accuracy, choice and estimates.

A function returns None if the data do not answer its item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core.decimals import decimals, percents
from llamaherd.core.plurals import count_of
from llamaherd.research.reports.methods_words import (
    listed,
    measured,
    number,
)
from llamaherd.research.reports.report_data import estimates_in

if TYPE_CHECKING:
    from llamaherd.research.reports.report_data import Contents

_FEW_CODES = 100  # fewer codes than this get a remark
_FEW_OF_LABEL = 20  # fewer codes of a label than this get a remark (Toernberg 2024)
_SHOWN_ERRORS = 3


def gold(contents: Contents) -> str | None:
    """Count coded texts."""
    found = contents["validation"]
    if found is None:
        return None
    few = found["n_gold"] < _FEW_CODES
    return f"{found['n_gold']:,}" + (
        f", fewer than {_FEW_CODES}: intervals are wide" if few else ""
    )


def drawn(contents: Contents) -> str | None:
    """State the design of the gold-standard sample."""
    design = (contents["validation"] or {}).get("design")
    if design is None:
        return None
    return f"{design['kind']}, {design['n']:,} of {design['N']:,}, seed {design['seed']}"


def rarest(contents: Contents) -> str | None:
    """Count the codes of the rarest label."""
    found = contents["validation"]
    scores = [] if found is None else found["accuracy"]["per_label"]
    if not scores:
        return None
    least = min(scores, key=lambda each: each["n_gold"])
    few = least["n_gold"] < _FEW_OF_LABEL
    return f"{least['n_gold']:,}, of \u201c{least['label']}\u201d" + (
        f", fewer than {_FEW_OF_LABEL}: its scores are uncertain" if few else ""
    )


def blind(contents: Contents) -> str | None:
    """Return the recorded statement on blind coding, if any."""
    design = (contents["validation"] or {}).get("design")
    return None if design is None else design.get("blind")


def people(contents: Contents) -> str | None:
    """State the agreement of coders."""
    agreed = (contents["validation"] or {}).get("coder_agreement")
    if not agreed:
        return None
    return "; ".join(
        f"{each['name']} {measured(each)}" for each in agreed if each["value"] is not None
    )


def ceiling(contents: Contents) -> str | None:
    """Compare the agreement of model and people with the agreement between people."""
    found = (contents["validation"] or {}).get("ceiling")
    if found is None:
        return None
    return (
        f"the model agrees with a coder in {number(found['model']['value'])} of texts, "
        f"two coders agree in {number(found['people']['value'])}; difference "
        f"{measured(found['difference'])}"
    )


def accuracy(contents: Contents) -> str | None:
    """State accuracy, F1 and chance-corrected agreement."""
    found = contents["validation"]
    if found is None:
        return None
    corrected = [
        f"{each['name']} {measured(each)}"
        for each in found["model_agreement"]
        if each["value"] is not None and each["name"] != "percent"
    ]
    return (
        f"accuracy {measured(found['accuracy']['accuracy'], found['level'])}, macro F1 "
        f"{measured(found['accuracy']['macro_f1'])}, "
        + "".join(f"{each}, " for each in corrected)
        + "and each label (Validation)"
    )


def errors(contents: Contents) -> str | None:
    """Name the most frequent confusions of labels."""
    found = contents["validation"]
    table = [] if found is None else found["accuracy"]["confusion"]
    if found is None or not table:
        return None
    names = found["accuracy"]["labels"]
    wrong = [
        (n, given, right)
        for given, row in zip(names, table, strict=True)
        for right, n in zip(names, row, strict=True)
        if n and given != right
    ]
    if not wrong:
        return f"none in {count_of(found['accuracy']['n'], 'text')}"
    wrong.sort(key=lambda each: -each[0])
    most = [
        f"\u201c{given}\u201d for \u201c{right}\u201d ({n:,})"
        for n, given, right in wrong[:_SHOWN_ERRORS]
    ]
    return f"the model gave {listed(most)} (Validation, Disagreements)"


def sure(contents: Contents) -> str | None:
    """State the calibration error of the probabilities."""
    found = (contents["validation"] or {}).get("calibration")
    if found is None or found["ece"] is None:
        return None
    return f"the mean calibration error is {decimals(found['ece'])} (Validation)"


def baseline(contents: Contents) -> str | None:
    """State the accuracy of the most frequent label for all texts."""
    found = contents["validation"]
    if found is None:
        return None
    base = found["accuracy"]["majority_accuracy"]
    return (
        None
        if base["value"] is None
        else f"{measured(base)} with the most frequent label for all texts"
    )


def errors_by_group(contents: Contents) -> str | None:
    """State that corrected estimates account for errors that differ by group."""
    if not _are_corrected(contents):
        return None
    return "not needed for the corrected estimates, which account for such differences"


def corrected(contents: Contents) -> str | None:
    """State that estimates are corrected."""
    if not _are_corrected(contents):
        return None
    return "by human codes, with intervals; uncorrected estimates too (Estimates)"


def _are_corrected(contents: Contents) -> bool:
    """Return True if there are estimates, and each of them is corrected."""
    found = estimates_in(contents)
    corrected = [
        any(row["method"] in {"dsl", "ppi"} for row in fields["rows"]) for fields in found
    ]
    return bool(found) and all(corrected)


def tried(contents: Contents) -> str | None:
    """Count the candidates among which the codebook was chosen."""
    found = contents.get("evaluation")
    return None if found is None else count_of(found["n_candidates"], "candidate")


def apart(contents: Contents) -> str | None:
    """State the value of the chosen codebook on texts not used to choose it."""
    found = contents.get("evaluation")
    if found is None:
        return None
    again = found["n_openings"] - 1
    used = f", used {count_of(again, 'time')} before" if again else ", used once"
    return (
        f"chosen on other texts ({decimals(found['on_select'])} there); "
        f"{number(found['value'])} on {count_of(found['n'], 'text')}{used}"
    )


def robust(contents: Contents) -> str | None:
    """State the agreement of variants."""
    found = contents["robustness"]
    if found is None or found["agreement"] is None:
        return None
    n = len(found["variants"])
    return f"{count_of(n, 'variant')}, mean agreement {percents(found['agreement'], 0)}"
