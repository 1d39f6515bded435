"""Statistics of a call, `Stats`, and its progress, `Progress`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from llamaherd.engine.core.outcome import sum_of
from llamaherd.engine.core.phrases import percents
from llamaherd.engine.core.progress import JobProgress, short


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(JobProgress):
    """Progress of a call.

    Attributes:
        n_done: Number of prompts with a result, including failures. With several samples
            per prompt, this field and the next two count samples.
        n_total: Total number of prompts.
        n_prompt_tokens: Number of prompt tokens that were computed, or need no
            computation because of shared prefixes, equal prompts or results in the
            journal.
        n_prompt_tokens_total: Total number of prompt tokens.
        elapsed_s: Seconds since the call started to run.
    """

    n_done: int
    n_failed: int
    n_total: int
    n_prompt_tokens: int
    n_prompt_tokens_total: int
    n_generated_tokens: int
    elapsed_s: float

    unit: ClassVar[str] = "prompts"

    @property
    def line(self) -> str:
        """Speed: prompts, prompt tokens and generated tokens per second.

        If answers are labels, most tokens are prompt tokens; if answers are long, most
        are generated.
        """
        if self.n_done == 0:  # this shows activity before the first result
            text = f"{self.n_prompt_tokens:,} tokens read"
            written = self.n_generated_tokens
            return f"{text}, {written:,} written" if written else text
        per_s = 1 / max(self.elapsed_s, 0.001)
        text = (
            f"{short(self.n_done * per_s)} prompts/s, "
            f"tokens/s: {self.n_prompt_tokens * per_s:.0f} read, "
            f"{self.n_generated_tokens * per_s:.0f} written"
        )
        return f"{text}, {self.n_failed} failed" if self.n_failed else text


# True shows a progress bar; a function is called with each Progress.
ProgressOption = bool | Callable[[Progress], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Number of running and waiting requests of a context.

    Attributes:
        n_running: Number of running prompts.
        n_waiting: Number of prompts that wait for a slot.
        n_slots: Maximum number of prompts that run at once; 0 before the first call.
        n_prefixes: Number of cached prefixes.
        n_ctx: Total number of KV cells.
    """

    n_running: int = 0
    n_waiting: int = 0
    n_slots: int = 0
    n_prefixes: int = 0
    n_ctx: int = 0

    def __add__(self, other: Load) -> Load:
        return sum_of(self, other)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """Statistics of one prompt; summed over all prompts, the statistics of the call.

    The cost of a shared prefix is charged to the first prompt with this prefix.

    Attributes:
        queue_s: Seconds from submission to the start.
        first_token_s: Seconds from submission to the first token; None without a token.
        wall_s: Seconds from submission to the end.
        prefill_s: Seconds of the batches' time that are due to the prompt's tokens.
        decode_s: Seconds of the batches' time that are due to the generated tokens.
        n_prefill_tokens: Number of tokens decoded for prompts.
        n_decode_tokens: Number of tokens decoded for answers.
        n_draft_tokens: Number of accepted draft tokens, see `Stats`.
        n_pauses: Number of times that the prompt was paused.
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
        """Add the statistics of a retry; only the first waiting time counts."""
        waiting = {"queue_s": self.queue_s, "first_token_s": self.first_token_s}
        return sum_of(self, later, **waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStats:
    """Statistics of one process of a cluster for a call.

    Attributes:
        actor: Number of the actor, from 0.
        node: Name of its last machine.
        n_done: Number of prompts that the process
            finished, including failures.
        n_prefill_tokens: Number of decoded prompt tokens.
        n_decode_tokens: Number of tokens decoded after prompts.
        n_batches: Number of calls of llama_decode with prompts of the call.
        n_slots: Maximum number of prompts that run at once.
        n_deaths: Number of times that the process died since its last answers before the
            call.
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
        """Add later statistics of the same actor."""
        n_slots = max(self.n_slots, later.n_slots)
        return sum_of(self, later, actor=self.actor, node=later.node, n_slots=n_slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Statistics of one call. `str(stats)` is a readable line.

    Attributes:
        n_samples: Number of requested answers: number of prompts times samples per
            prompt.
        n_failed: Number of failed answers.
        n_prompt_tokens: Number of tokens of all prompts, in which each prompt is counted
            once.
        n_reused_tokens: Number of prompt tokens that were not computed again: tokens of a
            shared prefix, or of a prompt equal to another. The prompt of several samples
            is a shared prefix of the samples: its tokens are decoded once, and are
            counted both here and in `n_prefill_tokens`.
        n_prefill_tokens: Number of decoded prompt tokens, including shared prefixes.
        n_generated_tokens: Number of generated tokens, without copied answers.
        n_decode_tokens: Number of tokens decoded after prompts, of thoughts, answers or
            scored continuations.
        n_thinking_tokens: Number of tokens of thoughts, without copied answers and
            answers from the journal.
        n_thoughts: Number of the thoughts counted in `n_thinking_tokens`.
        n_thoughts_closed: Number of these thoughts that were closed by force.
        n_draft_tokens: Number of accepted draft tokens, which are decoded several at a
            time in repetitive text.
        n_copied: Number of prompts with the answer of an equal greedy prompt.
        n_journal: Number of prompts with an answer in the journal.
        n_batches: Number of calls of llama_decode with prompts of the call.
        n_slots: Maximum number of prompts that run at once.
        mean_batch_occupancy: Mean number of the call's sequences in a batch, divided by
            the number of slots.
        kv_cells_max: Maximum number of KV cells in use, including other calls.
        n_fallbacks: Number of batches that llama_decode refused because of their
            content.
        n_pauses: Number of times that a prompt was paused for lack of KV cells.
        seed: Base of the seeds of the prompts.
        prefill_s: Decoding time of prompt tokens, in seconds.
        actors: Statistics of each process of a cluster; empty without one.
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
    n_thinking_tokens: int = 0
    n_thoughts: int = 0
    n_thoughts_closed: int = 0
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
        thoughts = ""
        if self.n_thoughts:
            thoughts = (
                f" after {self.n_thinking_tokens} of {self.n_thoughts} thoughts "
                f"({self.n_thoughts_closed} closed by force)"
            )
        return (
            f"{self.n_prompts} prompts{samples} ({self.n_failed} failed{stored}) "
            f"in {self.wall_s:.2f} s: "
            f"{self.n_prompt_tokens} prompt tokens ({self.n_reused_tokens} reused, "
            f"{self.n_prefill_tokens} decoded at {self.prefill_tokens_per_s:.0f}/s), "
            f"{self.n_generated_tokens} generated{thoughts} at "
            f"{self.decode_tokens_per_s:.0f}/s, "
            f"{self.n_batches} batches with {percents(self.mean_batch_occupancy, 0)} of "
            f"{self.n_slots} slots busy, at most {self.kv_cells_max} of {self.n_ctx} KV "
            f"cells, {self.n_fallbacks} fallbacks, {self.n_pauses} pauses, "
            f"seed {self.seed}"
        )
