"""Creation of requests from the arguments of a call: checks, tokens, seeds."""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from llamaherd.calls.asks.answers import seeded, seeded_thought
from llamaherd.calls.asks.choices import ChoiceCuts
from llamaherd.calls.asks.constraints import (
    Constraints,
    stop_problem,
    warn_idle,
    with_schemas,
    with_sources,
)
from llamaherd.calls.asks.rendering import rendered_prompts
from llamaherd.calls.asks.settings import params_of_call, params_of_prompts
from llamaherd.calls.asks.thoughts import (
    Thoughts,
    capacity_of,
    is_constrained,
    tail_of,
    within,
)
from llamaherd.calls.chat.conversations import Refused, prompts_or_refusals
from llamaherd.engine.core.argument import Argument, Id, argument_of
from llamaherd.engine.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    Failure,
    SamplerError,
    TokenizeError,
)
from llamaherd.engine.core.request import ChoicePaths, Request, too_long
from llamaherd.engine.core.sampling import (
    CONSTRAINTS,
    MAX_TOKENS_OF_CHAT,
    PER_PROMPT,
    SamplingParams,
)
from llamaherd.engine.core.words import name_of
from llamaherd.engine.model.tokens import prompt_tokens
from llamaherd.engine.native import shim
from llamaherd.engine.native.request import check_sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from llamaherd.calls.asks.options import GenerateOptions
    from llamaherd.calls.structured.shape import Shape
    from llamaherd.engine.core.argument import Name
    from llamaherd.engine.model.model import Model
    from llamaherd.engine.model.tokens import ParseSpecial

T = TypeVar("T")

# Some tokenizers of libllama take time quadratic in the number of tokens.
_PIECE_CHARS = 4096
# Number of compiled constraints that a model caches (see
# capi_shim/sampling/prepared.cpp). Constraints beyond this number are compiled again at
# run time, so checking them in advance saves nothing.
_MOST_PREPARED = 32
# Tokenizing in pieces can result in a few more tokens than tokenizing the whole text.
_SURELY_MORE = 1.25


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
    asked = asked_of(prompts, options)
    constraints, of_call, settings = asked.constraints, asked.of_call, asked.settings
    chat, n = options.chat, options.n
    parse_special = parsing(options.parse_special, chat=chat)
    held, keys = (
        _of_settings(is_constrained, settings),
        _of_settings(_constraint, settings),
    )
    every = rendered_prompts(model, asked.prompts, options, held)
    plain_prompts = [one.prompt for one in every]
    at = range(len(plain_prompts)) if places is None else places
    _check_common(model, asked)
    bad = _prepare_each(model, settings, keys, constraints)
    tokenize = partial(prompt_tokens, model, parse_special=parse_special)
    read = [
        tokens_or_problem(model, Argument("prompts", (place,)), prompt, tokenize, n_ctx)
        for place, prompt in zip(at, plain_prompts, strict=True)
    ]
    requests = []
    capacity = capacity_of(n_ctx, model.n_ctx_train)
    warn_idle(settings, of_call.stop)
    cuts, thoughts = ChoiceCuts(model, parse_special, chat=chat), Thoughts()
    for i, (prompt, sampling) in enumerate(zip(plain_prompts, settings, strict=True)):
        thought = thoughts.of(every[i].thought, sampling)
        shape, problem = asked.shape_or_problem(i)
        problem = problem or bad.get(keys[i], "") or asked.least_problem(sampling)
        tokens, unread = read[i]
        stop, paths = asked.stop(sampling), None
        if sampling.choices is not None:
            unread = unread or stop_problem(stop, tuple(sampling.choices))
            stop = ()  # the answer ends where its choice ends
            if tokens and not unread and thought is not None:
                tail = tail_of(thought)
                _, paths, unread = _cut_or_problem(cuts, tail, tail, sampling.choices)
            elif tokens and not unread:
                tokens, paths, unread = _cut_or_problem(
                    cuts, prompt, tokens, sampling.choices
                )
        seed = asked.seed(i, at[i])
        request = Request(
            tokens=tokens,
            thought=seeded_thought(thought, seed),
            seed=seed,
            problem=unread or problem,
            max_tokens=asked.limit(sampling)
            or (sampling.n_answer if paths is None else paths.depth),
            sampling=sampling,
            shape=shape,
            stop=stop,
            text=prompt if isinstance(prompt, str) else None,
            priority=options.priority,
            logprobs=options.logprobs,
            paths=paths,
        )
        if options.thinking is None:  # the caller did not set a budget
            request = within(request, capacity)
        if chat and not (asked.limit(sampling) or sampling.schema or sampling.choices):
            request = _whole(request, capacity)
        if not request.problem:
            problem = too_long_for(model, request, n_ctx)
            request = replace(request, problem=problem) if problem else request
        requests += samples_of(request, n)
    return requests, asked.base


