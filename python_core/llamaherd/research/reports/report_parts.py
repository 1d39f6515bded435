"""Builds the parts of a report's page, as data for its template."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from llamaherd.research.coding.codebook import Codebook, page
from llamaherd.research.coding.span_type import SPANS
from llamaherd.research.reports import pictures
from llamaherd.research.reports import validation_pictures as of_validation
from llamaherd.research.reports.highlights import (
    N_COLOURS,
    Passage,
    passages_of,
    pieces_of,
)
from llamaherd.research.reports.method_parts import (
    checklist_blocks,
    choice_blocks,
    methods_blocks,
    references_blocks,
)
from llamaherd.research.reports.passage_pictures import (
    passage_counts,
    passages_picture,
)
from llamaherd.research.validation.numbers import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from llamaherd.research.reports.report_data import Contents

    Block = dict[str, Any]
    Draw = Callable[..., Block | None]

_LONGEST = 4000  # maximum number of characters shown of a text
_CONTROLS = {i: 0x2400 + i for i in range(32) if chr(i) not in "\n\t"} | {127: 0x2421}
_NO_TEXT = "[the text]"
_KINDS = {
    "simple": "at random, all texts equally probable",
    "stratified": "at random, a fixed number in each stratum,",
    "uncertainty": "at random, more probable the less sure the model is",
    "weights": "at random, more probable the larger the survey weight",
    "given": "at random, with given probabilities",
    "waves": "in waves of different designs",
}

TOGETHER = {
    "bonferroni": "The intervals of each method are simultaneous at this level "
    "(Bonferroni).",
    "max_t": "The intervals of each method are simultaneous at this level (max-t).",
}

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
        draw: Function that turns a picture into a block, or None.
    """
    run = contents["run"]
    made = [
        ("methods", "Methods", methods_blocks(contents)),
        ("labels", "Labels", _labels(contents, draw)),
        ("choice", "Choice of the codebook", choice_blocks(contents)),
        ("validation", "Validation", _validation(contents["validation"], draw)),
        ("estimates", "Estimates", _estimates(contents["estimates"], draw)),
        ("robustness", "Robustness", _robustness(contents["robustness"], draw)),
        ("checklist", "Checklist", checklist_blocks(contents)),
        ("examples", *_examples(contents)),
        ("codebook", "Codebook", _codebook(run)),
        ("prompts", "Prompts", _prompts(contents)),
        ("model", "Model", _model(run["model"])),
        ("run", "Settings, versions, machine", _run(contents)),
        ("references", "References", references_blocks(contents)),
        ("again", "Running it again", _again(run)),
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
        f"{data['n_rows']:,} texts ({len(set(data['rows']) - {None}):,} different ones) "
        f"coded with {file}{_took(run)}, {run['started']}"
    )


def _took(run: Mapping[str, Any]) -> str:
    """Return words on the duration of coding and the results from a journal."""
    seconds = run.get("seconds")
    took = "" if seconds is None else f" in {_duration(seconds)}"
    n, n_stored = run.get("n_prompts", 0), run.get("n_journal", 0)
    if not n_stored:
        return took
    rest = "" if n_stored >= n else f", the other {n - n_stored:,}{took}"
    return f" ({n_stored:,} of {n:,} prompts from the journal{rest})"


def shown(text: object) -> str:
    """Make control characters visible, and replace invalid characters."""
    found = str(text).translate(_CONTROLS)
    found = "".join(
        "\ufffd" if unicodedata.category(c) == "Cs" or 0x80 <= ord(c) < 0xA0 else c
        for c in found
    )
    if len(found) <= _LONGEST:
        return found
    return f"{found[:_LONGEST]} ... ({len(found):,} characters)"


