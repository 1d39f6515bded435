"""What the scheduler's side asks of an engine, native or fake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.outcome import Counts, Finish, Output, Piece, RunOutcome
    from llamaherd.core.request import Request


class Engine(Protocol):
    """The step-level engine of llamaherd.h, as far as running requests needs it."""

    @property
    def n_ctx(self) -> int:
        """KV cells in all."""
        ...

    @property
    def n_ctx_seq(self) -> int:
        """Most cells that one sequence may have."""
        ...

    def submit(
        self,
        id_: int,
        request: Request,
        fork_from: int | None,
        *,
        call: int = 0,
        may_draft: bool = False,
        is_watched: bool = False,
    ) -> None:
        """Takes a request in.

        Args:
            id_: Unique among those not released.
            request: What is asked.
            fork_from: Id of a held prefix of it; if that is whole, it may be all of it.
            call: Number under which its batches are counted, see `counts`.
            may_draft: Whether an answer that repeats itself may take several tokens a
                step.
            is_watched: Whether its first token is an event.

        Raises:
            ValueError: The request cannot be run, for example for a bad grammar.
        """

    def run(
        self,
        ids: Sequence[int] | None = None,
        *,
        max_steps: int = 0,
        max_time_ms: int = 0,
    ) -> RunOutcome:
        """Runs steps until there is an event, a limit is reached or nothing is left.

        Args:
            ids: Run only these; None: all.
            max_steps: 0: no limit.
            max_time_ms: 0: no limit.
        """

    def wake(self) -> None:
        """Ends a running `run`, or the next one, after a step. From any thread."""

    def pause(self, id_: int) -> int:
        """Moves a request's cells to host memory. Returns their number."""

    def resume(self, id_: int) -> None:
        """Brings a paused request back.

        Raises:
            NoSpaceError: There is no room for its cells.
        """

    def end(self, id_: int, finish: Finish, message: str) -> None:
        """Ends a request as `Finish.CANCELLED` or `Finish.ERROR`."""

    def get(self, id_: int) -> Output:
        """What became of a request so far."""

    def read(self, id_: int, n_bytes: int, n_tokens: int) -> Piece:
        """What is new of an answer since it had so many bytes of text and tokens."""

    def release(self, id_: int) -> None:
        """Forgets a request, ending it if it runs."""

    def reset(self) -> None:
        """Forgets every request."""

    def resize(self, n_ctx: int, n_seq_max: int, kv_layout: str) -> None:
        """Makes the KV cache anew; all requests must be paused, and stay.

        Raises:
            ContextError: There is not enough memory; it is as large as before.
        """

    def close(self) -> None:
        """Frees all memory; nothing but `abort` and `wake` may be called after it."""

    def abort(self, *, on: bool) -> None:
        """Ends a running `run`, and those to come until called with on=False."""

    def n_cells_taken(self) -> int:
        """Cells in use, and those that prompts being prefilled have yet to take."""

    def counts(self, call: int | None = None) -> Counts:
        """Counts since the engine was made, of one call or of all."""

    def forget(self, call: int) -> None:
        """Drops the counts of a call."""
