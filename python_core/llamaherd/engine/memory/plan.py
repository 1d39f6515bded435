"""Sizes of a context, planned from fixed sizes, needs of prompts and memory."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Literal

from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Sequence

Layout = Literal["unified", "per_sequence"]

MAX_SEQUENCES = 256  # limit of libllama
MAX_HOLD = 8  # default number of sequences for shared prefixes
MOST_HOLD = 32  # maximum number of such sequences, for calls with many prefixes
# Maximum depth of nested prefixes: half of MAX_HOLD, so that other prefixes can be
# computed, too.
MAX_DEPTH = shim.MAX_PREFIX_DEPTH
MAX_SLOTS = MAX_SEQUENCES - MAX_HOLD
AUTO_SLOTS = 40  # default maximum number of slots; more slots gain little on a CPU
# Number of sequences per batch of a deterministic context.
UNIFORM_ROWS = shim.UNIFORM_ROWS
ROWS = 4  # number of rows of a batch that ggml computes together, see docs/decisions/0018
ROWS_AMX = shim.AMX_ROWS  # the same with AMX, see docs/decisions/0018
_BLOCK = shim.CELL_BLOCK  # libllama rounds cells up to multiples of this
MAX_CTX = 2**31 - _BLOCK  # the largest of these multiples that fits into an int32
MEMORY_SHARE = 0.5  # share of the available memory that a planned size may use
# A single pool is faster if all prompts share a prefix, and the rest of prompts and
# answers needs at most this share of the prefix's cells. Measured: docs/decisions/0018.
POOLED_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes that the user fixed; None for a size to be planned."""

    n_ctx: int | None = None
    n_seq_max: int | None = None
    kv_layout: Layout | None = None
    deterministic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Sizes of a context. `str(plan)` is a readable sentence.

    Attributes:
        n_ctx: Total number of KV cells.
        n_seq_max: Maximum number of prompts that run at once.
        n_hold: Number of additional sequences for shared prefixes.
        kv_layout: "unified" for one pool of cells; "per_sequence" for an equal share for
            each sequence.
        n_ctx_seq: Number of cells of one sequence.
        capacity: Maximum number of cells of a prompt with its answer.
        memory_bytes: Upper bound of the memory of the KV cache and recurrent states.
        n_idle: Number of additional sequences that pad the batches of a deterministic
            context.
        n_spare: Number of cells in each sequence that stay unused.
    """

    n_ctx: int
    n_seq_max: int
    n_hold: int
    kv_layout: Layout
    n_ctx_seq: int
    capacity: int
    memory_bytes: int
    n_idle: int = 0
    n_spare: int = 0

    @property
    def n_sequences(self) -> int:
        """Total number of sequences."""
        return self.n_seq_max + self.n_hold + self.n_idle

    def covers(self, other: Plan) -> bool:
        """Return whether a context with this plan can run the work of the other plan."""
        return (
            self.kv_layout == other.kv_layout
            and self.n_seq_max >= other.n_seq_max
            and self.n_hold >= other.n_hold
            and self.n_ctx_seq >= other.n_ctx_seq
        )

    def shrinks_to(self, other: Plan) -> bool:
        """Return whether the other plan has fewer cells for one sequence."""
        return other.n_ctx_seq < self.n_ctx_seq

    def __str__(self) -> str:
        kind = "one pool" if self.kv_layout == "unified" else "an equal share for each"
        return (
            f"{self.n_seq_max} prompts at once and {self.n_hold} shared prefixes, "
            f"{self.n_ctx} KV cells ({self.memory_bytes / 1e6:.0f} MB) as {kind}, "
            f"up to {self.n_ctx_seq} for one prompt with its answer"
        )


def make_plan(
    sizes: Sizes,
    needs: Sequence[int],
    n_prefixes: int,
    n_shared: int = 0,
    *,
    n_batch: int,
    n_rows: int = ROWS,
    auto_slots: int = AUTO_SLOTS,
    bytes_per_cell: int,
    bytes_per_sequence: int = 0,
    memory_bytes: int,
) -> Plan:
    """Plan the sizes of a context for a call (docs/decisions/0009 and 0018).

    Every sequence gets its own cells, as many as the longest prompt with its answer:
    attention costs less, and no answer depends on other prompts. If memory does not
    suffice, fewer prompts run at once. Prompts that consist mostly of a common prefix
    share a single pool, which stores and reads the prefix only once.

    Args:
        needs: Cells of each prompt with its answer, at most the model's training context.
        n_batch: Maximum number of tokens, and thus of sequences, in one llama_decode.
        n_rows: Number of rows of a batch that are computed together.
        auto_slots: Maximum number of prompts at once, if the user fixed none.
    """
    most = sizes.n_seq_max or min(
        _even_slots(len(needs), n_rows, auto_slots), n_batch - MAX_HOLD
    )
    n_bytes = int(memory_bytes * MEMORY_SHARE)
    n_states = MAX_SEQUENCES
    if bytes_per_sequence:  # recurrent states may use at most half of the memory
        n_states = max(1, min(n_states, n_bytes // 2 // bytes_per_sequence))
    n_free = min(n_states, n_batch) - min(most, len(needs))
    n_hold = min(MOST_HOLD, max(MAX_HOLD, n_free), n_prefixes, n_states - 1)
    n_slots = max(1, min(most, len(needs), n_states - n_hold))
    n_bytes -= (n_slots + n_hold) * bytes_per_sequence
    n_affordable = min(MAX_CTX, n_bytes // bytes_per_cell)
    budget = max(_BLOCK, n_affordable // _BLOCK * _BLOCK)
    n_cells = sizes.n_ctx or budget
    # A deterministic context pads prompts and batches: padding needs spare cells after a
    # prompt, and the number of sequences is a multiple of UNIFORM_ROWS.
    spare, group = (UNIFORM_ROWS - 1, UNIFORM_ROWS) if sizes.deterministic else (0, 1)
    capacity = n_cells - spare
    most_needed = max((need for need in needs if need <= capacity), default=1)
    share = _rounded_up(most_needed + spare)
    n_idle = 0
    kv_layout = sizes.kv_layout or _layout(sizes, needs, n_shared)
    if kv_layout == "unified":
        largest = nlargest(n_slots + n_hold, needs)
        n_desired = n_shared + sum(need - n_shared for need in largest)
        n_ctx = _rounded_up(sizes.n_ctx or max(share, min(n_desired, budget)))
    else:
        n_streams = max(1, n_cells // (share * group)) * group
        n_hold = min(n_hold, max(1, n_streams // 4), n_streams - 1)
        n_slots = min(n_slots, n_streams - n_hold)
        n_idle = -(n_slots + n_hold) % group
        n_ctx = share * (n_slots + n_hold + n_idle)
    n_sequences = n_slots + n_hold + n_idle
    return Plan(
        n_ctx=n_ctx,
        n_seq_max=n_slots,
        n_hold=n_hold,
        kv_layout=kv_layout,
        n_ctx_seq=n_ctx if kv_layout == "unified" else share,
        capacity=capacity,
        memory_bytes=n_ctx * bytes_per_cell + n_sequences * bytes_per_sequence,
        n_idle=n_idle,
        n_spare=spare,
    )


def _layout(sizes: Sizes, needs: Sequence[int], n_shared: int) -> Layout:
    n_own = sum(needs) - n_shared * len(needs)
    pools = not sizes.deterministic and n_own <= POOLED_SHARE * n_shared * len(needs)
    return "unified" if pools and n_shared > 0 else "per_sequence"


def _even_slots(n_prompts: int, n_rows: int, auto_slots: int) -> int:
    """Return the number of slots that divides prompts into rounds of equal size."""
    n_rounds = max(1, -(-n_prompts // (auto_slots // n_rows * n_rows)))
    n_each = -(-n_prompts // n_rounds)
    return _rounded_up(n_each, n_rows)


def _rounded_up(n: int, to: int = _BLOCK) -> int:
    return -(-n // to) * to
