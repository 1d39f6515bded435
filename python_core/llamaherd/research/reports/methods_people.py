"""Sentences of methods paragraphs on codebook selection, human codes and estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import decimals, percents
from llamaherd.core.plurals import count_of, percent, verb
from llamaherd.research.estimation.gold_waves import WAVES
from llamaherd.research.reports.methods_words import cite, listed, measured
from llamaherd.research.reports.report_data import estimates_in
from llamaherd.research.selection.effect import TITLES
from llamaherd.research.statistics.coefficients import COEFFICIENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llamaherd.research.reports.report_data import Contents

_DRAWN = {
    "simple": "at random, all with the same probability",
    "stratified": "at random, a fixed number in each stratum",
    "uncertainty": "at random, with probabilities that grow with the model's uncertainty",
    "weights": "at random, with probabilities that grow with the survey weight",
    "given": "at random, with given probabilities",
}
_WEIGHTS = {
    ("inclusion",): "the inverse of its inclusion probability",
    ("survey",): "its survey weight",
    ("inclusion", "survey"): "its survey weight divided by its inclusion probability",
}
_TERMS = {
    "share": "shares",
    "mean": "means",
    "quantile": "quantiles",
    "difference": "differences between groups",
}
_TARGETS = {
    "texts": "The intervals describe these texts only.",
    "population": "The intervals treat these texts as a sample from a larger population.",
}
_CONSENSUS = {
    "dawid_skene": "by the model of Dawid and Skene",
    "one_coin": "by the one-coin form of the model of Dawid and Skene",
}
_RIGHT_CODE = (
    "If people gave different codes to a text, the majority code was used, and on a tie "
    "the code of the first coder."
)
_MEAN_NUMBER = "the number of a text was the mean of the numbers that people gave."


def chosen(contents: Contents) -> Iterator[str]:
    """Describe how the codebook was selected and evaluated."""
    found = contents.get("evaluation")
    if found is None:
        return
    measure = TITLES[found["measure"]]
    yield (
        f"Codebook, settings and model were chosen among "
        f"{count_of(found['n_candidates'], 'candidate')} by their {measure} on one part "
        f"of the texts coded by people ({decimals(found['on_select'])} on that part), "
        f"and measured on {found['n']:,} other texts: {measure} "
        f"{measured(found, found['level'])}."
    )
    n = found["n_openings"]
    if n > 1:
        earlier = count_of(n - 1, "earlier evaluation")
        yield f"These texts had been used before ({earlier})."


def people(contents: Contents, used: list[str]) -> Iterator[str]:
    """Describe the gold-standard sample and its agreement with the model."""
    found = contents["validation"]
    if found is None:
        return
    coders = len(found["coders"])
    who = "one person" if coders == 1 else f"{coders} people"
    verb_of = verb(found["n_gold"], "was", "were")
    n_texts = count_of(found["n_gold"], "text")
    yield f"To measure quality, {n_texts} {verb_of} coded by {who}."
    yield from _drawn(found, used)
    yield from _without_code(found)
    yield from _between_people(found, used)
    yield from _of_model(found, used)


def _drawn(found: Mapping[str, Any], used: list[str]) -> Iterator[str]:
    design = found.get("design")
    if design is None:
        return
    n_all = design["N"] - design["n_missing"]
    if design["n"] == n_all:
        is_all = found["n_gold"] == n_all
        yield (
            "These were all texts."
            if is_all
            else f"All {count_of(n_all, 'text')} were to be coded."
        )
        return
    history = design.get("history", ())
    if design["kind"] == WAVES:
        sizes = listed([f"{wave['n']:,}" for wave in history])
        yield (
            f"These texts belong to a sample of {design['n']:,} of "
            f"{count_of(n_all, 'text')}, "
            f"drawn in {count_of(len(history), 'wave')} ({sizes} texts) of "
            "different designs, as in "
            f"active inference {cite(used, 'zrnic2024active')}. The weights of all waves "
            "give unbiased estimates, although later waves may depend on earlier codes "
            f"{cite(used, 'farquhar2021')}."
        )
        return
    by = design.get("by")
    waves = f" in {count_of(len(history), 'wave')}" if len(history) > 1 else ""
    columns = "" if by is None else f" of {by if isinstance(by, str) else listed(by)}"
    yield (
        f"These texts belong to a sample of {design['n']:,} of "
        f"{count_of(n_all, 'text')}, "
        f"drawn{waves} {_DRAWN[design['kind']]}{columns} (seed {design['seed']})."
    )


def _without_code(found: Mapping[str, Any]) -> Iterator[str]:
    """Describe how texts of the sample without a code are treated."""
    n = found.get("n_without") or 0
    if n == 0:
        return
    among = " with the same label" if found.get("is_by_label") else ""
    yield (
        f"{count_of(n, 'text')} of the sample {verb(n, 'has', 'have')} no code; the "
        f"coded texts are treated as a random part of the drawn texts{among}."
    )


def weights_of(found: Mapping[str, Any]) -> Sequence[str]:
    """Return the weights of a validation, also of a report of an earlier version."""
    earlier = ("inclusion",) if found["is_weighted"] else ()
    known: Sequence[str] = found.get("weighted_by", earlier)
    return known


def _weighted(found: Mapping[str, Any]) -> str:
    """Name the weights; "" if all texts have the same weight."""
    by = list(weights_of(found))
    is_simple = (found["design"] or {}).get("kind") == "simple"
    if is_simple and not found.get("is_by_label"):
        by = [each for each in by if each != "inclusion"]
    return f", each text weighted by {_WEIGHTS[tuple(by)]}" if by else ""


def _between_people(found: Mapping[str, Any], used: list[str]) -> Iterator[str]:
    parts = [
        f"{COEFFICIENTS[each['name']].sentence} {measured(each)} "
        f"{cite(used, COEFFICIENTS[each['name']].reference)}"
        for each in _told(found["coder_agreement"], ("kappa", "alpha"))
    ]
    if parts:
        mean = ", means over labels," if found.get("several") else ""
        yield f"Agreement between people{mean} was {listed(parts)}."
    if _has_majority(found):
        yield _RIGHT_CODE
        if found.get("numbers") is not None:
            yield f"For measures of numbers, {_MEAN_NUMBER}"


def _told(
    found: Sequence[Mapping[str, Any]] | None, names: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the coefficients in `names`; if kappa is weighted, weighted kappa."""
    known = {each["name"]: each for each in found or [] if each["value"] is not None}
    for name in names:
        each = known.get(f"weighted {name}") or known.get(name)
        if each is not None:
            yield each


