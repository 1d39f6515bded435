"""Base class of all tasks; runs of files, Ray and R call tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, get_args

import numpy as np

from llamaherd.calls.api.running import run_to_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.job import Runnable
    from llamaherd.calls.structured.columns import Column
    from llamaherd.engine.model.model import Model

    # Function called with an object that has n_done and n_failed; False for no
    # callback.
    Report = Literal[False] | Callable[[Any], object]
    # Cells of n rows by role.
    Cells = dict[str, Sequence[Any]]
    from numpy.typing import ArrayLike

Kind = Literal["generate", "classify", "annotate", "embed"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_R = TypeVar("_R")


class MissingText(str):
    """Reason why a row has no prompt: its text is missing (null), not just empty."""

    __slots__ = ()


class Task(ABC, Generic[_R]):
    """Task on texts, independent of the source of the texts and of the output."""

    # Whether a journal stores the results, so that an interruption loses none.
    is_journalled: ClassVar[bool] = True

    @property
    def reads_all(self) -> bool:
        """Whether the result for a text depends on all texts of the table."""
        return False

    @property
    def summary(self) -> str:
        """Description of how the last call computed its results; may be ""."""
        return ""

    @property
    def n_answer(self) -> int:
        """Expected number of tokens of an answer, to divide rows evenly into shards."""
        return 0

    def of_model(self, model: Model) -> Task[_R]:  # noqa: ARG002 - used by overriding methods
        """Return the task with the columns that results of this model have."""
        return self

    @property
    def chat(self) -> bool:
        """Whether a model's chat template renders the prompts."""
        return False

    def prompt(self, text: str, model: Model | None) -> str:  # noqa: ARG002 - as above
        """Return the prompt for a text as the model reads it."""
        return text

    def record(self, host: Host | Model) -> dict[str, Any]:  # noqa: ARG002 - as above
        """Return a record of how the texts are coded, without times; {} by default."""
        return {}

    @property
    @abstractmethod
    def columns(self) -> dict[str, Column]:
        """Return the types of the columns by role; the last has reasons for failures."""

    @abstractmethod
    def requests(
        self,
        host: Host,
        texts: Sequence[str],
        places: Sequence[int],
        journal: Journal | None,
    ) -> Runnable[_R]:
        """Create the call for some texts, for a `Job` to run."""

    @abstractmethod
    def rows(self, results: _R) -> Cells:
        """Return the cells of each column for the results of a call; None if missing."""

    def answer(
        self,
        host: Host | Model,
        texts: Sequence[str],
        places: Sequence[int],
        *,
        journal: Journal | None = None,
        report: Report = False,
    ) -> Cells:
        """Run the call for some texts."""
        return self.rows(
            run_to_end(
                lambda: self.requests(host, texts, places, journal),  # type: ignore[arg-type]
                report,
            )
        )

    def notes(self, cells: Cells) -> list[str]:  # noqa: ARG002 - used by overriding methods
        """Return notes about labels and numbers that contain little information."""
        return []

    def failed(self, reason: str) -> dict[str, object]:
        """Return the cells of a row without a prompt."""
        roles = list(self.columns)
        return {**dict.fromkeys(roles), roles[-1]: reason}


def free_name(name: str, taken: object) -> str:
    """Return `name`, with dots prepended until it is not in `taken`."""
    while name in taken:  # type: ignore[operator]
        name = f".{name}"
    return name


def numbers(values: ArrayLike) -> list[float | None]:
    """Return a list of numbers, with None for NaN."""
    array = np.asarray(values, dtype=np.float64)
    cells: list[float | None] = array.tolist()
    for i in np.flatnonzero(np.isnan(array)):
        cells[i] = None
    return cells
