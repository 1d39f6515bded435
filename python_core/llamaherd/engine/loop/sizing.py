"""Planning of a context's sizes and layout for the current work; its creation."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import ContextError
from llamaherd.engine.core.request import Request, n_common
from llamaherd.engine.core.words import name_of, setting
from llamaherd.engine.memory.kv_cells import NO_BUFFERS, Buffers, number_of
from llamaherd.engine.memory.plan import (
    AUTO_SLOTS,
    MAX_HOLD,
    MEMORY_SHARE,
    POOLED_SHARE,
    Layout,
    Plan,
    Sizes,
    make_plan,
)
from llamaherd.engine.native.engine import EngineParams, NativeEngine
from llamaherd.engine.native.shim import CELL_BLOCK
from llamaherd.engine.schedule.engine import Engine, Limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.engine.loop.group import Group
    from llamaherd.engine.memory.device import Device
    from llamaherd.engine.model.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work for which a context is planned: KV cells of each prompt with its answer."""

    needs: Sequence[int]
    n_prefixes: int = 0
    n_shared: int = 0
    is_single: bool = False


def fixed_memory(
    sizes: Sizes,
    device: Device,
    bytes_per_cell: int,
    bytes_per_sequence: int,
    buffers: Buffers,
) -> int | None:
    """Return the memory of a fixed `n_ctx` with its buffers in bytes; None without it."""
    n_ctx = sizes.n_ctx
    if n_ctx is None:
        return None
    n_sequences = (sizes.n_seq_max or device.auto_slots) + MAX_HOLD
    states = n_sequences * bytes_per_sequence
    return n_ctx * bytes_per_cell + states + buffers.of(n_ctx)


