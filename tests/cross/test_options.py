"""R's functions have the declared options as arguments, with the declared defaults."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import rscript
from interfaces import declared, differences
from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import (
    ClassifyOptions,
    EmbedOptions,
    GenerateOptions,
    PerplexityOptions,
    ScoreOptions,
)
from llamaherd.engine.core.declaration import REQUIRED, Options, options_of
from llamaherd.engine.core.sampling import DEFAULT_MAX_TOKENS

if TYPE_CHECKING:
    from interfaces import Taken

# Functions of R: the class of their options, and the interface.
R: dict[str, tuple[type[Options], str]] = {
    "generate_parallel": (GenerateOptions, "many"),
    "generate": (GenerateOptions, "single"),
    "quick_llama": (GenerateOptions, "many"),
    "classify_parallel": (ClassifyOptions, "many"),
    "score_parallel": (ScoreOptions, "many"),
    "perplexity": (PerplexityOptions, "many"),
    "embed_parallel": (EmbedOptions, "many"),
    "annotate_texts": (AnnotateOptions, "many"),
}
# Arguments that are not options: the input of a call, and its output and messages.
_OWN = {
    *("context", "prompt", "prompts", "texts", "continuations", "model", "..."),
    *("data", "text", "codebook", "sampling"),
    *("verbosity", "clean", "hash", "dotted"),
    "sampling",  # return value of sampling_options()
    # Arguments of quick_llama(), which chooses model, context and template itself.
    *("model_path", "n_threads", "n_gpu_layers", "n_ctx"),
    *("system_prompt", "auto_format", "chat_template"),
}


@pytest.fixture(scope="module")
def formals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    path = tmp_path_factory.mktemp("r") / "formals.json"
    rscript.run("formals.R", rscript.ROOT / "r_package" / "R", path)
    return json.loads(path.read_text(encoding="utf-8"))


def taken(formals: dict[str, dict[str, Any]], name: str) -> Taken:
    """Return the options of a function: its own arguments, and the arguments in `...`."""
    options = dict(formals[name])
    if "..." in options and name != "annotate_texts":  # its `...` must be empty
        options = formals["sampling_options"] | options
    if name == "quick_llama":  # its `...` are passed on
        options = formals["generate_parallel"] | options
    left_out = _OWN - {"n_threads"} if name == "embed_parallel" else _OWN
    return {
        option: _default(option, default)
        for option, default in options.items()
        if option not in left_out
    }


def _default(option: str, default: object) -> object:
    """Return a default in Python's form; for a choice, the first value."""
    if isinstance(default, list):
        return tuple(default) if option == "dry_breakers" else default[0]
    return REQUIRED if default == "(none)" else default


def declared_options(name: str) -> Taken:
    """Return the declared options of a function of R, with their defaults."""
    kind, interface = R[name]
    options = declared(kind, interface)
    options.pop("params", None)  # settings are separate arguments
    options.pop("versions", None)  # R adds its own
    if name == "generate":  # R does not stream answers
        del options["stream"]
    if "progress" in options:
        options["progress"] = "interactive()"
    if name == "quick_llama":  # localLLM has a number
        options["max_tokens"] = DEFAULT_MAX_TOKENS
    return options


@pytest.mark.parametrize("name", R)
def test_r_takes_the_declared_options(
    formals: dict[str, dict[str, Any]], name: str
) -> None:
    assert differences(declared_options(name), taken(formals, name)) == []


def test_another_default_in_r_is_found(formals: dict[str, dict[str, Any]]) -> None:
    options = taken(formals, "generate_parallel")
    other = {**options, "retries": 3, "stop": "a"}
    assert differences(declared_options("generate_parallel"), other) == [
        "retries is 3 by default, not 2",
        "stop is 'a' by default, not None",
    ]


def test_help_of_r_has_the_declared_sentences() -> None:
    source = rscript.ROOT / "r_package" / "R" / "generate_parallel.R"
    entries = re.findall(
        r"^#' @param (\w+) (.*?)(?=^#' @|^\w)",
        source.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    helped = {name: " ".join(text.replace("#'", " ").split()) for name, text in entries}
    docs = options_of(GenerateOptions)
    for name in (
        *("max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_last_n"),
        *("stop", "seed", "regex", "choices", "n", "system", "retries", "logprobs"),
    ):
        line = docs[name].sentence.rstrip(".")
        assert helped[name].startswith(line), (name, helped[name])
