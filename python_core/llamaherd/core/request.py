"""What is asked of an engine: a `Request`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core.sampling import SamplingParams

if TYPE_CHECKING:
    from array import array

_GREEDY = SamplingParams()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of the engine.

    Attributes:
        tokens: int32[n], the whole prompt.
        max_tokens: Tokens to generate at most; 0: a prefix, held for others to fork from.
        sampling: Settings of the sampler chain; its `max_tokens`, `stop` and `seed` are
            already worked into the fields here.
        stop: Texts that end the answer.
        seed: uint32, where the prompt's own generator starts.
        text: The prompt as it was given; None if it was given as tokens.
        problem: Why it fails without being run; "" if nothing is known to be wrong.
    """

    tokens: array[int]
    max_tokens: int
    sampling: SamplingParams = _GREEDY
    stop: tuple[str, ...] = ()
    seed: int = 0
    text: str | None = None
    problem: str = ""
