"""Options that each interface accepts, to be compared with the declaration."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, make_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd.asks import interfaces
from llamaherd.asks.interfaces import REQUIRED
from llamaherd.core.declared import defaults_of
from llamaherd.core.request import NEUTRAL, Request
from llamaherd.core.sampling import DEFAULT_SEED, PLAIN_SETTINGS
from llamaherd.native.shim import ffi, lib
from llamaherd.server import answer_form
from llamaherd.server.annotations import AnnotateApi
from llamaherd.server.embeddings import EmbeddingsApi
from llamaherd.server.generate import GenerateApi
from llamaherd.server.openai import ChatCompletions, Completions
from llamaherd.server.scores import ClassifyApi, ScoreApi
from llamaherd.server.settings import ServerSettings
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.spec_keys import AT_TOP, KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llamaherd.asks.interfaces import Interface

    # Names of accepted options, with the default where the interface shows it.
    Taken = Mapping[str, Any]

UNSEEN = object()  # a default that the interface does not show
# Arguments that are no options: the subject of a call, and calibration.
_DATA = {
    *("self", "ctx", "prompt", "prompts", "texts", "continuations", "model"),
    *("content_free", "calibration", "frame", "text", "codebook", "context", "turns"),
}


def of_python(name: str) -> Taken:
    function = lh.Context.submit if name == "submit" else getattr(lh, name)
    data = {*_DATA, "method"} if name == "classify_calibrated" else _DATA
    return {
        name: REQUIRED if each.default is inspect.Parameter.empty else each.default
        for name, each in inspect.signature(function).parameters.items()
        if name not in data
    }


def of_run_file(table: str) -> Taken:
    interface = interfaces.RUN_FILE[table]
    own = interfaces.declared_defaults(interface.options)
    at_top = {*AT_TOP} & {interface.names.get(name, name) for name in own}
    top = {each.name: each.default for each in fields(RunSpec) if each.name in at_top}
    return {**KEYS[table], **top}


# Paths that pass options on to the library, and their other fields.
WHOLE: dict[str, tuple[Any, set[str]]] = {
    "/v1/embeddings": (
        EmbeddingsApi,
        {*("input", "encoding_format", "dimensions", "truncate_prompt_tokens")},
    ),
    "/v1/score": (ScoreApi, {"prompts", "continuations"}),
    "/v1/classify": (ClassifyApi, {"prompts"}),
    "/v1/annotate": (AnnotateApi, {"texts", "codebook"}),
}


def of_server(path: str) -> Taken:
    """Return the fields of requests, with the defaults of a request without fields."""
    if path in WHOLE:
        shape, own = WHOLE[path]
        return dict.fromkeys(shape.fields - own - {"model"}, UNSEEN)
    settings = ServerSettings(model_name="m")
    if path == "/generate":
        made = GenerateApi().understand({"prompt": "a"})
        own, names = {"prompt", "model"}, GenerateApi.fields
    else:
        own = {"model", "prompt", "messages", "max_completion_tokens", "stream_options"}
        own |= {"tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "n"}
        own |= {*answer_form.FIELDS, "repeat_penalty"}
        own |= {"reasoning_effort", "thinking_budget_tokens"}
        own |= {"enable_thinking", "thinking_budget"}
        own |= {"thinking_token_budget", "reasoning_budget_tokens"}
        own |= {"continue_final_message", "add_generation_prompt", "echo"}
        own |= {"prompt_logprobs", "add_special_tokens", "dry_sequence_breakers"}
        own |= {"include_stop_str_in_output"}
        names = Completions.fields
        model = SimpleNamespace(n_ctx_train=512)
        made = Completions(model, settings).understand({"prompt": "a"})
        if path == "/v1/chat/completions":
            names = ChatCompletions.fields
            made = SimpleNamespace(
                params=lh.SamplingParams(
                    temperature=made.params.temperature,
                    seed=made.params.seed,
                    max_tokens=settings.max_tokens,
                ),
                options={},
                stream=False,
            )
    options = defaults_of(interfaces.SERVER[path].options) | made.options
    found: dict[str, Any] = {}
    library = {field: name for name, field in interfaces.OPENAI_NAMES.items()}
    for name in names - own:
        value = getattr(made.params, library.get(name, name), options.get(name))
        found[name] = made.stream if name == "stream" else value
    if found.get("seed", 0) is None:  # default of the call
        found["seed"] = DEFAULT_SEED
    return found


def of_journal() -> Taken:
    """Return the parts of a journal's key, which affect an answer."""
    hashed = {each.name for each in fields(Request)} - NEUTRAL
    made_of_others = {"tokens", "tree", "paths", "sampling"}
    sampling = {each.name for each in fields(lh.SamplingParams)}
    return dict.fromkeys((hashed - made_of_others) | sampling, UNSEEN)


