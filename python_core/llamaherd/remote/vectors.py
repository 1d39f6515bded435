"""Vectors of texts from an engine elsewhere."""

from __future__ import annotations

from array import array
from contextlib import nullcontext
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.chat.conversations import Refused, prompts_or_refusals
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.embedding import EmbedCall, EmbedSizes, Text
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import Failure, NativeError, ServerError
from llamaherd.engine.core.table import index_of
from llamaherd.remote.request import SentRequest, as_json, content_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.asks.options import EmbedOptions
    from llamaherd.engine.core.results import Result
    from llamaherd.remote.loop import EngineLoop

EMBEDDINGS = "/embeddings"
_MOST_TEXTS = 64  # texts of one request
_MOST_BYTES = 200_000  # bytes of the texts of one request


def embedding_call(
    embedder: RemoteEmbedder, texts: object, options: EmbedOptions
) -> EmbedCall:
    """Return the call that computes vectors of texts, whose tokens are their bytes."""
    prepared = [
        _text(i, text) for i, text in enumerate(prompts_or_refusals(texts, "texts", ""))
    ]
    has_texts = any(text.tokens for text in prepared)
    n_texts = 1 if options.deterministic else _MOST_TEXTS
    return EmbedCall(
        prepared,
        lambda: nullcontext(embedder),
        EmbedSizes(n_batch=_MOST_BYTES, n_ctx=_MOST_BYTES, n_texts=n_texts),
        pooling=options.pooling,
        n_embd=lambda: embedder.n_embd if has_texts else 0,
        index=index_of(texts),
    )


def _text(i: int, value: object) -> Text:
    if isinstance(value, Refused):
        return Text(tokens=array("i"), problem=value.failure)
    is_empty = isinstance(value, list) and not value  # as R sends a missing text
    text = "" if is_empty else checks.text(Argument("texts", (i,)), value)
    if not text.strip():
        return Text(tokens=array("i"), problem=Failure("the text is empty", "empty"))
    return Text(tokens=array("i", list(text.encode())))


class RemoteEmbedder:
    """Embedder that sends groups of texts to an engine, see `Embedder`."""

    def __init__(
        self,
        loop: EngineLoop,
        content: Mapping[str, Any],
        n_at_once: int,
        *,
        is_scaled: bool,
    ) -> None:
        self._loop, self._content, self._is_scaled = loop, content, is_scaled
        self.n_at_once = n_at_once
        self._lock = Lock()  # guards the next two attributes
        self._calls: set[Call] = set()
        self._is_aborted = False

    @cached_property
    def n_embd(self) -> int:
        """Number of dimensions, of the vector of a short text."""
        result = self._result(["text"])
        if result.scores is None:
            raise ServerError(f"the engine computes no vectors: {result.error}")
        return len(result.scores)

    def run(self, texts: Sequence[array[int]]) -> array[float]:
        result = self._result([bytes(text.tolist()).decode() for text in texts])
        if result.scores is None:
            raise NativeError(result.error or "the call was cancelled", 0)
        n = self.n_embd
        if len(result.scores) != n * len(texts):
            raise NativeError("the engine returned vectors of different sizes", 0)
        vectors = np.reshape(result.scores, (len(texts), n))
        if self._is_scaled:
            with np.errstate(over="ignore"):  # the server may send any number
                lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.where(lengths > 0, lengths, 1.0)
        return array("f", vectors.ravel())

    def abort(self) -> None:
        with self._lock:
            self._is_aborted = True
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    def _result(self, texts: list[str]) -> Result:
        content = as_json({**self._content, "input": texts})
        request = SentRequest(
            tokens=content_hash(EMBEDDINGS, content),
            max_tokens=1,
            path=EMBEDDINGS,
            content=content,
            n_inputs=len(texts),
        )
        call = Call([request], seed=0)
        with self._lock:
            if self._is_aborted:
                raise NativeError("the call was cancelled", 0)
            self._calls.add(call)
        try:
            return call.run(self._loop)[0]
        finally:
            with self._lock:
                self._calls.discard(call)
