"""Compares scoring on one model with the calls that scoring replaces.

    python benchmarks/scores.py cost MODEL.gguf
    python benchmarks/scores.py equality MODEL.gguf TEXTS.csv N

`cost` makes three measurements: the time to score four labels of one token, relative to
the prefill alone; the times to generate labels under a grammar and to classify, measured
alternately for the texts of the workload `annotate`; and the time to score 77 labels of
several tokens.

`equality` compares label scores of N texts (column `text` of a CSV file), token by token,
with scores from llama-cpp-python's logits. `equality` also compares the scores of whole
labels, which include the score of the end token. The program prints JSON.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))
from step_by_step import StepByStep
from workloads import make_workloads

if TYPE_CHECKING:
    from collections.abc import Callable

ONE_TOKEN = ["positive", "negative", "good", "bad"]
CODES = ["Speech", "Action", "Description", "Judgement"]
NESTED = [
    " positive",
    " negative",
    " neutral",
    " positive and hopeful",
    " positive and hopeful about it",
    " mixed, neither good nor bad",
]
KINDS = ["price of", "date of", "place of", "kind of", "loss of", "fault in", "return of"]
THINGS = [
    "a card",
    "the account",
    "my last order",
    "some cash",
    "an app",
    "a fee",
    "the transfer",
    "your bank",
    "a top-up",
    "the exchange",
    "a gift",
]
N_ROUNDS = 2


def timed(function: Callable[[], object]) -> tuple[float, object]:
    """Run a call; return its seconds and results."""
    start = time.perf_counter()
    results = function()
    return time.perf_counter() - start, results


def in_turns(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Measure calls alternately after a warm-up round; return median seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(N_ROUNDS + 1):
        for name, call in calls.items():
            took, _ = timed(call)
            if i > 0:
                seconds[name].append(took)
    return {name: statistics.median(each) for name, each in seconds.items()}


def measure_cost(path: str) -> dict[str, object]:
    """Return the times for `cost`."""
    with lh.Model(path) as model:
        loads = make_workloads()
        prompts = loads["annotate"].prompts
        few = [
            f"{i}. {prompt}" for i, prompt in enumerate(loads["distinct"].prompts[:64])
        ]
        grammar = "root ::= " + " | ".join(json.dumps(f" {code}") for code in CODES)
        names = [f"{kind} {thing}" for kind in KINDS for thing in THINGS]

        def with_new(function: Callable[[lh.Context], object]) -> Callable[[], object]:
            def call() -> object:
                with lh.Context(model) as context:  # a new context has no held prefix
                    return function(context)

            return call

        one = in_turns(
            {
                "prefill": with_new(
                    lambda ctx: lh.generate_parallel(ctx, few, max_tokens=1)
                ),
                "classify": with_new(
                    lambda ctx: lh.classify_parallel(ctx, few, ONE_TOKEN)
                ),
            }
        )
        annotate = in_turns(
            {
                "grammar": with_new(
                    lambda ctx: lh.generate_parallel(
                        ctx, prompts, grammar=grammar, max_tokens=8
                    )
                ),
                "choices": with_new(
                    lambda ctx: lh.generate_parallel(ctx, prompts, choices=CODES)
                ),
                "classify": with_new(
                    lambda ctx: lh.classify_parallel(ctx, prompts, CODES)
                ),
            }
        )
        with lh.Context(model) as context:
            seconds, found = timed(
                lambda: lh.classify_parallel(context, prompts[:100], names)
            )
        n_label_tokens = sum(len(lh.tokenize(model, f" {name}")) for name in names)
        return {
            "model": Path(path).name,
            "one_token": one | {"ratio": one["classify"] / one["prefill"]},
            "annotate": annotate
            | {"speedup": annotate["grammar"] / annotate["classify"]},
            "many_labels": {
                "n_labels": len(names),
                "n_texts": len(found),
                "seconds": seconds,
                "prefill_tokens": found.stats.n_prefill_tokens,
                "label_tokens_computed": found.stats.n_decode_tokens,
                "labels_times_tokens": n_label_tokens * len(found),
            },
        }


def measure_equality(path: str, texts: str, n: int) -> dict[str, object]:
    """Return the distances of scores from a loop with llama-cpp-python."""
    with Path(texts).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:n]
    prompts = [f"Tweet: {row['text']}\nSentiment:" for row in rows]
    with lh.Model(path) as model:
        with lh.Context(model, flash_attn=True) as context:
            found = lh.score_parallel(context, prompts, [NESTED] * len(prompts))
            labels = lh.classify_parallel(context, prompts, NESTED).logprobs
        furthest: dict[str, list[float]] = {"step_by_step": [], "together": []}
        of_labels: list[float] = []
        with StepByStep(Path(path)) as steps:
            for i, prompt in enumerate(prompts):
                tokens = lh.tokenize(model, prompt)
                each = found.continuations[i]
                behind = [c.tokens for c in each]
                if [*tokens, *behind[0]] != lh.tokenize(model, prompt + NESTED[0]):
                    continue  # the end of the prompt is tokenized together with the label
                for name, values in furthest.items():
                    expected = steps.token_logprobs(
                        tokens, behind, together=name == "together"
                    )
                    values += [
                        float(np.abs(c.token_logprobs - x).max())
                        for c, x in zip(each, expected, strict=True)
                    ]
                whole = steps.label_logprobs(tokens, behind)
                of_labels += np.abs(labels[i] - whole).tolist()
    return {
        "model": Path(path).name,
        "n_labels": len(furthest["together"]),
        **{
            name: {"max": max(values), "median": statistics.median(values)}
            for name, values in {**furthest, "labels": of_labels}.items()
        },
    }


def main() -> None:
    """Measure what the command line selects, and print it."""
    what, path, *rest = sys.argv[1:]
    measured = (
        measure_cost(path)
        if what == "cost"
        else measure_equality(path, rest[0], int(rest[1]))
    )
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