def of_c_request() -> Taken:
    """Return members of the C structs of a request, with their defaults."""
    technical = {
        "struct_size",
        *("id", "tokens", "n_tokens", "fork_from", "n_fork", "keep"),
        *("sampling", "stop_size", "n_stop"),
        *("call", "draft", "whole", "step_forced", "score", "paths"),
        *("n_logit_bias", "logit_bias_value", "grammar_kind", "n_dry_breakers"),
        *("n_choices", "choice_size", "n_stop_token_ids"),
    }
    names = {name for name, _ in ffi.typeof("lh_request").fields}
    names |= {name for name, _ in ffi.typeof("lh_sampling_params").fields}
    native = ffi.new("lh_sampling_params *")
    lib.lh_sampling_default_params(native)
    found = dict.fromkeys(names - technical, UNSEEN)
    for name in (*PLAIN_SETTINGS, "seed"):
        found[name] = getattr(native, name)
    return found


def of_newrllama(header: str) -> Taken:
    """Return members of `newrllama_parallel_params`, all of which a caller sets."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    _, _, rest = code.partition("struct newrllama_parallel_params {")
    lines = rest.partition("};")[0].splitlines()
    names = [line.partition(";")[0].split()[-1] for line in lines if ";" in line]
    return dict.fromkeys(names, UNSEEN)


def all_of_python(header: str) -> Iterator[tuple[str, Interface, Taken]]:
    """Return each interface except those of R: name, declaration and accepted options."""
    for name, each in interfaces.PYTHON.items():
        yield f"Python {name}", each, of_python(name)
    for table, each in interfaces.RUN_FILE.items():
        yield f"run.toml [{table}]", each, of_run_file(table)
    for path, each in interfaces.SERVER.items():
        yield f"HTTP {path}", each, of_server(path)
    yield "journal", interfaces.JOURNAL, of_journal()
    yield "C lh_request", interfaces.C_REQUEST, of_c_request()
    yield "C newrllama", interfaces.C_NEWRLLAMA, of_newrllama(header)


def with_one_more(options: type) -> type:
    """Return a declaration with an additional option that no interface accepts."""
    return make_dataclass(
        "More", [("one_more", "int", 1)], bases=(options,), kw_only=True, frozen=True
    )


def differences(interface: Interface, taken: Taken) -> list[str]:
    """Return options that are missing, undeclared, or have another default."""
    expected = interface.expected()
    problems = [f"{name} is missing" for name in expected.keys() - taken.keys()]
    problems += [f"{name} is not declared" for name in taken.keys() - expected.keys()]
    for name in expected.keys() & taken.keys():
        there, here = taken[name], expected[name]
        if there is not UNSEEN and not _is_same(there, here):
            problems.append(f"{name} is {there!r} by default, not {here!r}")
    return sorted(problems)


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and abs(float(one) - float(other)) < 1e-6
    empty = (None, (), {})
    return one == other or (one in empty and other in empty)
