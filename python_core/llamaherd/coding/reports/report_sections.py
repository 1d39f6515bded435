"""Sections of a report's page: how labels were made, texts, estimates, robustness."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.coding.annotation.codebook import Codebook, page
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.plots.counts import Passage, passages_of
from llamaherd.coding.plots.intervals import (
    METHODS,
    estimate_name,
    estimates_plot,
    robustness_plot,
)
from llamaherd.coding.reports.prose import listed
from llamaherd.coding.reports.report_blocks import (
    LONGEST,
    duration_text,
    ends_text,
    facts_block,
    key_name,
    note_block,
    number_text,
    or_dash,
    pre_block,
    share_text,
    shown,
    table_block,
    text_block,
    value_text,
)
from llamaherd.engine.core.phrases import count_of, decimals, limits, percent, percents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from llamaherd.coding.reports.report_blocks import Block
    from llamaherd.coding.reports.report_data import Contents

    Draw = Callable[..., Block | None]

_NO_TEXT = "[the text]"


def codebook_blocks(run: Mapping[str, Any]) -> list[Block | None]:
    """Return the codebook and its hash."""
    content = run["codebook"]["content"]
    lines = page(Codebook.from_dict(content), width=10**6)
    return [
        pre_block("", "\n".join(lines[2:])),
        facts_block([["SHA-256 of its content", run["codebook"]["hash"]]]),
    ]


def prompts_blocks(contents: Contents) -> list[Block | None]:
    """Return a complete prompt.

    If a text has several prompts, the endings of all prompts are included.
    """
    fields = contents["run"]["prompts"]
    example = next((each["text"] for each in contents["examples"]), _NO_TEXT)
    shared, empty = fields["shared"], fields.get("empty") or ""
    tail = empty[len(shared) :] if empty.startswith(shared) else ""
    blocks: list[Block | None] = [
        text_block(
            f"All prompts begin with the same {fields['n_shared_tokens']} tokens; the "
            "marked part is the text. "
            + ("They are in the model's chat template." if fields["chat"] else "")
        ),
        pre_block("A complete prompt", shared, marked=example, after=tail),
    ]
    others = fields["after"][1:]
    if others:
        ends = "\n".join(after.strip("\n") for after in fields["after"])
        blocks.append(
            pre_block("Each text has a prompt with each of these endings", ends)
        )
    return blocks


def model_blocks(fields: Mapping[str, Any]) -> list[Block | None]:
    """Return the model's file and metadata."""
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
    return [facts_block(facts)]


def run_blocks(contents: Contents) -> list[Block | None]:
    """Return the settings, versions, machine and times."""
    run = contents["run"]
    machine = dict(run["machine"])
    memory = machine.pop("memory_bytes", None)
    if memory is not None:
        machine["memory"] = f"{memory / 2**30:.1f} GiB"
    seconds = run.get("seconds")
    n, n_stored = run.get("n_prompts", 0), run.get("n_journal", 0)
    took = {} if seconds is None else {"duration": duration_text(seconds)}
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
    blocks: list[Block | None] = (
        [] if thought is None else [text_block(thought["methods"])]
    )
    blocks += _of_steps(run.get("steps"))
    for title, values in groups:
        blocks += [
            {"kind": "heading", "text": title},
            facts_block(
                [[key_name(key), value_text(value)] for key, value in values.items()]
            ),
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
            ends = limits(agreed["low"], agreed["high"], 3)
            interval = f"{decimals(agreed['value'], 3)} {ends}"
        rows.append(
            [
                each["step"],
                shown(each["by"]),
                f"{each['n_texts']:,}",
                percents(each["share"]),
                f"{each['seconds']:,.1f}",
                interval,
            ]
        )
    return [
        {"kind": "heading", "text": "Steps"},
        text_block(steps["methods"]),
        table_block(
            ["step", "by", "texts", "share", "seconds", "agreement"],
            rows,
            numbers={2, 3, 4, 5},
            caption="The agreement of the head is with the model's labels, by "
            "cross-validation on the texts that the model labelled. The agreement of "
            "the last step is with the texts' earlier labels. Agreement is not "
            "accuracy, which needs human codes.",
        ),
    ]


def again_blocks(run: Mapping[str, Any]) -> list[Block | None]:
    """Return the calls in R and Python that repeat the coding."""
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
        text_block(promise),
        pre_block("R", f'llamaherd::reproduce("report.html", "{file}")'),
        pre_block(
            "Python",
            f'import llamaherd as lh\nprint(lh.reproduce("report.html", "{file}"))',
        ),
    ]


