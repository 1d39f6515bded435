"""Share of valid and invalid instances of JSON Schemas that are accepted.

python benchmarks/maskbench.py SAMPLE MODEL... [--output JSON] [--grammars N]

SAMPLE has a schema per line, `{"name", "schema", "tests": [{"valid", "data"}]}`, as in
MaskBench (guidance-ai/jsonschemabench), optionally compressed by gzip. `masks` are the
results of llguidance's masks alone; `check` also includes llamaherd's check of the
complete answer. `--grammars N` also measures the times of llama.cpp's converter and
grammar sampler for N schemas.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import random
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llama_cpp
import llamaherd as lh
import llguidance.numpy
from instances import ways_to_write
from llama_cpp.llama_grammar import json_schema_to_gbnf
from llamaherd.calls.structured.shape import shape_of
from llguidance import LLMatcher
from llguidance.llamacpp import lltokenizer_from_vocab

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.calls.structured.shape import Shape

_MAX_TOKENS = 200  # maximum number of tokens of an instance, for times
_NO_ROW = {"valid_refused": 0, "invalid_let_through": 0, "invalid_accepted": 0}


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a sample."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.decode().split("\n") if line]


def judge(model: lh.Model, row: dict[str, Any]) -> dict[str, Any]:
    """Return the results for a schema and its instances."""
    schema = row["schema"]
    found: dict[str, Any] = {"name": row["name"], "refused": "", "left": [], **_NO_ROW}
    started_s = time.perf_counter()
    try:
        shape = shape_of(schema)
    except ValueError as error:
        return {**found, "refused": str(error), "compile_s": 0.0}
    found |= {"left": list(shape.left), "compile_s": time.perf_counter() - started_s}
    for test in row["tests"]:
        texts = ways_to_write(schema, test["data"]) if test["valid"] else []
        texts = texts or [
            json.dumps(test["data"], ensure_ascii=False, separators=(",", ":"))
        ]
        is_let_through = any(lh.structured.accepts(model, schema, text) for text in texts)
        is_right = _passes(shape, texts[0])
        if test["valid"]:
            found["valid_refused"] += not (is_let_through and is_right)
        else:
            found["invalid_let_through"] += is_let_through
            found["invalid_accepted"] += is_let_through and is_right
    return found


def _passes(shape: Shape, text: str) -> bool:
    try:
        shape.read(text)
    except ValueError:
        return False
    return True


def summary(rows: list[dict[str, Any]], sample: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts over all rows."""
    is_wrong = [row["refused"] or row["valid_refused"] for row in rows]
    tests = [test["valid"] for row in sample for test in row["tests"]]
    return {
        "schemas": len(rows),
        "valid": sum(tests),
        "invalid": len(tests) - sum(tests),
        "refused": [[row["name"], row["refused"]] for row in rows if row["refused"]],
        "left_to_check": sum(bool(row["left"]) for row in rows),
        "valid_refused": sum(row["valid_refused"] for row in rows),
        "invalid_let_through": sum(row["invalid_let_through"] for row in rows),
        "invalid_accepted": sum(row["invalid_accepted"] for row in rows),
        "pass_masks": sum(
            not wrong and not row["left"] and not row["invalid_let_through"]
            for wrong, row in zip(is_wrong, rows, strict=True)
        ),
        "pass_with_check": sum(
            not wrong and not row["invalid_accepted"]
            for wrong, row in zip(is_wrong, rows, strict=True)
        ),
        "failed": [
            row["name"]
            for wrong, row in zip(is_wrong, rows, strict=True)
            if wrong or row["invalid_accepted"]
        ],
        "compile_ms": quantiles([1e3 * row["compile_s"] for row in rows]),
    }


def quantiles(numbers: Iterable[float]) -> dict[str, float]:
    """Return median, 99th percentile and maximum."""
    ordered = sorted(numbers)
    if not ordered:
        return {}
    return {
        "p50": statistics.median(ordered),
        "p99": ordered[int(0.99 * (len(ordered) - 1))],
        "max": ordered[-1],
    }


