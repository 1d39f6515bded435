"""Writes the methods paragraph and the checklist of a coding from its data.

`templates/checklist.yaml` has the items. An item is answered only from recorded data; all
other items are open, for the author to answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.codebook_file import sources_of
from llamaherd.coding.references import REFERENCES, Reference
from llamaherd.coding.reports import prose
from llamaherd.coding.reports.prose import cite, format_measure, phrase, short_hash
from llamaherd.coding.reports.report_data import Contents, estimates_in, sha256_of_text
from llamaherd.coding.selection.measures import TITLES
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.engine.core.files import write_new
from llamaherd.engine.core.phrases import verb

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


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
_MOST_ERRORS = 3


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
        return "open" if self.is_open else "answered"


def checklist_of(facts: Mapping[str, Any]) -> list[ChecklistItem]:
    """Answer the checklist."""
    values = {**facts, **_facts(facts)}
    checklist = []
    for item in _items():
        answer = phrase(item.get("answer", ""), values)
        checklist.append(
            ChecklistItem(
                item["question"],
                answer or phrase(item["open"], values),
                not answer,
                tuple(REFERENCES[_KEYS[letter]].short for letter in item["asked_by"]),
            )
        )
    return checklist


@cache
def _items() -> list[dict[str, str]]:
    file = files("llamaherd.coding.reports").joinpath("templates/checklist.yaml")
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
    estimates = facts["estimates"]
    return {
        "design": validation.get("design"),
        "ceiling": validation.get("ceiling"),
        "calibration": validation.get("calibration"),
        "rarest": min(scores, key=lambda score: score["n_gold"], default=None),
        "agreements_of_people": [
            f"{COEFFICIENTS[coefficient['name']].title} {format_measure(coefficient)}"
            for coefficient in validation.get("coder_agreement") or ()
            if coefficient["value"] is not None
        ],
        "agreements_of_model": [
            f"{COEFFICIENTS[coefficient['name']].title} {format_measure(coefficient)}"
            for coefficient in validation.get("model_agreement", ())
            if coefficient["value"] is not None and coefficient["name"] != "percent"
        ],
        "confusions": _confusions(validation["accuracy"]) if validation else [],
        "n_seeds": len({run["settings"].get("seed") for run in runs}),
        "n_coded_examples": _coded_examples(facts),
        "changes": changes,
        "are_corrected": bool(estimates) and all(map(_corrections, estimates)),
    }


def _confusions(accuracy: Mapping[str, Any]) -> list[str]:
    """Return the most frequent errors, with their numbers."""
    if not accuracy["confusion"]:  # texts with several labels
        return []
    names = accuracy["labels"]
    errors = [
        (n, predicted, truth)
        for predicted, row in zip(names, accuracy["confusion"], strict=True)
        for truth, n in zip(names, row, strict=True)
        if n and predicted != truth
    ]
    errors.sort(key=lambda error: -error[0])
    return [
        f"\u201c{predicted}\u201d for \u201c{truth}\u201d ({n:,})"
        for n, predicted, truth in errors[:_MOST_ERRORS]
    ]


def _coded_examples(facts: Mapping[str, Any]) -> int:
    """Return the number of examples of the prompt that are coded texts."""
    data, texts = facts["data"], [example.text for example in facts["book"].examples]
    if "texts" in data:
        texts_in_data = {text.strip() for text in data["texts"]}
        return sum(text.strip() in texts_in_data for text in texts)
    hashes = set(data["texts_sha256"])
    return sum(sha256_of_text(text) in hashes for text in texts)


PARTS = ("validation", "estimates", "robustness", "evaluation")


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodsText:
    """Methods paragraph, and the references that it cites.

    `str()` returns the text, followed by the BibTeX entries.

    Attributes:
        text: Paragraphs of plain prose, separated by empty lines.
        bibtex: BibTeX entries of the works that the text cites.
        references: Keys of the BibTeX entries, in the order of citation.
        checklist: Questions of reviewers, answered from the data or marked as open.
    """

    text: str
    bibtex: str
    references: tuple[str, ...]
    checklist: tuple[ChecklistItem, ...]

    def __str__(self) -> str:
        return f"{self.text}\n\n{self.bibtex}"

    __repr__ = __str__

    def write_bibtex(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the entries to a file.

        Args:
            path: Path of the file.
            overwrite: Replace an existing file.

        Raises:
            ValueError: The file exists with other content.
            OSError: The file cannot be written.
        """
        write_new(Path(path), f"{self.bibtex}\n".encode(), overwrite=overwrite)