def _labels(contents: Contents, draw: Draw) -> list[Block | None]:
    summary, n = contents["summary"], contents["data"]["n_rows"]
    n_failed = len(contents["errors"])
    blocks: list[Block | None] = []
    if summary:
        has_probs = summary[0]["prob"] is not None or summary[0]["bands"] is not None
        head = ["label", "texts", "share", *(["mean probability"] if has_probs else [])]
        rows = [
            [
                shown(each["label"]),
                f"{each['n']:,}",
                _share(each["share"]),
                *([_number(each["prob"], 3)] if has_probs else []),
            ]
            for each in summary
        ]
        blocks.append(_table(head, rows))
        blocks.append(draw(lambda: pictures.labels_picture(summary, n)))
        if has_probs:
            blocks.append(
                _text("The mean probability is over the texts that have the label.")
            )
    elif _are_passages(contents):
        counts = passage_counts(contents["labels"]["values"], _span_labels(contents))
        rows = [
            [
                shown(each["label"]),
                f"{each['n']:,}",
                f"{each['n_texts']:,}",
                _share(each["share"]),
                _number(each["mean_length"], 0),
            ]
            for each in counts
        ]
        head = ["label", "passages", "different texts", "share", "mean length"]
        blocks.append(_table(head, rows))
        different = len(contents["labels"]["values"])
        blocks.append(draw(lambda: passages_picture(counts, different)))
        blocks.append(_text("The mean length is in characters."))
    else:
        blocks.append(_text("The answers are fields of a schema, stored in the data."))
    recalibration = contents["run"].get("recalibration")
    if recalibration is not None:
        blocks.append(_text(_recalibrated(recalibration)))
    blocks += [_note(shown(note)) for note in contents["run"].get("notes") or ()]
    if n_failed:
        some = list(dict.fromkeys(contents["errors"].values()))[:5]
        blocks.append(
            _note(f"{n_failed:,} different texts have no label: {shown('; '.join(some))}")
        )
    return blocks


def _recalibrated(found: Mapping[str, Any]) -> str:
    """Return sentences on a recalibration: regression, accuracy before and after."""
    features = " and ".join(
        {"probs": "the model's log-probabilities"}.get(each, each)
        for each in found["features"]
    )

    def score(way: str, name: str) -> str:
        each = found[way][name]
        return (
            f"{_number(each['value'], 3)} [{_number(each['low'], 3)}, "
            f"{_number(each['high'], 3)}]"
        )

    return (
        f"Labels and probabilities are recalibrated: a ridge multinomial logistic "
        f"regression of {found['n_codes']} codes on {features}, cross-fitted in "
        f"{found['n_folds']} folds. Accuracy of the model {score('raw', 'accuracy')}, "
        f"recalibrated, by cross-validation, {score('cross_validated', 'accuracy')}; "
        f"Brier score {score('raw', 'brier')}, then {score('cross_validated', 'brier')}. "
        "Running it again compares the model's own labels."
    )


def _validation(fields: Mapping[str, Any] | None, draw: Draw) -> list[Block | None]:
    if fields is None:
        return []
    whole = dict(fields)
    people = len(fields["coders"])
    who = "one person" if people == 1 else f"{people} people"
    weighted = ", weighted by 1 / inclusion probability" if fields["is_weighted"] else ""
    blocks: list[Block | None] = [
        _text(
            f"{fields['n_gold']:,} texts were coded by {who}{weighted}. "
            + _SCALES[fields["scale"]]
        ),
        *_drawn(fields.get("design"), fields["coders"]),
        *(_note(shown(warning)) for warning in fields["warnings"]),
        _table(
            ["measure", "value", f"{fields['level']:.0%} interval", "texts"],
            list(_measures(fields)),
        ),
        draw(lambda: of_validation.measures_picture(whole)),
        _table(
            ["label", "people", "model", "precision", "recall", "F1"],
            [
                [
                    shown(each["label"]),
                    f"{each['n_gold']:,}",
                    f"{each['n_predicted']:,}",
                    *(_interval(each[name]) for name in ("precision", "recall", "f1")),
                ]
                for each in fields["accuracy"]["per_label"]
            ],
            caption="By labels: texts, and shares with their intervals",
        ),
        draw(lambda: of_validation.scores_picture(whole)),
        None
        if fields.get("several")
        else draw(lambda: of_validation.confusion_picture(whole)),
    ]
    if fields.get("numbers") is not None:
        blocks.append(draw(lambda: of_validation.numbers_picture(whole), narrow=True))
    if fields["calibration"] is not None:
        blocks.append(draw(lambda: of_validation.calibration_picture(whole), narrow=True))
    if fields["coverage"] is not None:
        blocks.append(draw(lambda: of_validation.coverage_picture(whole), narrow=True))
    return blocks


