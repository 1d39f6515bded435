"""Where prompts run: what calls need of a context, whatever computes behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NoReturn

from llamaherd.core import checks
from llamaherd.core.errors import ContextClosedError
from llamaherd.run.embedders import make_embedder
from llamaherd.run.handle import Handle
from llamaherd.run.interrupts import Interrupts
from llamaherd.run.requests import make_requests
from llamaherd.run.settings import shows_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from llamaherd.core.sampling import SamplingParams, SamplingSettings
    from llamaherd.core.stats import Load
    from llamaherd.memory.plan import Plan
    from llamaherd.model.model import Model
    from llamaherd.model.tokens import ParseSpecial, Prompt
    from llamaherd.run.embedders import EmbedSpec
    from llamaherd.run.embedding import Embedder
    from llamaherd.run.group import GroupLoop


class Host(ABC):
    """Where prompts run: a `Context` here, or a herd of them elsewhere.

    Attributes:
        model: Whose vocabulary prompts are made of.
    """

    model: Model
    # What a message calls it.
    _called: ClassVar[str] = "ctx"

    @property
    @abstractmethod
    def loop(self) -> GroupLoop:
        """What runs requests here."""

    @property
    @abstractmethod
    def numerics(self) -> dict[str, object]:
        """Settings that change what is computed by more than rounding, by argument."""

    @property
    @abstractmethod
    def options(self) -> dict[str, object]:
        """What another context is to be told to be like it; "auto": was not said."""

    @property
    def plan(self) -> Plan | None:
        """The sizes of the KV cache that there is now; None before the first call."""
        return self.loop.plan

    @property
    def closed(self) -> bool:
        """Whether the context was closed."""
        return self.loop.is_closed

    def check_open(self) -> None:
        """Raises ContextClosedError if it was closed."""
        if self.closed:
            raise ContextClosedError(
                f"{self._called} is closed: make another one of its model"
            )

    @property
    def load(self) -> Load:
        """What runs and what waits at this moment."""
        return self.loop.load

    def embedder(self, spec: EmbedSpec) -> Callable[[], Embedder]:
        """What makes an embedder where this host computes."""
        return partial(make_embedder, self.model, spec)

    @shows_settings
    def submit(
        self,
        prompt: Prompt | Sequence[Mapping[str, object]],
        *,
        params: SamplingParams | None = None,
        parse_special: ParseSpecial = "auto",
        chat: bool = False,
        system: str | None = None,
        priority: int = 0,
        stream: bool = False,
        strict: bool = False,
        logprobs: int | None = None,
        **settings: Unpack[SamplingSettings],
    ) -> Handle:
        """Has a prompt answered beside all others, and returns at once.

        Args:
            prompt: As one of those of `generate_parallel`, like the next four.
            params: As there.
            parse_special: As there.
            chat: As there.
            system: As there.
            priority: A prompt with a higher one goes first; if there is no free slot,
                it takes that of one with a lower one, which goes on later where it was.
            stream: Whether pieces of the answer are wanted from its first token on.
            strict: As in `generate_parallel`. There are no `retries`: pieces of a wrong
                answer may have been read already.
            logprobs: As one of those of `generate_parallel`.
            **settings: As there.

        Returns:
            A handle to wait for the result, to read the text as it grows, from threads
            or asyncio, or to cancel it. What the prompt has in common with earlier ones
            that were submitted is computed once; its logits may then differ from those of
            a call with this prompt alone by their rounding, if not `deterministic`.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range.
            ChatTemplateError: The model has no chat template, or it refuses the messages.
            ContextClosedError: The context was closed.
        """
        self.check_open()
        requests, _ = make_requests(
            self.model,
            [prompt],
            params,
            settings,
            parse_special=parse_special,
            chat=chat,
            system=system,
            priority=checks.integer("priority", priority, -100, 100),
            strict=strict,
            logprobs=logprobs,
        )
        is_stream = checks.flag("stream", stream)
        with Interrupts() as interrupts:
            handle = Handle(self.loop, requests[0], self, stream=is_stream)
        try:
            interrupts.deliver()
        except BaseException:
            handle.cancel()
            raise
        return handle

    def close(self) -> None:
        """Frees the KV cache. What runs ends with `ContextClosedError`."""
        self.loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        checks.stays_here(self)
