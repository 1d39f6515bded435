"""From what a caller gives to requests: checks, tokens, seeds."""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import TokenizeError
from llamaherd.core.request import Request, too_long
from llamaherd.core.sampling import CONSTRAINTS, SamplingParams
from llamaherd.model.chat import Refused, chat_prompts
from llamaherd.model.tokens import PARSE_SPECIAL, prompt_tokens
from llamaherd.native import shim
from llamaherd.native.engine import check_sampling
from llamaherd.run.constraints import Constraints
from llamaherd.run.settings import params_of_call, params_of_prompts

if TYPE_CHECKING:
    from llamaherd.core.sampling import SamplingSettings
    from llamaherd.model.model import Model
    from llamaherd.model.tokens import ParseSpecial
    from llamaherd.structured.shape import Shape

_PIECE_CHARS = 4096
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
    _check_common(model, each, constraints)
    tokens = [
        tokens_or_problem(model, f"prompts[{place}]", prompt, parse_special)
        for place, prompt in zip(at, given, strict=True)
    ]
    requests = []
    n_answer: dict[object, int] = {}
    for i, (prompt, own) in enumerate(zip(given, each, strict=True)):
        kind = (own.choices, own.schema is None)
        if kind not in n_answer:
            n_answer[kind] = own.n_answer
        shape, problem = _shape_or_problem(constraints, own, i)
        own_base = base if own is params or own.seed is None else _base_seed(own.seed)
        request = Request(
            tokens=tokens[i][0],
            problem=tokens[i][1] or problem,
            max_tokens=own.max_tokens or of_call.max_tokens or n_answer[kind],
            sampling=own,
            shape=shape,
            stop=tuple((of_call.stop if own.stop is None else own.stop) or ()),
            seed=shim.derive_seed(own_base, at[i]),
            text=prompt if isinstance(prompt, str) else None,
            priority=priority,
            logprobs=logprobs,
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
    model: Model, each: Sequence[SamplingParams], constraints: Constraints
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
    params = SamplingParams(**common)
    shape = constraints.shape(params)
    with model.using() as handle:
        check_sampling(handle, params, shape)


def _base_seed(seed: int | None) -> int:
    """A uint32; None and negative numbers stand for a fresh one."""
    return secrets.randbits(32) if seed is None or seed < 0 else seed
