"""Requests and their settings in native form: `lh_request` and its parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import Failure, SamplerError
from llamaherd.engine.core.sampling import PLAIN_SETTINGS, SamplingParams
from llamaherd.engine.native import llguidance
from llamaherd.engine.native.shim import check, ffi, lib, new_struct

if TYPE_CHECKING:
    from llamaherd.engine.core.request import (
        AnswerShape,
        ChoicePaths,
        ThoughtStage,
        TokenTree,
    )
    from llamaherd.engine.native._shim import CData


def check_sampling(
    model: CData, params: SamplingParams, shape: AnswerShape | None = None
) -> None:
    """Check settings with the same checks as an engine that receives a request."""
    native, _kept = native_sampling(params, shape)
    error = ffi.new("lh_error *")
    try:
        check(lib.lh_sampling_check(model, native, error), error)
    except SamplerError as failed:
        problem = constraint_failure(params, str(failed))
        raise SamplerError(problem, failed.code, problem.argument) from None


def constraint_failure(params: SamplingParams, text: str) -> Failure:
    """Return the reason why a constraint cannot be followed, with its name."""
    name = params.constraint
    if params.regex is not None:
        text = _regex_problem(params.regex, text)
    is_named = text.startswith(name)  # by the shim, as "grammar" and "choices"
    return Failure(text if is_named else f"{name}: {text}", "constraint", name)


def _regex_problem(regex: str, message: str) -> str:
    """Return llguidance's reason to refuse a regex, without the grammar it makes of it.

    llguidance writes `... (in regex): regex parse error:`, the regex with escapes, a line
    with carets below the fault, and `error: REASON`; or `... (in regex): REASON`.
    """
    text = checks.quoted(regex)
    parsed = _PARSE_ERROR.search(message)
    if parsed is None:
        reason = message.partition(" (in regex): ")[2] or message
        if reason.startswith("regex parse error"):  # the shim cuts a long message
            return f"regex {text} cannot be parsed"
        return f"regex {text} cannot be used: {reason.splitlines()[0]}"
    written, marks, reason = parsed.groups()
    n, at = 0, 0
    while n < len(regex) and at < min(marks.index("^"), len(written)):
        at += 1 if written[at] == regex[n] else 2  # an escape
        n += 1
    return f"regex {text} cannot be parsed: {reason}, at character {n + 1}"


_PARSE_ERROR = re.compile(
    r"\(in regex\): regex parse error:\n {4}(.*)\n {4}( *\^[ ^]*)\nerror: (.*)"
)


def native_score(tree: TokenTree) -> tuple[CData, list[CData]]:
    """Return an `lh_score`, and the memory to which it points."""
    native = new_struct("lh_score")
    tokens = ffi.from_buffer("int32_t[]", tree.tokens)
    parents = ffi.from_buffer("int32_t[]", tree.parents)
    native.n_nodes = len(tree.tokens)
    native.token = tokens
    native.parent = parents
    return native, [native, tokens, parents]


def native_paths(paths: ChoicePaths) -> tuple[CData, list[CData]]:
    """Return an `lh_choice_paths`, and the memory to which it points."""
    native = new_struct("lh_choice_paths")
    arrays = [
        ffi.from_buffer("int32_t[]", values)
        for values in (paths.tokens, paths.parents, paths.choices)
    ]
    native.n_nodes = len(paths.tokens)
    native.token, native.parent, native.choice = arrays
    return native, [native, *arrays]


def uses_llguidance(params: SamplingParams) -> bool:
    """Return whether llguidance enforces the constraint of these settings."""
    is_lark = (params.grammar or "").lstrip().startswith("%llguidance")
    return params.schema is not None or params.regex is not None or is_lark


def _grammar(params: SamplingParams, shape: AnswerShape | None) -> tuple[int, str]:
    """Return the kind and the text of the constraint; "" if none is set."""
    if shape is not None:
        kind = lib.LH_GRAMMAR_LARK if shape.is_lark else lib.LH_GRAMMAR_JSON_SCHEMA
        return kind, shape.enforced
    if params.regex is not None:
        return lib.LH_GRAMMAR_REGEX, params.regex
    is_lark = uses_llguidance(params)
    return (lib.LH_GRAMMAR_LARK if is_lark else lib.LH_GRAMMAR_GBNF), params.grammar or ""


def native_sampling(
    params: SamplingParams, shape: AnswerShape | None
) -> tuple[CData, list[CData]]:
    """Return an `lh_sampling_params`, and the memory to which it points."""
    native = new_struct("lh_sampling_params")
    for name in PLAIN_SETTINGS:
        setattr(native, name, getattr(params, name))
    bias = dict(params.logit_bias)
    kept = [
        ffi.new("int32_t[]", list(bias)),
        ffi.new("float[]", list(bias.values())),
        *(ffi.new("char[]", text.encode()) for text in params.dry_breakers),
    ]
    breakers = ffi.new("char *[]", kept[2:])
    native.n_logit_bias = len(bias)
    native.logit_bias_token, native.logit_bias_value = kept[:2]
    native.n_dry_breakers = len(params.dry_breakers)
    native.dry_breakers = breakers
    kept.append(breakers)
    stops = ffi.new("int32_t[]", list(params.stop_token_ids))
    native.n_stop_token_ids = len(params.stop_token_ids)
    native.stop_token_ids = stops
    kept.append(stops)
    kind, grammar = _grammar(params, shape)
    if kind != lib.LH_GRAMMAR_GBNF:
        llguidance.load()
    if grammar:
        kept.append(ffi.new("char[]", grammar.encode()))
        native.grammar_kind, native.grammar = kind, kept[-1]
    if params.choices is not None:
        choices = [ffi.new("char[]", text.encode()) for text in params.choices]
        native.n_choices = len(choices)
        native.choices = array = ffi.new("char *[]", choices)
        native.choice_size = sizes = ffi.new("int32_t[]", [len(c) - 1 for c in choices])
        kept += [*choices, array, sizes]
    return native, kept


def native_thinking(thought: ThoughtStage, sampling: CData) -> tuple[CData, list[CData]]:
    """Return an `lh_thinking` with the memory to which it points."""
    native = new_struct("lh_thinking")
    settings = ffi.new("lh_sampling_params *", sampling[0])
    settings.seed = thought.seed
    native.sampling = settings
    native.budget = thought.budget
    native.is_open = thought.is_open
    kept = [native, settings]
    for name in ("start", "end", "after", "closing"):
        tokens = getattr(thought, name)
        values = ffi.new("int32_t[]", list(tokens))
        setattr(native, name, values)
        setattr(native, f"n_{name}", len(tokens))
        kept.append(values)
    return native, kept