@dataclass(frozen=True, slots=True)
class Asked:
    """Checked arguments of a call that do not depend on a model.

    Chats in `prompts` describe schemas; `of_call` applies where `settings` has no value.
    """

    prompts: Sequence[object]
    settings: Sequence[SamplingParams]
    of_call: SamplingParams
    constraints: Constraints
    base: int

    def limit(self, sampling: SamplingParams) -> int | None:
        """Return the `max_tokens` that the caller set; None without one."""
        return sampling.max_tokens or self.of_call.max_tokens

    def stop(self, sampling: SamplingParams) -> tuple[str, ...]:
        """Return the stop texts of a prompt with these settings."""
        return tuple(
            (self.of_call.stop if sampling.stop is None else sampling.stop) or ()
        )

    def least_problem(self, sampling: SamplingParams) -> str:
        """Return an error message if `min_tokens` exceeds `max_tokens`; "" otherwise."""
        most = self.limit(sampling) or sampling.n_answer
        if sampling.min_tokens <= most:
            return ""
        return Failure(
            f"{name_of('min_tokens')} is {sampling.min_tokens}, but an answer may have "
            f"up to {most} tokens",
            "constraint",
            "min_tokens",
        )

    def seed(self, i: int, place: int) -> int:
        """Return the seed of prompt i, whose index in the whole call is `place`."""
        seed = self.settings[i].seed
        return shim.derive_seed(self.base if seed is None else _base_seed(seed), place)

    def shape_or_problem(self, i: int) -> tuple[Shape | None, str]:
        """Return a prompt's prepared schema, or the problem."""
        try:
            return self.constraints.shape(self.settings[i], i), ""
        except ValueError as error:
            return None, Failure(str(error), "constraint", "schema")


def asked_of(prompts: object, options: GenerateOptions) -> Asked:
    """Check the prompts and sampling settings of a call, apart from the model."""
    constraints = Constraints(options.sampling, strict=options.strict)
    of_call = params_of_call(constraints.settings)
    prompt_list = [
        constraints.refused.get(i, prompt)
        for i, prompt in enumerate(prompts_or_refusals(prompts))
    ]
    params = params_of_prompts(of_call, options.params)
    one_seed = params.seed if isinstance(params, SamplingParams) else None
    if isinstance(params, SamplingParams) and one_seed is not None:
        params = params.replaced(seed=None)
    settings = constraints.of_prompts(_checked_params(params, len(prompt_list)))
    settings = with_sources(settings, prompt_list)
    if options.chat and options.show_schema:
        prompt_list = with_schemas(
            prompt_list, [sampling.schema for sampling in settings]
        )
    _check_samples(options.n, settings)
    base = _base_seed(of_call.seed if one_seed is None else one_seed)
    return Asked(prompt_list, settings, of_call, constraints, base)


def samples_of(request: Request, n: int) -> list[Request]:
    """Return n samples of a prompt; the first has the seed of a single sample."""
    seeds = (shim.derive_seed(request.seed, j) for j in range(1, n))
    return [request, *(seeded(request, seed) for seed in seeds)]


def _whole(request: Request, capacity: int) -> Request:
    """Return the request with room for a whole answer of a chat, as far as it fits."""
    room = capacity - (request.n_cells - request.max_tokens)
    most = max(request.max_tokens, min(MAX_TOKENS_OF_CHAT, room))
    return replace(request, max_tokens=most)


def schemas_of(options: GenerateOptions) -> tuple[str, ...]:
    """Return the JSON Schema of all prompts of a call; () if they have none."""
    constraints = Constraints(options.sampling, strict=options.strict)
    of_call = params_of_call(constraints.settings)
    schema = getattr(params_of_prompts(of_call, options.params), "schema", None)
    return (schema,) if isinstance(schema, str) else ()


def place_of(content: str) -> int:
    """Return a uint64 from which the seed is derived for a prompt without an index."""
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "little")


def parsing(parse_special: ParseSpecial, *, chat: bool) -> ParseSpecial:
    """Return whether to parse special tokens; in a rendered chat they are parsed."""
    # A template may begin with plain text, so "auto" would not read its special tokens.
    return True if chat and parse_special == "auto" else parse_special


def _check_samples(n: int, settings: Sequence[SamplingParams]) -> None:
    for sampling in settings if n > 1 else ():
        if sampling.is_greedy:
            raise ArgumentError(
                f"is {n}, but with temperature {sampling.temperature:g} a prompt's "
                "samples would all be the same: set temperature above 0",
                argument="n",
            )


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


