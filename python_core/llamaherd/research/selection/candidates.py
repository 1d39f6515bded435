"""Candidates of a comparison: codebooks with models and settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llamaherd.asks.annotate_options import AnnotateOptions
from llamaherd.core import checks
from llamaherd.core.argument import Argument
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.words import call
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.texts import same_rows
from llamaherd.research.estimation.gold_forms import listed_ids
from llamaherd.research.selection.split import PARTS, record_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llama_cpp import Llama
    from typing_extensions import Unpack

    from llamaherd.asks.keywords import CodingSettings
    from llamaherd.research.estimation.gold_drawn import GoldSample
    from llamaherd.research.selection.part_codes import PartCodes
    from llamaherd.run.host import Host

# Arguments of `annotate` that a candidate must not set.
NOT_SETTINGS = tuple(
    name
    for name, each in AnnotateOptions.declared.items()
    if each.facts.get("of_call", False)
)
_COMPARED = ("label", "ordinal", "scale", "multiple")  # types of codebooks
_CLOSED = ("select", "evaluate")  # parts that must not contain examples


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodebookCandidate:
    """Codebook with a context and settings, to be compared with other candidates.

    Attributes:
        codebook: The codebook.
        context: Context to use; None for the context of the comparison.
        settings: Arguments of `annotate`. These arguments replace the settings of the
            comparison.
    """

    codebook: Codebook
    context: Host | Llama | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def candidate(
    codebook: Codebook,
    context: Host | Llama | None = None,
    **settings: Unpack[CodingSettings],
) -> CodebookCandidate:
    """Describe a candidate for `compare_codebooks`.

    Args:
        codebook: Codebook, with its examples.
        context: Context on the candidate's model; None for the context of the comparison.
        **settings: Arguments of `annotate` such as `calibrate`, `thinking`, `chat`,
            `method` and `temperature`.

    Raises:
        TypeError: An argument has the wrong type, or is not a setting of a candidate.
    """
    if not isinstance(codebook, Codebook):
        raise ArgumentTypeError(
            f"must be a Codebook, not {checks.shown(codebook)}", argument="codebook"
        )
    return CodebookCandidate(
        codebook=codebook, context=context, settings=checked_names(dict(settings))
    )


def checked_names(settings: dict[str, Any]) -> dict[str, Any]:
    """Check the names of a candidate's settings."""
    known = [name for name in AnnotateOptions.declared if name not in NOT_SETTINGS]
    for name in settings:
        if name not in known:
            raise ArgumentTypeError(
                f"is not a setting of a candidate{checks.meant(name, known)}; these are "
                f"{', '.join(known)}",
                argument=name,
                code="unknown_argument",
            )
    return settings


def checked_candidates(given: object) -> dict[str, CodebookCandidate]:
    """Return candidates by name; candidates in a list are named 1, 2 and so on."""
    if isinstance(given, (Codebook, CodebookCandidate)):
        given = [given]
    if not isinstance(given, (Mapping, list, tuple)):
        raise ArgumentTypeError(
            "must be a mapping from names to codebooks or candidates, not "
            f"{checks.shown(given)}",
            argument="candidates",
        )
    named: dict[Any, Any] = (
        dict(given)
        if isinstance(given, Mapping)
        else {str(i): each for i, each in enumerate(given, start=1)}
    )
    if not named:
        raise ArgumentError(
            "must not be empty", argument="candidates", code="out_of_range"
        )
    made = {}
    for i, (name, each) in enumerate(named.items()):
        if not isinstance(name, str) or not name.strip():
            raise ArgumentError(
                f"must have names, not {checks.shown(name)}", argument="candidates"
            )
        if not isinstance(each, (Codebook, CodebookCandidate)):
            raise ArgumentTypeError(
                f"must be a Codebook, or made by {call('candidate')}, not "
                f"{checks.shown(each)}",
                argument=Argument("candidates", (i,)),
            )
        made[name] = (
            CodebookCandidate(codebook=each) if isinstance(each, Codebook) else each
        )
    return made


def check_codebook(name: str, codebook: Codebook, gold: GoldSample) -> None:
    """Check that a codebook has the sample's labels and only allowed examples."""
    where = Argument("candidates", (name,))
    if not codebook.names or codebook.type not in _COMPARED:
        raise ArgumentError(
            f"has the type {codebook.type!r}, but only labels of whole texts can be "
            "compared with codes",
            argument=where,
            code="no_labels",
        )
    if (codebook.type == "multiple") != gold.several:
        has = "several labels per text" if gold.several else "one label per text"
        raise ArgumentError(
            f"has the type {codebook.type!r}, but gold was drawn for {has}",
            argument=where,
            code="conflict",
        )
    if gold.names and set(codebook.names) != set(gold.names):
        raise ArgumentError(
            f"has the labels {', '.join(codebook.names)}, but gold has "
            f"{', '.join(gold.names)}",
            argument=where,
            code="other_labels",
        )
    check_examples(name, codebook, gold)


def check_examples(name: str, codebook: Codebook, gold: GoldSample) -> None:
    """Raise an error if examples of a codebook are texts of "select" or "evaluate"."""
    parts = record_of(gold)["parts"]
    found = same_rows(gold.texts, [each.text for each in codebook.examples])
    closed = [i for i in found if parts[i] in _CLOSED]
    if closed:
        in_parts = [part for part in PARTS if part in {parts[i] for i in closed}]
        raise ArgumentError(
            f"has examples that are texts of {' and '.join(in_parts)} (ids "
            f"{listed_ids(gold.ids, closed)}): the prompt would contain codes with "
            "which its accuracy is measured. Take examples from 'explore', as "
            f"{call('choose_examples')} does",
            argument=Argument("candidates", (name,)),
            code="closed_examples",
        )


def hash_of(run: Mapping[str, Any], *, without: Sequence[str] = ()) -> str:
    """Hash everything on which labels depend: codebook, settings and model.

    Args:
        run: Provenance of labels, see `Coded.run`.
        without: Settings to leave out.
    """
    model = run["model"]
    settings = {k: v for k, v in run["settings"].items() if k not in without}
    loras = [
        [each.get("file"), each.get("sha256"), each.get("scale")]
        for each in model.get("loras") or ()
    ]
    content = [
        run["codebook"]["hash"],
        settings,
        model.get("sha256") or model.get("file"),
        loras,
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def texts_of(codes: PartCodes) -> dict[str, list[str]]:
    """Return the texts of a part as a data frame with one column, "text"."""
    return {"text": codes.texts}
