"""Options that each interface accepts, to be compared with the declaration."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import (
    CHAT_DEFAULTS,
    ClassifyOptions,
    EmbedOptions,
    GenerateOptions,
    PerplexityOptions,
    ScoreOptions,
)
from llamaherd.engine.core.declaration import REQUIRED, Options, options_of
from llamaherd.engine.core.request import NEUTRAL, Request
from llamaherd.engine.core.sampling import DEFAULT_SEED, PLAIN_SETTINGS
from llamaherd.engine.native.shim import ffi, lib
from llamaherd.server import sampling
from llamaherd.server.embeddings import EmbeddingsApi
from llamaherd.server.generate import GenerateApi
from llamaherd.server.openai import ChatCompletions, Completions
from llamaherd.server.sampling import DEFAULTS, OPENAI_NAMES
from llamaherd.server.scores import AnnotateApi, ClassifyApi, ScoreApi
from llamaherd.server.settings import ServerSettings
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.spec_keys import AT_TOP, KEYS, TASK_TABLES
from served import path_format

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    # Names of options, with the default where the interface shows it.
    Taken = Mapping[str, Any]

# Functions of Python: the class of their options, the interface, further defaults.
PYTHON: dict[str, tuple[type[Options], str, dict[str, object]]] = {
    "generate_parallel": (GenerateOptions, "many", {}),
    "start_parallel": (GenerateOptions, "many", {}),
    "generate": (GenerateOptions, "single", {}),
    "submit": (GenerateOptions, "submit", {}),
    "chat": (GenerateOptions, "chat", {"system": None, **CHAT_DEFAULTS}),
    "classify_parallel": (ClassifyOptions, "many", {}),
    "start_classify": (ClassifyOptions, "many", {}),
    "classify_calibrated": (ClassifyOptions, "many", {}),
    "score_parallel": (ScoreOptions, "many", {}),
    "start_score": (ScoreOptions, "many", {}),
    "perplexity": (PerplexityOptions, "many", {}),
    "start_perplexity": (PerplexityOptions, "many", {}),
    "embed_parallel": (EmbedOptions, "many", {}),
    "start_embed": (EmbedOptions, "many", {}),
    "annotate": (AnnotateOptions, "many", {}),
    "start_annotate": (AnnotateOptions, "many", {}),
}
SERVER: dict[str, tuple[type[Options], str]] = {
    "/generate": (GenerateOptions, "http"),
    "/v1/completions": (GenerateOptions, "completions"),
    "/v1/chat/completions": (GenerateOptions, "chats"),
    "/v1/embeddings": (EmbedOptions, "http"),
    "/v1/score": (ScoreOptions, "http"),
    "/v1/classify": (ClassifyOptions, "http"),
    "/v1/annotate": (AnnotateOptions, "http"),
}
# Options that are not in the key of a result: they are in the tokens of the prompt, or
# change what the caller does, not an answer.
_OF_CALLER = {
    *("n", "params", "parse_special", "chat", "system", "variables", "template"),
    *("prefix", "merge_system", "show_schema", "on_error", "journal", "progress"),
    *("strict", "retries"),
}


def declared(
    kind: type[Options], interface: str | None = None, **changes: object
) -> dict[str, Any]:
    """Return the declared defaults of the options of an interface, and further ones."""
    options = options_of(kind, interface)
    return {name: spec.default for name, spec in options.items()} | changes


UNSEEN = object()  # a default that the interface does not show
# Arguments that are no options: the subject of a call, and calibration.
_DATA = {
    *("self", "context", "prompt", "prompts", "texts", "continuations", "model"),
    *("content_free", "calibration", "frame", "text", "codebook", "context", "turns"),
}


def of_python(name: str) -> Taken:
    function = lh.Context.submit if name == "submit" else getattr(lh, name)
    data = {*_DATA, "method"} if name == "classify_calibrated" else _DATA
    return {
        name: REQUIRED
        if parameter.default is inspect.Parameter.empty
        else parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in data
    }


def of_run_file(table: str) -> Taken:
    at_top = {*AT_TOP} & options_of(TASK_TABLES[table], "rows").keys()
    top = {field.name: field.default for field in fields(RunSpec) if field.name in at_top}
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
        form, extra = WHOLE[path]
        return dict.fromkeys(form.fields - extra - {"model"}, UNSEEN)
    model: Any = SimpleNamespace(n_ctx_train=512)
    if path == "/generate":
        understood = path_format(GenerateApi, model).understand({"prompt": "a"})
        extra, names = {"prompt", "model"}, GenerateApi.fields
    else:
        extra = {"model", "prompt", "messages", "max_completion_tokens", "stream_options"}
        extra |= {"tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "n"}
        extra |= {*sampling.FORM_FIELDS, "repeat_penalty"}
        extra |= {"reasoning_effort", "thinking_budget_tokens"}
        extra |= {"enable_thinking", "thinking_budget"}
        extra |= {"thinking_token_budget", "reasoning_budget_tokens"}
        extra |= {"continue_final_message", "add_generation_prompt", "echo"}
        extra |= {"prompt_logprobs", "add_special_tokens", "dry_sequence_breakers"}
        extra |= {"include_stop_str_in_output"}
        names = Completions.fields
        understood = path_format(Completions, model).understand({"prompt": "a"})
        if path == "/v1/chat/completions":
            names = ChatCompletions.fields
            understood = SimpleNamespace(
                params=lh.SamplingParams(
                    temperature=understood.params.temperature,
                    seed=understood.params.seed,
                    max_tokens=ServerSettings(model_name="m").max_tokens,
                ),
                options={},
                stream=False,
            )
    options = declared(SERVER[path][0]) | understood.options
    settings: dict[str, Any] = {}
    library = {field: name for name, field in OPENAI_NAMES.items()}
    for name in names - extra:
        value = getattr(understood.params, library.get(name, name), options.get(name))
        settings[name] = understood.stream if name == "stream" else value
    if settings.get("seed", 0) is None:  # default of the call
        settings["seed"] = DEFAULT_SEED
    return settings


def of_journal() -> Taken:
    """Return the parts of a journal's key, which affect an answer."""
    hashed = {field.name for field in fields(Request)} - NEUTRAL
    made_of_others = {"tokens", "tree", "paths", "sampling"}
    sampling = {field.name for field in fields(lh.SamplingParams)}
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
    settings = dict.fromkeys(names - technical, UNSEEN)
    for name in (*PLAIN_SETTINGS, "seed"):
        settings[name] = getattr(native, name)
    return settings


