"""Probabilities of continuations from llama-cpp-python's logits, computed plainly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import llama_cpp
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType


class StepByStep:
    """A `llama_context` of llama-cpp-python with one sequence, and flash attention.

    Args:
        path: Path of the model.
        n_ctx: Cells.
        n_threads: Threads.
        type_v: Type of the values in the cache; None for that of llama.cpp.
        on_processor: Whether the processor computes everything, even if there is a GPU.
    """

    def __init__(
        self,
        path: Path,
        n_ctx: int = 2048,
        n_threads: int = 2,
        type_v: int | None = None,
        *,
        on_processor: bool = False,
    ) -> None:
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        if on_processor:
            model_params.n_gpu_layers = 0
        self._model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), model_params
        )
        params = llama_cpp.llama_context_default_params()
        params.op_offload = not on_processor
        params.n_ctx = n_ctx
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = n_threads
        params.flash_attn_type = 1
        if type_v is not None:
            params.type_v = type_v
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        self._memory = llama_cpp.llama_get_memory(self._context)
        vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._vocab = vocab
        self._n_vocab = llama_cpp.llama_vocab_n_tokens(vocab)
        self._batch = llama_cpp.llama_batch_init(512, 0, 1)

    def token_logprobs(
        self,
        prompt: Sequence[int],
        continuations: Sequence[Sequence[int]],
        *,
        together: bool = False,
    ) -> list[np.ndarray]:
        """Return the log-probabilities of each continuation's tokens, float64[n_tokens].

        The prompt is one computation; then each token of a continuation is one, or with
        `together`, all its tokens are one.
        """
        out = []
        llama_cpp.llama_memory_clear(self._memory, True)
        [first] = self._decode(prompt, 0, n_rows=1)
        for tokens in continuations:
            llama_cpp.llama_memory_seq_rm(self._memory, 0, len(prompt), -1)
            rows = [first]
            if together and len(tokens) > 1:
                rows += self._decode(tokens[:-1], len(prompt), n_rows=len(tokens) - 1)
            elif not together:
                for i, token in enumerate(tokens[:-1]):
                    rows += self._decode([token], len(prompt) + i, n_rows=1)
            out.append(np.array([row[t] for row, t in zip(rows, tokens, strict=True)]))
        return out

    def greedy(
        self, prompt: Sequence[int], n: int, *, end: Sequence[int] = ()
    ) -> list[int]:
        """Return up to n most likely tokens after a prompt, until the end of a turn.

        A token in `end` also ends the tokens, and is the last of them.
        """
        llama_cpp.llama_memory_clear(self._memory, True)
        [row] = self._decode(prompt, 0, n_rows=1)
        tokens: list[int] = []
        while len(tokens) < n:
            token = int(row.argmax())
            if llama_cpp.llama_vocab_is_eog(self._vocab, token):
                break
            tokens.append(token)
            if end and tokens[-len(end) :] == list(end):
                break
            [row] = self._decode([token], len(prompt) + len(tokens) - 1, n_rows=1)
        return tokens

    def label_logprobs(
        self, prompt: Sequence[int], labels: Sequence[Sequence[int]]
    ) -> np.ndarray:
        """Return the log-probability that each label is generated and ends, float64[n].

        The probability of the end is the sum over all tokens with which no label
        continues, not 1 minus the others.
        """
        out = []
        llama_cpp.llama_memory_clear(self._memory, True)
        [first] = self._decode(prompt, 0, n_rows=1)
        for tokens in labels:
            llama_cpp.llama_memory_seq_rm(self._memory, 0, len(prompt), -1)
            row, sum_ = first, 0.0
            for i, token in enumerate(tokens):
                sum_ += row[token]
                [row] = self._decode([token], len(prompt) + i, n_rows=1)
            n = len(tokens)
            longer = [
                label[n]
                for label in labels
                if len(label) > n and list(label[:n]) == list(tokens)
            ]
            is_end = np.ones(self._n_vocab, dtype=bool)
            is_end[longer] = False
            out.append(sum_ + np.log(np.exp(row[is_end]).sum()))
        return np.array(out)

    def _decode(
        self, tokens: Sequence[int], position: int, *, n_rows: int
    ) -> list[np.ndarray]:
        """Log-probabilities in the last rows, float64[n_vocab] each."""
        batch = self._batch
        batch.n_tokens = n = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = position + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i >= n - n_rows
        assert llama_cpp.llama_decode(self._context, batch) == 0
        rows = []
        for i in range(n - n_rows, n):
            pointer = llama_cpp.llama_get_logits_ith(self._context, i)
            row = np.ctypeslib.as_array(pointer, shape=(self._n_vocab,)).astype(float)
            shifted = row - row.max()
            rows.append(shifted - np.log(np.exp(shifted).sum()))
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)