def _of_model(found: Mapping[str, Any], used: list[str]) -> Iterator[str]:
    scores, level = found["accuracy"], found["level"]
    several = bool(found.get("several"))
    base = scores["majority_accuracy"]["value"]
    baseline = (
        ""
        if base is None
        else "; the accuracy of a model that always gives the most frequent "
        f"{'combination of labels' if several else 'label'} is {decimals(base)}"
    )
    exact = ", the share of texts with exactly the same labels," if several else ""
    yield (
        f"The model's labels agreed with people's codes with an accuracy of "
        f"{measured(scores['accuracy'], level)}{exact} and a macro F1 of "
        f"{measured(scores['macro_f1'])}{_weighted(found)}{baseline}."
    )
    n_left_out = found["n_gold"] - scores["n"]
    if n_left_out > 0:
        texts = "text" if n_left_out == 1 else "texts"
        yield (f"These numbers leave out {n_left_out} coded {texts} without a label.")
    mean = ", the mean over labels," if several else ""
    parts = [
        f"{COEFFICIENTS[each['name']].sentence} between model and people{mean} was "
        f"{measured(each)} {cite(used, COEFFICIENTS[each['name']].reference)}"
        for each in _told(found["model_agreement"], ("kappa",))
    ]
    yield from (f"{part}." for part in parts)
    yield from _as_numbers(found.get("numbers"))
    model = _CONSENSUS.get(found.get("consensus") or "")
    if model is not None:
        yield (
            f"The right codes were modelled from all coders' codes {model} "
            f"{cite(used, 'dawid1979')}, and measures from several draws of them were "
            f"combined by multiple imputation {cite(used, 'rubin1987')}."
        )


def _as_numbers(found: Mapping[str, Any] | None) -> Iterator[str]:
    """Describe the agreement of labels that are numbers."""
    if found is None or found["icc"]["value"] is None:
        return
    bias = found["bias"]
    differ = (
        ""
        if bias is None or bias["value"] is None
        else f", and the mean difference, model minus people, was {measured(bias)}"
    )
    yield (
        "Compared as numbers, the intraclass correlation ICC(2,1) of model and people "
        f"was {measured(found['icc'])}{differ}."
    )


def estimates(contents: Contents, used: list[str]) -> list[str]:
    """Describe estimators and variants."""
    return [*_estimators(contents, used), *_variants(contents)]


