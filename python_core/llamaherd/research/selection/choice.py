"""Choice: the codebook that a comparison selected, frozen with settings and model."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.core import checks
from llamaherd.core.decimals import decimals
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.json_text import DAMAGED
from llamaherd.core.plurals import count_of, with_commas
from llamaherd.core.words import call
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.selection.candidates import hash_of
from llamaherd.research.selection.comparison import CodebookComparison, checked_comparison
from llamaherd.research.selection.measures import TITLES

if TYPE_CHECKING:
    from llamaherd.research.selection.measures import SelectionMeasure

Prefer = Literal["value", "speed"]
PREFER: tuple[Prefer, ...] = ("value", "speed")
_FORMAT = 1


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
        return json.dumps(
            {"llamaherd_choice": _FORMAT, **asdict(self)}, ensure_ascii=False, indent=1
        )

    @classmethod
    def from_json(cls, text: str) -> CodebookChoice:
        """Read a choice that `to_json` wrote.

        Raises:
            ValueError: The text is not a stored choice, or the choice was changed.
        """
        try:
            stored = json.loads(text)
            form = stored.pop("llamaherd_choice")
            made = cls(**{**stored, "tied": tuple(stored["tied"])})
            found = hash_of(made.run)
            str(made)  # fails if a value has another type
        except DAMAGED as error:
            raise ArgumentError(
                f"is not a stored choice: {error!r}", argument="text"
            ) from error
        if form != _FORMAT:
            raise ArgumentError(
                f"is a choice of another format, {form!r}", argument="text"
            )
        if found != made.hash:
            raise ArgumentError(
                "codebook, settings or model of the stored choice were changed after it "
                "was frozen: compare again, and use the new choice",
                argument="choice",
                code="changed",
                form="{name}: {problem}",
            )
        return made


def best_codebook(
    comparison: CodebookComparison,
    *,
    prefer: Prefer = "value",
    name: str | None = None,
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
    checked_comparison(comparison)
    checks.choice("prefer", prefer, PREFER)
    at = _chosen(comparison, prefer, name)
    own = comparison.candidates[at]
    tied = [comparison.names[i] for i in comparison.tied if i != at]
    if not comparison.is_tied(at):
        tied = []
    return CodebookChoice(
        name=own.name,
        hash=own.hash,
        content=own.codebook,
        settings=own.settings,
        model=own.model,
        measure=comparison.measure,
        value=own.value.value,
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
                f"must be one of {', '.join(map(repr, comparison.names))}, not "
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
        (own, i)
        for own, i in zip(seconds, comparison.tied, strict=True)
        if not math.isnan(own)
    ]
    return min(known)[1]


def checked_choice(given: object) -> CodebookChoice:
    """Return the argument if it is a choice, else raise a TypeError."""
    if not isinstance(given, CodebookChoice):
        raise ArgumentTypeError(
            f"must be the result of {call('best_codebook')}, not {checks.shown(given)}",
            argument="choice",
        )
    return given