def _cut_or_problem(
    cuts: ChoiceCuts, prompt: object, tokens: array[int], choices: Collection[str]
) -> tuple[array[int], ChoicePaths | None, str]:
    """Return a prompt's tokens and the paths of choices after it, or the problem."""
    try:
        return *cuts.cut(prompt, tokens, cast("Sequence[str]", choices)), ""
    except TokenizeError as error:
        return tokens, None, Failure(str(error), "constraint", "choices")


def _limit_of(model: Model, n_ctx: object) -> tuple[int, str]:
    """Return the number of tokens that a prompt may have, and whose limit it is."""
    if isinstance(n_ctx, int) and n_ctx < model.n_ctx_train:
        return n_ctx, "one prompt may have (see n_ctx)"
    return model.n_ctx_train, "the model was trained for"


def too_long_for(model: Model, request: Request, n_ctx: object = "auto") -> str:
    """Return why a request is too long for a model or its context; "" if it fits."""
    return too_long(request, *_limit_of(model, n_ctx))


def surely_too_long(model: Model, name: Name, text: str, n_ctx: object = "auto") -> str:
    """Return why a text certainly exceeds the longest prompt; "" otherwise."""
    n_most, whose = _limit_of(model, n_ctx)
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


def _checked_params(params: object, n_prompts: int) -> Sequence[SamplingParams]:
    if isinstance(params, SamplingParams):
        return [params] * n_prompts
    if not isinstance(params, Sequence):
        raise ArgumentTypeError(
            f"must be SamplingParams, or one for each prompt, not {params!r}",
            argument="params",
        )
    for i, sampling in enumerate(params):
        if not isinstance(sampling, SamplingParams):
            raise ArgumentTypeError(
                f"must be SamplingParams, not {sampling!r}", argument="params", place=(i,)
            )
    if len(params) != n_prompts:
        raise ArgumentError(
            f"must have one element per prompt ({n_prompts}), not {len(params)}",
            argument="params",
            code="wrong_length",
        )
    return params


def _check_common(model: Model, asked: Asked) -> None:
    """Check the settings that all prompts share before any prompt runs."""
    settings = asked.settings
    if not settings:
        return
    different = {id(sampling): sampling for sampling in settings}.values()
    first = settings[0]
    common = {
        name: getattr(first, name)
        for name in (*CONSTRAINTS, "logit_bias", "stop_token_ids")
        if name in vars(first)
        and all(getattr(params, name) == getattr(first, name) for params in different)
    }
    problems = {
        stop_problem(asked.stop(sampling), tuple(sampling.choices or ()))
        for sampling in different
    }
    if len(problems) == 1 and "" not in problems:
        raise ArgumentError(*problems, argument="stop", code="conflict", form="{problem}")
    problems = {asked.least_problem(sampling) for sampling in different}
    if len(problems) == 1 and "" not in problems:
        raise ArgumentError(
            *problems, argument="min_tokens", code="conflict", form="{problem}"
        )
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
    shape = asked.constraints.shape(params)
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


def _prepare_each(
    model: Model,
    settings: Sequence[SamplingParams],
    keys: Sequence[object],
    constraints: Constraints,
) -> dict[object, str]:
    """Compile constraints on the caller's thread; return problems by constraint."""
    different = {
        key: (i, sampling)
        for i, (key, sampling) in enumerate(zip(keys, settings, strict=True))
    }
    problems: dict[object, str] = {}
    has_texts = any(sampling.quote_from is not None for sampling in settings)
    if len(different) < 2 and not has_texts:  # checked by `_check_common`
        return problems
    for key, (i, sampling) in list(different.items())[:_MOST_PREPARED]:
        params = SamplingParams(**{name: getattr(sampling, name) for name in PER_PROMPT})
        try:
            shape = constraints.shape(params, i)
            with model.using() as handle:
                check_sampling(handle, params, shape)
        except (ValueError, SamplerError) as error:
            argument = getattr(error, "argument", "") or "schema"
            problems[key] = Failure(str(error), "constraint", argument)
    return problems


def _of_settings(
    function: Callable[[SamplingParams], T], settings: Sequence[SamplingParams]
) -> list[T]:
    """Apply `function` to each prompt's settings; only once to shared settings."""
    known = {
        key: function(sampling)
        for key, sampling in {id(sampling): sampling for sampling in settings}.items()
    }
    return [known[id(sampling)] for sampling in settings]


def _constraint(params: SamplingParams) -> object:
    """Return a key of the constraint; equal constraints have equal keys."""
    return tuple(getattr(params, name) for name in PER_PROMPT)


def _base_seed(seed: int | None) -> int:
    """Return the seed as a uint32; None and negative numbers yield a random seed."""
    return secrets.randbits(32) if seed is None or seed < 0 else seed
