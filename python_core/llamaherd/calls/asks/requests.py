"""Creation of requests from the arguments of a call: checks, tokens, seeds, room."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from llamaherd.calls.asks.answers import seeded_thought, with_seed
from llamaherd.calls.asks.choices import ChoiceCuts
from llamaherd.calls.asks.rendering import Rendered, rendered_prompts
from llamaherd.calls.asks.settings import Setting, asked_of, shape_with
from llamaherd.calls.chat.conversations import Refused
from llamaherd.engine.core.argument import Argument, Id, Name, argument_of
from llamaherd.engine.core.errors import (
    ArgumentError,
    Failure,
    SamplerError,
    TokenizeError,
)
from llamaherd.engine.core.request import ChoicePaths, Request, too_long
from llamaherd.engine.core.sampling import (
    CONSTRAINTS,
    MAX_TOKENS_OF_CHAT,
    SamplingParams,
)
from llamaherd.engine.model.tokens import ParseSpecial, prompt_tokens
from llamaherd.engine.native import shim
from llamaherd.engine.native.request import check_sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from llamaherd.calls.asks.options import GenerateOptions
    from llamaherd.engine.model.model import Model

# Some tokenizers of libllama take time quadratic in the number of tokens.
_PIECE_CHARS = 4096
# Number of compiled constraints that a model caches (see
# capi_shim/sampling/prepared.cpp). Constraints beyond this number are compiled again at
# run time, so checking them in advance saves nothing.
_MOST_PREPARED = 32
# Tokenizing in pieces can result in a few more tokens than tokenizing the whole text.
_SURELY_MORE = 1.25
# A few cells of a KV cache are not available for prompts.
_SPARE_CELLS = 64


def make_requests(
    model: Model,
    prompts: object,
    options: GenerateOptions,
    *,
    places: Sequence[int] | None = None,
    n_ctx: object = "auto",
) -> tuple[list[Request], int]:
    """Check sampling settings and tokenize the prompts of a call.

    Args:
        places: Index of each prompt in the whole call, from which its seed is derived;
            None: 0, 1, and so on.
        n_ctx: Number of KV cells of the context, or "auto"; limits a default budget.

    Returns:
        One request per sample, ordered by prompt, and the base of their seeds.
    """
    arguments = asked_of(prompts, options)
    held = [setting.is_constrained for setting in arguments.settings]
    rendered = rendered_prompts(model, arguments.prompts, options, is_constrained=held)
    at = range(len(rendered)) if places is None else places
    _check_common(model, arguments.different, is_strict=options.strict)
    _prepare_each(model, arguments.different)
    arguments.warn_idle(options)
    maker = _RequestMaker(model, options, n_ctx)
    requests = []
    for i, (one, setting) in enumerate(zip(rendered, arguments.settings, strict=True)):
        request = maker.request(at[i], one, setting, arguments.seed(i, at[i]))
        requests += samples_of(request, options.n)
    return requests, arguments.base


class _RequestMaker:
    """Makes the requests of a call."""

    def __init__(self, model: Model, options: GenerateOptions, n_ctx: object) -> None:
        self._model, self._options, self._n_ctx = model, options, n_ctx
        parse_special = parsing(options.parse_special, chat=options.chat)
        self._tokenize = partial(prompt_tokens, model, parse_special=parse_special)
        self._cuts = ChoiceCuts(model, parse_special, chat=options.chat)
        n_free = n_ctx - _SPARE_CELLS if isinstance(n_ctx, int) else model.n_ctx_train
        self._n_free = min(max(1, n_free), model.n_ctx_train)

    def request(
        self, place: int, rendered: Rendered, setting: Setting, seed: int
    ) -> Request:
        """Return the request for the first sample of a prompt."""
        prompt, thought, sampling = rendered.prompt, rendered.thought, setting.sampling
        name = Argument("prompts", (place,))
        tokens, problem = tokens_or_problem(
            self._model, name, prompt, self._tokenize, self._n_ctx
        )
        stop, paths = setting.stop, None
        if sampling.choices is not None:
            stop = ()  # the answer ends where its choice ends
            problem = problem or setting.stop_problem
            if tokens and not problem:
                tokens, paths, problem = self._cut_prompt(
                    rendered, tokens, sampling.choices
                )
        if thought is not None:
            thought = replace(thought, sampling=setting.of_thought)
        n_answer = sampling.n_answer if paths is None else paths.depth
        request = Request(
            tokens=tokens,
            thought=seeded_thought(thought, seed),
            seed=seed,
            problem=problem or setting.problem,
            max_tokens=setting.limit or n_answer,
            sampling=sampling,
            shape=setting.shape,
            stop=stop,
            text=prompt if isinstance(prompt, str) else None,
            priority=self._options.priority,
            logprobs=self._options.logprobs,
            paths=paths,
        )
        return self._fit_limits(request, setting)

    def _cut_prompt(
        self, rendered: Rendered, tokens: array[int], choices: Collection[str]
    ) -> tuple[array[int], ChoicePaths | None, str]:
        """Return a prompt's tokens and the paths of choices after it, or the problem."""
        prompt, stage = rendered.prompt, rendered.thought
        texts = cast("Sequence[str]", choices)
        try:
            if stage is None:
                return *self._cuts.cut(prompt, tokens, texts), ""
            tail = array("i", (*stage.end, *stage.after))
            return tokens, self._cuts.cut(tail, tail, texts)[1], ""
        except TokenizeError as error:
            return tokens, None, Failure(str(error), "constraint", "choices")

    def _fit_limits(self, request: Request, setting: Setting) -> Request:
        """Return the request with limits that the caller left open as far as they fit."""
        n_over, thought = request.n_cells - self._n_free, request.thought
        if thought is not None and n_over > 0 and self._options.thinking is None:
            shorter = replace(thought, budget=max(0, thought.budget - n_over))
            request = replace(request, thought=shorter)
        sampling = setting.sampling
        is_open = not (setting.limit or sampling.schema or sampling.choices)
        if self._options.chat and is_open:  # room for a whole answer
            room = self._n_free - (request.n_cells - request.max_tokens)
            most = max(request.max_tokens, min(MAX_TOKENS_OF_CHAT, room))
            request = replace(request, max_tokens=most)
        problem = request.problem or too_long_for(self._model, request, self._n_ctx)
        return replace(request, problem=problem) if problem else request


