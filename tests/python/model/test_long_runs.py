"""Texts with long runs of characters, which libllama matches by recursion."""

from __future__ import annotations

import ctypes
import re
import threading
from typing import TYPE_CHECKING

import llama_cpp
import llamaherd as lh
import pytest
import thorough
import tiny_models
from llamaherd.engine.model.tokens import prompt_tokens, tokenize
from llamaherd.engine.native import models, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_KINDS = (
    *("tekken", "deepseek-llm", "superbpe", "exaone-moe", "whitespace", "gpt-4o"),
    *("deepseek-coder", "deepseek-v3", "falcon", "bloom", "viking", "poro-chat"),
    *("bailingmoe", "seed-coder", "default", "youtu", "tiny_aya", "afmoe"),
    *(
        "minicpm5",
        "spark2_5",
        "jais-2",
        "granite-embed-multi-97m",
        "ufakzeka",
        "chameleon",
    ),
    *("gpt-2", "llama-bpe", "qwen2", "qwen35", "starcoder", "gemma4"),
    *("kimi-k2", "laguna", "chameleon"),
)
_UNITS = ("a", "A", " ", "\n", ".", "中", "aB", "the answer ", "0", "1,", "😀", "\u0301")


def _in_thread(stack: int, run: Callable[[], object]) -> object:
    """Return the result of a function that runs in a thread with a stack of some size."""
    results: list[object] = []
    before = threading.stack_size(stack)
    thread = threading.Thread(target=lambda: results.append(run()))
    thread.start()
    threading.stack_size(before)
    thread.join()
    return results[0]


def _tokens_of_libllama(path: Path, text: str) -> list[int]:
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    assert model is not None
    data = text.encode()
    tokens = (ctypes.c_int32 * (len(data) + 1))()
    n = llama_cpp.llama_tokenize(
        llama_cpp.llama_model_get_vocab(model),
        data,
        len(data),
        tokens,
        len(tokens),
        False,
        False,
    )
    llama_cpp.llama_model_free(model)
    return list(tokens[:n])


@pytest.mark.parametrize("kind", thorough.sized(_KINDS[:2], _KINDS))
def test_a_long_run_has_the_tokens_of_libllama(tmp_path: Path, kind: str) -> None:
    path = tiny_models.write(tmp_path / "a.gguf", "llama", tokenizer="gpt2", pre=kind)
    vocab = models.vocabulary_load(str(path).encode())
    units = [unit for unit in _UNITS if kind != "superbpe" or unit not in "01"]
    if kind == "whitespace":  # this tiny vocabulary has no bytes for spaces
        units = [unit for unit in units if not any(map(str.isspace, unit))]
    for unit in thorough.sized(units[:3], units):
        text = unit * (27_000 // len(unit))
        tokens = _in_thread(
            256 << 10,
            lambda text=text: vocabulary.tokenize(
                vocab, text, add_special=False, parse_special=False
            ).tolist(),
        )
        right = _in_thread(256 << 20, lambda text=text: _tokens_of_libllama(path, text))
        assert tokens == right, unit


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        ("tekken", "a" * 2_000_000, "2000000 characters without a space"),
        ("exaone-moe", "a " * 1_500_000, "characters without a line break"),
        ("superbpe", "0" * 20_000, "runs of digits (the longest has 20000"),
        ("deepseek-llm", "a" + " " * 20_000 + "1", "runs of spaces (the longest has"),
    ],
)
def test_a_run_that_costs_too_much_is_refused(
    tmp_path: Path, kind: str, text: str, problem: str
) -> None:
    path = tiny_models.write(tmp_path / "a.gguf", "llama", tokenizer="gpt2", pre=kind)
    with lh.Model(path) as model:
        with pytest.raises(ValueError, match=re.escape(problem)):
            tokenize(model, text)
        assert tokenize(model, text[:1000])


def test_a_long_run_in_one_prompt_leaves_the_others(tmp_path: Path) -> None:
    path = tiny_models.write(
        tmp_path / "a.gguf", "llama", tokenizer="gpt2", pre="superbpe"
    )
    with lh.Model(path) as model, lh.Context(model) as ctx:
        texts = ["yes", "ACGT" * 10_000, "0" * 20_000]
        results = lh.generate_parallel(ctx, texts, max_tokens=2)
        assert results[0].error is None
        assert all("the prompt has" in str(result.error) for result in results[1:])


def test_many_special_tokens_need_linear_time(tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / "a.gguf", "llama", tokenizer="gpt2")
    with lh.Model(path) as model:
        turn, text = "[INST]", "[INST]a" * 5000
        once = tokenize(model, f"{turn}a", add_special=False, parse_special=True)
        assert prompt_tokens(model, "prompt", text, True).tolist()[1:] == once * 5000
