"""Models of a server as its pages and metrics show them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol, TypeVar

from llamaherd.engine.core.outcome import Counts
from llamaherd.engine.core.stats import Load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.types import Receive

    from llamaherd.engine.loop.slot_times import SlotTimes
    from llamaherd.engine.model.model import Model

_T = TypeVar("_T", Load, Counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownModel:
    """A model or adapter as pages and metrics show it."""

    name: str  # name in requests and answers
    # Name of the model that a LoRA adapter belongs to; None for a model.
    parent: str | None = None
    state: str = "loaded"  # "unloaded", "loading", "loaded" or "unloading"
    model: Model | None = None  # the loaded model; None if it is not loaded
    # Running and waiting prompts of the model; None if it is not loaded.
    load: Load | None = None
    size_bytes: int = 0  # size of the model's files in bytes
    # Part of `--memory` in bytes that the model uses; 0 for an adapter or an unloaded
    # model.
    n_bytes: int = 0
    n_loads: int = 1  # number of times that loading began
    n_unloads: int = 0  # number of times that the model was unloaded
    n_failures: int = 0  # number of times that loading failed


class InMemory(Protocol):
    """A model in memory."""

    @property
    def model(self) -> Model:
        """The model."""


class ModelView(Protocol):
    """Protocol of the models of a server: either one loaded model or several models.

    Attributes:
        load: Running and waiting prompts of all models.
        counts: Counts of the engines of all models.
        is_closed: Whether no prompts can run.
    """

    @property
    def load(self) -> Load:
        """Running and waiting prompts of all models."""

    @property
    def counts(self) -> Counts:
        """Counts of the engines of all models."""

    @property
    def is_closed(self) -> bool:
        """Whether no prompts can run."""

    @property
    def has_several(self) -> bool:
        """Whether the server has several models; its metrics then have a model label."""

    def name_of(self, asked: str | None) -> str | None:
        """Return the name of the model for a request; None if `asked` is unknown."""

    def identity(self, asked: str | None, endpoint: str) -> str | None:
        """Return the identity of the model that answers requests; safe on any thread.

        The first call takes about one second per GB.
        """

    def lease(
        self, name: str, receive: Receive, *, is_patient: bool = False
    ) -> AbstractAsyncContextManager[InMemory]:
        """Load a model if it is not in memory, and keep it there within the block."""

    def slots(self) -> Mapping[str, SlotTimes]:
        """Return the times of the slots of each model in memory, by its name.

        A call makes the engines measure these times for a few seconds.
        """

    def shown(self) -> Sequence[ShownModel]:
        """Return an entry for each name of a model or an adapter."""


def sum_of_loads(loads: Iterable[Load]) -> Load:
    """Return the sum of the loads of several contexts."""
    return _sum(Load, loads)


def sum_of_counts(counts: Iterable[Counts]) -> Counts:
    """Return the sum of the counts of several engines."""
    return _sum(Counts, counts)


def _sum(kind: type[_T], items: Iterable[_T]) -> _T:
    every = list(items)
    names = [field.name for field in fields(kind)]
    return kind(**{name: sum(getattr(each, name) for each in every) for name in names})
