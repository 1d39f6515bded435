"""Checked settings of a coding."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from llamaherd.calls.asks.annotate_options import AnnotateOptions, Method
from llamaherd.calls.asks.keywords import CodingSettings
from llamaherd.calls.asks.options import THINKING, check_n_thoughts
from llamaherd.calls.chat.chat import template_date
from llamaherd.calls.run.host import Host
from llamaherd.calls.structured.quotable import QuoteRule
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import declares, option
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.sampling import MAX_TOKENS_OF_SCHEMA
from llamaherd.engine.core.thinking import Thinking, ThinkingWanted
from llamaherd.engine.core.values import Flag, Unchecked
from llamaherd.engine.core.words import name_of, setting, words
from llamaherd.engine.model.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.coding.annotation.codebook import Codebook


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
        is_recorded = {
            "always": True,
            "classify": self.method == "classify",
            "drawn": is_drawn,
        }
        changed = set(self.changed())
        content = {}
        for name, declared in self.declared.items():
            recorded = declared.facts.get("recorded", "changed")
            is_wanted = is_recorded.get(recorded, recorded and name in changed)
            if has_seed if name == "seed" else is_wanted:
                value = getattr(self, name)
                content[name] = _as_json(value)
        return content


def _as_json(value: object) -> object:
    return asdict(value) if isinstance(value, (Thinking, QuoteRule)) else value


# Options that other objects of a coding hold.
_ELSEWHERE = ("columns", "embeddings", "larger", "versions", "progress")
# Settings of `Settings.to_dict`, which `reproduce()` gives to `annotate` again. A report
# records the steps of a coding elsewhere.
RECORDED = frozenset(
    name
    for name, declared in AnnotateOptions.declared.items()
    if declared.facts.get("recorded", "changed")
)


def checked_settings(
    codebook: Codebook, model_name: str, settings: Mapping[str, Any]
) -> Settings:
    """Check the arguments of `annotate` that affect labels."""
    options = AnnotateOptions.of(CodingSettings, settings)
    method: Method = "generate" if codebook.kind.is_generated else "classify"
    if options.method != "auto":
        method = options.method
    _check_labels(codebook, options, method)
    _check_split(codebook, options, method)
    _check_chat(options, method)
    # R also passes default values
    _check_steps(codebook, options, method, settings.get("unsure", 0.1) != 0.1)
    is_quoted = options.evidence is not False
    kept = {
        name: getattr(options, name)
        for name in options.changed()
        if name not in _ELSEWHERE
    }
    return Settings(
        **{
            **kept,
            "method": method,
            "date": None if options.date is None else _day(options.date),
            "journal": journal_path(
                options.journal,
                f"{codebook.hash[:12]}-{model_name.removesuffix('.gguf')}.journal",
            ),
            "evidence": QuoteRule.of(options.evidence, "evidence") if is_quoted else None,
            "has_larger": options.larger is not None,
        }
    )


def _conflict(
    argument: str, code: str, problem: str, form: str = "{name} {problem}"
) -> ArgumentError:
    """Return the error about an option that does not go with others."""
    return ArgumentError(problem, argument=argument, code=code, form=form)


def _check_labels(codebook: Codebook, options: AnnotateOptions, method: Method) -> None:
    """Check the options of labels, of their probabilities and of their quotes."""
    kind, is_written = codebook.kind, method == "generate"
    classify, generate = setting("method", "classify"), setting("method", "generate")
    if kind.is_generated and not is_written:
        problem = f"{classify} needs labels; this codebook has fields"
        raise _conflict("method", "missing", problem, "{problem}")
    for name in options.changed():
        if is_written and name in ("calibrate", "normalize"):
            problem = f"needs probabilities, but {generate} gives none"
            raise _conflict(name, "missing", problem)
    if options.calibrate is not None and kind.is_several:
        problem = "needs one label per text: it assumes that labels are about equally "
        raise _conflict("calibrate", "conflict", f"{problem}frequent")
    if options.distribution and (is_written or not kind.is_numeric):
        problem = f"needs {setting('type', 'scale')} in the codebook and {classify}, "
        problem += "which gives each number a probability"
        raise _conflict("distribution", "conflict", problem)
    if options.evidence is not False and (kind.is_several or kind.is_generated):
        why = "a quote supports one label, but texts may have several"
        if kind.is_generated:
            quote = f"a field of the schema that is a quote such as {words().quote}"
            why = f"use {quote}, or the type 'spans'"
        problem = f"cannot be combined with {setting('type', codebook.type)}: {why}"
        raise _conflict("evidence", "conflict", problem)


def _check_split(codebook: Codebook, options: AnnotateOptions, method: Method) -> None:
    """Check that the parts of a text can be combined as `split` says."""
    split, has_passages, why = options.split, codebook.type == SPANS, ""
    if split in ("majority", "mean") and codebook.kind.is_generated:
        ways = "passages use 'all'" if has_passages else "fields use 'first' or 'last'"
        why = f"combines labels; for {ways}"
    if split == "mean" and method == "generate":
        why = f"needs probabilities, but {setting('method', 'generate')} gives none"
    if split == "all" and not has_passages:
        of_type = setting("type", codebook.type)
        why = f"takes the passages of all parts; {of_type} has no passages"
    if why:
        problem = f"{setting('split', split)} {why}"
        raise _conflict("split", "invalid_value", problem, "{problem}")
    if options.part_tokens is not None and split is None:
        problem = f"needs {name_of('split')}, which selects the parts to use"
        raise _conflict("part_tokens", "missing", problem)


def _check_chat(options: AnnotateOptions, method: Method) -> None:
    """Check the options of the chat template and of thoughts."""
    for name in ("thinking", "variables", "template", "merge_system"):
        if not options.chat and getattr(options, name) not in (None, False):
            chat = setting("chat", True)
            problem = f"needs {chat}: it has no effect without a template"
            raise _conflict(name, "missing", problem)
    try:
        json.dumps(options.variables)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"must contain only JSON values, because they are recorded: {error}",
            argument="variables",
        ) from None
    if options.n_thoughts > 1 and method == "generate":
        generate = setting("method", "generate")
        problem = f"averages probabilities over thoughts, but {generate} gives no "
        raise _conflict("n_thoughts", "conflict", f"{problem}probabilities")
    check_n_thoughts(options.thinking, options.n_thoughts)
    if options.calibrate == "contextual" and isinstance(options.thinking, Thinking):
        problem = f"cannot be combined with {name_of('thinking')}: a thought about a "
        problem += "prompt without content is meaningless. Use 'batch'"
        form = f"{setting('calibrate', 'contextual')} {{problem}}"
        raise _conflict("calibrate", "conflict", problem, form)


def _check_steps(
    codebook: Codebook, options: AnnotateOptions, method: Method, has_unsure: bool
) -> None:
    """Check the options of a coding in steps."""
    until, larger, kind = options.until, options.larger, codebook.kind
    if until is not None and options.embeddings is None:
        problem = "must be a model for embeddings, or the path of its file: "
        problem += f"{name_of('until')} needs one"
        raise _conflict("embeddings", "missing", problem)
    if until is None and options.embeddings is not None:
        problem = f"needs {name_of('until')}, the number of texts that the model labels"
        raise _conflict("embeddings", "missing", problem)
    if larger is not None and options.unsure == 0:
        problem = f"is 0, so that {name_of('larger')} has no texts to label"
        raise _conflict("unsure", "out_of_range", problem)
    if until is None and larger is None:
        if has_unsure:
            problem = f"needs {name_of('until')} or {name_of('larger')}: without "
            problem += "them, the model labels all texts once"
            raise _conflict("unsure", "missing", problem)
        return
    _check_model("embeddings", options.embeddings, (Host, Model))
    _check_model("larger", larger, (Host,))
    if kind.is_several or kind.is_generated or method == "generate":
        problem = "needs probabilities of one label per text: a codebook of the type "
        problem += f"'label', 'ordinal' or 'scale' and {setting('method', 'classify')}"
        raise _conflict("larger" if until is None else "until", "unsupported", problem)
    if options.evidence is not False:
        why = f"{name_of('until')}: a head on embeddings writes no quotes"
        if until is None:
            why = "larger: quote the labels of one model"
        raise _conflict("evidence", "conflict", f"cannot be combined with {why}")
    if options.calibrate == "batch" and larger is not None:
        problem = f"cannot be combined with {setting('calibrate', 'batch')}, which is "
        problem += "fitted to all texts; the larger model codes only the unsure texts. "
        raise _conflict("larger", "conflict", f"{problem}Use 'contextual'")


def _check_model(name: str, value: object, kinds: tuple[type, ...]) -> None:
    """Check that a value can be a model; a `Llama` is checked later, when it is used."""
    is_path = isinstance(value, (str, os.PathLike)) and os.fspath(value) != ""
    if value is None or is_path or isinstance(value, kinds):
        return
    if not hasattr(value, "create_completion"):
        what = "context" if name == "larger" else "model for embeddings"
        raise ArgumentTypeError(
            f"must be a {what} or the path of a model file, not {checks.brief(value)}",
            argument=name,
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


def _day(date: object) -> str:
    return template_date(date).date().isoformat()


def journal_path(journal: object, default: str) -> str | None:
    """Return the path of a journal."""
    if journal is None or journal is False:
        return None
    if journal is True:
        return default
    expected = f"{words().constant(None)}, {words().constant(True)} or a path"
    path: str = os.fspath(
        checks.instance("journal", journal, (str, os.PathLike), expected)
    )
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
