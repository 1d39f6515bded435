"""A call that scores: from prompts and continuations to requests, and to its results."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from llamaherd.core.errors import GenerationError, TokenizeError
from llamaherd.core.request import Request, too_long
from llamaherd.model.chat import Refused
from llamaherd.run.requests import surely_too_long
from llamaherd.run.trees import Continuations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.core.results import Results
    from llamaherd.core.stats import Progress
    from llamaherd.model.joined import Joiner
    from llamaherd.model.model import Model
    from llamaherd.run.group import GroupLoop
    from llamaherd.run.job import Runnable


class Scored(Protocol):
    """What a call that scores returns."""

    @property
    def errors(self) -> list[str | None]:
        """A reason for each prompt."""
        ...


_R = TypeVar("_R", bound=Scored)


class Scoring(Generic[_R]):
    """Runs a call, and makes other results of its results.

    Args:
        call: What to run; its requests have trees.
        convert: Makes the results.
        name: What messages call the prompts.
        n_beside: The last so many requests are none of the caller's prompts.
    """

    def __init__(
        self,
        call: Runnable[Results],
        convert: Callable[[Results], _R],
        *,
        name: str = "prompts",
        n_beside: int = 0,
    ) -> None:
        self._call = call
        self._convert = convert
        self._name = name
        self._n_beside = n_beside

    @property
    def progress(self) -> Progress:
        """How far it is."""
        progress = self._call.progress
        n_total = progress.n_total - self._n_beside
        return replace(
            progress,
            n_done=min(progress.n_done, n_total),
            n_failed=min(progress.n_failed, n_total),
            n_total=n_total,
        )

    @property
    def problem(self) -> str:
        """As the call's."""
        return self._call.problem

    def cancel(self) -> None:
        """Ends it soon."""
        self._call.cancel()

    def run(self, loop: GroupLoop) -> _R:
        """As the call's.

        Raises:
            GenerationError: As the call's, with results of this kind.
        """
        try:
            return self._convert(self._call.run(loop))
        except GenerationError as error:
            results = self._convert(error.results)
            failed = ((i, why) for i, why in enumerate(results.errors) if why is not None)
            i, why = next(failed)
            raise type(error)(f"{self._name}[{i}] failed: {why}", results) from None


def scoring_request(
    model: Model, joiner: Joiner, name: str, prompt: object, texts: Sequence[str]
) -> tuple[Request, Continuations | None, list[array[int]]]:
    """A request for the log-probabilities of continuations of one prompt.

    Args:
        model: On which it will run.
        joiner: Of this model.
        name: What messages call the prompt.
        prompt: Text or token ids.
        texts: What follows on it, each with the space that may come before it.

    Returns:
        The request; the continuations, None if the prompt fails; and their tokens.

    Raises:
        TypeError: `prompt` is neither text nor token ids.
    """
    if isinstance(prompt, Refused):
        return _failed(prompt, array("i"), prompt.reason), None, []
    try:
        problem = surely_too_long(model, name, prompt) if isinstance(prompt, str) else ""
        if problem:
            return _failed(prompt, array("i"), problem), None, []
        tokens = joiner.prompt(name, prompt)
        joined = joiner.join(prompt, tokens, texts)
    except TokenizeError as error:
        return _failed(prompt, array("i"), str(error)), None, []
    if not joined.prompt:
        problem = (
            "the prompt is empty: before the first token of a text no other has a "
            "probability"
        )
        return _failed(prompt, array("i"), problem), None, []
    return _request(model, prompt, joined.prompt, joined.continuations)


def text_request(
    model: Model, joiner: Joiner, name: str, text: object
) -> tuple[Request, Continuations | None, list[array[int]]]:
    """A request for the log-probabilities of all tokens of a text but the first.

    Args and returns as for `scoring_request`.
    """
    try:
        problem = surely_too_long(model, name, text) if isinstance(text, str) else ""
        tokens = array("i") if problem else joiner.prompt(name, text)
    except TokenizeError as error:
        tokens, problem = array("i"), str(error)
    if not problem and len(tokens) < 2:
        problem = f"the text has {len(tokens)} tokens: there is none to be predicted"
    if problem:
        return _failed(text, tokens, problem), None, []
    return _request(model, text, tokens[:1], [tokens[1:]])


def _request(
    model: Model, prompt: object, tokens: array[int], continuations: list[array[int]]
) -> tuple[Request, Continuations | None, list[array[int]]]:
    each = Continuations(continuations)
    tree = each.tree
    request = Request(
        tokens=tokens,
        max_tokens=tree.depth,
        tree=tree,
        text=prompt if isinstance(prompt, str) else None,
    )
    problem = too_long(request, model.n_ctx_train, "the model was trained for")
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