def samples_of(request: Request, n: int) -> list[Request]:
    """Return n samples of a prompt; the first has the seed of a single sample."""
    seeds = (shim.derive_seed(request.seed, j) for j in range(1, n))
    return [request, *(with_seed(request, seed) for seed in seeds)]


def place_of(content: str) -> int:
    """Return a uint64 from which the seed is derived for a prompt without an index."""
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "little")


def parsing(parse_special: ParseSpecial, *, chat: bool) -> ParseSpecial:
    """Return whether to parse special tokens; in a rendered chat they are parsed."""
    # A template may begin with plain text, so "auto" would not read its special tokens.
    return True if chat and parse_special == "auto" else parse_special


def tokens_or_problem(
    model: Model,
    name: Name,
    prompt: object,
    tokenize: Callable[[Name, object], array[int]],
    n_ctx: object = "auto",
) -> tuple[array[int], str]:
    """Return a prompt's tokens and ""; if it fails, no tokens and the reason."""
    if isinstance(prompt, Refused):
        return array("i"), prompt.failure
    try:
        problem = ""
        if isinstance(prompt, str):
            problem = surely_too_long(model, name, prompt, n_ctx)
        return (array("i"), problem) if problem else (tokenize(name, prompt), "")
    except TokenizeError as error:
        return array("i"), Failure(str(error), "not_tokenized")


