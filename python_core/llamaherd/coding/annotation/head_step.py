"""Coding step of a classifier on embeddings (head), block by block.

The embeddings of a block are discarded once its texts are labelled. For a million texts,
memory therefore holds all probabilities, but the embeddings of one block only.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.api.embed import model_of, prepare_embed
from llamaherd.calls.journal.entry import JournalEntry
from llamaherd.calls.journal.journal import VERSION
from llamaherd.calls.run.embedding import EmbedJob
from llamaherd.coding.annotation.answers import Answers
from llamaherd.coding.annotation.steps import HEAD, Step, fields_of, n_unsure
from llamaherd.coding.statistics.heads import TextHead, text_head
from llamaherd.engine.core.errors import CANCELLED, ArgumentError, JournalError
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.model.file import content_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.annotation.call_sequence import CallSequence
    from llamaherd.coding.annotation.model_step import ModelStep
    from llamaherd.coding.annotation.settings import CodingWork
    from llamaherd.engine.core.arrays import Floats, Ints

BLOCK = 4096  # texts whose embeddings are in memory at once
_LEAST = 30  # least number of labelled texts with an embedding to fit a head


class HeadStep(Step):
    """Labels by a head, which is fitted to the labels of the step `first`."""

    def __init__(
        self,
        calls: CallSequence,
        embedder: Any,
        first: ModelStep,
        work: CodingWork,
        *,
        at: Ints,
        texts: list[str],
    ) -> None:
        super().__init__(HEAD, at, texts, work)
        self.model = model_of(embedder)
        self._calls = calls
        self._embedder = embedder
        self._first = first
        self._settings = work.settings
        self._job: EmbedJob | None = None

    @property
    def by(self) -> str:
        """Name of the file of the model for embeddings."""
        return self.model.file.name

    def cancel(self) -> None:
        """End the step soon; callable from any thread."""
        job = self._job
        if job is not None:
            job.cancel()

    def run(self) -> None:
        """Fit the head and let it label the texts."""
        start = time.perf_counter()
        probs = self._first.judged.probs
        assert probs is not None  # noqa: S101 - see settings.py
        key = self._hash_texts(
            self._first.texts, probs.tobytes(), str(self._settings.seed).encode()
        )
        head = self._fit_head(key, probs)
        if head is None:
            return
        fitted_s = round(time.perf_counter() - start, 3)
        try:
            self._run_blocks(key, head)
        finally:
            self.facts = {"seconds_fit": fitted_s, **self._facts_of(head)}

    # ---- private ----

    def _fit_head(self, key: bytes, probs: Floats) -> TextHead | None:
        """Fit the head, or read it from the journal; None if cancelled."""
        stored = self._stored_entry(key)
        if stored is not None and stored.text:
            try:
                return TextHead.from_dict(json.loads(stored.text))
            except DAMAGED as error:
                text = f"journal: the head stored in it is damaged: {error}"
                raise JournalError(text) from error
        good = np.isfinite(probs).all(axis=1)
        kept = [self._first.texts[i] for i in np.flatnonzero(good).tolist()]
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
        rng = np.random.default_rng(self._settings.seed)
        head = text_head(vectors[fine], probs[good][fine], rng)
        self._store(key, "a head on embeddings", json.dumps(head.to_dict()), ())
        return head

    def _run_blocks(self, key_of_head: bytes, head: TextHead) -> None:
        """Label the texts block by block; ends early if cancelled."""
        k = head.head.coefficients.shape[1]
        for start in range(0, len(self.texts), BLOCK):
            texts = self.texts[start : start + BLOCK]
            key = self._hash_texts(texts, key_of_head)
            stored = self._stored_entry(key)
            if stored is not None and len(stored.numbers) == k * len(texts):
                probs = np.array(stored.numbers).reshape(-1, k)
                self.n_journal += len(texts)
            else:
                vectors = self._vectors(texts)
                if vectors is None:
                    return
                probs = np.full((len(texts), k), np.nan)
                fine = np.isfinite(vectors).all(axis=1)
                probs[fine] = head.probs(vectors[fine])
                name = f"{count_of(len(texts), 'text')} labelled by a head on embeddings"
                self._store(key, name, "", tuple(probs.ravel().tolist()))
            missing = np.isnan(probs).any(axis=1).tolist()
            errors: list[str | None] = [
                CANCELLED if is_missing else None for is_missing in missing
            ]
            self.put(start, Answers(errors=errors, probs=probs))
            self._calls.count(len(texts))

    def _facts_of(self, head: TextHead) -> dict[str, Any]:
        """Describe the head and its labels, for the record."""
        probs = self.answers.probs
        assert probs is not None  # noqa: S101 - see settings.py
        known = np.sort(probs[~np.isnan(probs).any(axis=1)].max(axis=1))
        n_none = len(probs) - len(known)
        n_again = n_unsure(probs, self._settings.unsure) - n_none
        least = float(known[n_again]) if n_again < len(known) else np.inf
        return {
            "n_failed": n_none,
            "penalty": head.head.penalty,
            "agreement": fields_of(head.agreement()),
            "agreement_sure": fields_of(head.agreement(least)),
        }

    def _vectors(self, texts: Sequence[str]) -> Any:  # float32[n, d] or None
        """Return embeddings, float32[n, d]; None if cancelled."""
        self._job = EmbedJob(prepare_embed(self._embedder, texts, {"truncate": True}))
        if self._calls.is_over:
            self._job.cancel()
        try:
            embeddings = self._job.outcome()
        finally:
            self._job = None
        return None if self._calls.is_over else embeddings.vectors

    def _hash_texts(self, texts: Sequence[str], *more: bytes) -> bytes:
        """Return a hash of texts, the model and further bytes."""
        sha256 = ""
        loras: Any = []
        if self._calls.journal is not None:
            content_of_files = content_of(self.model.file, self.model.loras)
            if content_of_files is None:
                raise JournalError(
                    "journal: the file of the model for embeddings, or of an adapter, "
                    "has changed since it was loaded: load it again"
                )
            sha256, loras = content_of_files
        content = ["llamaherd head", 1, sha256, len(texts), *([loras] if loras else [])]
        head = json.dumps(content)
        digest = hashlib.sha256(head.encode())
        for text in texts:
            digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        for content_part in more:
            digest.update(hashlib.sha256(content_part).digest())
        return digest.digest()

    def _stored_entry(self, key: bytes) -> JournalEntry | None:
        journal = self._calls.journal
        return None if journal is None else journal.find(key)

    def _store(
        self, key: bytes, name: str, text: str, numbers: tuple[float, ...]
    ) -> None:
        file, journal = self.model.file, self._calls.journal
        if journal is None:
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
            journal.add([entry])
        # only the storage failed; the labels exist
        except (sqlite3.Error, JournalError) as error:
            self._calls.warn(f"{name} could not be stored in {journal.path}: {error}")
