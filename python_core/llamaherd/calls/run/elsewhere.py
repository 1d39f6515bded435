"""Hosts whose model runs in another program, which this process only sends texts to."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from llamaherd.calls.run.host import Host
from llamaherd.engine.core.errors import ArgumentTypeError
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.calls.asks.labels import Labels
    from llamaherd.calls.asks.options import ClassifyOptions, EmbedOptions
    from llamaherd.calls.asks.scores import ClassifyResults
    from llamaherd.calls.run.embed_job import EmbedWork
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.results import Results


class LabelRequests(NamedTuple):
    """Requests that label prompts, and the conversion of their results."""

    requests: Sequence[Request]
    convert: Callable[[Results], ClassifyResults]


class Elsewhere(Host):
    """Host that has no model in this process, see `connect`.

    A call that needs the model, for its tokens or its chat template, reads `model` and
    is refused.
    """

    _called = "the engine"

    @property
    def model(self) -> NoReturn:  # type: ignore[override] # no caller gets a model
        """Refuse to return a model.

        Raises:
            TypeError: Always.
        """
        raise ArgumentTypeError(
            "is an engine elsewhere, but this call needs the model in this process. "
            f"Engines of {call('connect')} answer, classify, embed and annotate texts",
            argument="ctx",
            code="elsewhere",
        )

    @property
    def loras(self) -> tuple[()]:
        """No adapters: the name of the model elsewhere includes them."""
        return ()

    @property
    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Description of the model for records of codings, see `model_record`."""

    @abstractmethod
    def labelling(
        self, prompts: Sequence[object], labels: Labels, options: ClassifyOptions
    ) -> LabelRequests:
        """Return the requests that label prompts.

        Raises:
            ValueError: The engine cannot follow an option.
        """

    @abstractmethod
    def embedding(self, texts: object, options: EmbedOptions) -> EmbedWork:
        """Return the work that computes vectors of texts.

        Raises:
            ValueError: The engine cannot follow an option.
        """

    def _advice(self) -> str:
        return ": connect to it again"
