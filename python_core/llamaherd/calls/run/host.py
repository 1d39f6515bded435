"""Interface of hosts: a context, a cluster, or an engine in another program."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Unpack

from llamaherd.calls.asks.keywords import SubmitSettings
from llamaherd.calls.asks.options import ClassifyOptions, EmbedOptions, GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from llamaherd.calls.asks.settings import takes
from llamaherd.calls.chat.conversations import single
from llamaherd.calls.run.embedders import EmbedSpec, lent_embedder
from llamaherd.calls.run.handle import Handle
from llamaherd.calls.run.job import Interrupts
from llamaherd.engine.core.errors import ArgumentTypeError, ContextClosedError
from llamaherd.engine.core.process import ClosedByWith
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from llamaherd.calls.asks.labels import Labels
    from llamaherd.calls.asks.scores import ClassifyResults
    from llamaherd.calls.run.embedding import EmbedCall, Embedder
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.results import Results
    from llamaherd.engine.core.stats import Load
    from llamaherd.engine.loop.threaded import ThreadedLoop
    from llamaherd.engine.memory.plan import Plan
    from llamaherd.engine.model.file import Lora, ModelFile
    from llamaherd.engine.model.model import Model
    from llamaherd.engine.model.tokens import Prompt


class Host(ClosedByWith):
    """Host of calls: a `Context` in this process, or a cluster of other processes."""

    model: Model
    # Name of the host in messages.
    _called: ClassVar[str] = "context"

    @property
    @abstractmethod
    def loop(self) -> ThreadedLoop:
        """Loop that runs the requests."""

    @property
    @abstractmethod
    def numerics(self) -> dict[str, object]:
        """Arguments that change results by more than rounding errors."""

    @property
    @abstractmethod
    def options(self) -> dict[str, object]:
        """Constructor arguments of an equivalent context; "auto" if planned."""

    @property
    def file(self) -> ModelFile:
        """Identity of the model, for journals and records."""
        return self.model.file

    @property
    def file_stem(self) -> str:
        """Name of the model as a part of names of files, without a folder."""
        return self.file.name.replace("/", "-").removesuffix(".gguf")

    @property
    def loras(self) -> Sequence[Lora]:
        """Adapters of the model."""
        return self.model.loras

    def requests(
        self,
        prompts: object,
        options: GenerateOptions,
        places: Sequence[int] | None = None,
    ) -> tuple[list[Request], int]:
        """Return the requests of a call and the base of seeds, as `make_requests`."""
        n_ctx = self.options["n_ctx"]
        return make_requests(self.model, prompts, options, places=places, n_ctx=n_ctx)

    @property
    def plan(self) -> Plan | None:
        """Plan of the current KV cache; None before the first call."""
        return self.loop.plan

    @property
    def closed(self) -> bool:
        """Whether the context was closed."""
        return self.loop.is_closed

    def check_open(self) -> None:
        """Raise ContextClosedError if the host is closed."""
        if self.closed:
            raise ContextClosedError(f"{self._called} is closed{self._advice()}")

    def _advice(self) -> str:
        """Return the advice for the use of a closed host, to follow "is closed"."""
        if self.model.closed:
            return (
                ", and so is its model: load the model again, and create another one "
                "from it"
            )
        return ": create another one from its model"

    @property
    def load(self) -> Load:
        """Return the number of running and waiting requests."""
        return self.loop.load

    def lent_embedder(self, spec: EmbedSpec) -> AbstractContextManager[Embedder]:
        """Lend an embedder that runs on this host."""
        return lent_embedder(self.model, spec)

    @takes(GenerateOptions, SubmitSettings)
    def submit(
        self,
        prompt: Prompt | Sequence[Mapping[str, object]],
        *,
        stream: bool = False,
        **settings: Unpack[SubmitSettings],
    ) -> Handle:
        """Submit a prompt and return at once; it runs together with all other prompts.

        `retries` is not supported, because pieces of a wrong answer may already have
        been read.

        Args:
            prompt: Text, token ids, or with `chat` a list of messages.
            stream: Make pieces of the answer available, starting with its first token.
            **settings: Options of generation, see `GenerateOptions`, and any field of
                `SamplingParams`.

        Returns:
            A handle to wait for the result, to read the text during generation, in
            threads or asyncio, or to cancel the request.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range.
            ChatTemplateError: The model has no chat template, or the template refuses the
            messages.
            ContextClosedError: The context was closed.
        """
        self.check_open()
        options = GenerateOptions.of(SubmitSettings, settings, stream=stream)
        requests, _ = self.requests(single(prompt), options)
        with Interrupts() as interrupts:
            handle = Handle(self.loop, requests[0], self, stream=bool(options.stream))
        interrupts.deliver(handle.cancel)
        return handle

    def close(self) -> None:
        """Free the KV cache. Running requests end with `ContextClosedError`."""
        self.loop.close()


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
        """Refuse to return a model."""
        raise ArgumentTypeError(
            "is an engine elsewhere, but this call needs the model in this process. "
            f"Engines of {call('connect')} answer, classify, embed and annotate texts",
            argument="context",
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
        """Return the requests that label prompts."""

    @abstractmethod
    def embedding(self, texts: object, options: EmbedOptions) -> EmbedCall:
        """Return the call that computes vectors of texts."""

    def _advice(self) -> str:
        return ": connect to it again"