class NativeSizing:
    """Plans and creates a model's engines, for which `n_sharing` share the memory."""

    def __init__(
        self,
        model: Model,
        params: EngineParams,
        sizes: Sizes,
        bytes_per_cell: int,
        bytes_per_sequence: int,
        *,
        device: Device,
        buffers: Buffers = NO_BUFFERS,
        keeps_prefixes: bool = True,
    ) -> None:
        self._model = model.handle
        self._params = params
        self._sizes = sizes
        self._bytes_per_cell = bytes_per_cell
        self._bytes_per_sequence = bytes_per_sequence
        self._device = device
        self._buffers = buffers
        self.n_sharing = 1
        self.keeps_prefixes = keeps_prefixes
        # Models with two sets of rope factors use the set for long texts if a sequence
        # may use more cells than this number. In a pool it may use all cells.
        name = "rope.scaling.original_context_length"
        self._n_original = number_of(model.metadata, name)
        # Recurrent states are not shared.
        self._pools_single = bytes_per_sequence == 0 and self._n_original == 0
        # Available memory, read once so that equal calls get equal plans.
        self._memory_bytes = device.available_memory()

    def limit(self, n_bytes: int) -> int:
        """Limit cache and buffers, unless `n_ctx` is fixed; return the limit in bytes.

        A cache has at least the smallest size that libllama allows, even beyond the
        limit.
        """
        cell, buffers = self._bytes_per_cell, self._buffers
        fixed = fixed_memory(
            self._sizes, self._device, cell, self._bytes_per_sequence, buffers
        )
        if fixed is not None:
            return fixed
        least = CELL_BLOCK * (cell + buffers.per_cell)
        n_left = max(n_bytes - buffers.n_bytes, least)
        n_cache = n_left * cell // (cell + buffers.per_cell)
        self._memory_bytes = min(self._memory_bytes, int(n_cache / MEMORY_SHARE))
        return n_cache + buffers.of(n_cache // cell)

    def plan(self, work: Work, layout: Layout | None = None) -> Plan:
        """Plan sizes for the work; use the given layout if it is not None."""
        params = self._params  # a deterministic batch has one row for each sequence
        is_uniform = self._sizes.deterministic
        n_batch = params.n_ubatch if is_uniform else params.n_batch
        slots = AUTO_SLOTS if is_uniform else self._device.auto_slots
        make = partial(
            make_plan,
            replace(self._sizes, kv_layout=layout) if layout else self._sizes,
            work.needs,
            work.n_prefixes,
            n_batch=n_batch,
            n_rows=self._device.n_rows,
            auto_slots=slots,
            bytes_per_cell=self._bytes_per_cell,
            bytes_per_sequence=self._bytes_per_sequence,
            memory_bytes=self._memory_bytes // self.n_sharing,
        )
        may_pool = self._pools_single or not work.is_single
        plan = make(work.n_shared if may_pool else 0)
        if self._n_original and plan.n_ctx_seq > self._n_original:
            streams = make(0)
            return plan if streams.n_ctx_seq > self._n_original else streams
        return plan

    def check_memory(self, plan: Plan, n_bytes_freed: int = 0) -> None:
        """Check that a plan fits into memory after `n_bytes_freed` bytes are freed."""
        available = self._device.available_memory() + n_bytes_freed
        if plan.memory_bytes > available:
            raise ContextError(
                f"a KV cache of {plan.n_ctx} cells for {plan.n_sequences} sequences "
                f"takes {plan.memory_bytes / 1e9:.1f} GB{self._device.memory_name}, "
                f"{available / 1e9:.1f} are available: lower {name_of('n_ctx')} (or "
                f"{name_of('n_seq_max')}, for {setting('kv_layout', 'per_sequence')})"
            )

    def make(self, plan: Plan) -> NativeEngine:
        """Create an engine; raise ContextError if memory does not suffice."""
        params = replace(
            self._params,
            n_ctx=plan.n_ctx,
            n_seq_max=plan.n_sequences,
            kv_unified=plan.kv_layout == "unified",
        )
        return NativeEngine(self._model, params)


def as_made(plan: Plan, engine: Engine) -> Plan:
    """Return a plan with the sizes of the engine, which libllama may have rounded."""
    return replace(plan, n_ctx=engine.n_ctx, n_ctx_seq=engine.n_ctx_seq)


def limits_of(plan: Plan) -> Limits:
    """Return what the scheduler has to know of a plan."""
    is_pool = plan.kv_layout == "unified"
    return Limits(
        n_slots=plan.n_seq_max,
        n_hold=plan.n_hold,
        n_cells=plan.n_ctx if is_pool else None,
    )


N_LATEST = 32  # number of latest prompts from which a layout is chosen
AT_ONCE = 4  # number of open prompts that count as many
_MOST_WAIT = 1024  # maximum number of prompts between two pools, see `LayoutChoice`
_LEAST_IN_POOL = 8  # minimum number of prompts before a pool is left
_LEAVING_SHARE = 2 * POOLED_SHARE  # a pool is left above this share of own cells


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Prompt that arrived; `n_shared` with the one before, `n_open` then running."""

    n_cells: int
    n_shared: int
    n_open: int


class LayoutChoice:
    """Chooses the layout of KV cells for single prompts (docs/decisions/0048).

    A pool of cells for all prompts ("unified") is chosen if many of the latest prompts
    ran at once and continue one long prefix, and if their separate texts need few cells
    (the rule of `memory.plan` for calls). The layout returns to "per_sequence" when
    several of the latest prompts ran at once and the cells of their separate texts exceed
    twice the share of this rule. A change costs a new native context and the held
    prefixes, so each pool doubles the number of prompts before the next one, from 32 up
    to 1,024; after a pool that 1,024 prompts used, it is 32 again.

    `is_own_pool`: the current layout is a pool that was chosen here, not for a call.
    """

    def __init__(self) -> None:
        self._latest: deque[_Arrival] = deque(maxlen=N_LATEST)
        self._last: array[int] = array("i")
        self._n_since = 0  # prompts since the last change
        self._n_least = N_LATEST  # minimum number of prompts before the next change
        self._n_wait = N_LATEST  # the same in streams
        self._n_stream = 0  # number of cells of a stream before the current pool
        self.is_own_pool = False

    def note(self, groups: Iterable[Group], n_open: int, capacity: int) -> None:
        """Record the prompts of new groups that fit into `capacity` cells."""
        for group in groups:
            for request in group.requests[:N_LATEST]:
                if not request.problem and request.n_cells <= capacity:
                    n_open += 1
                    self._note(request, n_open)

    def _note(self, request: Request, n_open: int) -> None:
        self._n_since += 1
        self._latest.append(
            _Arrival(
                n_cells=request.n_cells,
                n_shared=n_common(request.tokens, self._last),
                n_open=n_open,
            )
        )
        self._last = request.tokens

    def other_layout(self, sizing: NativeSizing, plan: Plan) -> Layout | None:
        """Return the other layout if it suits the latest prompts better, else None."""
        if self._n_since < self._n_least:
            return None
        is_pool = plan.kv_layout == "unified"
        is_due = self._has_outgrown_pool() if is_pool else self._n_shared_by_all() > 0
        if not is_due:
            return None
        # The plan follows the rule for the prompts of a call.
        layout = sizing.plan(self._work(is_pool=not is_pool)).kv_layout
        return None if layout == plan.kv_layout else layout

    def plan_other(
        self, sizing: NativeSizing, plan: Plan, n_hold: int, needs: Sequence[int]
    ) -> Plan:
        """Return a plan with the layout that `other_layout` returned."""
        is_pool = plan.kv_layout == "per_sequence"
        work = self._work(is_pool=is_pool)
        fitting = [need for need in (*needs, *work.needs) if need <= plan.capacity]
        every = [max(need, work.n_shared) for need in fitting]
        every = list(islice(cycle(every), max(len(every), plan.n_seq_max)))
        # A pool holds every prompt that fits into a stream now, and later streams hold
        # every prompt that fitted before the pool.
        next_power = 1 << (max(every) - 1).bit_length()
        longest = plan.n_ctx_seq if is_pool else max(next_power, self._n_stream)
        layout: Layout = "unified" if is_pool else "per_sequence"
        work = replace(work, needs=every, n_prefixes=n_hold)
        planned = sizing.plan(work, layout)
        larger = sizing.plan(replace(work, needs=[*every, longest]), layout)
        return larger if larger.n_seq_max >= planned.n_seq_max else planned

    def changed(self, before: Plan, plan: Plan, *, is_own: bool) -> None:
        """Record that the cache has another layout."""
        is_pool = plan.kv_layout == "unified"
        self._n_stream = before.n_ctx_seq if is_pool else 0
        if self.is_own_pool:
            self._wait_longer()
        self.is_own_pool = is_own and is_pool
        self._start(_LEAST_IN_POOL if is_pool else self._n_wait)

    def gave_up(self) -> None:
        """Record that a planned change failed, or was no longer useful."""
        self._wait_longer()
        self._start(self._n_wait)

    def _wait_longer(self) -> None:
        is_long = self.is_own_pool and self._n_since >= _MOST_WAIT
        self._n_wait = N_LATEST if is_long else min(_MOST_WAIT, 2 * self._n_wait)

    def _start(self, n_least: int) -> None:
        self._latest.clear()
        self._n_since = 0
        self._n_least = n_least

    def _work(self, *, is_pool: bool) -> Work:
        return Work(
            needs=[prompt.n_cells for prompt in self._latest],
            n_shared=self._n_shared_by_all() if is_pool else 0,
            is_single=True,
        )

    def _n_shared_by_all(self) -> int:
        """Return the shortest prefix that two prompts in a row share; 0 for none."""
        if len(self._latest) < N_LATEST or not self._are_together(AT_ONCE):
            return 0
        return min(prompt.n_shared for prompt in islice(self._latest, 1, None))

    def _has_outgrown_pool(self) -> bool:
        # Prompts that come one after the other lose nothing in a pool.
        together = [prompt for prompt in self._latest if prompt.n_open > 1]
        n_own = sum(prompt.n_cells - prompt.n_shared for prompt in together)
        n_shared = sum(prompt.n_shared for prompt in self._latest)
        return self._are_together(2) and n_own > _LEAVING_SHARE * n_shared

    def _are_together(self, n: int) -> bool:
        """Return whether at least half of the latest prompts arrived as one of n."""
        return 2 * sum(prompt.n_open >= n for prompt in self._latest) >= len(self._latest)
