"""Candidates of a comparison, and the frozen choice among them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.calls.api.running import open_context
from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.coding.annotation.codebook import Codebook, checked_codebook
from llamaherd.coding.annotation.record import model_record
from llamaherd.coding.annotation.texts import same_rows
from llamaherd.coding.gold.forms import listed_ids
from llamaherd.coding.selection.comparison import CodebookComparison
from llamaherd.coding.selection.measures import TITLES
from llamaherd.coding.selection.split import PARTS, record_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, decimals, with_commas
from llamaherd.engine.core.plain import from_stored, stored
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llama_cpp import Llama
    from typing_extensions import Unpack

    from llamaherd.calls.asks.keywords import CodingSettings
    from llamaherd.calls.run.host import Host
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding.selection.measures import SelectionMeasure

# Arguments of `annotate` that a candidate must not set.
NOT_SETTINGS = tuple(
    name
    for name, option in AnnotateOptions.declared.items()
    if option.facts.get("of_call", False)
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
    return CodebookCandidate(
        codebook=checked_codebook(codebook),
        context=context,
        settings=checked_names(dict(settings)),
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


def checked_candidates(candidates: object) -> dict[str, CodebookCandidate]:
    """Return candidates by name."""
    kinds, wanted = (
        (Codebook, CodebookCandidate),
        f"a Codebook, or made by {call('candidate')}",
    )
    return {
        name: CodebookCandidate(codebook=value) if isinstance(value, Codebook) else value
        for name, value in by_name("candidates", candidates, kinds, wanted).items()
    }


def by_name(
    argument: str,
    values: Any,  # noqa: ANN401 - values of any kind
    kinds: type | tuple[type, ...],
    wanted: str,
) -> dict[str, Any]:
    """Return values by name; values in a list, or a single one, are named 1, 2 and so on.

    `wanted` names the types `kinds` in words.
    """
    if not isinstance(values, Mapping):
        several = values if isinstance(values, (list, tuple)) else [values]
        values = {str(i): value for i, value in enumerate(several, start=1)}
    if not values:
        raise ArgumentError("must not be empty", argument=argument, code="out_of_range")
    for i, (name, value) in enumerate(values.items()):
        if not isinstance(name, str) or not name.strip():
            raise ArgumentError(
                f"must have names, not {checks.shown(name)}", argument=argument
            )
        checks.instance(Argument(argument, (i,)), value, kinds, wanted)
    return dict(values)


def check_codebook(name: str, codebook: Codebook, gold: GoldSample) -> None:
    """Check that a codebook has the sample's labels and only allowed examples."""
    where = Argument("candidates", (name,))
    if not codebook.names or codebook.type not in _COMPARED:
        raise ArgumentError(
            f"has the type {checks.quoted(codebook.type)}, but only labels of whole "
            "texts can be "
            "compared with codes",
            argument=where,
            code="no_labels",
        )
    if (codebook.type == "multiple") != gold.several:
        has = "several labels per text" if gold.several else "one label per text"
        raise ArgumentError(
            f"has the type {checks.quoted(codebook.type)}, but gold was drawn for {has}",
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
    rows = same_rows(gold.texts, [example.text for example in codebook.examples])
    closed = [i for i in rows if parts[i] in _CLOSED]
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
    """Hash everything on which labels depend: codebook, settings and model."""
    model = run["model"]
    settings = {k: v for k, v in run["settings"].items() if k not in without}
    loras = [
        [lora.get("file"), lora.get("sha256"), lora.get("scale")]
        for lora in model.get("loras") or ()
    ]
    content = [
        run["codebook"]["hash"],
        settings,
        key_of_model(model),
        loras,
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def key_of_model(model: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a hash or a name
    """Return the hash of a recorded model, or its name if the hash is unknown."""
    return model.get("sha256") or model.get("file")


def check_model(
    context: Host | Llama, recorded: Mapping[str, Any], argument: str, must: str
) -> None:
    """Check that a context has the recorded model, before any text is coded."""
    loaded = model_record(open_context(context).model)
    if key_of_model(loaded) != key_of_model(recorded):
        raise ArgumentError(
            f"{must}, {recorded.get('file')}, not {loaded['file']}",
            argument=argument,
            code="other_model",
        )


Prefer = Literal["value", "speed"]
PREFER: tuple[Prefer, ...] = ("value", "speed")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodebookChoice:
    """Chosen codebook with its settings and model, and how it was chosen.

    Attributes:
        name: Name of the chosen candidate.
        hash: SHA-256 of codebook, settings and model.
        content: Content of the codebook.
        settings: Settings of the coding, as arguments of `annotate`.
        model: Record of the model file.
        measure: Measure by which the candidate was chosen.
        value: Value of this measure on "select". This value is too optimistic, because
            the best of several candidates was chosen by this value.
        level: Confidence level of the comparison.
        n_candidates: Number of candidates that were compared.
        tied: Names of the other candidates whose difference from the best is uncertain.
        codes_sha256: Hash of the texts and codes on which candidates were compared.
        split_sha256: Hash of the split.
        made: Time at which the choice was frozen.
    """

    name: str
    hash: str
    content: dict[str, Any]
    settings: dict[str, Any]
    model: dict[str, Any]
    measure: SelectionMeasure
    value: float
    level: float
    n_candidates: int
    tied: tuple[str, ...]
    codes_sha256: str
    split_sha256: str
    made: str

    @property
    def codebook(self) -> Codebook:
        """Codebook that was chosen."""
        return Codebook.from_dict(self.content)

    @property
    def run(self) -> dict[str, Any]:
        """Codebook, settings and model in the form of `Coded.run`."""
        return {
            "codebook": {"hash": self.codebook.hash, "content": self.content},
            "settings": self.settings,
            "model": self.model,
        }

    def __str__(self) -> str:
        title = TITLES[self.measure]
        lines = [
            (
                f"<CodebookChoice: {self.name!r} of "
                f"{count_of(self.n_candidates, 'candidate')} ({self.hash[:12]})>"
            ),
            f"model     {self.model.get('file')}",
            f"settings  {json.dumps(self.settings, ensure_ascii=False)}",
            f"{title} on select {decimals(self.value)}, by which it was chosen",
        ]
        if self.tied:
            lines.append(
                f"cannot be told apart from it: {with_commas(map(repr, self.tied))}"
            )
        lines.append(f"{call('evaluate_codebook')} measures it on other texts")
        return "\n".join(lines)

    __repr__ = __str__

    def to_json(self) -> str:
        """Return the choice as JSON text, which `from_json` reads."""
        return stored("choice", self, indent=1)

    @classmethod
    def from_json(cls, text: str) -> CodebookChoice:
        """Read a choice that `to_json` wrote.

        Raises:
            ValueError: The text is not a stored choice, or the choice was changed.
        """

        def from_fields(fields: dict[str, Any]) -> tuple[CodebookChoice, str]:
            choice = cls(**{**fields, "tied": tuple(fields["tied"])})
            return choice, hash_of(choice.run)

        choice, hash_now = from_stored("choice", text, from_fields)
        if hash_now != choice.hash:
            raise ArgumentError(
                "codebook, settings or model of the stored choice were changed after it "
                "was frozen: compare again, and use the new choice",
                argument="choice",
                code="changed",
                form="{name}: {problem}",
            )
        return choice


def best_codebook(
    comparison: CodebookComparison, *, prefer: Prefer = "value", name: str | None = None
) -> CodebookChoice:
    """Choose a candidate, and freeze the choice so that it can be evaluated once.

    Args:
        comparison: Result of `compare_codebooks`.
        prefer: "value" chooses the candidate with the best value, and the fastest of
            several candidates with this value. "speed" first selects the best candidate
            and all candidates whose difference from it is uncertain, and then chooses the
            fastest of them.
        name: Name of a candidate to choose instead.

    Returns:
        Codebook, settings and model with their hash, for `evaluate_codebook`.

    Raises:
        TypeError: `comparison` is not the result of `compare_codebooks`.
        ValueError: There is no candidate of this name, or no value is defined.
    """
    wanted = f"the result of {call('compare_codebooks')}"
    checks.instance("comparison", comparison, CodebookComparison, wanted)
    checks.choice("prefer", prefer, PREFER)
    at = _chosen(comparison, prefer, name)
    candidate = comparison.candidates[at]
    tied = [comparison.names[i] for i in comparison.tied if i != at]
    if not comparison.is_tied(at):
        tied = []
    return CodebookChoice(
        name=candidate.name,
        hash=candidate.hash,
        content=candidate.codebook,
        settings=candidate.settings,
        model=candidate.model,
        measure=comparison.measure,
        value=candidate.value.value,
        level=comparison.level,
        n_candidates=len(comparison.candidates),
        tied=tuple(tied),
        codes_sha256=comparison.codes_sha256,
        split_sha256=comparison.split_sha256,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _chosen(comparison: CodebookComparison, prefer: Prefer, name: str | None) -> int:
    if name is not None:
        if name not in comparison.names:
            raise ArgumentError(
                f"must be one of {', '.join(map(checks.quoted, comparison.names))}, not "
                f"{checks.shown(name)}{checks.meant(name, comparison.names)}",
                argument="name",
                code="unknown_choice",
            )
        return comparison.names.index(name)
    if prefer == "value":
        return comparison.best
    seconds = [comparison.candidates[i].seconds for i in comparison.tied]
    if all(map(math.isnan, seconds)):
        raise ArgumentError(
            "'speed' needs seconds, but all answers came from a journal without times",
            argument="prefer",
            code="missing",
        )
    known = [
        (time, i)
        for time, i in zip(seconds, comparison.tied, strict=True)
        if not math.isnan(time)
    ]
    return min(known)[1]