def instances(sample: list[dict[str, Any]]) -> list[tuple[Shape, str, Any]]:
    """Return the first valid instance of each schema, with the schema."""
    found = []
    for row in sample:
        valid = [test["data"] for test in row["tests"] if test["valid"]]
        try:
            shape = shape_of(row["schema"])
        except ValueError:
            continue
        if valid:
            text = ways_to_write(row["schema"], valid[0])[-1]
            found.append((shape, text, row["schema"]))
    return found


def mask_times(model: str, sample: list[dict[str, Any]]) -> dict[str, float]:
    """Return the microseconds per mask, over the tokens of valid instances."""
    vocab_only = llama_cpp.Llama(model, vocab_only=True, verbose=False)
    vocab = llama_cpp.llama_model_get_vocab(vocab_only._model.model)  # noqa: SLF001
    tokenizer = lltokenizer_from_vocab(vocab)
    mask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
    times = []
    for shape, text, _ in instances(sample):
        grammar = f'{{"grammars":[{{"json_schema":{shape.enforced}}}]}}'
        matcher = LLMatcher(tokenizer, grammar, log_level=0)
        for token in tokenizer.tokenize_str(text)[:_MAX_TOKENS]:
            started_s = time.perf_counter()
            llguidance.numpy.fill_next_token_bitmask(matcher, mask)
            times.append(1e6 * (time.perf_counter() - started_s))
            if not matcher.consume_token(token):
                break
    return {**quantiles(times), "n": len(times)}


def grammar_times(model: str, sample: list[dict[str, Any]]) -> dict[str, float]:
    """Return times with the converter and the grammar sampler of llama.cpp."""
    vocab_only = llama_cpp.Llama(model, vocab_only=True, verbose=False)
    vocab = llama_cpp.llama_model_get_vocab(vocab_only._model.model)  # noqa: SLF001
    n_vocab = llama_cpp.llama_vocab_n_tokens(vocab)
    data = (llama_cpp.llama_token_data * n_vocab)()
    fresh = (llama_cpp.llama_token_data * n_vocab)()
    for i in range(n_vocab):
        fresh[i] = llama_cpp.llama_token_data(i, 0.0, 0.0)
    times = []
    n_refused = 0
    for _, text, schema in instances(sample):
        try:
            gbnf = json_schema_to_gbnf(json.dumps(schema))
        except Exception:  # noqa: BLE001 - of any class
            n_refused += 1
            continue
        sampler = llama_cpp.llama_sampler_init_grammar(vocab, gbnf.encode(), b"root")
        if not sampler:
            n_refused += 1
            continue
        tokens = vocab_only.tokenize(text.encode(), add_bos=False)
        for token in tokens[:_MAX_TOKENS]:
            ctypes.memmove(data, fresh, ctypes.sizeof(fresh))
            candidates = llama_cpp.llama_token_data_array(data, n_vocab, -1, False)
            started_s = time.perf_counter()
            llama_cpp.llama_sampler_apply(sampler, candidates)
            times.append(1e6 * (time.perf_counter() - started_s))
            if data[token].logit != 0.0:  # llama.cpp's grammar refuses the token
                break
            llama_cpp.llama_sampler_accept(sampler, token)
        llama_cpp.llama_sampler_free(sampler)
    return {**quantiles(times), "n": len(times), "refused": n_refused}


def main() -> None:
    """Write a summary for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sample", type=Path)
    parser.add_argument("model", nargs="+")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--grammars", type=int, default=0)
    args = parser.parse_args()
    sample = read(args.sample)
    found: dict[str, Any] = {}
    for path in args.model:
        with lh.Model(path) as model:
            started_s = time.perf_counter()
            rows = [judge(model, row) for row in sample]
            found[Path(path).name] = {
                **summary(rows, sample),
                "wall_s": time.perf_counter() - started_s,
            }
        found[Path(path).name]["mask_us"] = mask_times(path, sample)
        if args.grammars:
            few = random.Random(1).sample(sample, args.grammars)  # noqa: S311
            found[Path(path).name]["mask_us_few"] = mask_times(path, few)
            found[Path(path).name]["grammar_us_few"] = grammar_times(path, few)
        print(json.dumps({path: found[Path(path).name]}, indent=1), flush=True)
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
