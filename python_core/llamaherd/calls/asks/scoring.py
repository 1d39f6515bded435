"""Requests that score continuations: trees of tokens, and scores of whole prompts."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from llamaherd.calls.asks.answers import with_seed
from llamaherd.calls.asks.choices import Nodes, add_path
from llamaherd.calls.asks.options import ClassifyOptions, ScoreOptions, Space
from llamaherd.calls.asks.requests import (
    parsing,
    samples_of,
    tokens_or_problem,
    too_long_for,
)
from llamaherd.calls.chat.chat import answer_space
from llamaherd.engine.core.argument import Argument, Name
from llamaherd.engine.core.errors import Failure, TokenizeError
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.request import Request, ThoughtStage, TokenTree
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.model.tokens import Joiner, detokenize
from llamaherd.engine.native.shim import derive_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.rendering import Rendered
    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model


# Lower limit of the probability that no longer continuation follows. The probability is
# accurate to about 5e-8, so the logarithm of a smaller value is not meaningful; rounding
# may even yield 0.
_LEAST_REST = 1e-7


class Continuations:
    """Continuations of a prompt, each of at least one token, as a tree.

    Attributes:
        paths: Nodes of each continuation.
    """

    def __init__(self, continuations: Sequence[array[int]]) -> None:
        self._nodes: Nodes = {}
        self.paths = [add_path(self._nodes, tokens) for tokens in continuations]
        self._children: dict[int, list[int]] = {}
        for (parent, _), node in self._nodes.items():
            self._children.setdefault(parent, []).append(node)

    @cached_property
    def tree(self) -> TokenTree:
        """Tree of tokens for the engine."""
        return TokenTree(
            tokens=array("i", [token for _, token in self._nodes]),
            parents=array("i", [parent for parent, _ in self._nodes]),
            depth=max(map(len, self.paths)),
        )

    @property
    def n_paths(self) -> int:
        """Number of steps that the engine computes one after another for a prompt."""
        inner = self._children.keys() - {-1}
        above = {parent for (parent, _), node in self._nodes.items() if node in inner}
        return len(inner - above)

    @property
    def equal(self) -> tuple[int, int] | None:
        """Return the first two continuations with the same tokens; None if all differ."""
        first: dict[int, int] = {}
        for i, path in enumerate(self.paths):
            j = first.setdefault(path[-1], i)
            if j != i:
                return j, i
        return None

    def token_logprobs(self, i: int, scores: Sequence[float]) -> list[float]:
        """Return the log-probabilities of the tokens of continuation i."""
        return [scores[node] for node in self.paths[i]]

    def logprob(self, i: int, scores: Sequence[float]) -> float:
        """Return log P(continuation i is generated and ends there), see `_LEAST_REST`."""
        return sum(self.token_logprobs(i, scores)) + self._end_logprob(i, scores)

    def _end_logprob(self, i: int, scores: Sequence[float]) -> float:
        """Return the log-probability that no longer continuation follows."""
        longer = self._children.get(self.paths[i][-1])
        if longer is None:
            return 0.0
        rest = 1.0 - math.fsum(math.exp(scores[node]) for node in longer)
        return math.log(max(rest, _LEAST_REST))


class ScoredPrompt(NamedTuple):
    """A request for continuations of a prompt; without a tree if the prompt fails."""

    request: Request
    tree: Continuations | None
    continuations: list[array[int]]

    def token_logprobs(self, result: Result) -> list[list[float]] | None:
        """Return the values of each continuation; None if the prompt failed."""
        if self.tree is None or result.scores is None:
            return None
        n = len(self.continuations)
        return [self.tree.token_logprobs(i, result.scores) for i in range(n)]


# A prompt that was not scored, because its call ended before it began.
NOT_SCORED = ScoredPrompt(Request(tokens=array("i"), max_tokens=1), None, [])


def scored_prompts(
    model: Model,
    prompts: Sequence[Rendered],
    texts: Sequence[Sequence[str]],
    options: ClassifyOptions | ScoreOptions,
    n_ctx: object,
) -> list[ScoredPrompt]:
    """Create the requests for the log-probabilities of each prompt's continuations."""
    chat, space = options.chat, options.space
    n_thoughts = options.n_thoughts if isinstance(options, ClassifyOptions) else 1
    behind = BehindThoughts(model, n_thoughts)
    joiner = Joiner(model, parsing(options.parse_special, chat=chat))
    of_chat = None
    if chat and not options.prefix:
        of_chat = answer_space(
            model, template=options.template, variables=options.variables
        )

    of_limit = partial(_scored_prompt, model, n_ctx)

    def scored(i: int) -> ScoredPrompt:
        prompt, thought = prompts[i].prompt, prompts[i].thought
        before = options.prefix if chat else prompt
        template_space = of_chat if thought is None or of_chat is None else ""
        spaced = [_with_space(before, text, space, template_space) for text in texts[i]]
        name = Argument("prompts", (i,))
        tokens, problem = tokens_or_problem(model, name, prompt, joiner.prompt, n_ctx)
        if problem:
            return _failed_prompt(prompt, tokens, problem)
        try:
            if thought is not None:
                thought, continuations = behind.join(thought, spaced)
                return of_limit(prompt, tokens, continuations, thought)
            joined = joiner.join(prompt, tokens, spaced)
        except TokenizeError as error:
            return _failed_prompt(
                prompt, array("i"), Failure(str(error), "not_tokenized")
            )
        if joined.prompt:
            return of_limit(prompt, joined.prompt, joined.continuations)
        what = "and its continuation begin with one token" if prompt else "is empty"
        problem = Failure(
            f"the prompt {what}: the first token of a text has no probability without "
            "a token before it",
            "empty",
        )
        return _failed_prompt(prompt, array("i"), problem)

    return [scored(i) for i in range(len(prompts))]


