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
from llamaherd.coding.reports.prose import cite, measured, phrase, short_hash
from llamaherd.coding.reports.report_data import estimates_in, sha256_of
from llamaherd.coding.selection.measures import TITLES
from llamaherd.engine.core.files import write_new
from llamaherd.engine.core.phrases import verb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.reports.report_data import Contents

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
        return "open" if self.is_open else "answered"


def checklist_of(facts: Mapping[str, Any]) -> list[ChecklistItem]:
    """Answer the checklist."""
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
    found = prose.paragraphs(
        "methods.txt.j2",
        {**facts, "cite": partial(cite, used)}
        | {"estimates": lambda: _estimates(facts, used)},
    )
    versions = contents["run"]["versions"]
    cited = [_with_version(REFERENCES[key], versions) for key in used]
    return MethodsText(
        text="\n\n".join(" ".join(sentences) for sentences in found if sentences),
        bibtex="\n\n".join(each.bibtex for each in cited),
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
    there = [index for index in rows if index is not None]
    coded = [index for index in there if index not in failed]
    n_missing, n_failed = len(rows) - len(there), len(there) - len(coded)
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
        "lora_files": [str(each["file"] or "an unnamed file") for each in model["loras"]],
        "book": book,
        "question": " ".join(book.question.split()),
        "names": list(book.names),
        "n_defined": sum(1 for each in book.definitions.values() if each),
        "n_examples": len(book.examples),
        "sources": sources_of(book),
        "settings": run["settings"],
        "is_scored": run["settings"].get("method") == "classify",
        "temperature": float(run["settings"].get("temperature") or 0.0),
        "recalibration": recalibration,
        "features": [
            {"probs": "the model's log-probabilities"}.get(each, each)
            for each in (recalibration or {}).get("features", ())
        ],
        "titles": TITLES,
        "estimates": estimates_in(contents),
        **_facts_of_validation(contents["validation"]),
    }


def _facts_of_validation(found: Mapping[str, Any] | None) -> dict[str, Any]:
    if found is None:
        return {"has_majority": False}
    by = list(prose.weights_of(found))
    is_simple = (found.get("design") or {}).get("kind") == "simple"
    if is_simple and not found.get("is_by_label"):
        by = [each for each in by if each != "inclusion"]
    several = len(found["coders"]) > 1
    return {
        "has_majority": several,
        "weighted_by": by,
        "between_people": _reported(found["coder_agreement"], ("kappa", "alpha")),
        "of_model": _reported(found["model_agreement"], ("kappa",)),
    }


def _reported(
    found: Sequence[Mapping[str, Any]] | None, names: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the coefficients in `names`; if kappa is weighted, weighted kappa."""
    known = {each["name"]: each for each in found or [] if each["value"] is not None}
    best = (known.get(f"weighted {name}") or known.get(name) for name in names)
    return [each for each in best if each is not None]


def _estimates(facts: Mapping[str, Any], used: list[str]) -> list[str]:
    """Return sentences on all estimates, those of the same data and methods together.

    What is said of all of them is said once, at the end.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for fields in facts["estimates"]:
        groups.setdefault(repr(_design_of(fields)), []).append(fields)
    told = [_estimated(found, facts, used) for found in groups.values()]
    shared = (
        [each for each in told[0] if all(each in own for own in told)] if told else []
    )
    return [each for own in told for each in own if each not in shared] + shared


def _design_of(fields: Mapping[str, Any]) -> list[object]:
    """Return all that the sentences on estimates say of data and methods."""
    names = ("n_texts", "n_gold", "level", "predictions", "target", "is_weighted")
    methods = sorted({row["method"] for row in fields["rows"]})
    has_coders = bool(fields.get("agreement"))
    more = fields.get("simultaneous")
    return [methods, has_coders, more, *(fields.get(name) for name in names)]


def _estimated(
    found: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], used: list[str]
) -> list[str]:
    """Return sentences on estimates of the same data by the same methods."""
    are_numbers = [
        any(row["term"] in ("mean", "quantile") for row in each["rows"]) for each in found
    ]
    (sentences,) = prose.paragraphs(
        "estimates.txt.j2",
        {
            **facts,
            "cite": partial(cite, used),
            "first": found[0],
            "methods": {row["method"] for row in found[0]["rows"]},
            "terms": {
                row["term"]
                for each in found
                if not each["formula"]
                for row in each["rows"]
            },
            "formulas": {
                each["formula"]: each["model"] for each in found if each["formula"]
            },
            "all_numbers": all(are_numbers),
            "some_numbers": any(are_numbers),
        },
    )
    return sentences
