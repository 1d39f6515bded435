"""Ready codebooks that follow published definitions, as starting points."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.codebook_checks import filled
from llamaherd.research.coding.codebook_file import codebook_of_yaml, read_codebook
from llamaherd.research.references import REFERENCES

PREFIX = "ready:"
_FOLDER = Path(__file__).parent / "ready"
_TARGET = "{target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyCodebook:
    """Entry of the list of ready codebooks.

    Attributes:
        name: Name to pass to `ready_codebook`.
        about: Subject of the codebook, in a sentence.
        type: Type of the codebook.
        n_labels: Number of labels.
        needs_target: True if the codebook asks about a target that you have to name.
        sources: Short citations of the published works whose definitions the codebook
            follows.
        measured: Accuracy that a script of this project measured, in words; "not
            measured" if it was not measured.
    """

    name: str
    about: str
    type: str
    n_labels: int
    needs_target: bool
    sources: tuple[str, ...]
    measured: str


@dataclass(frozen=True, slots=True)
class _Entry:
    about: str
    sources: tuple[str, ...]
    needs_target: bool = False


_ENTRIES = {
    "sentiment": _Entry(
        "Positive, negative or neutral feeling of an author.", ("rosenthal2017",)
    ),
    "stance": _Entry(
        "Position of an author towards a target: favour, against, neither.",
        ("mohammad2016",),
        needs_target=True,
    ),
    "policy_topics": _Entry(
        "The 21 major topics of the Comparative Agendas Project, and none of them.",
        ("baumgartner2019",),
    ),
    "populism": _Entry(
        "Populist discourse from 0 (none) to 2 (dominant).",
        ("mudde2004", "hawkins2009"),
    ),
    "toxicity": _Entry(
        "Comments that drive people out of a conversation.", ("wulczyn2017",)
    ),
    "hate_speech": _Entry(
        "Hate speech, offensive language, or neither.", ("davidson2017",)
    ),
    "incivility": _Entry(
        "Five forms of uncivil language; several may apply.", ("coe2014",)
    ),
    "emotion": _Entry("Six basic emotions, or none.", ("ekman1992",)),
    "news_frames": _Entry("Five frames of news; several may apply.", ("semetko2000",)),
    "economic_left_right": _Entry(
        "Position on economic policy from -2 (left) to 2 (right).", ("benoit2016",)
    ),
}


def ready_codebook(name: str, target: str | None = None) -> Codebook:
    """Return a ready codebook, written for this project from published definitions.

    Use the codebook as a starting point: adapt it to your texts, add examples, and
    measure its accuracy on human codes. `write_codebook` stores it as a file to edit.

    Args:
        name: Name of the codebook, see `list_ready_codebooks`.
        target: For "stance": object of the position, such as "nuclear energy".

    Raises:
        TypeError: An argument is not a string.
        ValueError: The name is unknown; or `target` is missing, or given for a codebook
            without a target.
    """
    checks.choice("name", name, tuple(_ENTRIES))
    needs = _ENTRIES[name].needs_target
    if needs and target is None:
        raise ArgumentError(
            f"must be given: {name} asks about a target, such as 'nuclear energy'",
            argument="target",
            code="missing",
        )
    if target is None:
        return _of_file(name)
    target = filled("target", target)
    if not needs:
        raise ArgumentError(f"must be left out: {name} has no target", argument="target")
    content: Any = _replaced(_of_file(name).to_dict(), target)
    return Codebook.from_dict(content)


def list_ready_codebooks() -> list[ReadyCodebook]:
    """List the ready codebooks, with their sources and measured accuracy."""
    return [
        ReadyCodebook(
            name=name,
            about=entry.about,
            type=_of_file(name).type,
            n_labels=len(_of_file(name).names),
            needs_target=entry.needs_target,
            sources=tuple(REFERENCES[key].short for key in entry.sources),
            measured=_measured().get(name, "not measured"),
        )
        for name, entry in _ENTRIES.items()
    ]


def sources_of(codebook: Codebook) -> tuple[str, ...]:
    """Return keys of the references of a ready codebook; () for any other codebook.

    A codebook is recognized as ready if its type, question, labels and definitions equal
    the content of a ready codebook; examples may differ.
    """
    for name, entry in _ENTRIES.items():
        ready = _of_file(name)
        if not entry.needs_target and _core(codebook) == _core(ready):
            return entry.sources
        if entry.needs_target and codebook.names == ready.names:
            before, _, after = ready.question.partition(_TARGET)
            asked = codebook.question
            if asked.startswith(before) and asked.endswith(after):
                return entry.sources
    return ()


def codebook_from(source: str | Path) -> Codebook:
    """Read a codebook from a file, or return the ready codebook named by "ready:name".

    Args:
        source: Path of a YAML file; or "ready:name", "ready:stance:target".
    """
    text = str(source)
    if not is_ready(text):
        return read_codebook(source)
    name, _, target = text.removeprefix(PREFIX).partition(":")
    return ready_codebook(name, target or None)


def is_ready(source: str) -> bool:
    """Return True if a source names a ready codebook ("ready:name"), not a file."""
    return source.startswith(PREFIX)


def ready_dicts() -> list[dict[str, Any]]:
    """Return the list of ready codebooks as rows of a table."""
    return [
        {**asdict(each), "sources": "; ".join(each.sources)}
        for each in list_ready_codebooks()
    ]


@cache
def _measured() -> dict[str, str]:
    """Return the accuracy measured by benchmarks/ready_codebooks.py, by codebook."""
    text = (_FOLDER / "measured.json").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


@cache
def _of_file(name: str) -> Codebook:
    file = _FOLDER / f"{name}.yaml"
    return codebook_of_yaml(file.read_text(encoding="utf-8"), file.name)


def _core(codebook: Codebook) -> tuple[object, ...]:
    return codebook.type, codebook.question, tuple(codebook.definitions.items())


def _replaced(value: Any, target: str) -> Any:  # noqa: ANN401 - JSON
    """Replace the placeholder "{target}" in all texts of a JSON value."""
    if isinstance(value, dict):
        return {key: _replaced(each, target) for key, each in value.items()}
    return value.replace(_TARGET, target) if isinstance(value, str) else value