def limit_of(model: Model, n_ctx: object) -> tuple[int, str]:
    """Return the number of tokens that a prompt may have, and whose limit it is."""
    if isinstance(n_ctx, int) and n_ctx < model.n_ctx_train:
        return n_ctx, "one prompt may have (see n_ctx)"
    return model.n_ctx_train, "the model was trained for"


def too_long_for(model: Model, request: Request, n_ctx: object = "auto") -> str:
    """Return why a request is too long for a model or its context; "" if it fits."""
    return too_long(request, *limit_of(model, n_ctx))


def surely_too_long(model: Model, name: Name, text: str, n_ctx: object = "auto") -> str:
    """Return why a text certainly exceeds the longest prompt; "" otherwise."""
    n_most, whose = limit_of(model, n_ctx)
    if len(text) <= n_most:
        return ""
    n_tokens, noun = 0, argument_of(name).name.removesuffix("s")
    for start in range(0, len(text), _PIECE_CHARS):
        end = min(start + _PIECE_CHARS, len(text))
        n_tokens += len(prompt_tokens(model, name, text[start:end], parse_special=True))
        if n_tokens > _SURELY_MORE * n_most:
            return Failure(
                f"the {noun} has {len(text)} characters, of which the first {end} have "
                f"about {n_tokens} tokens, more than the {n_most} that {whose}: shorten "
                "it",
                "too_long",
            )
    return ""


def _check_common(model: Model, different: Sequence[Setting], *, is_strict: bool) -> None:
    """Check the settings that all prompts share before any prompt runs."""
    if not different:
        return
    of_stop = {setting.stop_problem for setting in different}
    of_least = {setting.least_problem for setting in different}
    for argument, problems in (("stop", of_stop), ("min_tokens", of_least)):
        if len(problems) == 1 and "" not in problems:
            raise ArgumentError(
                *problems, argument=argument, code="conflict", form="{problem}"
            )
    first, *others = (vars(setting.sampling) for setting in different)
    common = {
        name: first[name]
        for name in (*CONSTRAINTS, "logit_bias", "stop_token_ids")
        if name in first and all(other.get(name) == first[name] for other in others)
    }
    if not common:
        return
    params = SamplingParams(**common)
    biased = max(dict(params.logit_bias), default=0)
    _check_token(Argument("logit_bias", (Id(biased),)), biased, model)
    last = max(params.stop_token_ids, default=0)
    _check_token(Argument("stop_token_ids"), last, model)
    if len(params.logit_bias) > model.n_vocab:
        raise ArgumentError(
            f"has {len(params.logit_bias)} tokens, but the model's vocabulary "
            f"has {model.n_vocab}",
            argument="logit_bias",
        )
    shape = shape_with(params, is_strict=is_strict)
    with model.using() as handle:
        check_sampling(handle, params, shape)


def _check_token(where: Argument, token: int, model: Model) -> None:
    if token >= model.n_vocab:
        raise ArgumentError(
            f"names no token: {token} is not one of the model's token ids, which are 0 "
            f"to {model.n_vocab - 1}",
            argument=where,
            code="out_of_range",
        )


def _prepare_each(model: Model, different: Sequence[Setting]) -> None:
    """Compile constraints on the caller's thread; record why some cannot be used."""
    groups: dict[SamplingParams, list[Setting]] = {}
    for setting in different:
        groups.setdefault(setting.constraint, []).append(setting)
    has_texts = any(constraint.quote_from is not None for constraint in groups)
    if len(groups) < 2 and not has_texts:  # checked by `_check_common`
        return
    for constraint, settings in list(groups.items())[:_MOST_PREPARED]:
        shape, problem = settings[0].shape_or_problem
        if problem:
            continue
        try:
            with model.using() as handle:
                check_sampling(handle, constraint, shape)
        except (ValueError, SamplerError) as error:
            argument = getattr(error, "argument", "") or "schema"
            for setting in settings:
                setting.refusal = Failure(str(error), "constraint", argument)
