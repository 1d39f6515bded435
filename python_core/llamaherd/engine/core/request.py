"""Input of an engine: `Request`; its preparation ends if nobody waits for it."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from llamaherd.engine.core.errors import Failure
from llamaherd.engine.core.sampling import SamplingParams

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator


class AbandonedError(BaseException):
    """Nobody waits for the request any more. No handler may take it for an error."""


class Preparing:
    """Work on a request before its prompts run, within `with preparing.entered()`.

    Each text that is tokenized, each conversation that is rendered and each constraint
    that is compiled asks `check_wanted` first.
    """

    def __init__(self) -> None:
        self.is_wanted = True

    def end(self) -> None:
        """End the work at its next step. Any thread may call this method."""
        self.is_wanted = False

    def check(self) -> None:
        """Raise AbandonedError after `end`."""
        if not self.is_wanted:
            raise AbandonedError

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let `check_wanted` ask about this work in this thread."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Preparing | None] = ContextVar("preparing", default=None)


def check_wanted() -> None:
    """End the thread's work if nobody waits for it; see `Preparing`."""
    current = _current.get()
    if current is not None:
        current.check()


_GREEDY = SamplingParams()


class AnswerShape(Protocol):
    """Protocol of a prepared schema, see `structured.shape`."""

    @property
    def enforced(self) -> str:
        """Part of the schema that the engine enforces."""
        ...

    @property
    def is_lark(self) -> bool:
        """Whether `enforced` is a Lark grammar instead of a JSON Schema."""
        ...

    def read(self, answer: str) -> object:
        """Parse an answer; raise ValueError if it violates the schema."""
        ...


@dataclass(frozen=True, slots=True)
class TokenTree:
    """Tree of tokens of continuations; common prefixes share nodes.

    Attributes:
        tokens: int32[n_nodes].
        parents: int32[n_nodes], a smaller number than the node's; -1: the prompt.
        depth: Number of tokens of the longest continuation.
    """

    tokens: array[int]
    parents: array[int]
    depth: int

    def to_bytes(self) -> bytes:
        """Serialize the tree."""
        return self.tokens.tobytes() + self.parents.tobytes()


class ChoicePaths(str):
    """Tree of the tokens of all spellings of choices; -1: no choice ends there.

    The str is a hash of the tree, for comparisons and keys of journals.
    """

    __slots__ = ("choices", "depth", "parents", "tokens")
    tokens: array[int]
    parents: array[int]
    choices: array[int]
    depth: int

    def __new__(
        cls, tokens: array[int], parents: array[int], choices: array[int], depth: int
    ) -> Self:
        """Hash and keep the arrays, which must not change afterwards."""
        content = b"".join(part.tobytes() for part in (tokens, parents, choices))
        self = super().__new__(cls, hashlib.sha256(content).hexdigest())
        self.tokens, self.parents, self.choices = tokens, parents, choices
        self.depth = depth
        return self

    def __reduce__(self) -> tuple[type[ChoicePaths], tuple[object, ...]]:
        return ChoicePaths, (self.tokens, self.parents, self.choices, self.depth)