def _drawn(design: Mapping[str, Any] | None, coders: Sequence[str]) -> list[Block]:
    """Describe how the coded texts were sampled."""
    if design is None:
        return [_note("There is no record of how the coded texts were selected.")]
    by = design.get("by")
    kind = _KINDS[design["kind"]]
    facts = [
        ["drawn", kind if by is None else f"{kind} by {_listed(by)}"],
        ["texts", f"{design['n']:,} of {design['N'] - design['n_missing']:,}"],
        ["coders", _listed(coders)],
    ]
    if "floor" in design:
        facts.append(["share allocated evenly", _share(design["floor"])])
    if isinstance(design.get("allocation"), str):
        facts.append(["allocation", design["allocation"]])
    for name, n in design.get("drawn", {}).items():
        facts.append([f"of {name}", f"{n:,} of {design['strata'][name]:,}"])
    for wave in design.get("history", ()):
        what = f"{wave['n']:,} of {wave['N']:,}, {_KINDS[wave['kind']]}"
        after = f"; {wave['n_coded']:,} codes before it; seed {wave['seed']}"
        facts.append([f"wave {wave['wave']}", what + after])
    facts.append(["seed", str(design["seed"])])
    if "sha256" in design:  # missing for a part of the texts
        facts.append(["SHA-256 of all ids and texts", design["sha256"]])
    return [{"kind": "heading", "text": "How the gold sample was drawn"}, _facts(facts)]


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
            _number(found["value"], 3),
            _ends(found),
            "" if n is None else f"{n:,}",
        ]

    for name, title in of_validation.MEASURES.items():
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
            yield row(of_validation.COEFFICIENTS[each["name"]] + name, each)
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


def _estimates(fields: Mapping[str, Any] | None, draw: Draw) -> list[Block | None]:
    if fields is None:
        return []
    whole = dict(fields)
    rows = [
        [
            shown(pictures.estimate_name(r, whole.get("grouped_by") or ())),
            pictures.METHODS[r["method"]],
            _number(r["estimate"], 4),
            _number(r["std_error"], 4),
            _ends(r, 4),
        ]
        for r in fields["rows"]
    ]
    head = [
        "what",
        "method",
        "estimate",
        "standard error",
        f"{fields['level']:.0%} interval",
    ]
    what = f"{shown(fields['formula'])}. " if fields["formula"] else ""
    return [
        _text(
            f"{what}{fields['n_texts']:,} texts; {fields['n_gold']:,} of them were coded "
            f"by people ({shown(fields['design'])})."
        ),
        _text(f"{shown(fields['agreement'])}.") if fields.get("agreement") else None,
        _text(TOGETHER[fields["simultaneous"]]) if fields.get("simultaneous") else None,
        *(_note(shown(note)) for note in fields["notes"]),
        _table(head, rows, numbers={2, 3, 4}),
        draw(lambda: pictures.estimates_picture(whole)),
    ]


def _robustness(fields: Mapping[str, Any] | None, draw: Draw) -> list[Block | None]:
    if fields is None:
        return []
    whole = dict(fields)
    rows = [
        [shown(name), _share(flips), *map(_share, shares)]
        for name, flips, shares in zip(
            fields["variants"], fields["flips"], fields["shares"], strict=True
        )
    ]
    alpha = fields["alpha"]
    more = "" if alpha is None else f", Krippendorff's alpha {alpha:.3f}"
    head = ["variant", "labels that change", *map(shown, fields["names"])]
    return [
        _text(
            f"The same {fields['n_texts']:,} texts, {len(fields['variants'])} variants. "
            f"Mean agreement of two variants: {_share(fields['agreement'])}{more}."
        ),
        _table(head, rows, caption="Against the first variant; shares of labels"),
        draw(lambda: pictures.robustness_picture(whole)),
        *_corrected(fields),
    ]


def _corrected(fields: Mapping[str, Any]) -> list[Block | None]:
    """Return blocks on the estimates from each variant's labels with the same codes."""
    found = fields.get("estimates")
    if not found:
        return []
    rows = [
        [
            shown(", ".join(p for p in (r["outcome"], r["term"], r["group"]) if p)),
            shown(r["variant"]),
            _number(r["estimate"], 4),
            _ends(r, 4),
        ]
        for r in sorted(
            found["rows"], key=lambda r: (r["outcome"], r["term"], r["group"])
        )
    ]
    head = ["what", "variant", "estimate", f"{found['level']:.0%} interval"]
    caption = "Labels of each variant corrected by the same codes (DSL)"
    return [
        *(_note(shown(note)) for note in found["notes"]),
        _table(head, rows, caption=caption, numbers={2, 3}),
    ]


