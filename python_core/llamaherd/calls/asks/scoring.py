"""Requests for log-probabilities of continuations, or of a text's tokens."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from llamaherd.calls.asks.requests import surely_too_long, too_long_for
from llamaherd.calls.asks.trees import Continuations
from llamaherd.calls.chat.conversations import Refused
from llamaherd.engine.core.errors import TokenizeError
from llamaherd.engine.core.failure import Failure
from llamaherd.engine.core.plurals import count_of
from llamaherd.engine.core.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.scored_thoughts import BehindThoughts
    from llamaherd.engine.core.argument import Name
    from llamaherd.engine.core.request import ThoughtStage
    from llamaherd.engine.model.joined import Joiner
    from llamaherd.engine.model.model import Model


def scoring_request(
    model: Model,
    joiner: Joiner,
    name: Name,
    prompt: object,
    texts: Sequence[str],
    *,
    thought: ThoughtStage | None = None,
    behind: BehindThoughts | None = None,
) -> tuple[Request, Continuations | None, list[array[int]]]:
    """Create a request for the log-probabilities of continuations of one prompt.

    Args:
        model: Model that will run the request.
        joiner: Joiner of this model.
        name: Name of the prompt in messages.
        prompt: Text or token ids.
        texts: Continuations, with any white space before them.
        thought: Thought between prompt and continuations; None without a thought.
        behind: Tokens of continuations after thoughts.

    Returns:
        The request, the continuations (None if the prompt fails), and their tokens.

    Raises:
        TypeError: `prompt` is neither text nor token ids.
    """
    if isinstance(prompt, Refused):
        return _failed(prompt, array("i"), prompt.failure), None, []
    try:
        problem = surely_too_long(model, name, prompt) if isinstance(prompt, str) else ""
        if problem:
            return _failed(prompt, array("i"), problem), None, []
        tokens = joiner.prompt(name, prompt)
        if thought is not None and behind is not None:
            thought, each = behind.join(thought, texts)
            return _request(model, prompt, tokens, each, thought)
        joined = joiner.join(prompt, tokens, texts)
    except TokenizeError as error:
        return _failed(prompt, array("i"), Failure(str(error), "not_tokenized")), None, []
    if not joined.prompt:
        problem = Failure(
            "the prompt is empty: the first token of a text has no probability without "
            "a token before it",
            "empty",
        )
        return _failed(prompt, array("i"), problem), None, []
    return _request(model, prompt, joined.prompt, joined.continuations)


def text_request(
    model: Model, joiner: Joiner, name: Name, text: object
) -> tuple[Request, Continuations | None, list[array[int]]]:
    """Create a request for the log-probabilities of a text's tokens except the first.

    Takes the arguments of `scoring_request` and returns the same values.
    """
    if isinstance(text, Refused):
        return _failed(text, array("i"), text.failure), None, []
    try:
        problem = surely_too_long(model, name, text) if isinstance(text, str) else ""
        tokens = array("i") if problem else joiner.prompt(name, text)
    except TokenizeError as error:
        tokens, problem = array("i"), Failure(str(error), "not_tokenized")
    if not problem and len(tokens) < 2:
        n = count_of(len(tokens), "token")
        problem = Failure(f"the text has {n}: none can be predicted", "empty")
    if problem:
        return _failed(text, tokens, problem), None, []
    return _request(model, text, tokens[:1], [tokens[1:]])


def _request(
    model: Model,
    prompt: object,
    tokens: array[int],
    continuations: list[array[int]],
    thought: ThoughtStage | None = None,
) -> tuple[Request, Continuations | None, list[array[int]]]:
    each = Continuations(continuations)
    tree = each.tree
    request = Request(
        tokens=tokens,
        max_tokens=tree.depth,
        tree=tree,
        text=str(prompt) if isinstance(prompt, str) else None,
        thought=thought,
    )
    problem = too_long_for(model, request)
    if problem:
        return _failed(prompt, tokens, problem), None, continuations
    return request, each, continuations


def _failed(prompt: object, tokens: array[int], problem: str) -> Request:
    return Request(
        tokens=tokens,
        max_tokens=1,
        text=prompt if isinstance(prompt, str) else None,
        problem=problem,
    )
