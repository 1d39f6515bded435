"""Writes the methods paragraph of a coding from its data, with references."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.core.files import write_new
from llamaherd.core.plurals import count_of, verb
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.ready_codebooks import sources_of
from llamaherd.research.references import REFERENCES, Reference
from llamaherd.research.reports import methods_people
from llamaherd.research.reports.checklist import ChecklistItem, checklist_of
from llamaherd.research.reports.methods_words import (
    cite,
    date_of,
    listed,
    number,
    short_hash,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llamaherd.research.reports.report_data import Contents

PARTS = ("validation", "estimates", "robustness", "evaluation")
_MANY_LABELS = 12  # largest number of labels that the paragraph lists
_TYPES = {
    "label": "one label for each text",
    "ordinal": "one label of an ordered scale for each text",
    "multiple": "any number of labels for each text",
    "scale": "a number for each text",
    "fields": "values of a schema for each text",
    "spans": "passages of each text, each with a label",
}


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
    """Return the methods paragraph of a report's content.

    Args:
        contents: Result of `contents_of` or `read_report`.
    """
    used: list[str] = []
    run = contents["run"]
    contents = {**dict.fromkeys(PARTS), **contents}
    paragraphs = [
        [*_model(contents, used), *_codebook(run, used), *_asked(run, used)],
        [*methods_people.chosen(contents), *methods_people.people(contents, used)],
        methods_people.estimates(contents, used),
    ]
    text = "\n\n".join(" ".join(each) for each in paragraphs if each)
    found = [_with_version(REFERENCES[key], run["versions"]) for key in used]
    return MethodsText(
        text=text,
        bibtex="\n\n".join(each.bibtex for each in found),
        references=tuple(used),
        checklist=tuple(checklist_of(contents)),
    )


def _with_version(reference: Reference, versions: Mapping[str, str]) -> Reference:
    """Return the reference of a program with the version that ran, if it is one."""
    name = {"llamaherd": "llamaherd", "llamacpp": "llama-cpp-python"}.get(reference.key)
    if name is None:
        return reference
    note = reference.fields["note"].replace("VERSION", versions.get(name, "unknown"))
    return replace(reference, fields={**reference.fields, "note": note})


def _model(contents: Contents, used: list[str]) -> Iterator[str]:
    run, rows = contents["run"], contents["data"]["rows"]
    model = run["model"]
    failed = {int(index) for index in contents["errors"]}
    there = [index for index in rows if index is not None]
    coded = [index for index in there if index not in failed]
    n, n_different = len(coded), len(set(coded))
    what = f"{count_of(n, 'text')}" + (
        f" ({n_different:,} different ones)" if n > n_different else ""
    )
    name = model["metadata"].get("general.name")
    file = model["file"] or "of a file that is not recorded"
    named = f"{name} (file {file}" if name and model["file"] else f"the model {file} ("
    facts = [short_hash(model["sha256"])] if model["sha256"] else []
    if model["size_bytes"] is not None:
        facts.insert(0, f"{model['size_bytes'] / 1e9:.2f} GB")
    if name and model["file"]:
        named += "".join(f", {fact}" for fact in facts) + ")"
    else:
        named = named + ", ".join(facts) + ")" if facts else named.rstrip(" (")
    versions = run["versions"]
    with_version = f"llamaherd {versions.get('llamaherd', '')}".strip()
    engine = f"llama-cpp-python {versions.get('llama-cpp-python', '')}".strip()
    yield (
        f"We coded {what} with {named}, run with {with_version} "
        f"{cite(used, 'llamaherd')} on top of {engine} {cite(used, 'llamacpp')}, on "
        f"{date_of(run['started'])}."
    )
    loras = model["loras"]
    if loras:
        files = listed([str(each["file"] or "an unnamed file") for each in loras])
        yield f"The model had {count_of(len(loras), 'LoRA adapter')}: {files}."
    n_missing, n_failed = len(rows) - len(there), len(there) - len(coded)
    parts = [
        f"{n_missing:,} {verb(n_missing, 'has', 'have')} no text" if n_missing else "",
        f"{n_failed:,} could not be coded" if n_failed else "",
    ]
    if n_missing or n_failed:
        yield f"Of {count_of(len(rows), 'row')}, {listed([p for p in parts if p])}."


def _codebook(run: Mapping[str, Any], used: list[str]) -> Iterator[str]:
    content = run["codebook"]["content"]
    book = Codebook.from_dict(content)
    question = " ".join(book.question.split())
    told = f"The codebook asks for {_TYPES[book.type]}: \u201c{question}\u201d"
    names = list(book.names)
    if book.type == "scale":
        told += f" (from {names[0]} to {names[-1]}, {count_of(len(names), 'value')})"
    elif 0 < len(names) <= _MANY_LABELS:
        told += f" (labels: {listed(names)})"
    elif names:
        told += f" ({count_of(len(names), 'label')})"
    yield told + ("" if told.endswith((".", "?")) else ".")
    n_defined = sum(1 for each in book.definitions.values() if each)
    if names and book.type != "scale":
        some = f"{n_defined} of the labels"
        share = "Each label" if n_defined == len(names) else some
        have = "has" if n_defined in (1, len(names)) else "have"
        yield (
            f"{share} {have} a definition."
            if n_defined
            else "Labels have no definitions."
        )
    keys = sources_of(book)
    if keys:
        works = " ".join(cite(used, key) for key in keys)
        yield (
            "The codebook is a ready codebook of llamaherd, based on published "
            f"definitions {works}."
        )
    n_examples = len(book.examples)
    shown = count_of(n_examples, "coded example") if n_examples else "no coded examples"
    yield (
        f"The codebook contains {shown}; {short_hash(run['codebook']['hash'])} "
        "identifies its content."
    )


def _asked(run: Mapping[str, Any], used: list[str]) -> Iterator[str]:
    settings, kind = run["settings"], run["codebook"]["content"].get("type", "label")
    form = (
        "in the model's chat template"
        if settings.get("chat")
        else "as a plain text to be continued, without a chat template"
    )
    yield f"The prompt was given {form}."
    if settings.get("method") == "classify":
        each = (
            "the model answered a yes-or-no question for each label, and a text got the "
            "labels with a probability above 0.5"
            if kind == "multiple"
            else "each text got the most probable label"
        )
        yield (
            "No label was sampled, so no temperature was involved: the probability of "
            f"every label was computed, and {each}."
        )
    else:
        temperature = float(settings.get("temperature") or 0.0)
        drawn = (
            "greedily (temperature 0)"
            if temperature == 0
            else f"at temperature {temperature:g} (seed {settings.get('seed')})"
        )
        yield (
            f"Answers were generated {drawn}, in the form that the codebook prescribes, "
            f"with at most {settings.get('max_tokens')} tokens."
        )
    thought = run.get("thinking")
    if thought is not None:
        yield str(thought["methods"])
    elif settings.get("thinking") is False:
        yield "The model's reasoning was switched off."
    else:
        yield "The model wrote no reasoning before its answers."
    yield from _calibrated(run, used)
    if run["context"].get("deterministic"):
        yield (
            "The computation was deterministic: the same versions give the same labels, "
            "bit for bit."
        )


def _calibrated(run: Mapping[str, Any], used: list[str]) -> Iterator[str]:
    way = run["settings"].get("calibrate")
    if way == "batch":
        yield (
            "Probabilities were calibrated by batch calibration "
            f"{cite(used, 'zhou2024')}."
        )
    elif way == "contextual":
        yield (
            "Probabilities were calibrated by contextual calibration "
            f"{cite(used, 'zhao2021')}."
        )
    elif run["settings"].get("method") == "classify":
        yield "Probabilities were not calibrated."
    found = run.get("recalibration")
    if found is None:
        return
    features = listed(
        [
            {"probs": "the model's log-probabilities"}.get(each, each)
            for each in found["features"]
        ]
    )
    before = number(found["raw"]["accuracy"]["value"])
    after = number(found["cross_validated"]["accuracy"]["value"])
    yield (
        "Labels and probabilities were then recalibrated by a ridge multinomial "
        f"logistic regression of {count_of(found['n_codes'], 'code')} of people on "
        f"{features}, "
        f"cross-fitted in {found['n_folds']} folds; accuracy was {before} before, "
        f"and {after} after by cross-validation."
    )
