"""Checked settings of a coding."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.keywords import CodingSettings
from llamaherd.calls.asks.options import THINKING
from llamaherd.calls.asks.thoughts import check_n_thoughts
from llamaherd.calls.chat.chat import template_date
from llamaherd.calls.structured.quotable import QuoteRule
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.annotation.step_settings import check_steps
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import declares, option
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.sampling import MAX_TOKENS_OF_SCHEMA
from llamaherd.engine.core.thinking import Thinking
from llamaherd.engine.core.values import Flag, Unchecked
from llamaherd.engine.core.words import setting, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.calls.asks.annotate_options import Method
    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.engine.core.thinking import ThinkingWanted


@declares
class Settings(AnnotateOptions):
    """Checked options of annotation, in the form in which a coding uses them."""

    method: Method = option(
        Unchecked({}), default="classify", recorded="always", doc="Method of coding."
    )
    thinking: ThinkingWanted = option(THINKING, default=None, doc="Thought, if any.")
    date: str | None = option(
        Unchecked({}), default=None, doc="Date of prompts, such as 2026-01-31."
    )
    journal: str | None = option(
        Unchecked({}), default=None, recorded="", doc="Path of the journal."
    )
    evidence: QuoteRule | None = option(  # type: ignore[assignment] # from True or a dict
        Unchecked({}), default=None, doc="Length of quotes."
    )
    has_larger: bool = option(
        Flag(), default=False, recorded="", doc="Whether another model labels again."
    )

    @property
    def in_steps(self) -> bool:
        """True if several steps label the texts, see `until` and `larger`."""
        return self.until is not None or self.has_larger

    @property
    def thinks(self) -> bool:
        """True if the model writes a thought before each answer."""
        return isinstance(self.thinking, Thinking)

    @property
    def rendering(self) -> dict[str, Any]:
        """Options of the chat template, as arguments of `prompt_preview`."""
        names = ("chat", "thinking", "variables", "template", "merge_system")
        return {name: getattr(self, name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that affect labels, as JSON types."""
        is_drawn = self.method == "generate" or self.evidence is not None
        has_seed = is_drawn or self.n_thoughts > 1
        wanted = {
            "always": True,
            "classify": self.method == "classify",
            "drawn": is_drawn,
        }
        changed = set(self.changed())
        found = {}
        for name, each in self.declared.items():
            recorded = each.facts.get("recorded", "changed")
            is_wanted = wanted.get(recorded, recorded and name in changed)
            if has_seed if name == "seed" else is_wanted:
                value = getattr(self, name)
                found[name] = _as_json(value)
        return found


def _as_json(value: object) -> object:
    return asdict(value) if isinstance(value, (Thinking, QuoteRule)) else value


# Options that other objects of a coding hold.
_ELSEWHERE = ("columns", "embeddings", "larger", "versions", "progress")
# Settings of `Settings.to_dict`, which `reproduce()` gives to `annotate` again. A report
# records the steps of a coding elsewhere.
RECORDED = frozenset(
    name
    for name, each in AnnotateOptions.declared.items()
    if each.facts.get("recorded", "changed")
)


def checked_settings(
    codebook: Codebook, model_name: str, settings: Mapping[str, Any]
) -> Settings:
    """Check the arguments of `annotate` that affect labels."""
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
    _check_split(given, codebook, method)
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
        _check_evidence(codebook)
        evidence = QuoteRule.of(given.evidence, "evidence")
    kept = {
        name: getattr(given, name) for name in given.changed() if name not in _ELSEWHERE
    }
    return Settings(
        **{
            **kept,
            "method": method,
            "date": None if given.date is None else _day(given.date),
            "journal": journal_path(
                given.journal,
                f"{codebook.hash[:12]}-{model_name.removesuffix('.gguf')}.journal",
            ),
            "evidence": evidence,
            "has_larger": given.larger is not None,
        }
    )


def _check_split(given: AnnotateOptions, codebook: Codebook, method: Method) -> None:
    """Check that the parts of a text can be combined as `split` says."""
    split = given.split
    if split == "mean" and method == "generate":
        raise ArgumentError(
            f"{setting('split', 'mean')} needs probabilities, but "
            f"{setting('method', 'generate')} gives none",
            argument="split",
            form="{problem}",
        )
    has_passages = codebook.type == SPANS
    if split in ("majority", "mean") and codebook.kind.is_generated:
        ways = "passages use 'all'" if has_passages else "fields use 'first' or 'last'"
        raise ArgumentError(
            f"{setting('split', split)} combines labels; for {ways}",
            argument="split",
            form="{problem}",
        )
    if split == "all" and not has_passages:
        raise ArgumentError(
            f"{setting('split', 'all')} takes the passages of all parts; "
            f"{setting('type', codebook.type)} has no passages",
            argument="split",
            form="{problem}",
        )
    if given.part_tokens is not None and split is None:
        raise ArgumentError(
            "needs split, which selects the parts to use",
            argument="part_tokens",
            code="missing",
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


def _check_evidence(codebook: Codebook) -> None:
    """Check that each text has one label."""
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
    """Return the path of a journal."""
    if given is None or given is False:
        return None
    if given is True:
        return default
    wanted = f"{words().constant(None)}, {words().constant(True)} or a path"
    path: str = os.fspath(checks.instance("journal", given, (str, os.PathLike), wanted))
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingWork:
    """Texts to code, with codebook and settings."""

    frame: Any
    text: str
    texts: list[str | None]
    codebook: Codebook
    settings: Settings
    columns: dict[str, str]
    versions: Mapping[str, str] = field(default_factory=dict)
    # These rows are part of a larger data set whose other rows are unknown: each prompt's
    # seed is derived from its text instead of its index.
    is_piece: bool = False
