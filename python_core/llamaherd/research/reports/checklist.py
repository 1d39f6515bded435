"""Checklist of reviewers' questions about labels by a language model, with answers.

The items are based on Toernberg 2024, arXiv 2604.09638 (abstract), and the checklist of
llm-guidelines.org, in this project's words. An item is answered only from recorded data;
all other items are open, for the author to answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.research.reports.methods_words import measured, several

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.research.reports.report_data import Contents

OPEN = "open"
_FEW_CODES = 100  # fewer codes than this get a remark


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """Item of the checklist.

    Attributes:
        question: Question of a reviewer.
        answer: Answer from the data; for an open item, the information to add.
        is_open: True if the data do not answer the question.
    """

    question: str
    answer: str
    is_open: bool

    @property
    def state(self) -> str:
        """State of the item: "answered" or "open"."""
        return OPEN if self.is_open else "answered"


def checklist_of(contents: Contents) -> list[ChecklistItem]:
    """Answer the checklist from a report's content."""
    items = []
    for question, answer, to_do in _ITEMS:
        found = None if answer is None else answer(contents)
        items.append(
            ChecklistItem(question, to_do if found is None else found, not found)
        )
    return items


def _model(contents: Contents) -> str | None:
    model = contents["run"]["model"]
    if not model["file"] or not model["sha256"]:
        return None
    return f"{model['file']}, SHA-256 {model['sha256'][:12]}... (Model)"


def _prompt(contents: Contents) -> str:
    content = contents["run"]["codebook"]["content"]
    n = len(content.get("examples", ()))
    return f"in full, with {several(n, 'example')} (Codebook, Prompts)"


def _settings(contents: Contents) -> str:
    settings = contents["run"]["settings"]
    if settings.get("method") == "classify":
        drawn = "labels are scored, not sampled"
    else:
        drawn = f"temperature {settings.get('temperature')}, seed {settings.get('seed')}"
    calibrated = settings.get("calibrate") or "none"
    return f"{drawn}; calibration: {calibrated} (Settings)"


def _versions(contents: Contents) -> str:
    run = contents["run"]
    kept = ("llamaherd", "llama-cpp-python")
    named = [
        f"{name} {run['versions'][name]}" for name in kept if name in run["versions"]
    ]
    return f"{', '.join(named)}; {run['machine']['processor']}; {run['started'][:10]}"


def _reproduced(contents: Contents) -> str | None:
    if not contents["run"]["context"].get("deterministic"):
        return None
    return "the context was deterministic; reproduce() compares every label"


def _shared(contents: Contents) -> str | None:
    if "texts" not in contents["data"]:
        return None
    return "this report contains texts, labels and probabilities"


def _missing(contents: Contents) -> str:
    n = len(contents["errors"])
    return f"{several(n, 'different text')} without a label" if n else "all have a label"


def _gold(contents: Contents) -> str | None:
    found = contents["validation"]
    if found is None:
        return None
    few = found["n_gold"] < _FEW_CODES
    return f"{found['n_gold']:,}" + (
        f", fewer than {_FEW_CODES}: intervals are wide" if few else ""
    )


def _drawn(contents: Contents) -> str | None:
    design = (contents["validation"] or {}).get("design")
    if design is None:
        return None
    return f"{design['kind']}, {design['n']:,} of {design['N']:,}, seed {design['seed']}"


def _blind(contents: Contents) -> str | None:
    design = (contents["validation"] or {}).get("design")
    # write_gold() omits labels by default; whether they were included is not recorded.
    return None if design is None else design.get("blind")


def _people(contents: Contents) -> str | None:
    agreed = (contents["validation"] or {}).get("coder_agreement")
    if not agreed:
        return None
    return "; ".join(
        f"{each['name']} {measured(each)}" for each in agreed if each["value"] is not None
    )


def _accuracy(contents: Contents) -> str | None:
    found = contents["validation"]
    if found is None:
        return None
    return (
        f"accuracy {measured(found['accuracy']['accuracy'], found['level'])}, macro F1 "
        f"{measured(found['accuracy']['macro_f1'])}, and each label (Validation)"
    )


