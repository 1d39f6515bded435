"""Measurement of a model's throughput for several numbers of concurrent prompts."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.calls.api.generate import generate_parallel
from llamaherd.calls.run.context import Context
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.memory.plan import MAX_SLOTS
from llamaherd.optimize.measure import sample_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.engine.model.model import Model

_N_ROUNDS = 2  # prompts per slot: more than one, so that slots are also refilled


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Throughput with one number of concurrent prompts.

    Attributes:
        n_seq_max: Number of concurrent prompts.
        n_prompts: Number of answered prompts.
        n_prefill_tokens: Number of tokens decoded for prompts.
        n_decode_tokens: Number of tokens decoded for answers.
        wall_s: Duration of the measurement, in seconds.
        prefill_tokens_per_s: Number of prompt tokens per second of decoding time spent
            on prompts.
        decode_tokens_per_s: Number of generated tokens of all answers per second of
            decoding time spent on answers.
        prompts_per_s: Number of prompts per second of total time.
    """

    n_seq_max: int
    n_prompts: int
    n_prefill_tokens: int
    n_decode_tokens: int
    wall_s: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    prompts_per_s: float


def measure_throughput(
    model: Model,
    n_seq_max: Sequence[int],
    *,
    n_prompt: int = 128,
    n_answer: int = 32,
    n_threads: int | None = None,
    most_s: float = 60.0,
) -> Iterator[Throughput]:
    """Measure the throughput for each number of concurrent prompts, one after the other.

    Prompts are pieces of a novel that begin with different words, so that they share no
    prefix. Answers are greedy and continue after an end-of-text token.

    Args:
        model: Model to measure.
        n_seq_max: Numbers of concurrent prompts.
        n_prompt: Number of tokens of a prompt.
        n_answer: Number of tokens of an answer.
        n_threads: Number of threads; None for the number of physical cores.
        most_s: Time after which no further number is measured, in seconds.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        ContextError: Memory is insufficient, or the model generates no text.
    """
    longest = max(2, model.n_ctx_train - 1)
    checks.integer("n_prompt", n_prompt, 1, longest)
    checks.integer("n_answer", n_answer, 1, longest - n_prompt)
    sizes = [
        checks.integer(Argument("n_seq_max", (i,)), n, 1, MAX_SLOTS)
        for i, n in enumerate(n_seq_max)
    ]
    checks.real("most_s", most_s, 0, 1e9)
    sample = sample_of(model, None)
    start = monotonic()
    for i, n in enumerate(sizes):
        if i and monotonic() - start > most_s:
            return
        with Context(model, n_seq_max=n, n_threads=n_threads) as context:
            # The first call is not measured, because it has one-time costs: memory,
            # threads, pages of the file.
            generate_parallel(
                context,
                [sample.window(0, n_prompt)] * 2,
                max_tokens=2,
                ignore_eos=True,
            )
            n_prompts = _N_ROUNDS * n
            results = generate_parallel(
                context,
                [sample.window(1 + number, n_prompt) for number in range(n_prompts)],
                max_tokens=n_answer,
                ignore_eos=True,
                on_error="stop",
            )
        stats = results.stats
        yield Throughput(
            n_seq_max=n,
            n_prompts=n_prompts,
            n_prefill_tokens=stats.n_prefill_tokens,
            n_decode_tokens=stats.n_decode_tokens,
            wall_s=stats.wall_s,
            prefill_tokens_per_s=stats.prefill_tokens_per_s,
            decode_tokens_per_s=stats.decode_tokens_per_s,
            prompts_per_s=n_prompts / stats.wall_s,
        )