def _with_space(prompt: object, text: str, space: Space, of_chat: str | None) -> str:
    """Return a continuation, with a space before it if one is needed."""
    if space == "auto":
        if of_chat is not None:  # space that the chat template writes
            return text if text[0].isspace() else of_chat + text
        before = prompt[-1:] if isinstance(prompt, str) else ""
        space = not (text[0].isspace() or before.isspace())
    return f" {text}" if space else text


def scored_text(
    model: Model, joiner: Joiner, name: Name, text: object, n_ctx: object
) -> ScoredPrompt:
    """Create a request for the log-probabilities of a text's tokens except the first."""
    tokens, problem = tokens_or_problem(model, name, text, joiner.prompt, n_ctx)
    if not problem and len(tokens) < 2:
        n = count_of(len(tokens), "token")
        problem = Failure(f"the text has {n}: none can be predicted", "empty")
    if problem:
        return _failed_prompt(text, tokens, problem)
    return _scored_prompt(model, n_ctx, text, tokens[:1], [tokens[1:]])


def _scored_prompt(  # noqa: PLR0917 - the parts of a request
    model: Model,
    n_ctx: object,
    prompt: object,
    tokens: array[int],
    continuations: list[array[int]],
    thought: ThoughtStage | None = None,
    *,
    logprobs: int | None = None,
) -> ScoredPrompt:
    joined = Continuations(continuations)
    request = Request(
        tokens=tokens,
        max_tokens=joined.tree.depth,
        tree=joined.tree,
        text=str(prompt) if isinstance(prompt, str) else None,
        thought=thought,
        logprobs=logprobs,
    )
    problem = too_long_for(model, request, n_ctx)
    if problem:
        return _failed_prompt(prompt, tokens, problem)._replace(
            continuations=continuations
        )
    return ScoredPrompt(request, joined, continuations)


def _failed_prompt(prompt: object, tokens: array[int], problem: str) -> ScoredPrompt:
    text = prompt if isinstance(prompt, str) else None
    request = Request(tokens=tokens, max_tokens=1, text=text, problem=problem)
    return ScoredPrompt(request, None, [])


# Prompts whose first tokens are equal are computed as one tree. With fewer equal
# tokens, computing the prompts in parallel is faster.
_LEAST_SHARED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScores:
    """Log-probabilities of a prompt of n tokens.

    Attributes:
        logprobs: Natural logarithm of the probability of each token but the first, given
            the tokens before it.
        top: For each of these tokens the most likely alternatives, most likely first: a
            map from token id to log-probability.
        ranks: Rank of each of these tokens among all tokens; the most likely token has 1.
        following: The most likely tokens after the prompt, as a map from token id to
            log-probability.
        n_reused: Number of tokens whose computation was shared with another prompt.
    """

    tokens: list[int]
    logprobs: list[float]
    top: list[dict[int, float]]
    ranks: list[int]
    following: dict[int, float]
    n_reused: int = 0