def methods_of(contents: Contents) -> MethodsText:
    """Return the methods paragraph of a report's content."""
    used: list[str] = []
    facts = facts_of(contents)
    paragraphs = prose.paragraphs(
        "methods.txt.j2",
        {**facts, "cite": partial(cite, used)}
        | {"estimates": lambda: _estimates(facts, used)},
    )
    versions = contents["run"]["versions"]
    cited = [_with_version(REFERENCES[key], versions) for key in used]
    return MethodsText(
        text="\n\n".join(" ".join(sentences) for sentences in paragraphs if sentences),
        bibtex="\n\n".join(reference.bibtex for reference in cited),
        references=tuple(used),
        checklist=tuple(checklist_of(facts)),
    )


def _with_version(reference: Reference, versions: Mapping[str, str]) -> Reference:
    """Return the reference of a program with the version that ran, if it is one."""
    name = {"llamaherd": "llamaherd", "llamacpp": "llama-cpp-python"}.get(reference.key)
    if name is None:
        return reference
    note = reference.fields["note"].replace("VERSION", versions.get(name, "unknown"))
    return replace(reference, fields={**reference.fields, "note": note})


def facts_of(contents: Contents) -> dict[str, Any]:
    """Return the content of a report with the values that its prose needs."""
    contents = {**dict.fromkeys(PARTS), **contents}
    run, rows = contents["run"], contents["data"]["rows"]
    failed = {int(index) for index in contents["errors"]}
    known_rows = [index for index in rows if index is not None]
    coded = [index for index in known_rows if index not in failed]
    n_missing, n_failed = len(rows) - len(known_rows), len(known_rows) - len(coded)
    left_out = [
        f"{n_missing:,} {verb(n_missing, 'has', 'have')} no text" if n_missing else "",
        f"{n_failed:,} could not be coded" if n_failed else "",
    ]
    model = run["model"]
    size = model["size_bytes"]
    book = Codebook.from_dict(run["codebook"]["content"])
    recalibration = run.get("recalibration")
    return {
        **contents,
        "n_rows": len(rows),
        "n_coded": len(coded),
        "n_different": len(set(coded)),
        "left_out": [part for part in left_out if part],
        "model": model,
        "model_name": (model.get("metadata") or {}).get("general.name"),
        "model_facts": [
            *([] if size is None else [f"{size / 1e9:.2f} GB"]),
            *([short_hash(model["sha256"])] if model["sha256"] else []),
            *([f"on the server {model['url']}"] if "url" in model else []),
        ],
        "lora_files": [str(lora["file"] or "an unnamed file") for lora in model["loras"]],
        "book": book,
        "question": " ".join(book.question.split()),
        "names": list(book.names),
        "n_defined": sum(map(bool, book.definitions.values())),
        "n_examples": len(book.examples),
        "sources": sources_of(book),
        "settings": run["settings"],
        "is_scored": run["settings"].get("method") == "classify",
        "temperature": float(run["settings"].get("temperature") or 0.0),
        "recalibration": recalibration,
        "features": [
            {"probs": "the model's log-probabilities"}.get(feature, feature)
            for feature in (recalibration or {}).get("features", ())
        ],
        "titles": TITLES,
        "estimates": estimates_in(contents),
        **_facts_of_validation(contents["validation"]),
    }


