"""Models of the later steps of a coding, given as open objects or as paths."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.api.scoring import open_context
from llamaherd.hub.fetch import model_path
from llamaherd.model.model import Model
from llamaherd.run.context import Context

if TYPE_CHECKING:
    from contextlib import ExitStack

    from llamaherd.run.host import Host


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


def name_of(model: Model) -> str:
    """Return the name of a model's file."""
    return model.file.name