# Maximum number of white space tokens before a start marker, and of tokens that a thought
# may have beyond its budget to complete a character: LH_MAX_THOUGHT_SPACE,
# LH_MAX_THOUGHT_OVERRUN.
MAX_SPACE = 2
MAX_OVERRUN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtStage:
    """A thought before the answer or the score of a request.

    Attributes:
        budget: Maximum number of tokens of the thought, its end marker included.
        is_open: Whether the prompt ends inside a thought; the model may open one
            otherwise.
        after: Tokens that are forced after an `end` that the model generated.
        closing: Tokens that are forced when the budget is spent or the model ends its
            turn inside the thought: a message, `end` and `after`.
        seed: Seed of its random generator, a uint32; 0 if nothing is drawn.
    """

    budget: int
    is_open: bool
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()
    sampling: SamplingParams = _GREEDY
    seed: int = 0

    @property
    def n_cells(self) -> int:
        """Maximum number of KV cells of the thought with its markers."""
        n_opening = 0 if self.is_open else MAX_SPACE + len(self.start)
        n_closing = len(self.end) + max(len(self.after), len(self.closing))
        return n_opening + self.budget + MAX_OVERRUN + n_closing


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the engine.

    Attributes:
        tokens: int32[n], tokens of the whole prompt.
        max_tokens: 0 for a prefix, which others share; for a score, the depth of its
            tree.
        sampling: Settings of the sampler chain, except `max_tokens`, `stop` and `seed`.
        problem: Reason to fail the request without running it; "" without a reason.
        is_whole: Whether a prefix is a complete prompt, so that its logits must be kept.
        paths: Tokens of the choices in `sampling`; None if the engine computes them.
        logprobs: Number of alternatives whose log-probabilities are returned for each
            token; 0: of the tokens themselves; None: no log-probabilities.
    """

    tokens: array[int]
    max_tokens: int
    sampling: SamplingParams = _GREEDY
    stop: tuple[str, ...] = ()
    seed: int = 0
    text: str | None = None
    problem: str = ""
    shape: AnswerShape | None = field(default=None, compare=False)
    priority: int = 0
    is_whole: bool = False
    tree: TokenTree | None = None
    paths: ChoicePaths | None = None
    logprobs: int | None = None
    thought: ThoughtStage | None = None

    @property
    def n_prompt(self) -> int:
        """Number of tokens of the prompt, as far as it is known before the answer."""
        return len(self.tokens)

    @property
    def n_behind(self) -> int:
        """Maximum number of tokens after the prompt, in thought and answer together."""
        n_thought = 0 if self.thought is None else self.thought.n_cells
        return n_thought + self.max_tokens

    @property
    def n_cells(self) -> int:
        """Maximum number of KV cells."""
        return len(self.tokens) + self.n_behind

    @property
    def is_greedy(self) -> bool:
        """Whether equal requests always produce equal answers."""
        is_drawn = self.thought is not None and not self.thought.sampling.is_greedy
        return self.sampling.is_greedy and not is_drawn


# Fields that do not affect a result: the text of the prompt, a reason to fail, the
# prepared form of the schema in `sampling`, and the priority.
NEUTRAL = frozenset({"text", "problem", "shape", "priority", "is_whole"})
_DECISIVE = tuple(item for item in fields(Request) if item.name not in NEUTRAL)


def decisive(request: Request) -> dict[str, object]:
    """Return the fields that affect the result, without default values.

    A new field is automatically one of them, and thus part of the keys of journals.
    """
    values = {item.name: getattr(request, item.name) for item in _DECISIVE}
    return {
        item.name: values[item.name]
        for item in _DECISIVE
        if item.default is MISSING or values[item.name] != item.default
    }


_Sequence = TypeVar("_Sequence", "array[int]", "list[int]", bytes, str)


def n_common(a: _Sequence, b: _Sequence) -> int:
    """Return the number of elements with which both sequences begin."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def too_long(request: Request, capacity: int, whose: str) -> str:
    """Return the reason why a request can never fit; "" if it fits."""
    n_prompt, n_all = len(request.tokens), request.n_cells
    if n_prompt == 0:
        return Failure("the prompt is empty: it has no tokens", "empty")
    if n_all <= capacity:
        return ""
    thought = request.thought
    with_thought = "" if thought is None else f", its thought (up to {thought.n_cells})"
    if request.tree is not None:
        return Failure(
            f"the prompt{with_thought} and its longest continuation have {n_all} tokens, "
            f"more than the {capacity} that {whose}: shorten them",
            "too_long",
        )
    shorter = "" if thought is None else "of its thought or "
    and_thought = "" if thought is None else f" and a thought (up to {thought.n_cells})"
    return Failure(
        f"the prompt has {n_prompt} token{'s' * (n_prompt != 1)}; with an answer (up to "
        f"{request.max_tokens}){and_thought} that is {n_all}, more than the {capacity} "
        f"that {whose}: shorten the prompt, or lower the limit {shorter}of its answer",
        "too_long",
    )
