"""R's functions have the declared options as arguments, with the declared defaults."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import rscript
from interfaces import differences, with_one_more
from llamaherd.asks.interfaces import REQUIRED, R
from llamaherd.asks.settings import SAMPLING_DEFAULTS, docs_of_options
from llamaherd.core.declared import first_sentence

if TYPE_CHECKING:
    from interfaces import Taken

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
    found = dict(formals[name])
    if "..." in found and name != "annotate_texts":  # its `...` must be empty
        found = formals["sampling_options"] | found
    if name == "quick_llama":  # its `...` are passed on
        found = formals["generate_parallel"] | found
    own = _OWN - {"n_threads"} if name == "embed_parallel" else _OWN
    return {
        option: _default(option, default)
        for option, default in found.items()
        if option not in own
    }


def _default(option: str, given: object) -> object:
    """Return a default in Python's form; for a choice, the first value."""
    if isinstance(given, list):
        return tuple(given) if option == "dry_breakers" else given[0]
    return REQUIRED if given == "(none)" else given


@pytest.mark.parametrize("name", R)
def test_r_takes_the_declared_options(
    formals: dict[str, dict[str, Any]], name: str
) -> None:
    assert differences(R[name], taken(formals, name)) == []
    more = replace(R[name], options=with_one_more(R[name].options))
    assert differences(more, taken(formals, name)) == ["one_more is missing"]


def test_another_default_in_r_is_found(formals: dict[str, dict[str, Any]]) -> None:
    found = taken(formals, "generate_parallel")
    other = {**found, "retries": 3, "stop": "a"}
    assert differences(R["generate_parallel"], other) == [
        "retries is 3 by default, not 2",
        "stop is 'a' by default, not None",
    ]


def test_sampling_options_has_the_further_settings(
    formals: dict[str, dict[str, Any]],
) -> None:
    found = {n: v for n, v in formals["sampling_options"].items() if n != "..."}
    assert found.keys() == formals["further sampling settings"].keys()
    for name in found.keys() - {"dry_breakers", "logit_bias", "stop_token_ids"}:  # lists
        assert found[name] == SAMPLING_DEFAULTS[name], name


def test_help_of_r_has_the_declared_sentences() -> None:
    source = rscript.ROOT / "r_package" / "R" / "generate_parallel.R"
    entries = re.findall(
        r"^#' @param (\w+) (.*?)(?=^#' @|^\w)",
        source.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    helped = {name: " ".join(text.replace("#'", " ").split()) for name, text in entries}
    docs = docs_of_options(R["generate_parallel"].options)
    for name in (
        *("max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_last_n"),
        *("stop", "seed", "regex", "choices", "n", "system", "retries", "logprobs"),
    ):
        line = first_sentence(docs[name]).rstrip(".")
        assert helped[name].startswith(line), (name, helped[name])
