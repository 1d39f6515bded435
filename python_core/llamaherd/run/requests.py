"""From what a caller gives to requests: checks, tokens, seeds."""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from llamaherd.core import checks
from llamaherd.core.effects import stop_problem, warn_idle
from llamaherd.core.errors import SamplerError, TokenizeError
from llamaherd.core.request import ChoicePaths, Request, too_long
from llamaherd.core.sampling import CONSTRAINTS, SamplingParams
from llamaherd.model.chat import Refused, chat_prompts
from llamaherd.model.tokens import PARSE_SPECIAL, prompt_tokens
from llamaherd.native import shim
from llamaherd.native.engine import check_sampling
from llamaherd.run.choices import ChoiceCuts
from llamaherd.run.constraints import Constraints
from llamaherd.run.settings import params_of_call, params_of_prompts

if TYPE_CHECKING:
    from collections.abc import Collection

    from llamaherd.core.sampling import SamplingSettings
    from llamaherd.model.model import Model
    from llamaherd.model.tokens import ParseSpecial
    from llamaherd.structured.shape import Shape

_PIECE_CHARS = 4096
# Constraints that a model keeps compiled (see capi_shim/sampling/prepared.cpp). What is
# checked beyond that would be compiled again when it runs.
_MOST_PREPARED = 32
# Where pieces are cut there may be some tokens more than in the text as a whole.
_SURELY_MORE = 1.25


def make_requests(
    model: Model,
    prompts: object,
    params: SamplingParams | Sequence[SamplingParams] | None,
    settings: SamplingSettings,
    *,
    parse_special: ParseSpecial,
    chat: bool = False,
    system: str | None = None,
    priority: int = 0,
    n: int = 1,
    strict: bool = False,
    logprobs: int | None = None,
    places: Sequence[int] | None = None,
) -> tuple[list[Request], int]:
    """Checks the arguments of a call and tokenizes its prompts.

    Args:
        model: Whose vocabulary to use.
        prompts: Texts or token ids; with `chat` see `chat_prompts`.
        params: Settings of sampling, for all or for each prompt; None: those of the call.
        settings: Settings of the call. Beside `params` only `max_tokens`, `stop` and
            `seed` may be set, which count where `params` has none.
        parse_special: See `tokens.prompt_tokens`.
        chat: Whether the model's chat template makes the prompts.
        system: With `chat`: text of a system message that comes before each prompt.
        priority: Of the requests.
        n: Samples a prompt.
        strict: Whether a schema of which masks cannot enforce all is an error.
        logprobs: See `Request`.
        places: Of the prompts, where these are part of a longer list that is answered in
            several calls: each draws with the seed of its place; None: 0, 1, and so on.

    Returns:
        A request for each sample of the first prompt, then of the next one, and the base
        of their seeds.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or cannot be used with this model.
        ChatTemplateError: The model has no chat template, or it refuses the messages.
    """
    constraints = Constraints(settings, strict=checks.flag("strict", strict))
    of_call = params_of_call(constraints.settings)
    if logprobs is not None:
        logprobs = checks.integer("logprobs", logprobs, 0, shim.MAX_LOGPROBS)
    parse_special = parsing(parse_special, chat=chat)
    given = rendered(model, prompts, chat=chat, system=system)
    params = params_of_prompts(of_call, params)
    one_seed = params.seed if isinstance(params, SamplingParams) else None
    base = _base_seed(of_call.seed if one_seed is None else one_seed)
    each = constraints.of_prompts(_checked_params(params, len(given)))
    at = range(len(given)) if places is None else places
    _check_samples(n, each)
    _check_common(model, each, of_call, constraints)
    bad = _prepare_each(model, each, constraints)
    read = [
        tokens_or_problem(model, f"prompts[{place}]", prompt, parse_special)
        for place, prompt in zip(at, given, strict=True)
    ]
    requests = []
    warn_idle(each, of_call.stop)
    cuts = ChoiceCuts(model, parse_special, chat=chat)
    for i, (prompt, own) in enumerate(zip(given, each, strict=True)):
        shape, problem = _shape_or_problem(constraints, own, i)
        problem = problem or bad.get(_constraint(own), "")
        tokens, unread = read[i]
        stop, paths = _stop_of(own, of_call), None
        if own.choices is not None:
            unread = unread or stop_problem(stop, tuple(own.choices))
            stop = ()  # an answer ends with its choice
            if tokens and not unread:
                tokens, paths, unread = _cut_or_problem(cuts, prompt, tokens, own.choices)
        own_base = base if own is params or own.seed is None else _base_seed(own.seed)
        request = Request(
            tokens=tokens,
            problem=unread or problem,
            max_tokens=own.max_tokens
            or of_call.max_tokens
            or (own.n_answer if paths is None else paths.depth),
            sampling=own,
            shape=shape,
            stop=stop,
            seed=shim.derive_seed(own_base, at[i]),
            text=prompt if isinstance(prompt, str) else None,
            priority=priority,
            logprobs=logprobs,
            paths=paths,
        )
        if not request.problem:
            problem = too_long(request, model.n_ctx_train, "the model was trained for")
            request = replace(request, problem=problem) if problem else request
        # The first is drawn as if it were the only one.
        requests.append(request)
        requests += [
            replace(request, seed=shim.derive_seed(request.seed, j)) for j in range(1, n)
        ]
    return requests, base


