"""Checks of the settings of a coding in steps, such as `until` and `larger`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.calls.api.running import open_context
from llamaherd.calls.run.context import Context
from llamaherd.calls.run.host import Host
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.words import setting
from llamaherd.engine.hub.fetch import model_path
from llamaherd.engine.model.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from llamaherd.calls.asks.annotate_options import AnnotateOptions, Method
    from llamaherd.coding.annotation.codebook import Codebook


def check_steps(
    codebook: Codebook,
    given: AnnotateOptions,
    method: Method,
    settings: Mapping[str, object],
) -> None:
    """Check the settings of a coding in steps."""
    _check_together(given, settings)
    if given.until is None and given.larger is None:
        return
    _check_model("embeddings", given.embeddings, (Host, Model))
    _check_model("larger", given.larger, (Host,))
    name = "larger" if given.until is None else "until"
    if codebook.kind.is_several or codebook.kind.is_generated or method == "generate":
        raise ArgumentError(
            "needs probabilities of one label per text: a codebook of the type 'label', "
            f"'ordinal' or 'scale' and {setting('method', 'classify')}",
            argument=name,
            code="unsupported",
        )
    if given.evidence is not False and given.until is not None:
        raise ArgumentError(
            "cannot be combined with until: a head on embeddings writes no quotes",
            argument="evidence",
            code="conflict",
        )
    if given.evidence is not False:
        raise ArgumentError(
            "cannot be combined with larger: quote the labels of one model",
            argument="evidence",
            code="conflict",
        )
    if given.calibrate == "batch" and given.larger is not None:
        raise ArgumentError(
            f"cannot be combined with {setting('calibrate', 'batch')}, which is "
            "fitted to all texts; the larger model codes only the unsure texts. "
            "Use 'contextual'",
            argument="larger",
            code="conflict",
        )


def _check_together(given: AnnotateOptions, settings: Mapping[str, object]) -> None:
    """Check that each setting is given together with the settings that it requires."""
    if given.until is not None and given.embeddings is None:
        raise ArgumentError(
            "must be a model for embeddings, or the path of its file: until needs one",
            argument="embeddings",
            code="missing",
        )
    if given.until is None and given.embeddings is not None:
        raise ArgumentError(
            "needs until, the number of texts that the model labels",
            argument="embeddings",
            code="missing",
        )
    is_default = settings.get("unsure", 0.1) == 0.1  # R also passes default values
    if given.until is None and given.larger is None and not is_default:
        raise ArgumentError(
            "needs until or larger: without them, the model labels all texts once",
            argument="unsure",
            code="missing",
        )
    if given.larger is not None and given.unsure == 0:
        raise ArgumentError(
            "is 0, so that larger has no texts to label",
            argument="unsure",
            code="out_of_range",
        )


def _check_model(name: str, value: object, kinds: tuple[type, ...]) -> None:
    """Check that a value can be a model; a `Llama` is checked later, when it is used."""
    if value is None or isinstance(value, kinds) or hasattr(value, "create_completion"):
        return
    if isinstance(value, (str, os.PathLike)) and os.fspath(value):
        return
    what = "context" if name == "larger" else "model for embeddings"
    raise ArgumentTypeError(
        f"must be a {what} or the path of a model file, not {checks.shown(value)}",
        argument=name,
    )


@dataclass(frozen=True, slots=True)
class StepModels:
    """Models of later steps, as passed by the caller.

    Attributes:
        embeddings: Model for embeddings or path of its file; None without a head.
        larger: Context of the larger model or path of its file; None without a larger
            model.
    """

    embeddings: Any
    larger: Any

    def opened_embeddings(self, stack: ExitStack) -> Any:  # noqa: ANN401 - a model, context or Llama
        """Return the model for embeddings, loaded if it was given as a path."""
        if not isinstance(self.embeddings, (str, os.PathLike)):
            return self.embeddings
        path = model_path(self.embeddings, check_memory=True, name="embeddings")
        return stack.enter_context(Model(path))

    def opened_larger(self, stack: ExitStack) -> Host | None:
        """Return the context of the larger model, opened if it was given as a path."""
        if self.larger is None:
            return None
        if not isinstance(self.larger, (str, os.PathLike)):
            return open_context(self.larger)
        path = model_path(self.larger, check_memory=True, name="larger")
        return stack.enter_context(Context(stack.enter_context(Model(path))))