def _examples(contents: Contents) -> tuple[str, list[Block | None]]:
    found = contents["examples"]
    if not found:
        return "Texts", []
    if _are_passages(contents):
        names = _span_labels(contents)
        made = [_marked(each, passages_of(each["label"]), names) for each in found]
        return "Texts with their passages", [_legend(contents), *made]
    disagree = contents["validation"] is not None
    head = ["row", "text", "model", *(["people"] if disagree else []), "probability"]
    rows = [
        [
            f"{each['row'] + 1:,}",
            shown(each["text"]),
            _or_dash(each["label"]),
            *([_or_dash(each["truth"])] if disagree else []),
            _number(each["prob"], 3),
        ]
        for each in found
    ]
    title = "Where model and people disagree" if disagree else "The first texts"
    what = "Texts with the most probable label first." if disagree else "In data order."
    blocks: list[Block | None] = [
        _text(what),
        _table(head, rows, numbers={len(head) - 1}, texts=1),
    ]
    quoted = [each for each in found if each.get("quote")]
    if quoted:
        blocks.append({"kind": "heading", "text": "Quotes that support the labels"})
        blocks += [
            _marked(
                each,
                [Passage(each["quote"][0], each["quote"][1], str(each["label"]))],
                contents["labels"]["names"],
            )
            for each in quoted
        ]
    return title, blocks


def _are_passages(contents: Contents) -> bool:
    """Return True if the codebook has the type "spans" and labels are included."""
    content = contents["run"]["codebook"]["content"]
    return content.get("type") == SPANS and not contents["labels"]["are_hashes"]


def _span_labels(contents: Contents) -> list[str]:
    """Return the labels of a codebook of the type "spans"."""
    return list(contents["run"]["codebook"]["content"].get("labels") or [])


def _marked(
    example: Mapping[str, Any], passages: Sequence[Passage], names: Sequence[str]
) -> Block:
    """Return a text with highlighted passages; the template escapes all parts.

    Each label in `names` has a colour.
    """
    text = str(example["text"])
    pieces = [
        {
            "text": shown(piece.text),
            "labels": shown(", ".join(dict.fromkeys(piece.labels))),
            "starts": shown(", ".join(dict.fromkeys(piece.starts))),
            "colour": _colour(piece.labels[-1], names) if piece.labels else None,
        }
        for piece in pieces_of(text[:_LONGEST], passages)
    ]
    left = len(text) - _LONGEST
    return {
        "kind": "marked",
        "row": f"{example['row'] + 1:,}",
        "pieces": pieces,
        "rest": f" ... ({len(text):,} characters)" if left > 0 else "",
    }


def _colour(label: str, names: Sequence[str]) -> int:
    """Return the number of a label's colour."""
    place = names.index(label) if label in names else len(names)
    return place % N_COLOURS


def _legend(contents: Contents) -> Block:
    n = len(contents["examples"])
    return _text(f"The first {n:,} texts; the label is before each passage.")


def _codebook(run: Mapping[str, Any]) -> list[Block | None]:
    content = run["codebook"]["content"]
    lines = page(Codebook.from_dict(content), width=10**6)
    return [
        _pre("", "\n".join(lines[2:])),
        _facts([["SHA-256 of its content", run["codebook"]["hash"]]]),
    ]


def _prompts(contents: Contents) -> list[Block | None]:
    fields = contents["run"]["prompts"]
    example = next((each["text"] for each in contents["examples"]), _NO_TEXT)
    shared, empty = fields["shared"], fields.get("empty") or ""
    tail = empty[len(shared) :] if empty.startswith(shared) else ""
    blocks: list[Block | None] = [
        _text(
            f"All prompts begin with the same {fields['n_shared_tokens']} tokens; the "
            "marked part is the text. "
            + ("They are in the model's chat template." if fields["chat"] else "")
        ),
        _pre("A complete prompt", shared, marked=example, after=tail),
    ]
    others = fields["after"][1:]
    if others:
        ends = "\n".join(after.strip("\n") for after in fields["after"])
        blocks.append(_pre("Each text has a prompt with each of these endings", ends))
    return blocks


def _model(fields: Mapping[str, Any]) -> list[Block | None]:
    size = fields["size_bytes"]
    facts = [
        ["file", fields["file"] or "unknown"],
        ["size", "unknown" if size is None else f"{size:,} bytes"],
        ["SHA-256", fields["sha256"] or "unknown"],
        *(
            [
                f"LoRA adapter {lora['file']}",
                f"scale {lora['scale']}, SHA-256 {lora['sha256']}",
            ]
            for lora in fields["loras"]
        ),
        *([key, shown(value)] for key, value in fields["metadata"].items()),
    ]
    return [_facts(facts)]