def place_of(content: str) -> int:
    """A uint64 for a seed to be made of where a prompt has no place in a whole."""
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "little")


def rendered(
    model: Model, prompts: object, *, chat: bool, system: str | None
) -> list[object]:
    """Prompts as they are read: of a chat those that its template makes."""
    if checks.flag("chat", chat):
        return list(chat_prompts(model, prompts, system))
    if system is not None:
        raise ValueError(
            f"system needs chat=True; without it there is no place for "
            f"{checks.shown(system)}"
        )
    return checks.prompt_list(prompts)


def parsing(parse_special: ParseSpecial, *, chat: bool) -> ParseSpecial:
    """Whether the texts of special tokens mean those: in a rendered chat they do."""
    checks.choice("parse_special", parse_special, PARSE_SPECIAL)
    # A template need not begin with a special token, but means those that it has.
    return True if chat and parse_special == "auto" else parse_special


def _check_samples(n: int, each: Sequence[SamplingParams]) -> None:
    for own in each if n > 1 else ():
        if own.is_greedy:
            raise ValueError(
                f"n is {n}, but with temperature {own.temperature:g} a prompt's samples "
                "would all be the same: set temperature above 0"
            )


def tokens_or_problem(
    model: Model, name: str, prompt: object, parse_special: ParseSpecial
) -> tuple[array[int], str]:
    """A prompt's tokens, or none and why they cannot be had, or need not be."""
    if isinstance(prompt, Refused):
        return array("i"), prompt.reason
    try:
        problem = surely_too_long(model, name, prompt) if isinstance(prompt, str) else ""
        if problem:
            return array("i"), problem
        return prompt_tokens(model, name, prompt, parse_special), ""
    except TokenizeError as error:
        return array("i"), str(error)


def _cut_or_problem(
    cuts: ChoiceCuts, prompt: object, tokens: array[int], choices: Collection[str]
) -> tuple[array[int], ChoicePaths | None, str]:
    """A prompt's tokens and the ways to write choices behind it, or the problem."""
    try:
        return *cuts.cut(prompt, tokens, cast("Sequence[str]", choices)), ""
    except TokenizeError as error:
        return tokens, None, str(error)


def _shape_or_problem(
    constraints: Constraints, params: SamplingParams, i: int
) -> tuple[Shape | None, str]:
    """A prompt's schema at work, or why there can be none."""
    try:
        return constraints.shape(params, i), ""
    except ValueError as error:
        return None, str(error)


