"""What the scheduler's side asks of an engine, native or fake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.outcome import Counts, Finish, Output, RunOutcome
    from llamaherd.core.request import Request


class Engine(Protocol):
    """The step-level engine of llamaherd.h, as far as running requests needs it."""

    def submit(self, id_: int, request: Request, fork_from: int | None) -> None:
        """Takes a request in; `fork_from` is the id of a held prefix of it.

        Raises:
            ValueError: The request cannot be run, for example for a bad grammar.
        """

    def run(
        self,
        ids: Sequence[int] | None = None,
        *,
        max_steps: int = 0,
        max_time_ms: int = 0,
        draft: bool = False,
    ) -> RunOutcome:
        """Runs steps until something ended, a limit is reached or nothing is left.

        Args:
            ids: Run only these; None: all.
            max_steps: 0: no limit.
            max_time_ms: 0: no limit.
            draft: Whether answers that repeat themselves may take several tokens a step.
        """

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

    def release(self, id_: int) -> None:
        """Forgets a request, ending it if it runs."""

    def reset(self) -> None:
        """Forgets every request."""

    def abort(self, *, on: bool) -> None:
        """Ends a running `run`, and those to come until called with on=False."""

    def n_cells_taken(self) -> int:
        """Cells in use, and those that prompts being prefilled have yet to take."""

    def restart_high_water(self) -> None:
        """Lets `Counts.n_cells_max` start anew."""

    def counts(self) -> Counts:
        """Counts since the engine was made."""
