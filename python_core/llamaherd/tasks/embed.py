"""Embeddings of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from llamaherd.calls.api.embed import prepare_embed
from llamaherd.calls.structured.columns import STRING, VECTOR, Column
from llamaherd.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.keywords import EmbedSettings
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.embedding import Embeddings
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.job import Runnable
    from llamaherd.engine.model.model import Model
    from llamaherd.tasks.task import Cells


@dataclass(frozen=True)
class Embed(Task["Embeddings"]):
    """Embeddings of texts."""

    settings: EmbedSettings  # arguments of `embed_parallel`
    is_journalled: ClassVar[bool] = False

    @property
    def columns(self) -> dict[str, Column]:
        return {"embedding": VECTOR, "error": STRING}

    def requests(
        self,
        host: Host | Model,
        texts: Sequence[str],
        places: Sequence[int],  # noqa: ARG002 - no random draws
        journal: Journal | None,  # noqa: ARG002 - journals hold no vectors
    ) -> Runnable[Embeddings]:
        return prepare_embed(host, texts, self.settings)

    def rows(self, results: Embeddings) -> Cells:
        pairs = zip(results.vectors, results.errors, strict=True)
        return {
            "embedding": [vector if error is None else None for vector, error in pairs],
            "error": results.errors,
        }
