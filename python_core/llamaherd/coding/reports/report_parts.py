"""Builds the parts of a report's page, as data for its template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.coding.plots.counts import (
    confusion_plot,
    labels_plot,
    passage_counts,
    passages_plot,
)
from llamaherd.coding.plots.intervals import measures_plot, scores_plot
from llamaherd.coding.plots.planes import calibration_plot, coverage_plot, numbers_plot
from llamaherd.coding.reports.methods import (
    checklist_blocks,
    choice_blocks,
    methods_blocks,
    methods_of,
    references_blocks,
)
from llamaherd.coding.reports.prose import DESIGNS, design_text, weights_of
from llamaherd.coding.reports.report_blocks import (
    duration_text,
    ends_text,
    facts_block,
    interval_text,
    note_block,
    number_text,
    share_text,
    shown,
    table_block,
    text_block,
)
from llamaherd.coding.reports.report_data import estimates_in
from llamaherd.coding.reports.report_sections import (
    again_blocks,
    are_passages,
    codebook_blocks,
    estimates_blocks,
    example_blocks,
    model_blocks,
    prompts_blocks,
    robustness_blocks,
    run_blocks,
    span_labels,
)
from llamaherd.coding.statistics.accuracy import TITLES as ACCURACIES
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.coding.statistics.number_agreement import NUMBERS
from llamaherd.engine.core.phrases import count_of, percent, verb
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from llamaherd.coding.reports.report_blocks import Block
    from llamaherd.coding.reports.report_data import Contents

    Draw = Callable[..., Block | None]

_MEASURE = 2  # decimals, as in the printed validation
_WEIGHTS = {"inclusion": "1 / inclusion probability", "survey": "survey weight"}
_SCALES = {
    "nominal": "Labels have no order (nominal scale).",
    "ordinal": "Labels are ordered (ordinal scale)"
    "; kappa weights disagreements by the squared difference of ranks.",
    "interval": "Labels are numbers (interval scale)"
    "; kappa weights disagreements by the squared difference of ranks.",
    "ratio": "Labels are numbers (ratio scale)"
    "; kappa weights disagreements by the squared difference of ranks.",
}


def parts_of(contents: Contents, draw: Draw) -> list[dict[str, Any]]:
    """Return the sections of the page.

    Args:
        contents: Result of `contents_of`.
        draw: Function that draws a plot as a block, or returns None.
    """
    run = contents["run"]
    methods = methods_of(contents)
    made = [
        ("methods", "Methods", methods_blocks(methods)),
        ("labels", "Labels", _labels(contents, draw)),
        ("choice", "Choice of the codebook", choice_blocks(contents)),
        ("validation", "Validation", _validation(contents["validation"], draw)),
        ("estimates", "Estimates", estimates_blocks(estimates_in(contents), draw)),
        ("robustness", "Robustness", robustness_blocks(contents["robustness"], draw)),
        ("checklist", "Checklist", checklist_blocks(methods.checklist)),
        ("examples", *example_blocks(contents)),
        ("codebook", "Codebook", codebook_blocks(run)),
        ("prompts", "Prompts", prompts_blocks(contents)),
        ("model", "Model", model_blocks(run["model"])),
        ("run", "Settings, versions, machine", run_blocks(contents)),
        ("references", "References", references_blocks(methods)),
        ("again", "Running it again", again_blocks(run)),
    ]
    return [
        {"id": name, "title": title, "blocks": [b for b in blocks if b is not None]}
        for name, title, blocks in made
        if blocks
    ]


def lead_of(contents: Contents) -> str:
    """Return a sentence that summarizes the coding."""
    run, data = contents["run"], contents["data"]
    file = run["model"]["file"] or "a model"
    return shown(
        f"{count_of(data['n_rows'], 'text')} ({len(set(data['rows']) - {None}):,} "
        f"different ones) coded with {file}{_took(run)}, {run['started']}"
    )


def _took(run: Mapping[str, Any]) -> str:
    """Return words on the duration of coding and the results from a journal."""
    seconds = run.get("seconds")
    took = "" if seconds is None else f" in {duration_text(seconds)}"
    n, n_stored = run.get("n_prompts", 0), run.get("n_journal", 0)
    if not n_stored:
        return took
    rest = "" if n_stored >= n else f", the other {n - n_stored:,}{took}"
    return f" ({n_stored:,} of {n:,} prompts from the journal{rest})"


def _labels(contents: Contents, draw: Draw) -> list[Block | None]:
    summary, n = contents["summary"], contents["data"]["n_rows"]
    n_failed = _n_failed(contents)
    blocks: list[Block | None] = []
    if summary:
        has_probs = summary[0]["prob"] is not None or summary[0]["bands"] is not None
        head = ["label", "texts", "share", *(["mean probability"] if has_probs else [])]
        rows = [
            [
                shown(each["label"]),
                f"{each['n']:,}",
                share_text(each["share"]),
                *([number_text(each["prob"], 3)] if has_probs else []),
            ]
            for each in summary
        ]
        blocks.append(table_block(head, rows, part="summary"))
        blocks.append(draw(lambda: labels_plot(summary, n)))
        n_labelled = summary[0]["n_labelled"]
        if n_labelled < n:
            blocks.append(
                text_block(
                    f"Shares are of the {count_of(n_labelled, 'text')} with a label."
                )
            )
        if has_probs:
            blocks.append(
                text_block("The mean probability is over the texts that have the label.")
            )
    elif are_passages(contents):
        counts = passage_counts(contents["labels"]["values"], span_labels(contents))
        rows = [
            [
                shown(each["label"]),
                f"{each['n']:,}",
                f"{each['n_texts']:,}",
                share_text(each["share"]),
                number_text(each["mean_length"], 0),
            ]
            for each in counts
        ]
        head = ["label", "passages", "different texts", "share", "mean length"]
        blocks.append(table_block(head, rows, part="labels"))
        answered = sum(each is not None for each in contents["labels"]["values"])
        blocks.append(draw(lambda: passages_plot(counts, answered)))
        blocks.append(text_block("The mean length is in characters."))
    else:
        blocks.append(
            text_block("The answers are fields of a schema, stored in the data.")
        )
    recalibration = contents["run"].get("recalibration")
    if recalibration is not None:
        blocks.append(text_block(_recalibrated(recalibration)))
    blocks += [note_block(shown(note)) for note in contents["run"].get("notes") or ()]
    if n_failed:
        some = list(dict.fromkeys(contents["errors"].values()))[:5]
        blocks.append(
            note_block(
                f"{count_of(n_failed, 'text')} {verb(n_failed, 'has', 'have')} no label "
                f"({len(contents['errors']):,} different): {shown('; '.join(some))}"
            )
        )
    return blocks


def _n_failed(contents: Contents) -> int:
    """Return the number of texts with an error; equal texts are counted each."""
    failed = {int(index) for index in contents["errors"]}
    return sum(index in failed for index in contents["data"]["rows"])


def _recalibrated(found: Mapping[str, Any]) -> str:
    """Return sentences on a recalibration: regression, accuracy before and after."""
    features = " and ".join(
        {"probs": "the model's log-probabilities"}.get(each, each)
        for each in found["features"]
    )

    def score(way: str, name: str) -> str:
        each = found[way][name]
        return (
            f"{number_text(each['value'], 3)} [{number_text(each['low'], 3)}, "
            f"{number_text(each['high'], 3)}]"
        )

    return (
        f"Labels and probabilities are recalibrated: a ridge multinomial logistic "
        f"regression of {count_of(found['n_codes'], 'code')} on {features}, cross-fitted "
        f"in {found['n_folds']} folds. Accuracy of the model {score('raw', 'accuracy')}, "
        f"recalibrated, by cross-validation, {score('cross_validated', 'accuracy')}; "
        f"Brier score {score('raw', 'brier')}, then {score('cross_validated', 'brier')}. "
        f"{call('reproduce')} compares the model's own labels."
    )


def _validation(fields: Mapping[str, Any] | None, draw: Draw) -> list[Block | None]:
    if fields is None:
        return []
    whole = dict(fields)
    people = len(fields["coders"])
    who = "one person" if people == 1 else f"{people} people"
    by = [_WEIGHTS[each] for each in weights_of(fields)]
    weighted = f", weighted by {' and '.join(by)}" if by else ""
    blocks: list[Block | None] = [
        text_block(
            f"{count_of(fields['n_gold'], 'text')} "
            f"{verb(fields['n_gold'], 'was', 'were')} coded by {who}{weighted}. "
            + _SCALES[fields["scale"]]
        ),
        *_drawn(fields.get("design"), fields["coders"]),
        *(note_block(shown(warning)) for warning in fields["warnings"]),
        table_block(
            ["measure", "value", f"{percent(fields['level'])} interval", "texts"],
            list(_measures(fields)),
        ),
        draw(lambda: measures_plot(whole)),
        table_block(
            ["label", "people", "model", "precision", "recall", "F1"],
            [
                [
                    shown(each["label"]),
                    f"{each['n_gold']:,}",
                    f"{each['n_predicted']:,}",
                    *(
                        interval_text(each[name])
                        for name in ("precision", "recall", "f1")
                    ),
                ]
                for each in fields["accuracy"]["per_label"]
            ],
            caption="By labels: texts, and shares with their intervals",
            part="validation",
        ),
        draw(lambda: scores_plot(whole)),
        None if fields.get("several") else draw(lambda: confusion_plot(whole)),
    ]
    if fields.get("numbers") is not None:
        blocks.append(draw(lambda: numbers_plot(whole)))
    if fields["calibration"] is not None:
        blocks.append(draw(lambda: calibration_plot(whole)))
    if fields["coverage"] is not None:
        blocks.append(draw(lambda: coverage_plot(whole)))
    return blocks


def _drawn(design: Mapping[str, Any] | None, coders: Sequence[str]) -> list[Block]:
    """Describe how the coded texts were sampled."""
    if design is None:
        return [note_block("There is no record of how the coded texts were selected.")]
    facts = [
        ["drawn", design_text(design)],
        ["texts", f"{design['n']:,} of {design['N'] - design['n_missing']:,}"],
        ["coders", _listed(coders)],
    ]
    if "floor" in design:
        facts.append(["share with equal probabilities", share_text(design["floor"])])
    if isinstance(design.get("allocation"), str):
        facts.append(["allocation", design["allocation"]])
    for name, n in design.get("drawn", {}).items():
        facts.append([f"of {name}", f"{n:,} of {design['strata'][name]:,}"])
    for wave in design.get("history", ()):
        what = f"{wave['n']:,} of {wave['N']:,}, {DESIGNS[wave['kind']]}"
        after = f"; {count_of(wave['n_coded'], 'code')} before it; seed {wave['seed']}"
        facts.append([f"wave {wave['wave']}", what + after])
    facts.append(["seed", str(design["seed"])])
    if "sha256" in design:  # missing for a part of the texts
        facts.append(["SHA-256 of all ids and texts", design["sha256"]])
    return [
        {"kind": "heading", "text": "How the gold sample was drawn"},
        facts_block(facts),
    ]


def _listed(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names)


def _of_numbers(fields: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for part, name in (("numbers", ""), ("numbers_of_people", " between people")):
        for measure, title in NUMBERS.items():
            found = (fields.get(part) or {}).get(measure)
            if found is not None:
                yield f"{title}{name}", found


def _measures(fields: Mapping[str, Any]) -> Iterator[list[str]]:
    measured = fields["accuracy"]

    def row(title: str, found: Mapping[str, Any]) -> list[str]:
        n = found["n_units"] if "n_units" in found else found.get("n")
        return [
            title,
            number_text(found["value"], _MEASURE),
            ends_text(found, _MEASURE),
            "" if n is None else f"{n:,}",
        ]

    for name, title in ACCURACIES.items():
        is_exact = name == "accuracy" and fields.get("several")
        yield row("all labels right" if is_exact else title, measured[name])
    if measured["majority_label"] is not None:
        yield row(
            f"accuracy of always '{shown(measured['majority_label'])}'",
            measured["majority_accuracy"],
        )
    for between, name in (
        ("model_agreement", ""),
        ("coder_agreement", " between people"),
    ):
        for each in fields[between] or []:
            yield row(COEFFICIENTS[each["name"]].title + name, each)
    for title, found in _of_numbers(fields):
        yield row(title, found)
    if fields["ceiling"] is not None:
        yield row("two people agree", fields["ceiling"]["people"])
        yield row("the model and one person agree", fields["ceiling"]["model"])
    if fields["brier"] is not None:
        yield row("Brier score", fields["brier"])
    if fields["calibration"] is not None:
        found = fields["calibration"]
        yield row("expected calibration error", {**found, "value": found["ece"]})