def surely_too_long(model: Model, name: str, text: str) -> str:
    """Why a long text has more tokens than the model was trained for; "": it may not.

    Some of libllama's tokenizers take time that grows with the square of the tokens, so
    such a text is not tokenized as a whole: its pieces together have about as many.
    """
    n_most = model.n_ctx_train
    if len(text) <= n_most:
        return ""
    n_tokens = 0
    for start in range(0, len(text), _PIECE_CHARS):
        end = start + _PIECE_CHARS
        n_tokens += len(prompt_tokens(model, name, text[start:end], parse_special=True))
        if n_tokens > _SURELY_MORE * n_most:
            return (
                f"the prompt has {len(text)} characters, of which the first {end} have "
                f"about {n_tokens} tokens, more than the {n_most} that the model was "
                "trained for: shorten it"
            )
    return ""


def _checked_params(params: object, n_prompts: int) -> Sequence[SamplingParams]:
    if isinstance(params, SamplingParams):
        return [params] * n_prompts
    if not isinstance(params, Sequence):
        raise TypeError(
            f"params must be SamplingParams, or one for each prompt, not {params!r}"
        )
    for i, each in enumerate(params):
        if not isinstance(each, SamplingParams):
            raise TypeError(f"params[{i}] must be SamplingParams, not {each!r}")
    if len(params) != n_prompts:
        raise ValueError(
            f"params must have one element per prompt ({n_prompts}), not {len(params)}"
        )
    return params


def _check_common(
    model: Model,
    each: Sequence[SamplingParams],
    of_call: SamplingParams,
    constraints: Constraints,
) -> None:
    """Checks what no prompt could be answered with, before anything runs.

    Raises:
        ValueError: A setting that all of them have cannot be used with this model.
    """
    if not each:
        return
    different = {id(own): own for own in each}.values()
    common = {
        name: getattr(each[0], name)
        for name in (*CONSTRAINTS, "logit_bias")
        if all(getattr(own, name) == getattr(each[0], name) for own in different)
    }
    problems = {
        stop_problem(_stop_of(own, of_call), tuple(own.choices or ()))
        for own in different
    }
    if len(problems) == 1 and "" not in problems:
        raise ValueError(*problems)
    params = SamplingParams(**common)
    if len(params.logit_bias) > model.n_vocab:
        raise ValueError(
            f"logit_bias has {len(params.logit_bias)} tokens, but the model's vocabulary "
            f"has {model.n_vocab}"
        )
    shape = constraints.shape(params)
    with model.using() as handle:
        check_sampling(handle, params, shape)


def _stop_of(own: SamplingParams, of_call: SamplingParams) -> tuple[str, ...]:
    """The stop texts of a prompt."""
    return tuple((of_call.stop if own.stop is None else own.stop) or ())


def _prepare_each(
    model: Model, each: Sequence[SamplingParams], constraints: Constraints
) -> dict[object, str]:
    """Compiles the constraints of single prompts on this thread, not on all callers'.

    Returns:
        Why a constraint cannot be followed, by what `_constraint` gives.
    """
    different = {_constraint(own): (i, own) for i, own in enumerate(each)}
    problems: dict[object, str] = {}
    if len(different) < 2:  # checked already
        return problems
    for key, (i, own) in list(different.items())[:_MOST_PREPARED]:
        params = SamplingParams(**{name: getattr(own, name) for name in CONSTRAINTS})
        try:
            shape = constraints.shape(params, i)
            with model.using() as handle:
                check_sampling(handle, params, shape)
        except (ValueError, SamplerError) as error:
            problems[key] = str(error)
    return problems


def _constraint(params: SamplingParams) -> object:
    """Equal for settings with the same constraint."""
    return tuple(getattr(params, name) for name in CONSTRAINTS)


def _base_seed(seed: int | None) -> int:
    """A uint32; None and negative numbers stand for a fresh one."""
    return secrets.randbits(32) if seed is None or seed < 0 else seed
