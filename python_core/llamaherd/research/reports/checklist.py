"""Checklist of reviewers' questions about labels by a language model, with answers.

`templates/checklist.yaml` has the items. An item is answered only from recorded data; all
other items are open, for the author to answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import yaml

from llamaherd.research.references import GUIDELINES, REFERENCES
from llamaherd.research.reports.prose import measured, phrase
from llamaherd.research.reports.report_data import sha256_of

if TYPE_CHECKING:
    from collections.abc import Mapping

OPEN = "open"
# The guidelines, in the order of their numbers in a report.
ASKED_BY: tuple[str, ...] = tuple(each.key for each in GUIDELINES)
# Abbreviations of the guidelines in the list of items.
_KEYS = {
    "T": "tornberg2024",
    "F": "fang2026",
    "G": "feuerriegel2026",
    "R": "gallifant2025",
    "A": "abdurahman2025",
    "S": "baltes2025",
    "B": "baumann2025",
}
_SHOWN_ERRORS = 3


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """Item of the checklist.

    Attributes:
        question: Question of a reviewer.
        answer: Answer from the data; for an open item, the information to add.
        is_open: True if the data do not answer the question.
        sources: Citations of the guidelines that ask the question, such as "Gallifant et
            al. 2025"; () for an addition of this project.
    """

    question: str
    answer: str
    is_open: bool
    sources: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """State of the item: "answered" or "open"."""
        return OPEN if self.is_open else "answered"


def checklist_of(facts: Mapping[str, Any]) -> list[ChecklistItem]:
    """Answer the checklist.

    Args:
        facts: Return value of `facts_of`, from a report's content.
    """
    more = {**facts, **_facts(facts)}
    made = []
    for item in _items():
        answer = phrase(item.get("answer", ""), more)
        made.append(
            ChecklistItem(
                item["question"],
                answer or phrase(item["open"], more),
                not answer,
                tuple(REFERENCES[_KEYS[letter]].short for letter in item["asked_by"]),
            )
        )
    return made


@cache
def _items() -> list[dict[str, str]]:
    file = files("llamaherd.research.reports").joinpath("templates/checklist.yaml")
    items: list[dict[str, str]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return items


def _facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that only the checklist needs."""
    settings, recalibration = facts["settings"], facts["recalibration"]
    validation = facts["validation"] or {}
    scores = validation["accuracy"]["per_label"] if validation else []
    variants = facts["robustness"]
    is_known = variants is not None and variants["agreement"] is not None
    runs = variants["runs"] if is_known else ()
    changes = []
    if settings.get("calibrate"):
        changes.append(f"probabilities are calibrated ({settings['calibrate']})")
    if recalibration is not None:
        n_codes = f"{recalibration['n_codes']:,}"
        changes.append(f"labels are recalibrated with {n_codes} human codes")
    methods = [{row["method"] for row in each["rows"]} for each in facts["estimates"]]
    return {
        "design": validation.get("design"),
        "ceiling": validation.get("ceiling"),
        "calibration": validation.get("calibration"),
        "rarest": min(scores, key=lambda each: each["n_gold"], default=None),
        "agreements_of_people": [
            f"{each['name']} {measured(each)}"
            for each in validation.get("coder_agreement") or ()
            if each["value"] is not None
        ],
        "agreements_of_model": [
            f"{each['name']} {measured(each)}"
            for each in validation.get("model_agreement", ())
            if each["value"] is not None and each["name"] != "percent"
        ],
        "confusions": _confusions(validation["accuracy"]) if validation else [],
        "n_seeds": len({each["settings"].get("seed") for each in runs}),
        "n_coded_examples": _coded_examples(facts),
        "changes": changes,
        "are_corrected": bool(methods) and all(own & {"dsl", "ppi"} for own in methods),
    }


def _confusions(accuracy: Mapping[str, Any]) -> list[str]:
    """Return the most frequent errors, with their numbers."""
    if not accuracy["confusion"]:  # texts with several labels
        return []
    names = accuracy["labels"]
    wrong = [
        (n, given, right)
        for given, row in zip(names, accuracy["confusion"], strict=True)
        for right, n in zip(names, row, strict=True)
        if n and given != right
    ]
    wrong.sort(key=lambda each: -each[0])
    return [
        f"\u201c{given}\u201d for \u201c{right}\u201d ({n:,})"
        for n, given, right in wrong[:_SHOWN_ERRORS]
    ]


def _coded_examples(facts: Mapping[str, Any]) -> int:
    """Return the number of examples of the prompt that are coded texts."""
    data, texts = facts["data"], [each.text for each in facts["book"].examples]
    if "texts" in data:
        there = {text.strip() for text in data["texts"]}
        return sum(text.strip() in there for text in texts)
    hashes = set(data["texts_sha256"])
    return sum(sha256_of(text) in hashes for text in texts)
