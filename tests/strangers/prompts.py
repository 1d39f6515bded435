"""Tests objects that are not prompts, and texts that are slow to tokenize."""

from __future__ import annotations

import io
import os
import time

import llamaherd as lh
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from rows import tell

MODELS = ("LLAMAHERD_TEST_SMOLLM2", "LLAMAHERD_TEST_GEMMA3")
NOT_PROMPTS = [{"a", "b"}, frozenset("ab"), io.StringIO("a\nb"), {"a": 1}, "a", b"a", 3]
NOT_A_PROMPT = [{1, 2}, {1: 2}, io.StringIO("a"), 1.5, None, b"a"]
UNITS = [" ", "\n", "\t", " \n", "a", "ab ", "7", "!", "é", "漢", "😀", "\u00a0"]
N_CHARS = 130_000
MOST_S = 10.0


def refused(context: lh.Context, prompts: object) -> bool:
    try:
        lh.generate_parallel(context, prompts)  # type: ignore[arg-type]
    except TypeError as error:
        return "prompts" in str(error)
    return False


def main() -> None:
    slowest = 0.0
    n_quick = 0
    for name in MODELS:
        with lh.Model(os.environ[name]) as model:
            for unit in UNITS:
                text = (unit * N_CHARS)[:N_CHARS]
                start = time.perf_counter()
                options = GenerateOptions(sampling={"max_tokens": 1, "seed": 1})
                make_requests(model, [text], options)
                seconds = time.perf_counter() - start
                slowest = max(slowest, seconds)
                n_quick += seconds < MOST_S
            if name == MODELS[0]:
                with lh.Context(model) as context:
                    n_refused = sum(refused(context, bad) for bad in NOT_PROMPTS)
                    n_refused += sum(refused(context, [bad]) for bad in NOT_A_PROMPT)
    tell(
        10,
        "sets, files, dicts and similar objects as prompts, or as one prompt: an error "
        "that names the argument",
        len(NOT_PROMPTS) + len(NOT_A_PROMPT),
        n_refused,
        "",
    )
    tell(
        10,
        f"{N_CHARS:,} spaces, line breaks, letters and so on, two models: tokenized "
        "or refused in bounded time",
        len(UNITS) * len(MODELS),
        n_quick,
        f"at most {slowest:.1f} s",
    )


if __name__ == "__main__":
    main()
