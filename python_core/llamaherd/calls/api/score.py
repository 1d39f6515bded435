"""Probabilities of given continuations and of texts, without text generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Unpack

import numpy as np

from llamaherd.calls.api.running import (
    host_call,
    none_answered,
    open_context,
    run_to_end,
    start,
)
from llamaherd.calls.asks.continuations import (
    Continuation,
    PerplexityResults,
    ScoreResults,
)
from llamaherd.calls.asks.keywords import PerplexitySettings, ScoreSettings
from llamaherd.calls.asks.options import PerplexityOptions, ScoreOptions
from llamaherd.calls.asks.rendering import rendered_prompts
from llamaherd.calls.asks.requests import parsing
from llamaherd.calls.asks.scores import thought_of
from llamaherd.calls.asks.scoring import (
    NOT_SCORED,
    ScoredPrompt,
    scored_prompts,
    scored_text,
)
from llamaherd.calls.asks.settings import takes
from llamaherd.calls.chat.conversations import prompts_or_refusals, refusal_of
from llamaherd.calls.run.call import Call
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Name
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.thinking import Thinking
from llamaherd.engine.model.tokens import Joiner, Prompt

if TYPE_CHECKING:
    from llama_cpp import Llama

    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.hosted import HostedCall
    from llamaherd.calls.run.job import Job
    from llamaherd.engine.core.results import Result, Results
    from llamaherd.engine.core.stats import ProgressOption

    Messages = Sequence[Mapping[str, object]]


@takes(ScoreOptions, ScoreSettings)
def score_parallel(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    continuations: str | Sequence[str | Sequence[str]],
    *,
    progress: ProgressOption = False,
    **settings: Unpack[ScoreSettings],
) -> ScoreResults:
    """Compute the log-probability of each token of given continuations.

    Args:
        context: Context to run in; a `llama_cpp.Llama` gets its own context.
        prompts: Prompts as in `generate_parallel`, including `chat`.
        continuations: One text for all prompts, or for each prompt a text or a list of
            texts, which are then computed as a tree. No space is inserted before them.
        progress: True to show a progress bar, or a function that is called with a
            `Progress` repeatedly, on the calling thread.
        **settings: Options of scoring, see `ScoreOptions`.

    Returns:
        For each prompt, its continuations with their log-probabilities. Prompt and
        continuation are tokenized together. If a token spans the end of the prompt, it is
        the first token of the continuation.
    """
    options = ScoreOptions.of(ScoreSettings, settings, progress=progress)
    return run_to_end(
        lambda: prepare_score(context, prompts, continuations, options),
        progress,
        prompts,
        lambda n: _score_results(none_answered(n), [NOT_SCORED] * n, [()] * n),
    )


@takes(ScoreOptions, ScoreSettings)
def start_score(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    continuations: str | Sequence[str | Sequence[str]],
    **settings: Unpack[ScoreSettings],
) -> Job[ScoreResults]:
    """Start `score_parallel` in the background and return at once."""
    options = ScoreOptions.of(ScoreSettings, settings)
    return start(lambda: prepare_score(context, prompts, continuations, options))


def prepare_score(
    context: Host | Llama, prompts: object, continuations: object, options: ScoreOptions
) -> HostedCall[ScoreResults]:
    """Check the arguments and create the work of the job of `start_score`."""
    context = open_context(context)
    model = context.model
    every = prompts_or_refusals(prompts)
    texts = _checked_continuations(continuations, len(every))
    for i, own_texts in enumerate(texts):
        bad = (refusal_of(text, "the continuation") for text in own_texts)
        every[i] = next(filter(None, bad), every[i])
    rendered = rendered_prompts(model, every, options, is_constrained=True)
    n_ctx = context.options["n_ctx"]
    rows = scored_prompts(model, rendered, texts, options, n_ctx)
    thinks = isinstance(options.thinking, Thinking)
    call = Call([row.request for row in rows], seed=0, on_error=options.on_error)
    convert = partial(_score_results, prompts=rows, texts=texts, thinks=thinks)
    return host_call(context, call, prompts, options, convert=convert)


def _score_results(
    results: Results,
    prompts: Sequence[ScoredPrompt],
    texts: Sequence[Sequence[str]],
    *,
    thinks: bool = False,
) -> ScoreResults:
    def scored(
        prompt: ScoredPrompt, result: Result, own_texts: Sequence[str]
    ) -> list[Continuation] | None:
        rows = prompt.token_logprobs(result)
        if rows is None:
            return None
        parts = zip(own_texts, prompt.continuations, rows, strict=True)
        return [
            Continuation(text=text, tokens=tokens.tolist(), token_logprobs=np.array(row))
            for text, tokens, row in parts
        ]

    return ScoreResults(
        continuations=list(map(scored, prompts, results, texts)),
        n_given=[len(group) for group in texts],
        errors=results.errors,
        finish_reasons=results.finish_reasons,
        stats=results.stats,
        thoughts=tuple(map(thought_of, results)) if thinks else None,
    )


def _checked_continuations(continuations: object, n: int) -> list[list[str]]:
    name = "continuations"
    if isinstance(continuations, str):
        continuations = [checks.text(name, continuations)] * n
    what = "a text, or for each prompt a text or a list of texts"
    groups = _elements(name, continuations, what)
    if len(groups) != n:
        raise ArgumentError(
            f"must be {n}, one for each prompt, not {len(groups)}",
            argument=name,
            code="wrong_length",
        )
    out = []
    for i, group in enumerate(groups):
        where = Argument(name, (i,))
        is_one = isinstance(group, str)
        texts = (
            [group] if is_one else _elements(where, group, "a text or a list of texts")
        )
        kinds = (
            checks.instance(where.at(j), t, str, "a text") for j, t in enumerate(texts)
        )
        out.append([str.__str__(text) for text in kinds])
        if not out[-1] or "" in out[-1]:
            raise ArgumentError("must not be empty", argument=where, code="empty")
    return out


def _elements(name: Name, value: object, what: str) -> list[object]:
    value = checks.column_as_list(value)
    problem = checks.no_list(value)
    is_mapping = isinstance(value, (bytes, bytearray, Mapping))
    if problem or is_mapping or not isinstance(value, Iterable):
        raise ArgumentTypeError(
            f"must be {what}, not {problem or checks.brief(value)}", argument=name
        )
    return list(value)


@takes(PerplexityOptions, PerplexitySettings)
def perplexity(
    context: Host | Llama,
    texts: Iterable[Prompt | None],
    *,
    progress: ProgressOption = False,
    **settings: Unpack[PerplexitySettings],
) -> PerplexityResults:
    """Compute the perplexity of texts: exp of -1/n times the sum of log P(t_i).

    Each token is predicted from all tokens before it. The first token is not predicted.
    The first token is the model's start token; if the model has none, it is the first
    token of the text.

    Args:
        context: Context to run in; a `llama_cpp.Llama` gets its own context.
        texts: Texts or token ids, each at most as long as the training context of the
            model.
        progress: True to show a progress bar, or a function that is called with a
            `Progress` repeatedly, on the calling thread.
        **settings: Options of perplexity, see `PerplexityOptions`.

    Returns:
        The perplexity of each text, and the log-probability of each of its tokens.
    """
    options = PerplexityOptions.of(PerplexitySettings, settings, progress=progress)
    return run_to_end(
        lambda: _prepare_perplexity(context, texts, options),
        progress,
        texts,
        lambda n: _perplexities(none_answered(n), [NOT_SCORED] * n),
    )


@takes(PerplexityOptions, PerplexitySettings)
def start_perplexity(
    context: Host | Llama,
    texts: Iterable[Prompt | None],
    **settings: Unpack[PerplexitySettings],
) -> Job[PerplexityResults]:
    """Start `perplexity` in the background and return at once."""
    options = PerplexityOptions.of(PerplexitySettings, settings)
    return start(lambda: _prepare_perplexity(context, texts, options))


def _prepare_perplexity(
    context: Host | Llama, texts: object, options: PerplexityOptions
) -> HostedCall[PerplexityResults]:
    context = open_context(context)
    model = context.model
    joiner = Joiner(model, parsing(options.parse_special, chat=False))
    n_ctx = context.options["n_ctx"]
    rows = [
        scored_text(model, joiner, Argument("texts", (i,)), text, n_ctx)
        for i, text in enumerate(prompts_or_refusals(texts, "texts", ""))
    ]
    call = Call([row.request for row in rows], seed=0, on_error=options.on_error)
    convert = partial(_perplexities, texts=rows)
    return host_call(context, call, texts, options, convert=convert, name="texts")


def _perplexities(results: Results, texts: Sequence[ScoredPrompt]) -> PerplexityResults:
    rows = [
        text.token_logprobs(result) for text, result in zip(texts, results, strict=True)
    ]
    return PerplexityResults(
        tokens=[list(chain(text.request.tokens, *text.continuations)) for text in texts],
        token_logprobs=[None if row is None else np.array(row[0]) for row in rows],
        errors=results.errors,
        finish_reasons=results.finish_reasons,
        stats=results.stats,
    )
