"""Statistics of a call, from its results and the counts of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.engine.core.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.engine.core.results import Result
    from llamaherd.engine.core.stats import ActorStats
    from llamaherd.engine.loop.group import Group


def make_stats(
    results: Sequence[Result],
    groups: Sequence[Group],
    *,
    n_copied: int,
    n_journal: int,
    seed: int,
    wall_s: float,
    n: int,
) -> Stats:
    """Compute the statistics of a call: sums over its prompts, and counts of its batches.

    Args:
        results: Results of all prompts and samples, see `Results`.
        groups: Groups of the call, all ended: first the group of all prompts, then
            groups of retries.
        n_copied: See `Stats`.
        n_journal: See `Stats`.
        seed: See `Stats`.
        wall_s: Duration of the call in seconds.
        n: Number of samples per prompt.
    """
    run = [(result, result.stats) for result in results if result.stats is not None]
    n_prefill = sum(stats.n_prefill_tokens for _, stats in run)
    n_decode = sum(stats.n_decode_tokens for _, stats in run)
    prefill_s = sum(stats.prefill_s for _, stats in run)
    decode_s = sum(stats.decode_s for _, stats in run)
    thoughts = [result for result, _ in run if result.n_thinking_tokens]
    plan = groups[0].plan if groups else None
    n_slots = 0 if plan is None else plan.n_seq_max
    n_batches = sum(group.counts.n_batches for group in groups)
    n_clients = sum(group.counts.n_clients for group in groups)
    actors = added(row for group in groups for row in group.actors)
    n_slots_all = (
        sum(row.n_batches * row.n_slots for row in actors) or n_batches * n_slots
    )
    return Stats(
        n_prompts=len(results) // n,
        n_samples=len(results),
        n_failed=sum(result.error is not None for result in results),
        n_prompt_tokens=sum(result.n_prompt_tokens for result in results[::n]),
        n_reused_tokens=sum(result.n_reused_tokens for result in results[::n]),
        n_prefill_tokens=n_prefill,
        n_generated_tokens=sum(result.n_generated_tokens for result, _ in run),
        n_decode_tokens=n_decode,
        n_draft_tokens=sum(stats.n_draft_tokens for _, stats in run),
        n_thinking_tokens=sum(result.n_thinking_tokens for result in thoughts),
        n_thoughts=len(thoughts),
        n_thoughts_closed=sum(each.thinking_complete is False for each in thoughts),
        n_copied=n_copied,
        n_journal=n_journal,
        n_batches=n_batches,
        n_slots=n_slots,
        mean_batch_occupancy=_rate(n_clients, n_slots_all),
        kv_cells_max=max((group.counts.n_cells_max for group in groups), default=0),
        n_ctx=0 if plan is None else plan.n_ctx,
        n_fallbacks=sum(group.n_fallbacks for group in groups),
        n_pauses=sum(stats.n_pauses for _, stats in run),
        seed=seed,
        wall_s=wall_s,
        prefill_s=prefill_s,
        decode_s=decode_s,
        prefill_tokens_per_s=_rate(n_prefill, prefill_s),
        decode_tokens_per_s=_rate(n_decode, decode_s),
        actors=actors,
    )


def added(rows: Iterable[ActorStats]) -> tuple[ActorStats, ...]:
    """Add up the rows of each actor; return one row per actor, ordered by actor."""
    each: dict[int, ActorStats] = {}
    for row in rows:
        each[row.actor] = each[row.actor] + row if row.actor in each else row
    return tuple(each[actor] for actor in sorted(each))


def _rate(count: float, per: float) -> float:
    return count / per if per > 0 else 0.0
