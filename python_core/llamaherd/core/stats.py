"""What a call did: `Stats`, and how far it is: `Progress`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a call is.

    Attributes:
        n_done: Prompts that have a result, failed ones included; where there are several
            samples a prompt, here and in the next two: samples.
        n_total: Prompts in all.
        n_prompt_tokens: Prompt tokens that are read, and those that need not be: shared
            beginnings, equal prompts, what the journal knows.
        n_prompt_tokens_total: Tokens of all prompts.
        elapsed_s: Seconds since the call started to run.
    """

    n_done: int
    n_failed: int
    n_total: int
    n_prompt_tokens: int
    n_prompt_tokens_total: int
    n_generated_tokens: int
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What runs on a context, and what waits.

    Attributes:
        n_running: Prompts that run.
        n_waiting: Prompts that wait for a slot.
        n_slots: Prompts that could run at once; 0 before the first.
        n_prefixes: Prefixes in the cache.
        n_ctx: KV cells in all.
    """

    n_running: int
    n_waiting: int
    n_slots: int
    n_prefixes: int
    n_ctx: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """What one prompt took. Those of a call's prompts add up to the call's.

    A prefix that prompts share is computed on the account of the first of them.

    Attributes:
        queue_s: Seconds from when it was handed in until it got a slot.
        first_token_s: Seconds from when it was handed in to its first token; None: it has
            none.
        wall_s: Seconds from when it was handed in to its end.
        prefill_s: Its share of the decoding time that went to prompt tokens.
        decode_s: Its share of that which went to generated tokens.
        n_prefill_tokens: Prompt tokens decoded.
        n_decode_tokens: Generated tokens decoded.
        n_draft_tokens: Generated tokens that had been drafted, see `Stats`.
        n_pauses: Times that it was paused.
    """

    queue_s: float = 0.0
    first_token_s: float | None = None
    wall_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    n_prefill_tokens: int = 0
    n_decode_tokens: int = 0
    n_draft_tokens: int = 0
    n_pauses: int = 0

    def __add__(self, later: RequestStats) -> RequestStats:
        """What a prompt took that was tried again: of waiting only the first counts."""
        return RequestStats(
            queue_s=self.queue_s,
            first_token_s=self.first_token_s,
            wall_s=self.wall_s + later.wall_s,
            prefill_s=self.prefill_s + later.prefill_s,
            decode_s=self.decode_s + later.decode_s,
            n_prefill_tokens=self.n_prefill_tokens + later.n_prefill_tokens,
            n_decode_tokens=self.n_decode_tokens + later.n_decode_tokens,
            n_draft_tokens=self.n_draft_tokens + later.n_draft_tokens,
            n_pauses=self.n_pauses + later.n_pauses,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStats:
    """What one process of a herd did for a call.

    Attributes:
        actor: Its number, from 0.
        node: Name of the machine that it ran on last.
        n_done: Prompts that it answered, or that failed there.
        n_prefill_tokens: Prompt tokens decoded.
        n_decode_tokens: Tokens decoded behind prompts.
        n_batches: Calls of llama_decode while it had prompts of the call.
        n_slots: Prompts that could run there at once.
        n_deaths: Times that it died with prompts of the call.
    """

    actor: int
    node: str
    n_done: int = 0
    n_prefill_tokens: int = 0
    n_decode_tokens: int = 0
    n_batches: int = 0
    n_slots: int = 0
    n_deaths: int = 0

    def __add__(self, later: ActorStats) -> ActorStats:
        """Of the same actor, what it did first and what it did later."""
        return ActorStats(
            actor=self.actor,
            node=later.node,
            n_done=self.n_done + later.n_done,
            n_prefill_tokens=self.n_prefill_tokens + later.n_prefill_tokens,
            n_decode_tokens=self.n_decode_tokens + later.n_decode_tokens,
            n_batches=self.n_batches + later.n_batches,
            n_slots=max(self.n_slots, later.n_slots),
            n_deaths=self.n_deaths + later.n_deaths,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Statistics of one call. `str(stats)` is one line for people.

    Attributes:
        n_samples: Answers that were asked for: prompts x samples a prompt.
        n_failed: Those of them that failed.
        n_prompt_tokens: Tokens of all prompts, each counted once for all its samples.
        n_reused_tokens: Those of them that were not computed for the prompt itself:
            forked from a shared prefix, or part of a prompt whose equal was answered.
        n_prefill_tokens: Prompt tokens decoded, shared prefixes included.
        n_generated_tokens: Tokens drawn and kept; copied answers are not counted.
        n_decode_tokens: Tokens decoded behind prompts: of answers, or of continuations
            that are scored.
        n_draft_tokens: Those of them that had been drafted, because the text repeated
            itself, and came several at a time.
        n_copied: Prompts that got the answer of an equal greedy prompt.
        n_journal: Prompts whose answer was in the journal.
        n_batches: Calls of llama_decode that it had a part in.
        n_slots: Prompts that could run at once.
        mean_batch_occupancy: Its clients in a batch / slots, on average.
        kv_cells_max: Most KV cells in use at once, those of other calls included.
        n_fallbacks: Unified batches that were refused for what was in them.
        n_pauses: Times that a client was paused for want of KV cells.
        seed: Base of the prompts' seeds.
        prefill_s: Part of the decoding time that went to prompt tokens.
        actors: What each process of a herd did; empty: there was this process alone.
    """

    n_prompts: int = 0
    n_samples: int = 0
    n_failed: int = 0
    n_prompt_tokens: int = 0
    n_reused_tokens: int = 0
    n_prefill_tokens: int = 0
    n_generated_tokens: int = 0
    n_decode_tokens: int = 0
    n_draft_tokens: int = 0
    n_copied: int = 0
    n_journal: int = 0
    n_batches: int = 0
    n_slots: int = 0
    mean_batch_occupancy: float = 0.0
    kv_cells_max: int = 0
    n_ctx: int = 0
    n_fallbacks: int = 0
    n_pauses: int = 0
    seed: int = 0
    wall_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0
    actors: tuple[ActorStats, ...] = ()

    def __str__(self) -> str:
        stored = f", {self.n_journal} from the journal" if self.n_journal else ""
        several = f" x {self.n_samples // max(1, self.n_prompts)} samples"
        samples = several if self.n_samples > self.n_prompts > 0 else ""
        return (
            f"{self.n_prompts} prompts{samples} ({self.n_failed} failed{stored}) "
            f"in {self.wall_s:.2f} s: "
            f"{self.n_prompt_tokens} prompt tokens ({self.n_reused_tokens} reused, "
            f"{self.n_prefill_tokens} decoded at {self.prefill_tokens_per_s:.0f}/s), "
            f"{self.n_generated_tokens} generated at {self.decode_tokens_per_s:.0f}/s, "
            f"{self.n_batches} batches with {self.mean_batch_occupancy:.0%} of "
            f"{self.n_slots} slots busy, at most {self.kv_cells_max} of {self.n_ctx} KV "
            f"cells, {self.n_fallbacks} fallbacks, {self.n_pauses} pauses, "
            f"seed {self.seed}"
        )