def of_newrllama(header: str) -> Taken:
    """Return members of `newrllama_parallel_params`, all of which a caller sets."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    _, _, rest = code.partition("struct newrllama_parallel_params {")
    lines = rest.partition("};")[0].splitlines()
    names = [line.partition(";")[0].split()[-1] for line in lines if ";" in line]
    return dict.fromkeys(names, UNSEEN)


def all_of_python(header: str) -> Iterator[tuple[str, Taken, Taken]]:
    """Return each interface except those of R: name, declared and accepted options."""
    for name, (kind, interface, changes) in PYTHON.items():
        expected = declared(kind, interface, **changes)
        if name.startswith("start_"):  # a job reports its progress on request
            del expected["progress"]
        yield f"Python {name}", expected, of_python(name)
    for table, kind in TASK_TABLES.items():
        expected = declared(kind, "rows")
        if table == "classify":  # the check of the whole file requires them
            expected["labels"] = None
        yield f"run.toml [{table}]", expected, of_run_file(table)
    for path, (kind, interface) in SERVER.items():
        expected = declared(kind, interface)
        expected |= DEFAULTS.get(interface, {})
        yield f"HTTP {path}", expected, of_server(path)
    of_answer = {
        name: default
        for name, default in declared(GenerateOptions).items()
        if name not in _OF_CALLER
    }
    key = {**of_answer, "thought": of_answer["thinking"]}
    when = ("thinking", "stream", "priority")  # when an answer comes, not its text
    yield "journal", {n: v for n, v in key.items() if n not in when}, of_journal()
    native = {
        "watch": False,
        "logit_bias_token": (),
        **{n: v for n, v in of_answer.items() if n not in ("stream", "logit_bias")},
    }
    by_grammar = ("schema", "regex", "quote_from")
    yield (
        "C lh_request",
        {n: v for n, v in native.items() if n not in by_grammar},
        of_c_request(),
    )
    fixed = ("max_tokens", "top_k", "top_p", "temperature", "repeat_last_n")
    yield (
        "C newrllama",  # a struct that stays as in localLLM
        {name: of_answer[name] for name in (*fixed, "penalty_repeat", "seed")},
        of_newrllama(header),
    )


def differences(expected: Taken, taken: Taken) -> list[str]:
    """Return options that are missing, undeclared, or have another default."""
    problems = [f"{name} is missing" for name in expected.keys() - taken.keys()]
    problems += [f"{name} is not declared" for name in taken.keys() - expected.keys()]
    for name in expected.keys() & taken.keys():
        actual, here = taken[name], expected[name]
        if actual is not UNSEEN and not _is_same(actual, here):
            problems.append(f"{name} is {actual!r} by default, not {here!r}")
    return sorted(problems)


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and abs(float(one) - float(other)) < 1e-6
    empty = (None, (), {})
    return one == other or (one in empty and other in empty)
