"""Embeddings of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from llamaherd.calls.api.embed import prepare_embed
from llamaherd.calls.api.running import run_to_end
from llamaherd.calls.structured.columns import STRING, VECTOR, Column
from llamaherd.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.keywords import EmbedSettings
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.embedding import EmbedCall, Embeddings
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.job import Runnable
    from llamaherd.engine.model.model import Model
    from llamaherd.tasks.task import Cells, Keep, Report


@dataclass(frozen=True)
class Embed(Task["Embeddings"]):
    """Embeddings of texts."""

    settings: EmbedSettings  # arguments of `embed_parallel`
    is_journalled: ClassVar[bool] = False

    @property
    def columns(self) -> dict[str, Column]:
        """Return the types of the columns by role."""
        return {"embedding": VECTOR, "error": STRING}

    def requests(
        self,
        host: Host | Model,
        texts: Sequence[str],
        places: Sequence[int],  # noqa: ARG002 - no random draws
        journal: Journal | None,  # noqa: ARG002 - journals hold no vectors
    ) -> Runnable[Embeddings]:
        """Create the call for some texts, for a `Job` to run."""
        return prepare_embed(host, texts, self.settings)

    def answer(
        self,
        host: Host | Model,
        texts: Sequence[str],
        places: Sequence[int],
        *,
        journal: Journal | None = None,
        report: Report = False,
        keep: Keep | None = None,
    ) -> Cells:
        """Compute the vectors of some texts, see `Task.answer`."""
        if keep is None:
            return super().answer(host, texts, places, journal=journal, report=report)
        store = keep
        works: list[EmbedCall] = []

        def prepare() -> EmbedCall:
            works.append(prepare_embed(host, texts, self.settings))
            return works[0]

        def finished() -> dict[int, list[object]]:
            return {i: [own, None] for i, own in works[0].take_new().items()}

        def watch(progress: object) -> None:
            store(finished)
            if report:
                report(progress)

        return self.rows(run_to_end(prepare, watch))

    def rows(self, results: Embeddings) -> Cells:
        """Return the cells of each column."""
        pairs = zip(results.vectors, results.errors, strict=True)
        return {
            "embedding": [vector if error is None else None for vector, error in pairs],
            "error": results.errors,
        }
