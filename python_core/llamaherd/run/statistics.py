"""What a call did, in numbers: from the engine's counts to `Stats`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from llamaherd.core.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.outcome import Counts
    from llamaherd.core.results import Result
    from llamaherd.memory.plan import Plan


def make_stats(
    results: Sequence[Result],
    plan: Plan,
    counts: tuple[Counts, Counts],
    *,
    n_copied: int,
    n_journal: int,
    n_fallbacks: int,
    seed: int,
    wall_s: float,
) -> Stats:
    """Statistics of a call.

    Args:
        results: Of all prompts.
        plan: Sizes of the context that it ran on.
        counts: The engine's before and after it.
        n_copied: See `Stats`.
        n_journal: See `Stats`.
        n_fallbacks: See `Stats`.
        seed: See `Stats`.
        wall_s: Seconds that the call took.
    """
    before, after = (asdict(each) for each in counts)
    done = {name: after[name] - before[name] for name in after}
    return Stats(
        n_prompts=len(results),
        n_failed=sum(result.error is not None for result in results),
        n_prompt_tokens=sum(result.n_prompt_tokens for result in results),
        n_reused_tokens=sum(result.n_reused_tokens for result in results),
        n_prefill_tokens=done["n_prefill"],
        n_generated_tokens=done["n_generated"],
        n_guessed_tokens=done["n_guessed"],
        n_copied=n_copied,
        n_journal=n_journal,
        n_batches=done["n_batches"],
        n_slots=plan.n_seq_max,
        mean_batch_occupancy=_rate(done["n_clients"], done["n_batches"] * plan.n_seq_max),
        kv_cells_max=after["n_cells_max"],
        n_ctx=plan.n_ctx,
        n_fallbacks=n_fallbacks,
        n_pauses=done["n_pauses"],
        seed=seed,
        wall_s=wall_s,
        prefill_s=done["t_prefill_s"],
        decode_s=done["t_decode_s"],
        prefill_tokens_per_s=_rate(done["n_prefill"], done["t_prefill_s"]),
        decode_tokens_per_s=_rate(done["n_decode"], done["t_decode_s"]),
    )


def _rate(count: float, per: float) -> float:
    return count / per if per > 0 else 0.0