class ScoredPrompts:
    """Requests for the log-probabilities of prompts, each of at least one token.

    Prompts with the same beginning share a request.
    """

    def __init__(
        self, model: Model, prompts: Sequence[array[int]], n_top: int, n_ctx: object
    ) -> None:
        self._prompts = prompts
        self._groups: dict[tuple[int, ...], list[int]] = {}
        for i, tokens in enumerate(prompts):
            is_long = len(tokens) > _LEAST_SHARED
            key = tuple(tokens[:_LEAST_SHARED]) if is_long else (-1, i)
            self._groups.setdefault(key, []).append(i)
        self._rows = [
            _request_of_beginning(model, [prompts[i] for i in group], n_top, n_ctx)
            for group in self._groups.values()
        ]
        self.requests = [row.request for row in self._rows]

    def of_results(self, results: Sequence[Result]) -> list[PromptScores | Result]:
        """Return the scores of each prompt, or the result of a failed prompt."""
        scores: dict[int, PromptScores | Result] = {}
        groups = self._groups.values()
        for group, row, result in zip(groups, self._rows, results, strict=True):
            n_before = 0
            for j, i in enumerate(group):
                logprobs, top, ranks = result.logprobs, result.top_logprobs, result.ranks
                if row.tree is None or logprobs is None or top is None or ranks is None:
                    scores[i] = result
                    continue
                nodes = row.tree.paths[j]
                scores[i] = PromptScores(
                    tokens=list(self._prompts[i]),
                    logprobs=[logprobs[node] for node in nodes[:-1]],
                    top=[top[node] for node in nodes[:-1]],
                    ranks=[ranks[node] for node in nodes[:-1]],
                    following=top[nodes[-1]],
                    n_reused=1 + sum(n < n_before for n in nodes[:-1]) if n_before else 0,
                )
                n_before = max(n_before, 1 + max(nodes))
        return [scores[i] for i in range(len(self._prompts))]


def _request_of_beginning(
    model: Model, prompts: Sequence[array[int]], n_top: int, n_ctx: object
) -> ScoredPrompt:
    """Create the request of prompts that begin alike."""
    # A last node, whose token is arbitrary, makes the engine compute the logits after a
    # prompt.
    ends = [array("i", [*tokens[1:], 0]) for tokens in prompts]
    row = _scored_prompt(model, n_ctx, None, prompts[0][:1], ends, logprobs=n_top)
    if row.tree is not None:
        return row
    return row._replace(request=replace(row.request, tokens=prompts[0]))


# ---- thoughts before scores

_ONE = SamplingParams()  # a single thought uses the most likely tokens
# Settings for several thoughts, as recommended by authors of thinking models.
_SEVERAL = SamplingParams(temperature=0.6, top_p=0.95)


def with_thoughts(
    requests: Sequence[Request], n: int, seed: int, places: Sequence[int] | None = None
) -> list[Request]:
    """Return a request for each of n thoughts of each prompt; a single one is greedy."""
    if n == 1:
        return list(requests)
    at = places or range(len(requests))
    return [
        sample
        for place, request in zip(at, requests, strict=True)
        for sample in samples_of(with_seed(request, derive_seed(seed, place)), n)
    ]


class BehindThoughts:
    """Tokens of continuations after thoughts."""

    def __init__(self, model: Model, n: int = 1) -> None:
        self._model = model
        self._sampling = _ONE if n == 1 else _SEVERAL
        self._joiner = Joiner(model, True)
        self._known: dict[object, tuple[ThoughtStage, list[array[int]]]] = {}

    def join(
        self, stage: ThoughtStage, texts: Sequence[str]
    ) -> tuple[ThoughtStage, list[array[int]]]:
        """Tokenize continuations with the end of a thought; move shared tokens."""
        key = (stage, tuple(texts))
        if key not in self._known:
            joined, continuations = self._join_texts(stage, texts)
            self._known[key] = replace(joined, sampling=self._sampling), continuations
        return self._known[key]

    def _join_texts(
        self, stage: ThoughtStage, texts: Sequence[str]
    ) -> tuple[ThoughtStage, list[array[int]]]:
        tail = array("i", (*stage.end, *stage.after))
        text = detokenize(self._model, tail, unparse_special=True)
        tokens = self._joiner.prompt("thinking", text)
        joined = self._joiner.join(text, tokens, texts)
        n_moved = len(tokens) - len(joined.prompt)
        moved = tuple(tokens[len(joined.prompt) :])
        # Only tokens after the end marker may be moved into a continuation.
        parts = [
            (part[: len(part) - n_moved], part[len(part) - n_moved :])
            for part in (stage.after, stage.closing)
        ]
        if n_moved > len(stage.after) or any(end != moved for _, end in parts):
            return stage, self._joiner.join(tail, tail, texts).continuations
        (after, _), (closing, _) = parts
        return replace(stage, after=after, closing=closing), joined.continuations
