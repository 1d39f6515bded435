"""Sections of a report's page on how labels were made: codebook, prompts, model, run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import decimals, limits, percents
from llamaherd.research.coding.codebook import Codebook, page
from llamaherd.research.reports.report_blocks import (
    duration_text,
    facts_block,
    key_name,
    pre_block,
    shown,
    table_block,
    text_block,
    value_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.research.reports.report_blocks import Block
    from llamaherd.research.reports.report_data import Contents

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