def _baseline(contents: Contents) -> str | None:
    found = contents["validation"]
    if found is None:
        return None
    base = found["accuracy"]["majority_accuracy"]
    return (
        None
        if base["value"] is None
        else f"{measured(base)} with the most frequent label for all texts"
    )


def _errors_by_group(contents: Contents) -> str | None:
    found = contents["estimates"]
    corrected = found is not None and _is_corrected(found)
    return (
        "not needed for the corrected estimates, which account for such differences"
        if corrected
        else None
    )


def _is_corrected(found: dict[str, Any]) -> bool:
    return any(row["method"] in ("dsl", "ppi") for row in found["rows"])


def _apart(contents: Contents) -> str | None:
    found = contents.get("evaluation")
    if found is None:
        return None
    again = found["n_openings"] - 1
    used = f", used {several(again, 'time')} before" if again else ", used once"
    return f"chosen on other texts, measured on {found['n']:,} texts{used}"


def _tried(contents: Contents) -> str | None:
    found = contents.get("evaluation")
    return None if found is None else several(found["n_candidates"], "candidate")


def _robust(contents: Contents) -> str | None:
    found = contents["robustness"]
    if found is None or found["agreement"] is None:
        return None
    n = len(found["variants"])
    return f"{several(n, 'variant')}, mean agreement {found['agreement']:.0%}"


def _corrected(contents: Contents) -> str | None:
    found = contents["estimates"]
    if found is None or not _is_corrected(found):
        return None
    return "by human codes, with intervals; uncorrected estimates beside (Estimates)"


# Question; function that answers it from the data, or None for an item that is always
# open; information to add if it is open.
_ITEMS: tuple[tuple[str, Callable[[Contents], str | None] | None, str], ...] = (
    (
        "Why a language model, and this one?",
        None,
        "Give your reasons, and alternatives that you considered.",
    ),
    (
        "Is the concept defined, and is the definition grounded in theory?",
        None,
        "Refer to the definition that the codebook follows.",
    ),
    (
        "Which model exactly, and is its file identified?",
        _model,
        "Name the file and its SHA-256.",
    ),
    ("Are prompt, labels, definitions and examples given in full?", _prompt, ""),
    ("Which settings: sampling, seed, calibration?", _settings, ""),
    ("Which software, hardware and date?", _versions, ""),
    (
        "Can others get the same labels?",
        _reproduced,
        "Code with deterministic=True, or show that a second run gives the same labels.",
    ),
    (
        "Are texts and labels available?",
        _shared,
        "Say where the texts are available, or why they are not.",
    ),
    ("How many texts have no label?", _missing, ""),
    ("How many texts did people code?", _gold, "Let people code some, then validate()."),
    (
        "How were these texts drawn?",
        _drawn,
        "Draw them with gold_sample(), or describe the draw.",
    ),
    (
        "Did people code without seeing the model's labels?",
        _blind,
        "State it; write_gold() omits the model's labels by default.",
    ),
    (
        "Who coded, with which training and pay?",
        None,
        "Describe the coders and how they were instructed.",
    ),
    (
        "How far do people agree with each other?",
        _people,
        "Let at least two people code the same texts.",
    ),
    (
        "How good are the labels, overall and for each label, with intervals?",
        _accuracy,
        "validate() computes it.",
    ),
    ("Against which baseline?", _baseline, "validate() computes it."),
    (
        "Do errors differ between groups that the analysis compares?",
        _errors_by_group,
        "Use estimate() with the codes, or validate within the groups.",
    ),
    (
        "How many prompts and models were tried?",
        _tried,
        "State all of them; compare_codebooks() records them.",
    ),
    (
        "Was the chosen codebook measured on texts that were not used to choose it?",
        _apart,
        "Use gold_split() and evaluate_codebook().",
    ),
    (
        "Do results hold for other wordings, models or seeds?",
        _robust,
        "robustness() codes variants.",
    ),
    (
        "Are results corrected for errors of the labels?",
        _corrected,
        "Use estimate().",
    ),
    (
        "Could the model have seen these texts or their labels in training?",
        None,
        "Compare the date of the texts with the model's training.",
    ),
    (
        "Are privacy, copyright and bias considered?",
        None,
        "The model ran locally; state the basis on which you use the texts.",
    ),
)
