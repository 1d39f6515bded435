"""How large a context is, and how it is made: for the work that there is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from llamaherd.core.errors import ContextError
from llamaherd.memory import hardware
from llamaherd.memory.plan import ROWS, ROWS_AMX, Plan, make_plan
from llamaherd.native import shim
from llamaherd.native.engine import EngineParams, NativeEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.memory.plan import Layout, Sizes
    from llamaherd.model.model import Model
    from llamaherd.schedule.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a context is to be planned for.

    Attributes:
        needs: Cells that each prompt with its answer needs.
        n_prefixes: Places for prefixes that are of use to them.
        n_shared: Tokens of the prefix that all of them share.
    """

    needs: Sequence[int]
    n_prefixes: int = 0
    n_shared: int = 0


class Sizing(Protocol):
    """Plans and makes engines.

    Attributes:
        n_sharing: Contexts that automatic sizes leave equal shares of the memory.
    """

    n_sharing: int

    def plan(self, work: Work, layout: Layout | None = None) -> Plan:
        """Sizes that suit the work; with `layout` of that layout."""

    def check_memory(self, plan: Plan, n_bytes_freed: int = 0) -> None:
        """Checks that there is room for a plan when so many bytes are freed before.

        Raises:
            ContextError: There is not enough memory.
        """

    def make(self, plan: Plan) -> Engine:
        """An engine.

        Raises:
            ContextError: There is not enough memory.
        """


class NativeSizing:
    """Sizes for a model.

    Args:
        model: Is not kept alive, but by the engines.
        params: Of the context; sizes are filled in from each plan.
        sizes: What the user fixed.
        bytes_per_cell: See `kv_cells.bytes_per_cell`.
        bytes_per_sequence: See `kv_cells.bytes_per_sequence`.

    Attributes:
        n_sharing: See `Sizing`.
    """

    def __init__(
        self,
        model: Model,
        params: EngineParams,
        sizes: Sizes,
        bytes_per_cell: int,
        bytes_per_sequence: int,
    ) -> None:
        self._model = model.handle
        self._params = params
        self._sizes = sizes
        self._bytes_per_cell = bytes_per_cell
        self._bytes_per_sequence = bytes_per_sequence
        self.n_sharing = 1
        # Read once, so that equal calls are planned equally.
        self._memory_bytes = hardware.available_memory()

    def plan(self, work: Work, layout: Layout | None = None) -> Plan:
        """See `Sizing`."""
        params = self._params  # a deterministic batch has a row for each sequence
        n_batch = params.n_ubatch if self._sizes.deterministic else params.n_batch
        return make_plan(
            replace(self._sizes, kv_layout=layout) if layout else self._sizes,
            work.needs,
            work.n_prefixes,
            work.n_shared,
            n_batch=n_batch,
            n_rows=ROWS_AMX if shim.has_amx() else ROWS,
            bytes_per_cell=self._bytes_per_cell,
            bytes_per_sequence=self._bytes_per_sequence,
            memory_bytes=self._memory_bytes // self.n_sharing,
        )

    def check_memory(self, plan: Plan, n_bytes_freed: int = 0) -> None:
        """See `Sizing`."""
        available = hardware.available_memory() + n_bytes_freed
        if plan.memory_bytes > available:
            raise ContextError(
                f"a KV cache of {plan.n_ctx} cells for {plan.n_sequences} sequences "
                f"takes {plan.memory_bytes / 1e9:.1f} GB, {available / 1e9:.1f} are "
                "available: lower n_ctx (or n_seq_max, for kv_layout='per_sequence')"
            )

    def make(self, plan: Plan) -> NativeEngine:
        """See `Sizing`."""
        params = replace(
            self._params,
            n_ctx=plan.n_ctx,
            n_seq_max=plan.n_sequences,
            kv_unified=plan.kv_layout == "unified",
        )
        return NativeEngine(self._model, params)
