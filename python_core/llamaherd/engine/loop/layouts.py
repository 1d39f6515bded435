"""Choice of the layout of KV cells for single prompts, from the latest prompts."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING

from llamaherd.engine.loop.sizing import Work
from llamaherd.engine.memory.plan import POOLED_SHARE
from llamaherd.engine.schedule.prefix_cache import n_common

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.engine.core.request import Request
    from llamaherd.engine.loop.group import Group
    from llamaherd.engine.loop.sizing import Sizing
    from llamaherd.engine.memory.plan import Layout, Plan

N_LATEST = 32  # number of latest prompts from which a layout is chosen
AT_ONCE = 4  # number of open prompts that count as many
_MOST_WAIT = 1024  # maximum number of prompts between two pools, see `LayoutChoice`
_LEAST_IN_POOL = 8  # minimum number of prompts before a pool is left
_LEAVING_SHARE = 2 * POOLED_SHARE  # a pool is left above this share of own cells


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Prompt that arrived.

    Attributes:
        n_cells: Number of KV cells of the prompt with its answer.
        n_shared: Number of tokens that the prompt shares with the prompt before it.
        n_open: Number of prompts that ran or waited, including this prompt.
    """

    n_cells: int
    n_shared: int
    n_open: int


class LayoutChoice:
    """Chooses the layout of KV cells for single prompts.

    A pool of cells for all prompts ("unified") is chosen if many of the latest prompts
    ran at once and continue one long prefix, and if their separate texts need few cells
    (the rule for the prompts of a call, see `memory.plan`). The layout returns to
    "per_sequence" when several of the latest prompts ran at once and the cells of their
    separate texts exceed twice the share of this rule. A change costs a new native
    context and the held prefixes. Therefore the number of prompts before the next pool is
    doubled after each pool, from 32 up to 1,024. After a pool that 1,024 prompts used,
    this number is 32 again.

    See docs/decisions/0048.

    Attributes:
        is_own_pool: Whether the current layout is a pool that was chosen for single
            prompts, not for a call.
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
        """Record the prompts of new groups.

        Args:
            capacity: Maximum number of KV cells of a prompt. Longer prompts are refused
                later, so they are not recorded.
        """
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

    def other_layout(self, sizing: Sizing, plan: Plan) -> Layout | None:
        """Return the other layout if it suits the latest prompts better, else None.

        Args:
            sizing: Object that plans sizes; it keeps a layout that the user fixed.
        """
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
        self, sizing: Sizing, plan: Plan, n_hold: int, needs: Sequence[int]
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
        """Return the length of the prefix for which a pool may be chosen; 0 for none.

        It is the shortest of the prefixes that two prompts in a row share.
        """
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