def example_blocks(contents: Contents) -> tuple[str, list[Block | None]]:
    """Return the title of the section with texts, and its blocks."""
    found = contents["examples"]
    if not found:
        return "Texts", []
    if are_passages(contents):
        names = span_labels(contents)
        made = [_marked(each, passages_of(each["label"]), names) for each in found]
        return "Texts with their passages", [_legend(contents), *made]
    disagree = contents["validation"] is not None
    head = ["row", "text", "model", *(["people"] if disagree else []), "probability"]
    rows = [
        [
            f"{each['row'] + 1:,}",
            shown(each["text"]),
            or_dash(each["label"]),
            *([or_dash(each["truth"])] if disagree else []),
            number_text(each["prob"], 3),
        ]
        for each in found
    ]
    title = "Where model and people disagree" if disagree else "The first texts"
    what = "Texts with the most probable label first." if disagree else "In data order."
    blocks: list[Block | None] = [
        text_block(what),
        table_block(head, rows, numbers={len(head) - 1}, texts=1),
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


def are_passages(contents: Contents) -> bool:
    """Return True if the codebook has the type "spans" and labels are included."""
    content = contents["run"]["codebook"]["content"]
    return content.get("type") == SPANS and not contents["labels"]["are_hashes"]


def span_labels(contents: Contents) -> list[str]:
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
        for piece in pieces_of(text[:LONGEST], passages)
    ]
    left = len(text) - LONGEST
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
    return text_block(
        f"The first {count_of(n, 'text')}; the label is before each passage."
    )


N_COLOURS = 6  # number of colours in the page's style; further labels reuse them


class MarkedPiece(NamedTuple):
    """Part of a text with the same passages throughout.

    Attributes:
        text: Characters of the part.
        labels: Labels of the passages that contain this part; () outside passages.
        starts: Labels of the passages that begin with this part.
    """

    text: str
    labels: tuple[str, ...]
    starts: tuple[str, ...]


def pieces_of(text: str, passages: Iterable[Passage]) -> list[MarkedPiece]:
    """Split a text at the starts and ends of its passages, which may overlap."""
    inside = [
        Passage(max(each.start, 0), min(each.end, len(text)), each.label)
        for each in passages
        if each.start < min(each.end, len(text))
    ]
    ends = {0, len(text), *(each.start for each in inside), *(e.end for e in inside)}
    cuts = sorted(ends)
    return [
        MarkedPiece(
            text[start:end],
            tuple(p.label for p in inside if p.start <= start and end <= p.end),
            tuple(p.label for p in inside if p.start == start),
        )
        for start, end in pairwise(cuts)
    ]


# Decimals, as in printed estimates and robustness.
_ESTIMATE, _VARIANT = 4, 3
_TOGETHER = "The intervals of each method are simultaneous at this level (Bonferroni)."


def estimates_blocks(
    found: Sequence[Mapping[str, Any]], draw: Draw
) -> list[Block | None]:
    """Return tables and plots of estimates, with a heading for each of several."""
    titles = titles_of(found)
    shared = [
        note
        for note in (found[0]["notes"] if len(found) > 1 else ())
        if all(note in fields["notes"] for fields in found)
    ]
    blocks: list[Block | None] = [note_block(shown(note)) for note in shared]
    for title, fields in zip(titles, found, strict=True):
        if len(found) > 1 or fields.get("title"):
            blocks.append({"kind": "heading", "text": shown(title)})
        blocks += _estimates(fields, draw, shared)
    return blocks


