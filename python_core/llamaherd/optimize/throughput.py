"""How many prompts a second a model answers here, by how many run at once."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.api.generate import generate_parallel
from llamaherd.core import checks
from llamaherd.memory.plan import MAX_SLOTS
from llamaherd.optimize.measure import sample_of
from llamaherd.run.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.model.model import Model

_N_ROUNDS = 2  # as many prompts as slots, so many times: slots are refilled, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What was measured with one number of prompts at once.

    Attributes:
        n_seq_max: Prompts at once.
        n_prompts: Prompts that were answered.
        n_prefill_tokens: Prompt tokens computed.
        n_decode_tokens: Generated tokens computed.
        wall_s: Seconds that it took.
        prefill_tokens_per_s: Of the time that went to prompts.
        decode_tokens_per_s: Of the time that went to answers, all together.
        prompts_per_s: Of all the time.
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
    """Measures with each number of prompts at once, one after the other.

    Prompts are pieces of a novel that begin with different words, so that they share
    nothing; answers are greedy, and go on behind an end-of-text token.

    Args:
        model: Is measured.
        n_seq_max: Prompts at once.
        n_prompt: Tokens of a prompt.
        n_answer: Tokens of an answer.
        n_threads: Threads; None: the physical cores.
        most_s: No number but the first is begun later than this.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value that it cannot take.
        ContextError: There is not enough memory, or the model generates no text.
    """
    longest = max(2, model.n_ctx_train - 1)
    checks.integer("n_prompt", n_prompt, 1, longest)
    checks.integer("n_answer", n_answer, 1, longest - n_prompt)
    sizes = [
        checks.integer(f"n_seq_max[{i}]", n, 1, MAX_SLOTS)
        for i, n in enumerate(n_seq_max)
    ]
    checks.real("most_s", most_s, 0, 1e9)
    sample = sample_of(model, None)
    start = monotonic()
    for i, n in enumerate(sizes):
        if i and monotonic() - start > most_s:
            return
        with Context(model, n_seq_max=n, n_threads=n_threads) as context:
            # What the first call takes once: memory, threads, pages of the file.
            generate_parallel(context, [sample.window(0, n_prompt)] * 2, max_tokens=2)
            n_prompts = _N_ROUNDS * n
            results = generate_parallel(
                context,
                [sample.window(1 + place, n_prompt) for place in range(n_prompts)],
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
