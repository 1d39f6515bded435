"""Checks that many different calls on one context, some with faults, leave no memory.

    python soak.py CALLS OUT.json

Runs with faults.cpp preloaded (`make soak`). Compares the resident memory and the tokens
decoded per step of the first tenth, after a warm-up, with the last.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from array import array
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "python")]

import llamaherd as lh
import psutil
import tiny_models
from faults import Action, Fault, Faults

FAULT_SHARE = 0.04  # armed faults; about half of them occur
N_SCRIPTS = 50  # different calls, each made again and again
FAULTS = [
    *(Fault(function="llama_decode", action=Action.RETURN, value=v) for v in (1, 2, -1)),
    Fault(function="llama_decode", action=Action.AFTER, value=-3),
    Fault(function="llama_decode", action=Action.THROW),
    Fault(function="llama_get_logits_ith", action=Action.NAN),
    Fault(function="llama_sampler_init", action=Action.RETURN),
    Fault(function="llama_tokenize", action=Action.THROW),
    Fault(function="llama_memory_seq_cp", action=Action.RETURN),
    Fault(function="new", action=Action.THROW_MEMORY, first=50),
    Fault(function="new in llama_decode", action=Action.THROW_MEMORY, first=50),
]
DOCUMENT = "A document that many questions are about, to be held. "


def script(draw: random.Random) -> dict[str, object]:
    """Return the arguments of a call."""
    n = draw.choice([1, 2, 5, 9])
    stem = draw.choice(["", "Question ", DOCUMENT])
    grammar = "root ::= [a-z]+" if draw.random() < 0.2 else None
    return {
        "prompts": [f"{stem}{draw.randrange(1000)} {'x' * (i * 5)}" for i in range(n)],
        "params": lh.SamplingParams(
            temperature=draw.choice([0.0, 0.0, 0.8, 1.5]),
            penalty_repeat=draw.choice([1.0, 1.2]),
            repeat_last_n=64,
            grammar=grammar,
            ignore_eos=grammar is None,
        ),
        "max_tokens": draw.choice([1, 4, 12]),
    }


def main() -> None:
    n_calls, out = int(sys.argv[1]), Path(sys.argv[2])
    draw = random.Random(1)
    scripts = [script(draw) for _ in range(N_SCRIPTS)]
    # Large enough for every call, so that the context is not enlarged during the test.
    largest = {"prompts": ["y" * 200 + str(i) for i in range(9)], "max_tokens": 12}
    faults = Faults()
    process = psutil.Process()
    reasons: Counter[str] = Counter()
    n_struck = 0
    # The arrays for all calls are allocated at the start, so that the memory of the test
    # itself does not grow.
    n_generated, n_batches = array("q", [0]) * n_calls, array("q", [0]) * n_calls
    memory = array("q", [0]) * (n_calls // 10)
    expected: dict[int, int] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        lh.Model(tiny_models.write(Path(folder) / "tiny.gguf", "llama")) as model,
        lh.Context(model, n_seq_max=4, n_threads=1, deterministic=True) as context,
    ):
        lh.generate_parallel(context, **largest)
        for i in range(n_calls):
            # The last tenth makes the calls of the first.
            which = i % N_SCRIPTS
            fault = draw.choice(FAULTS) if draw.random() < FAULT_SHARE else None
            with faults.armed(fault):
                results = lh.generate_parallel(context, **scripts[which])
            if fault is None:
                tokens = hash(tuple(tuple(result.tokens) for result in results))
                assert results.stats.n_failed == 0, results.errors
                assert expected.setdefault(which, tokens) == tokens
                n_generated[i] = results.stats.n_generated_tokens
                n_batches[i] = results.stats.n_batches
            else:
                n_struck += faults.n_struck > 0
            reasons.update(results.finish_reasons)
            if i % 10 == 9:
                memory[i // 10] = process.memory_info().rss
    tenth = max(1, n_calls // 10)
    first = slice(tenth, 2 * tenth)  # the first tenth is the warm-up and not measured
    last = slice(-tenth, None)
    few = max(1, len(memory) // 10)
    report = {
        "calls": n_calls,
        "struck": n_struck,
        "prompts": reasons.total(),
        "failed": reasons["error"],
        "memory_first_bytes": statistics.median(memory[few : 2 * few]),
        "memory_last_bytes": statistics.median(memory[-few:]),
        "tokens_per_step_first": sum(n_generated[first]) / sum(n_batches[first]),
        "tokens_per_step_last": sum(n_generated[last]) / sum(n_batches[last]),
    }
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
