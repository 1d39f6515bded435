"""Coding step of a classifier on embeddings (head), block by block.

The embeddings of a block are discarded once its texts are labelled. For a million texts,
memory therefore holds all probabilities, but the embeddings of one block only.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llamaherd.calls.api.embed import prepare_embed
from llamaherd.calls.journal.entry import JournalEntry
from llamaherd.calls.journal.journal import VERSION
from llamaherd.calls.run.embedding import EmbedJob
from llamaherd.calls.run.host import Host
from llamaherd.coding.statistics.heads import TextHead, text_head
from llamaherd.engine.core.errors import ArgumentError, JournalError
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.model.file import content_of
from llamaherd.engine.model.model import Model, model_of_llama

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.calls.asks.calibration import Floats
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.embedding import EmbedProgress

BLOCK = 4096  # texts whose embeddings are in memory at once
_LEAST = 30  # least number of labelled texts with an embedding to fit a head


class StepLabels(NamedTuple):
    """Probabilities of a block of texts: float64[n, k], NaN without an embedding."""

    start: int  # position of the block's first text
    probs: Floats
    is_stored: bool  # in the journal


class HeadStep:
    """Computes embeddings of texts, and fits and applies a head on them.

    Args:
        embedder: `Model`, context or `Llama` for embeddings.
        journal: Journal, already open, that stores the head and the labels; None for no
            journal.
        seed: Seed of the head's folds.

    Attributes:
        model: Model of the embeddings.
        problem: Reason why a result was not stored; "" if all were stored.
    """

    def __init__(self, embedder: Any, journal: Journal | None, seed: int) -> None:  # noqa: ANN401 - of three kinds
        self._embedder = embedder
        self.model = model_of(embedder)
        self._journal = journal
        self._seed = seed
        self.problem = ""
        self._job: EmbedJob | None = None
        self._is_cancelled = False
        self._key = b""

    @property
    def progress(self) -> EmbedProgress | None:
        """Progress of the running block; None between blocks."""
        job = self._job
        return None if job is None else job.progress

    def cancel(self) -> None:
        """End the step soon; callable from any thread."""
        self._is_cancelled = True
        job = self._job
        if job is not None:
            job.cancel()

    def fit(self, texts: Sequence[str], probs: Floats) -> TextHead | None:
        """Fit the head, or read it from the journal.

        Args:
            texts: Texts that the model labelled.
            probs: float64[n, k], label probabilities from the model; NaN for failed
                texts.
        """
        good = np.asarray(np.isfinite(probs).all(axis=1))
        self._key = self._hashed(texts, probs.tobytes(), str(self._seed).encode())
        stored = self._found(self._key)
        if stored is not None and stored.text:
            try:
                return TextHead.from_dict(json.loads(stored.text))
            except DAMAGED as error:
                text = f"journal: the head stored in it is damaged: {error}"
                raise JournalError(text) from error
        kept = [text for text, ok in zip(texts, good, strict=True) if ok]
        vectors = self._vectors(kept)
        if vectors is None:
            return None
        fine = np.isfinite(vectors).all(axis=1)
        if fine.sum() < _LEAST:
            raise ArgumentError(
                f"must leave at least {_LEAST} texts with a label and an embedding to "
                f"fit the head to, not {int(fine.sum())}: see the errors of the texts",
                argument="until",
                code="too_few_texts",
            )
        rng = np.random.default_rng(self._seed)
        head = text_head(vectors[fine], probs[good][fine], rng)
        self._store(self._key, "a head on embeddings", json.dumps(head.to_dict()), ())
        return head

    def blocks(self, head: TextHead, texts: Sequence[str]) -> Iterator[StepLabels]:
        """Label texts and yield the labels block by block; ends early if cancelled."""
        k = head.head.coefficients.shape[1]
        for start in range(0, len(texts), BLOCK):
            own = texts[start : start + BLOCK]
            key = self._hashed(own, self._key)
            stored = self._found(key)
            if stored is not None and len(stored.numbers) == k * len(own):
                probs = np.array(stored.numbers).reshape(-1, k)
                yield StepLabels(start=start, probs=probs, is_stored=True)
                continue
            vectors = self._vectors(own)
            if vectors is None:
                return
            probs = np.full((len(own), k), np.nan)
            fine = np.isfinite(vectors).all(axis=1)
            probs[fine] = head.probs(vectors[fine])
            name = f"{count_of(len(own), 'text')} labelled by a head on embeddings"
            self._store(key, name, "", tuple(probs.ravel().tolist()))
            yield StepLabels(start=start, probs=probs, is_stored=False)

    # ---- private ----

    def _vectors(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - float32[n, d] or None
        """Return embeddings, float32[n, d]; None if cancelled."""
        work = prepare_embed(self._embedder, list(texts), {"truncate": True})
        self._job = EmbedJob(work)
        if self._is_cancelled:
            self._job.cancel()
        try:
            found = self._job.outcome()
        finally:
            self._job = None
        return None if self._is_cancelled else found.vectors

    def _hashed(self, texts: Sequence[str], *more: bytes) -> bytes:
        """Return a hash of texts, the model and further bytes."""
        sha256 = ""
        loras: Any = []
        if self._journal is not None:
            found = content_of(self.model.file, self.model.loras)
            if found is None:
                raise JournalError(
                    "journal: the file of the model for embeddings, or of an adapter, "
                    "has changed since it was loaded: load it again"
                )
            sha256, loras = found
        content = ["llamaherd head", 1, sha256, len(texts), *([loras] if loras else [])]
        head = json.dumps(content)
        digest = hashlib.sha256(head.encode())
        for text in texts:
            digest.update(hashlib.sha256(text.encode()).digest())
        for each in more:
            digest.update(hashlib.sha256(each).digest())
        return digest.digest()

    def _found(self, key: bytes) -> JournalEntry | None:
        return None if self._journal is None else self._journal.find(key)

    def _store(
        self, key: bytes, name: str, text: str, numbers: tuple[float, ...]
    ) -> None:
        file = self.model.file
        if self._journal is None:
            return
        entry = JournalEntry(
            prompt=name,
            text=text,
            finish_reason="stop",
            complete=True,
            error=None,
            n_prompt_tokens=0,
            tokens=[],
            seed=0,
            model=file.name,
            model_sha256=(file.sha256() or b"").hex(),
            settings=json.dumps({"head": 1}),
            created=datetime.now(UTC),
            version=VERSION,
            key=key.hex(),
            numbers=numbers,
        )
        try:
            self._journal.add([entry])
        # only the storage failed; the labels exist
        except (sqlite3.Error, JournalError) as error:
            self.problem = f"{name} could not be stored in {self._journal.path}: {error}"


def model_of(embedder: Any) -> Model:  # noqa: ANN401 - of three kinds
    """Return the model of an embedder."""
    if isinstance(embedder, Model):
        return embedder
    if isinstance(embedder, Host):
        return embedder.model
    return model_of_llama(embedder)