def _facts_of_validation(validation: Mapping[str, Any] | None) -> dict[str, Any]:
    if validation is None:
        return {"has_majority": False}
    weights = list(prose.weights_of(validation))
    is_simple = (validation.get("design") or {}).get("kind") == "simple"
    if is_simple and not validation.get("is_by_label"):
        weights = [weight for weight in weights if weight != "inclusion"]
    return {
        "has_majority": len(validation["coders"]) > 1,
        "weighted_by": weights,
        "between_people": _reported_coefficients(
            validation["coder_agreement"], COEFFICIENTS
        ),
        "of_model": _reported_coefficients(
            validation["model_agreement"], ("kappa", "weighted kappa")
        ),
    }


def _reported_coefficients(
    coefficients: Sequence[Mapping[str, Any]] | None, names: Collection[str]
) -> list[Mapping[str, Any]]:
    """Return the coefficients in `names` that have a sentence; one kappa at most."""
    by_name = {
        coefficient["name"]: coefficient
        for coefficient in coefficients or []
        if coefficient["value"] is not None
        and coefficient["name"] in names
        and COEFFICIENTS[coefficient["name"]].sentence
    }
    if "weighted kappa" in by_name:
        by_name.pop("kappa", None)
    return list(by_name.values())


def _estimates(facts: Mapping[str, Any], used: list[str]) -> list[str]:
    """Return sentences on all estimates, those of the same data and methods together.

    The correction of labels is said once, after the last group that has it; what is said
    of all groups is said once, at the end.
    """
    if not facts["estimates"]:
        return []
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for fields in facts["estimates"]:
        groups.setdefault(repr(_design_of(fields)), []).append(fields)
    last = {
        group[0]["level"]: group for group in groups.values() if _corrections(group[0])
    }
    parts = []
    for group in groups.values():
        level = group[0]["level"]
        of_level = [fields for fields in facts["estimates"] if fields["level"] == level]
        parts.append(
            _estimate_sentences(
                group, of_level if last.get(level) is group else (), facts, used
            )
        )
    shared = [line for line in parts[0] if all(line in part for part in parts)]
    return [line for part in parts for line in part if line not in shared] + shared


def _corrections(fields: Mapping[str, Any]) -> set[str]:
    """Return the methods of estimates that correct errors of labels."""
    return {row["method"] for row in fields["rows"]} & {"dsl", "ppi"}


def _design_of(fields: Mapping[str, Any]) -> list[object]:
    """Return all that the sentences on estimates say of data and methods."""
    names = (
        "n_texts", "n_gold", "level", "predictions", "target", "is_weighted",
        "n_clusters", "simultaneous",
    )  # fmt: skip
    methods = sorted({row["method"] for row in fields["rows"]})
    has_coders = bool(fields.get("agreement"))
    return [methods, has_coders, *(fields.get(name) for name in names)]


def _estimate_sentences(
    estimates: Sequence[Mapping[str, Any]],
    corrected: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any],
    used: list[str],
) -> list[str]:
    """Return sentences on estimates of the same data by the same methods.

    `corrected` are the estimates whose corrections of labels are said here.
    """
    are_numbers = [
        any(row["term"] in ("mean", "quantile") for row in fields["rows"])
        for fields in estimates
    ]
    (sentences,) = prose.paragraphs(
        "estimates.txt.j2",
        {
            **facts,
            "cite": partial(cite, used),
            "first": estimates[0],
            "methods": {row["method"] for row in estimates[0]["rows"]},
            "corrections": set().union(*map(_corrections, corrected)),
            "has_regression": any(fields["formula"] for fields in corrected),
            "terms": {
                row["term"]
                for fields in estimates
                if not fields["formula"]
                for row in fields["rows"]
            },
            "formulas": dict.fromkeys(
                (fields["formula"], fields["model"])
                for fields in estimates
                if fields["formula"]
            ),
            "all_numbers": all(are_numbers),
            "some_numbers": any(are_numbers),
        },
    )
    return sentences
