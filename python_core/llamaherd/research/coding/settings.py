"""Checked settings of a coding."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from llamaherd.asks.annotate_options import AnnotateOptions, CodingSettings
from llamaherd.asks.scored_thoughts import check_n_thoughts
from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.sampling import MAX_TOKENS_OF_SCHEMA
from llamaherd.core.thinking import Thinking
from llamaherd.core.words import setting, words
from llamaherd.model.dates import template_date
from llamaherd.research.coding.step_settings import check_steps
from llamaherd.structured.quotable import QuoteRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.asks.annotate_options import Calibrate, Method, Split
    from llamaherd.asks.options import OnError
    from llamaherd.asks.scores import Normalize
    from llamaherd.core.thinking import ThinkingWanted
    from llamaherd.research.coding.codebook import Codebook


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Checked options of annotation that labels depend on; see `AnnotateOptions`.

    Attributes:
        method: "classify" or "generate".
        date: Date such as "2026-01-31"; None for prompts without a date.
        journal: Path of the journal; None for no journal.
        until: Number of texts that the model labels first; None for all.
        unsure: Share of the texts that a second model labels again.
        has_larger: True if a larger model labels the unsure texts again; False if the
            first model labels them again.
    """

    method: Method
    calibrate: Calibrate | None
    normalize: Normalize
    chat: bool
    date: str | None
    journal: str | None
    on_error: OnError
    split: Split | None
    part_tokens: int | None
    seed: int
    temperature: float
    max_tokens: int
    thinking: ThinkingWanted = None
    n_thoughts: int = 1
    variables: Mapping[str, object] | None = None
    template: str | None = None
    merge_system: bool = False
    evidence: QuoteRule | None = None
    distribution: bool = False
    until: int | None = None
    unsure: float = 0.0
    has_larger: bool = False

    @property
    def in_steps(self) -> bool:
        """True if several steps label the texts, see `until` and `larger`."""
        return self.until is not None or self.has_larger

    @property
    def thinks(self) -> bool:
        """True if the model writes a thought before each answer."""
        return isinstance(self.thinking, Thinking)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that affect labels, as JSON types."""
        quoted = {} if self.evidence is None else {"evidence": asdict(self.evidence)}
        shared = {
            "method": self.method,
            "chat": self.chat,
            **self._of_chat(),
            **quoted,
            **({} if self.date is None else {"date": self.date}),
            "split": self.split,
            "part_tokens": self.part_tokens,
        }
        if self.method == "classify":
            drawn: dict[str, Any] = {}
            if self.n_thoughts > 1:
                drawn = {"n_thoughts": self.n_thoughts, "seed": self.seed}
            scored = {"normalize": self.normalize, "calibrate": self.calibrate}
            if quoted:
                drawn |= {"temperature": self.temperature, "max_tokens": self.max_tokens}
                drawn["seed"] = self.seed
            return {**shared, **scored, **drawn}
        return {
            **shared,
            "seed": self.seed,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }

    def _of_chat(self) -> dict[str, Any]:
        """Return the settings of the chat template that differ from their defaults."""
        found: dict[str, Any] = {}
        if self.thinking is not None:
            wanted = self.thinking
            found["thinking"] = asdict(wanted) if wanted else False
        if self.variables is not None:
            found["variables"] = dict(self.variables)
        if self.template is not None:
            found["template"] = self.template
        if self.merge_system:
            found["merge_system"] = True
        return found


# Settings of `Settings.to_dict`, which `reproduce()` gives to `annotate` again. A report
# records the steps of a coding elsewhere.
RECORDED = frozenset(field.name for field in fields(Settings)) - {
    *("journal", "on_error", "distribution"),
    *("until", "unsure", "has_larger"),
}


def checked_settings(
    codebook: Codebook, model_name: str, settings: Mapping[str, Any]
) -> Settings:
    """Check the arguments of `annotate` that affect labels.

    Args:
        codebook: Codebook of the coding.
        model_name: Model name, used in the name of a journal.
        settings: Settings that the caller gave, see `CodingSettings`.

    Raises:
        TypeError: A setting has the wrong type, or does not exist.
        ValueError: A setting is out of range, or settings conflict.
    """
    given = AnnotateOptions.of(CodingSettings, settings)
    by_fields = codebook.kind.is_generated
    method: Method = "generate" if by_fields else "classify"
    if given.method != "auto":
        method = given.method
    if method == "classify" and by_fields:
        raise ArgumentError(
            f"{setting('method', 'classify')} needs labels; this codebook has fields",
            argument="method",
            code="missing",
            form="{problem}",
        )
    calibrate = given.calibrate
    if calibrate is not None and method == "generate":
        raise ArgumentError(
            f"needs probabilities, but {setting('method', 'generate')} gives none",
            argument="calibrate",
            code="missing",
        )
    if calibrate is not None and codebook.kind.is_several:
        raise ArgumentError(
            "needs one label per text: it assumes that labels are about equally frequent",
            argument="calibrate",
            code="conflict",
        )
    split = given.split
    if split == "mean" and method == "generate":
        raise ArgumentError(
            f"{setting('split', 'mean')} needs probabilities, but "
            f"{setting('method', 'generate')} gives none",
            argument="split",
            form="{problem}",
        )
    if split in ("majority", "mean") and by_fields:
        raise ArgumentError(
            f"{setting('split', split)} combines labels; "
            "for fields use 'first' or 'last'",
            argument="split",
            form="{problem}",
        )
    if given.part_tokens is not None and split is None:
        raise ArgumentError(
            "needs split, which selects the parts to use",
            argument="part_tokens",
            code="missing",
        )
    if given.distribution and not (codebook.kind.is_numeric and method == "classify"):
        raise ArgumentError(
            f"needs {setting('type', 'scale')} in the codebook and "
            f"{setting('method', 'classify')}, which gives each number a probability",
            argument="distribution",
            code="conflict",
        )
    _check_chat(given)
    _check_thoughts(given, method)
    check_steps(codebook, given, method, settings)
    evidence = None
    if given.evidence is not False:
        _check_evidence(codebook, split)
        evidence = QuoteRule.of(given.evidence, "evidence")
    return Settings(
        method=method,
        calibrate=calibrate,
        normalize=given.normalize,
        chat=given.chat,
        date=None if given.date is None else _day(given.date),
        journal=journal_path(
            given.journal,
            f"{codebook.hash[:12]}-{model_name.removesuffix('.gguf')}.journal",
        ),
        on_error=given.on_error,
        split=split,
        part_tokens=given.part_tokens,
        seed=given.seed,
        temperature=given.temperature,
        max_tokens=given.max_tokens,
        thinking=given.thinking,  # type: ignore[arg-type] # it was checked
        n_thoughts=given.n_thoughts,
        variables=given.variables,
        template=given.template,
        merge_system=given.merge_system,
        evidence=evidence,
        distribution=given.distribution,
        until=given.until,
        unsure=given.unsure,
        has_larger=given.larger is not None,
    )


def _check_chat(given: AnnotateOptions) -> None:
    """Check the settings of the chat template."""
    for name in ("thinking", "variables", "template", "merge_system"):
        value = getattr(given, name)
        if not given.chat and value not in (None, False):
            raise ArgumentError(
                f"needs {setting('chat', True)}: it has no effect without a template",
                argument=name,
                code="missing",
            )
    try:
        json.dumps(given.variables)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"must contain only JSON values, because they are recorded: {error}",
            argument="variables",
        ) from None


def _check_evidence(codebook: Codebook, split: Split | None) -> None:
    """Check that each text has one label, and that this label comes from one part."""
    if codebook.kind.is_several or codebook.kind.is_generated:
        problem = "a quote supports one label, but texts may have several"
        if codebook.kind.is_generated:
            problem = (
                f"use a field of the schema that is a quote such as {words().quote}, or "
                "the type 'spans'"
            )
        raise ArgumentError(
            f"cannot be combined with {setting('type', codebook.type)}: {problem}",
            argument="evidence",
            code="conflict",
        )
    if split in ("majority", "mean"):
        raise ArgumentError(
            f"cannot be combined with {setting('split', split)}, which combines the "
            "labels of all parts: use 'first' or 'last'",
            argument="evidence",
            code="conflict",
        )


def _check_thoughts(given: AnnotateOptions, method: Method) -> None:
    """Check the settings of thoughts."""
    if given.n_thoughts > 1 and method == "generate":
        raise ArgumentError(
            "averages probabilities over thoughts, but "
            f"{setting('method', 'generate')} gives no probabilities",
            argument="n_thoughts",
            code="conflict",
        )
    check_n_thoughts(given.thinking, given.n_thoughts)
    if given.calibrate == "contextual" and isinstance(given.thinking, Thinking):
        raise ArgumentError(
            "cannot be combined with thinking: a thought about a prompt without "
            "content is meaningless. Use 'batch'",
            argument="calibrate",
            code="conflict",
            form=f"{setting('calibrate', 'contextual')} {{problem}}",
        )


def idle_settings(codebook: Codebook, settings: Mapping[str, Any]) -> list[str]:
    """Return the given settings of generation that label scoring does not use."""
    method = settings.get("method", "auto")
    if method == "generate" or (method == "auto" and codebook.kind.is_generated):
        return []
    if settings.get("evidence", False) is not False:
        return []
    defaults = {"temperature": 0.0, "max_tokens": MAX_TOKENS_OF_SCHEMA}
    return [
        name for name, value in defaults.items() if settings.get(name, value) != value
    ]


def _day(given: object) -> str:
    return template_date(given).date().isoformat()


def journal_path(given: object, default: str) -> str | None:
    """Return the path of a journal.

    Args:
        given: The argument `journal`: a path, True for the default path, or None or False
            for no journal.
        default: The default path.

    Raises:
        TypeError: `given` is none of these.
    """
    if given is None or given is False:
        return None
    if given is True:
        return default
    if not isinstance(given, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"must be {words().constant(None)}, {words().constant(True)} or a path, not "
            f"{checks.shown(given)}",
            argument="journal",
        )
    return os.fspath(given)
