"""Answers by a schema with six fields: validity, and cost of masks and forced tokens.

python benchmarks/structured.py SENTENCES MODEL... [--output JSON] [--rounds N]

SENTENCES is a CSV file with a column `text`, or a text file with a sentence per line.
Two comparisons are made, with alternating measurements. The first compares several
forced tokens per step (the default) with one forced token per step. The second compares
32 concurrent answers with a schema to the same number of tokens without a schema.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import time
from pathlib import Path
from typing import Any

import llamaherd as lh
from llamaherd.engine.native import engine

N_ANSWERS = 200
N_AT_ONCE = 32
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "sentiment": {"enum": ["positive", "negative", "neutral"]},
        "topic": {"enum": ["politics", "sport", "work", "family", "other"]},
        "intensity": {"type": "integer", "minimum": 0, "maximum": 10},
        "emotions": {
            "type": "array",
            "items": {"enum": ["joy", "anger", "fear", "sadness", "surprise"]},
            "maxItems": 3,
        },
        "reason": {"type": "string", "maxLength": 80},
        "is_sarcastic": {"type": "boolean"},
    },
    "required": [
        "sentiment",
        "topic",
        "intensity",
        "emotions",
        "reason",
        "is_sarcastic",
    ],
    "additionalProperties": False,
}


def sentences(path: Path) -> list[str]:
    """Return the first texts of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            texts = [row["text"] for row in csv.DictReader(file)]
        else:
            texts = [line.strip() for line in file if line.strip()]
    return texts[:N_ANSWERS]


def prompts(texts: list[str]) -> list[str]:
    """Return a prompt for each sentence, with the instruction of the schema."""
    words = lh.structured.schema_prompt(SCHEMA)
    return [f"{words}\n\nText: {text}\nJSON: " for text in texts]


def run(
    context: lh.Context, asked: list[str], *, is_stepwise: bool, **settings: object
) -> tuple[lh.Results, float]:
    """Return the answers and their seconds."""
    engine.STEP_FORCED = is_stepwise
    started_s = time.perf_counter()
    try:
        results = lh.generate_parallel(context, asked, **settings)
    finally:
        engine.STEP_FORCED = False
    return results, time.perf_counter() - started_s


def answers(context: lh.Context, asked: list[str], n_rounds: int) -> dict[str, Any]:
    """Compare all answers of two modes: several forced tokens per step, and one."""
    times: dict[bool, list[float]] = {False: [], True: []}
    decode: dict[bool, list[float]] = {False: [], True: []}
    last: dict[bool, lh.Results] = {}
    for _ in range(n_rounds):
        for is_stepwise in (False, True):
            results, wall_s = run(
                context, asked, is_stepwise=is_stepwise, schema=SCHEMA, max_tokens=200
            )
            times[is_stepwise].append(wall_s)
            decode[is_stepwise].append(results.stats.decode_s)
            last[is_stepwise] = results
    together, stepwise = last[False], last[True]
    return {
        "n": len(asked),
        "n_valid": sum(value is not None for value in together.parsed),
        "errors": [error for error in together.errors if error][:3],
        "same_text": sum(
            a.text == b.text for a, b in zip(together, stepwise, strict=True)
        ),
        "n_tokens": [
            together.stats.n_generated_tokens,
            stepwise.stats.n_generated_tokens,
        ],
        "steps": [together.stats.n_batches, stepwise.stats.n_batches],
        "time_s": [statistics.median(times[False]), statistics.median(times[True])],
        "decode_s": [statistics.median(decode[False]), statistics.median(decode[True])],
        **one_by_one(context, asked[:20]),
        "plan": str(context.plan),
    }


def one_by_one(context: lh.Context, asked: list[str]) -> dict[str, Any]:
    """Compare the two modes for prompts that run alone."""
    steps, times = [0, 0], [0.0, 0.0]
    for each in asked:
        for is_stepwise in (False, True):
            results, wall_s = run(
                context, [each], is_stepwise=is_stepwise, schema=SCHEMA, max_tokens=200
            )
            steps[is_stepwise] += results.stats.n_batches
            times[is_stepwise] += wall_s
    return {"steps_of_one": steps, "time_of_one_s": times}


def at_once(model: lh.Model, asked: list[str], n_rounds: int) -> dict[str, Any]:
    """Time concurrent answers with a schema, and as many tokens without a schema."""
    times: dict[str, list[float]] = {"together": [], "stepwise": [], "free": []}
    with lh.Context(model, n_seq_max=len(asked)) as context:
        for _ in range(n_rounds):
            out, wall_s = run(
                context, asked, is_stepwise=False, schema=SCHEMA, max_tokens=200
            )
            times["together"].append(wall_s)
            out, wall_s = run(
                context, asked, is_stepwise=True, schema=SCHEMA, max_tokens=200
            )
            times["stepwise"].append(wall_s)
            params = [
                lh.SamplingParams(max_tokens=each.n_generated_tokens, ignore_eos=True)
                for each in out
            ]
            _, wall_s = run(context, asked, is_stepwise=False, params=params)
            times["free"].append(wall_s)
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    """Write the results of each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("model", nargs="+")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layout", default=None)
    args = parser.parse_args()
    asked = prompts(sentences(args.sentences))
    found: dict[str, Any] = {}
    for path in args.model:
        with lh.Model(path) as model:
            options = {} if args.layout is None else {"kv_layout": args.layout}
            with lh.Context(model, **options) as context:
                run(context, asked[:8], is_stepwise=False, schema=SCHEMA)  # warm
                figures = answers(context, asked, args.rounds)
            figures["at_once"] = at_once(model, asked[:N_AT_ONCE], args.rounds)
        found[Path(path).name] = figures
        print(json.dumps({path: figures}, indent=1), flush=True)
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