def _run(contents: Contents) -> list[Block | None]:
    run = contents["run"]
    machine = dict(run["machine"])
    memory = machine.pop("memory_bytes", None)
    if memory is not None:
        machine["memory"] = f"{memory / 2**30:.1f} GiB"
    seconds = run.get("seconds")
    n, n_stored = run.get("n_prompts", 0), run.get("n_journal", 0)
    took = {} if seconds is None else {"duration": _duration(seconds)}
    if n_stored:
        took["from the journal"] = f"{n_stored:,} of {n:,} prompts"
        if n_stored >= n:  # nothing was computed
            took.pop("duration", None)
    stats = contents["stats"]
    counted = {} if stats is None else {"statistics of the call": stats["line"]}
    groups = (
        ("How labels were computed", run["settings"]),
        ("Context", run["context"]),
        ("Versions", run["versions"]),
        ("Machine", machine),
        ("Time", {"started": run["started"], **took, **counted}),
    )
    thought = run.get("thinking")
    blocks: list[Block | None] = [] if thought is None else [_text(thought["methods"])]
    blocks += _of_steps(run.get("steps"))
    for title, values in groups:
        blocks += [
            {"kind": "heading", "text": title},
            _facts([[_name(key), _value(value)] for key, value in values.items()]),
        ]
    return blocks


def _of_steps(steps: Mapping[str, Any] | None) -> list[Block | None]:
    """Show each coding step: model, number of texts, seconds, agreement."""
    if steps is None:
        return []
    rows = []
    for each in steps["each"]:
        agreed = each.get("agreement") or {}
        interval = ""
        if agreed.get("value") is not None:
            limits = f"[{agreed['low']:.3f}, {agreed['high']:.3f}]"
            interval = f"{agreed['value']:.3f} {limits}"
        rows.append(
            [
                each["step"],
                shown(each["by"]),
                f"{each['n_texts']:,}",
                f"{each['share']:.1%}",
                f"{each['seconds']:,.1f}",
                interval,
            ]
        )
    return [
        {"kind": "heading", "text": "Steps"},
        _text(steps["methods"]),
        _table(
            ["step", "by", "texts", "share", "seconds", "agreement"],
            rows,
            numbers={2, 3, 4, 5},
            caption="The agreement of the head is with the model's labels, by "
            "cross-validation on the texts that the model labelled. The agreement of "
            "the last step is with the texts' earlier labels. Agreement is not "
            "accuracy, which needs human codes.",
        ),
    ]


def _again(run: Mapping[str, Any]) -> list[Block | None]:
    file = shown(run["model"]["file"] or "the model's file")
    exact = run["context"].get("deterministic")
    promise = (
        "The context was deterministic: with the same versions every label and every "
        "probability must be the same, bit for bit, however many prompts run at once."
        if exact
        else "The context was not deterministic: labels and probabilities are likely, "
        "but not certain, to be the same."
    )
    return [
        _text(promise),
        _pre("R", f'llamaherd::reproduce("report.html", "{file}")'),
        _pre(
            "Python",
            f'import llamaherd as lh\nprint(lh.reproduce("report.html", "{file}"))',
        ),
    ]


def _table(
    head: list[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str = "",
    numbers: set[int] | None = None,
    texts: int = -1,
) -> Block:
    at = set(range(1, len(head))) if numbers is None else numbers
    return {
        "kind": "table",
        "caption": caption,
        "head": head,
        "rows": rows,
        "numbers": at,
        "texts": texts,
    }


def _facts(rows: Sequence[Sequence[str]]) -> Block:
    return {
        "kind": "facts",
        "caption": "",
        "head": [],
        "rows": [[shown(cell) for cell in row] for row in rows],
        "numbers": set(),
        "texts": 1,
    }


def _text(text: str) -> Block:
    return {"kind": "text", "text": text}


def _note(text: str) -> Block:
    return {"kind": "note", "text": text}


def _pre(title: str, before: str, *, marked: str = "", after: str = "") -> Block:
    return {
        "kind": "pre",
        "title": title,
        "before": _long(before),
        "marked": shown(marked),
        "after": _long(after),
    }


def _long(text: str) -> str:
    """Return `shown` of a whole text, because prompts must not be shortened."""
    return "".join(shown(text[i : i + _LONGEST]) for i in range(0, len(text), _LONGEST))


def _name(key: str) -> str:
    return key.replace("_", " ") if key.islower() and "-" not in key else key


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown(value)


def _number(value: float | None, digits: int) -> str:
    return "\u2013" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "\u2013" if value is None else f"{value:.1%}"


def _or_dash(value: object) -> str:
    return "\u2013" if value is None else shown(value)


def _ends(found: Mapping[str, Any], digits: int = 3) -> str:
    low, high = found.get("low"), found.get("high")
    return "" if low is None or high is None else f"{low:.{digits}f} to {high:.{digits}f}"


def _interval(found: Mapping[str, Any]) -> str:
    ends = _ends(found, 2)
    return _number(found["value"], 2) + (f" ({ends})" if ends else "")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