def _estimators(contents: Contents, used: list[str]) -> Iterator[str]:
    """Describe all estimates, those of the same data and methods together.

    What is said of all of them is said once, at the end.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for fields in estimates_in(contents):
        groups.setdefault(repr(_design_of(fields)), []).append(fields)
    validation = contents["validation"]
    told = [list(_estimated(found, validation, used)) for found in groups.values()]
    shared = (
        [each for each in told[0] if all(each in own for own in told)] if told else []
    )
    for own in told:
        yield from (each for each in own if each not in shared)
    yield from shared


def _design_of(fields: Mapping[str, Any]) -> list[object]:
    """Return all that the sentences on estimates say of data and methods."""
    names = ("n_texts", "n_gold", "level", "predictions", "target", "is_weighted")
    methods = sorted({row["method"] for row in fields["rows"]})
    more = ("consensus", "simultaneous")
    has_coders = bool(fields.get("agreement"))
    return [methods, has_coders, *(fields.get(name) for name in (*names, *more))]


def _estimated(
    found: Sequence[Mapping[str, Any]],
    validation: Mapping[str, Any] | None,
    used: list[str],
) -> Iterator[str]:
    """Describe estimates of the same data by the same methods."""
    first = found[0]
    methods = {row["method"] for row in first["rows"]}
    formulas = {each["formula"]: each["model"] for each in found if each["formula"]}
    terms = set().union(*(_terms(each) for each in found if not each["formula"]))
    what = listed(
        [_TERMS[each] for each in _TERMS if each in terms]
        + [
            f"the regression {formula} ({_model_name(model)})"
            for formula, model in formulas.items()
        ]
        or ["shares and means"]
    )
    yield (
        f"We estimated {what} from {count_of(first['n_texts'], 'text')}, of which "
        f"{first['n_gold']:,} were coded by people."
    )
    corrected = []
    if "dsl" in methods:
        works = cite(used, "egami2023")
        if formulas:  # labels on either side of a regression
            works += f" {cite(used, 'egami2024')}"
        corrected.append(f"design-based supervised learning {works}")
    if "ppi" in methods:
        corrected.append(
            f"prediction-powered inference (PPI++) {cite(used, 'angelopoulos2023')}"
        )
    if corrected:
        yield (
            f"Errors of the model's labels were corrected by {listed(corrected)}, with "
            f"{percent(first['level'])} confidence intervals."
        )
    if first.get("predictions") == "recalibrated":
        yield (
            "The predictions were cross-fitted on the same codes, as in cross-prediction "
            f"{cite(used, 'zrnic2024')}."
        )
    elif first.get("predictions") == "probs":
        yield "The predictions were the probabilities of the labels."
    yield from _of_design(first, used)
    yield from _of_codes(found, validation)
    if "naive" in methods:
        yield (
            "For comparison, we also report estimates that treat the model's labels as "
            "true."
        )


def _terms(found: Mapping[str, Any]) -> set[str]:
    """Return the kinds of estimates, such as "share"."""
    return {str(row["term"]) for row in found["rows"]}


def _of_design(found: Mapping[str, Any], used: list[str]) -> Iterator[str]:
    """Describe the target, weights, a model of coders' errors, simultaneous intervals."""
    target = _TARGETS.get(found.get("target") or "")
    if target is not None:
        yield target
    if found.get("is_weighted"):
        yield "All estimates use survey weights."
    model = _CONSENSUS.get(found.get("consensus") or "")
    if model is not None:
        yield (
            f"The true codes of texts were modelled from all coders' codes {model} "
            f"{cite(used, 'dawid1979')}, with shares that may differ between strata, the "
            "model's labels and groups. Estimates from several draws of the true codes "
            f"were combined by multiple imputation {cite(used, 'rubin1987')}."
        )
    if found.get("simultaneous"):
        yield "The intervals of each method are simultaneous."


def _has_majority(validation: Mapping[str, Any] | None) -> bool:
    """Return True if a validation uses the majority's codes of several people."""
    if validation is None or len(validation["coders"]) < 2:
        return False
    return (validation.get("consensus") or "majority") == "majority"


def _of_codes(
    found: Sequence[Mapping[str, Any]], validation: Mapping[str, Any] | None
) -> Iterator[str]:
    """Describe how one code was made of those of several people, if this is not known."""
    first = found[0]
    model = _CONSENSUS.get(first.get("consensus") or "")
    if model is not None or not first.get("agreement"):  # one coder
        return
    are_numbers = [bool(_terms(each) & {"mean", "quantile"}) for each in found]
    if not all(are_numbers) and not _has_majority(validation):
        yield _RIGHT_CODE
    if any(are_numbers):
        yield f"For estimates of numbers, {_MEAN_NUMBER}"


def _model_name(model: str) -> str:
    return {"ols": "least squares", "logit": "logistic"}.get(model, model)


def _variants(contents: Contents) -> Iterator[str]:
    found = contents["robustness"]
    if found is None:
        return
    agreement = found["agreement"]
    mean = (
        ""
        if agreement is None
        else f"; on average, two variants agreed in {percents(agreement, 0)} of texts"
    )
    named = listed(found["variants"])
    yield (
        f"To test robustness, {count_of(found['n_texts'], 'text')} "
        f"{verb(found['n_texts'], 'was', 'were')} coded in "
        f"{count_of(len(found['variants']), 'variant')} ({named}){mean}."
    )