def titles_of(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a different title for each of several estimates."""
    names = [fields.get("title") or _title(fields) for fields in found]
    return [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def _title(fields: Mapping[str, Any]) -> str:
    """Return a title from the content: the formula, or "Share of yes by party"."""
    if fields["formula"]:
        return str(fields["formula"])
    terms = {row["term"] for row in fields["rows"]} - {"difference"}
    outcomes = {row["outcome"] for row in fields["rows"]}
    term = terms.pop() if len(terms) == 1 else "estimate"
    name = f"{term} of {outcomes.pop()}" if len(outcomes) == 1 else f"{term}s"
    by = fields.get("grouped_by") or ()
    groups = f" by {listed(by)}" if by else ""
    return f"{name[:1].upper()}{name[1:]}{groups}"


def _estimates(
    fields: Mapping[str, Any], draw: Draw, shared: Sequence[str]
) -> list[Block | None]:
    whole = dict(fields)
    rows = [
        [
            shown(estimate_name(r, whole.get("grouped_by") or ())),
            METHODS[r["method"]],
            number_text(r["estimate"], _ESTIMATE),
            number_text(r["std_error"], _ESTIMATE),
            ends_text(r, _ESTIMATE),
        ]
        for r in fields["rows"]
    ]
    head = [
        "what",
        "method",
        "estimate",
        "standard error",
        f"{percent(fields['level'])} interval",
    ]
    what = f"{shown(fields['formula'])}. " if fields["formula"] else ""
    return [
        text_block(
            f"{what}{count_of(fields['n_texts'], 'text')}; {fields['n_gold']:,} of them "
            f"were coded by people ({shown(fields['design'])})."
        ),
        text_block(f"{shown(fields['agreement'])}.") if fields.get("agreement") else None,
        text_block(_TOGETHER) if fields.get("simultaneous") else None,
        *(note_block(shown(note)) for note in fields["notes"] if note not in shared),
        table_block(head, rows, numbers={2, 3, 4}, part="estimates"),
        draw(lambda: estimates_plot(whole)),
    ]


def robustness_blocks(fields: Mapping[str, Any] | None, draw: Draw) -> list[Block | None]:
    """Return the tables and plot of variants."""
    if fields is None:
        return []
    whole = dict(fields)
    rows = [
        [shown(name), share_text(flips), *map(share_text, shares)]
        for name, flips, shares in zip(
            fields["variants"], fields["flips"], fields["shares"], strict=True
        )
    ]
    alpha = fields["alpha"]
    more = "" if alpha is None else f", Krippendorff's alpha {decimals(alpha, 3)}"
    head = ["variant", "labels that change", *map(shown, fields["names"])]
    return [
        text_block(
            f"The same {count_of(fields['n_texts'], 'text')}, "
            f"{count_of(len(fields['variants']), 'variant')}. "
            f"Mean agreement of two variants: {share_text(fields['agreement'])}{more}."
        ),
        table_block(head, rows, caption="Against the first variant; shares of labels"),
        draw(lambda: robustness_plot(whole)),
        *_corrected(fields),
    ]


def _corrected(fields: Mapping[str, Any]) -> list[Block | None]:
    """Return blocks with the estimates of each variant.

    The labels of each variant are corrected by the same codes (DSL).
    """
    found = fields.get("estimates")
    if not found:
        return []
    rows = [
        [
            shown(", ".join(p for p in (r["outcome"], r["term"], r["group"]) if p)),
            shown(r["variant"]),
            number_text(r["estimate"], _VARIANT),
            ends_text(r, _VARIANT),
        ]
        for r in sorted(
            found["rows"], key=lambda r: (r["outcome"], r["term"], r["group"])
        )
    ]
    head = ["what", "variant", "estimate", f"{percent(found['level'])} interval"]
    caption = "Labels of each variant corrected by the same codes (DSL)"
    return [
        *(note_block(shown(note)) for note in found["notes"]),
        table_block(head, rows, caption=caption, numbers={2, 3}, part="robustness"),
    ]
