"""Work of a job that computes embeddings with one model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from llamaherd.calls.run.job import Job
from llamaherd.engine.core.embeddings import Embeddings
from llamaherd.engine.core.errors import ModelClosedError
from llamaherd.engine.core.keeping import keep_made
from llamaherd.engine.core.table import index_of, set_index

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import numpy as np

    from llamaherd.calls.run.embedding import EmbedCall, Embedder, EmbedSizes
    from llamaherd.engine.core.embeddings import EmbedProgress

    Vector = np.ndarray[Any, np.dtype[np.float32]]


class VectorModel(Protocol):
    """Model that computes vectors, here or elsewhere."""

    def register(self, user: EmbedWork) -> None:
        """Close this user when the model is closed."""

    def using(self) -> AbstractContextManager[object]:
        """Let the end of the model wait for the end of the block."""
        ...


class EmbedWork:
    """Work of an `EmbedJob`: texts, their model, and the embedder.

    Args:
        model: Embedding model. Closing the model ends the work.
        call: Call with the texts.
        lend: Function that lends the embedder, called on the job's thread.
        sizes: Maximum numbers of tokens and texts that are computed together.
        texts: Texts as the caller gave them; the result gets the index of a Series.
        n_embd: Function that returns the number of dimensions of a vector.

    Raises:
        ModelClosedError: The model was closed.
    """

    problem = ""

    def __init__(
        self,
        model: VectorModel,
        call: EmbedCall,
        lend: Callable[[], AbstractContextManager[Embedder]],
        sizes: EmbedSizes,
        texts: object = None,
        *,
        n_embd: Callable[[], int],
    ) -> None:
        self._index = index_of(texts)
        self._model = model
        self._call = call
        self._lend = lend
        self._n_embd = n_embd
        self._sizes = sizes
        self._was_closed = False
        self._has_ended = False
        model.register(self)

    @property
    def progress(self) -> EmbedProgress:
        """Progress: number of texts that have a vector or have failed."""
        return self._call.progress

    def take_new(self) -> dict[int, Vector]:
        """Returns the vectors computed since the last call, float32, by index."""
        import numpy as np  # noqa: PLC0415 - calls that generate do without it

        return {
            i: np.array(each, np.float32) for i, each in self._call.take_new().items()
        }

    def cancel(self) -> None:
        """Ends the work soon; vectors computed so far are kept."""
        self._call.cancel()

    def close(self) -> None:
        """Ends the work without results, as if its model were closed."""
        self._was_closed = True
        self._call.cancel()

    @property
    def closed(self) -> bool:
        """Whether the work was closed and computes nothing any more."""
        return self._has_ended or self._was_closed

    def run(self) -> Embeddings:
        """Computes the vectors.

        Raises:
            ModelLoadError: The model computes no vectors of texts.
            ModelClosedError: The model was closed.
            ContextError: There is not enough memory.
        """
        try:
            self._compute()
        except Exception as error:
            progress = self._call.progress
            if progress.n_done > progress.n_failed:
                keep_made(error, self._embeddings)
            raise
        finally:
            self._has_ended = True
        return self._embeddings()

    def _compute(self) -> None:
        with self._model.using():  # closing the model waits for this release
            self._call.run(self._n_embd(), self._lend, self._sizes)
        if self._was_closed:
            raise ModelClosedError("the model was closed during the call")

    def _embeddings(self) -> Embeddings:
        import numpy as np  # noqa: PLC0415 - calls that generate do without it

        vectors, n_embd = self._call.vectors()
        rows = np.frombuffer(vectors, dtype=np.float32).reshape(-1, n_embd)
        made = Embeddings(rows, self._call.errors, self._call.stats)
        set_index(made, self._index)
        return made


class EmbedJob(Job[Embeddings]):
    """The `Job` of `start_embed`; its results are `Embeddings`."""

    _work: EmbedWork

    def close(self) -> None:
        """Ends the job without results, as if its model were closed."""
        self._work.close()
