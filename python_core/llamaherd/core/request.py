"""What is asked of an engine: a `Request`."""

from __future__ import annotations

import hashlib
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Protocol

from llamaherd.core.sampling import SamplingParams

if TYPE_CHECKING:
    from array import array

_GREEDY = SamplingParams()


class Shape(Protocol):
    """A schema at work, see `structured.shape`."""

    @property
    def enforced(self) -> str:
        """What of it the engine enforces."""
        ...

    def read(self, answer: str) -> object:
        """What an answer says; ValueError: it does not follow the schema."""
        ...


@dataclass(frozen=True, slots=True)
class TokenTree:
    """Continuations of a prompt as a tree of tokens: what begin alike share nodes.

    Attributes:
        tokens: int32[n_nodes].
        parents: int32[n_nodes], each less than the node's own number; -1: the prompt.
        depth: Tokens of the longest continuation.
    """

    tokens: array[int]
    parents: array[int]
    depth: int

    def to_bytes(self) -> bytes:
        """All of it."""
        return self.tokens.tobytes() + self.parents.tobytes()


class ChoicePaths(str):
    """Ways to write choices behind a prompt, as a tree of tokens.

    The text itself is the hash of all of it: equal trees compare equal, and a journal can
    tell requests that have different ones.

    Attributes:
        tokens: int32[n_nodes].
        parents: int32[n_nodes], each less than the node's own number; -1: the prompt.
        choices: int32[n_nodes]: number of the choice that ends with the node; -1: none.
        depth: Tokens of the longest path.
    """

    __slots__ = ("choices", "depth", "parents", "tokens")
    tokens: array[int]
    parents: array[int]
    choices: array[int]
    depth: int

    def __new__(  # noqa: PYI034 - typing.Self is of Python 3.11
        cls, tokens: array[int], parents: array[int], choices: array[int], depth: int
    ) -> ChoicePaths:
        """Hash and keep the arrays, which must not change any more."""
        content = b"".join(each.tobytes() for each in (tokens, parents, choices))
        self = super().__new__(cls, hashlib.sha256(content).hexdigest())
        self.tokens, self.parents, self.choices = tokens, parents, choices
        self.depth = depth
        return self

    def __reduce__(self) -> tuple[type[ChoicePaths], tuple[object, ...]]:
        return ChoicePaths, (self.tokens, self.parents, self.choices, self.depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of the engine.

    Attributes:
        tokens: int32[n], the whole prompt.
        max_tokens: Tokens to generate at most; 0: a prefix, held for others to fork from.
            Of a score the depth of its tree.
        sampling: Settings of the sampler chain; its `max_tokens`, `stop` and `seed` are
            already worked into the fields here.
        stop: Texts that end the answer.
        seed: uint32, where the prompt's own generator starts.
        text: The prompt as it was given; None if it was given as tokens.
        problem: Why it fails without being run; "" if nothing is known to be wrong.
        shape: Of `sampling.schema`; None: there is none.
        priority: Requests with a higher one go first, and take the slots of others.
        is_whole: Of a prefix: it is somebody's whole prompt, and its logits are kept.
        tree: Generate nothing, but tell the log-probabilities of these tokens.
        paths: Ways to write the choices of `sampling`; None: it has none, or the engine
            finds them itself.
        logprobs: Of how many of the most likely tokens the log-probabilities are wanted,
            beside each token of the answer; None: of none.
    """

    tokens: array[int]
    max_tokens: int
    sampling: SamplingParams = _GREEDY
    stop: tuple[str, ...] = ()
    seed: int = 0
    text: str | None = None
    problem: str = ""
    shape: Shape | None = field(default=None, compare=False)
    priority: int = 0
    is_whole: bool = False
    tree: TokenTree | None = None
    paths: ChoicePaths | None = None
    logprobs: int | None = None


# Fields that change nothing in a result: the prompt beside its tokens, a reason to fail,
# the schema beside its text in `sampling`, the order of work.
NEUTRAL = frozenset({"text", "problem", "shape", "priority", "is_whole"})
_DECISIVE = tuple(each for each in fields(Request) if each.name not in NEUTRAL)


def decisive(request: Request) -> dict[str, object]:
    """Fields that decide the result, those with default values left out.

    All fields are decisive but those that `NEUTRAL` names: a field that is added later
    is part of every journal key from its first day.
    """
    found = {each.name: getattr(request, each.name) for each in _DECISIVE}
    return {
        each.name: found[each.name]
        for each in _DECISIVE
        if each.default is MISSING or found[each.name] != each.default
    }


def too_long(request: Request, capacity: int, whose: str) -> str:
    """Why a request has no room, whatever happens; "": it has."""
    n_prompt, n_answer = len(request.tokens), request.max_tokens
    if n_prompt == 0:
        return "the prompt is empty: it has no tokens"
    if n_prompt + n_answer <= capacity:
        return ""
    if request.tree is not None:
        return (
            f"the prompt and its longest continuation have {n_prompt + n_answer} tokens, "
            f"more than the {capacity} that {whose}: shorten them"
        )
    return (
        f"the prompt has {n_prompt} tokens; with max_tokens ({n_answer}) "
        f"that is {n_prompt + n_answer}, more than the {capacity} that "
        f"{whose}: shorten the prompt or lower max_tokens"
    )
