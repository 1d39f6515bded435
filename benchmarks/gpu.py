"""Speed on a GPU, and differences between its answers: gpu.py run MODEL OUTPUT.json.

    gpu.py run MODEL OUTPUT.json    measures, on a machine with a GPU build
    gpu.py report                   benchmarks/gpu.json into docs/gpu.md

One run measures a loop of llama-cpp-python; concurrent prompts; the time of a step by its
number of rows, on a random model with 1.1 billion parameters (Q8_0); the cache in host
memory; and the share of answers that are the same alone and beside others.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import llamaherd as lh
import marked
import numpy as np
from llamaherd.native import devices

ROOT = Path(__file__).parents[1]
RESULT, PAGE = ROOT / "benchmarks" / "gpu.json", ROOT / "docs" / "gpu.md"
WORDS = (
    *("the", "sea", "bread", "Paris", "winter", "trains"),
    *("music", "moon", "river", "stone", "paper", "light"),
)
AT_ONCE = (1, 8, 16, 32, 40, 64, 120, 240)
ROWS = (1, 2, 4, 8, 9, 16, 24, 32, 40, 48, 64, 96, 128, 192, 248)
WIDTH, N_LAYER, N_FF, N_KV, N_VOCAB = 2048, 16, 8192, 512, 32000
_RULES = "Label the topic of this text with one word. " * 8


def prompts(n: int, low: int, high: int, *, seed: int = 1, head: str = "") -> list[str]:
    """Return random prompts that differ from each other."""
    draw = random.Random(seed)  # noqa: S311 - texts of a benchmark
    texts = (" ".join(draw.choices(WORDS, k=draw.randint(low, high))) for _ in range(n))
    return [f"{head}{text} {i}:" for i, text in enumerate(texts)]


def write_random(path: str) -> None:
    """Write a random model in Q8_0, as wide as real models."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(N_FF)
    writer.add_block_count(N_LAYER)
    writer.add_head_count(32)
    writer.add_head_count_kv(8)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(64)
    kinds = gguf.TokenType
    in_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    others = [f"w{i}" for i in range(N_VOCAB - 259)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *in_bytes, *others])
    writer.add_token_scores([0.0] * N_VOCAB)
    first = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256]
    writer.add_token_types([*first, *[kinds.NORMAL] * len(others)])
    draw = np.random.default_rng(1)

    def add(name: str, n_out: int, n_in: int) -> None:
        blocks = np.empty((n_out, n_in // 32, 34), np.uint8)
        blocks[..., :2] = np.array([2.7e-4], np.float16).view(np.uint8)  # scale
        blocks[..., 2:] = draw.integers(0, 256, (n_out, n_in // 32, 32), np.uint8)
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, blocks.reshape(n_out, -1), raw_dtype=kind)

    ones = np.ones(WIDTH, np.float32)
    add("token_embd.weight", N_VOCAB, WIDTH)
    add("output.weight", N_VOCAB, WIDTH)
    writer.add_tensor("output_norm.weight", ones)
    for i in range(N_LAYER):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{name}.weight", ones)
        for name, n_out, n_in in (
            *(("attn_q", WIDTH, WIDTH), ("attn_output", WIDTH, WIDTH)),
            *(("attn_k", N_KV, WIDTH), ("attn_v", N_KV, WIDTH)),
            *(("ffn_gate", N_FF, WIDTH), ("ffn_up", N_FF, WIDTH)),
            ("ffn_down", WIDTH, N_FF),
        ):
            add(f"blk.{i}.{name}.weight", n_out, n_in)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def seconds(context: lh.Context, asked: list[Any], **settings: object) -> float:
    """Return the shorter duration of two calls, after a call that sizes the context."""
    lh.generate_parallel(context, asked, max_tokens=2, ignore_eos=True)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        lh.generate_parallel(context, asked, ignore_eos=True, **settings)
        times.append(time.perf_counter() - start)
    return min(times)


def loop_seconds(path: str) -> float:
    """Return the time of one prompt in a loop of llama-cpp-python."""
    llama = llama_cpp.Llama(
        path, n_gpu_layers=-1, n_ctx=1024, flash_attn=True, verbose=False
    )
    asked = prompts(24, 30, 60)
    llama(asked[0], max_tokens=4)
    start = time.perf_counter()
    for prompt in asked:
        llama(prompt, max_tokens=64, temperature=0, logit_bias={0: -1e9, 2: -1e9})
    llama.close()
    return (time.perf_counter() - start) / len(asked)


def throughput(model: lh.Model) -> dict[str, float]:
    """Return tokens per second by the number of prompts at once."""
    found = {}
    for n in AT_ONCE:
        asked = prompts(n if n < 64 else 240, 30, 60)
        with lh.Context(model, n_seq_max=n) as context:
            found[str(n)] = len(asked) * 64 / seconds(context, asked, max_tokens=64)
    for name, settings in (
        ("deterministic", {"deterministic": True}),
        ("cache in host memory", {"offload_kqv": False}),
    ):
        asked = prompts(40, 30, 60)
        with lh.Context(model, n_seq_max=40, **settings) as context:
            found[name] = len(asked) * 64 / seconds(context, asked, max_tokens=64)
    return found


def step_times(model: lh.Model) -> dict[str, float]:
    """Return the milliseconds of a step by its number of rows."""
    found = {}
    for n in ROWS:
        asked = [[5 + (i * 7 + j) % 3000 for j in range(8)] for i in range(n)]
        with lh.Context(model, n_seq_max=n, kv_layout="per_sequence") as context:
            found[str(n)] = seconds(context, asked, max_tokens=48) / 48 * 1000
    return found


def same(model: lh.Model, **settings: object) -> list[float]:
    """Return the shares of answers with equal texts and equal bits, 40 at once."""
    asked = [*prompts(24, 20, 60), *prompts(12, 60, 80, seed=3, head=_RULES)]
    more = {"max_tokens": 12, "ignore_eos": True, "logprobs": 0}
    with lh.Context(model, n_seq_max=1, **settings) as context:
        alone = [lh.generate(context, prompt, **more) for prompt in asked]
    with lh.Context(model, n_seq_max=40, **settings) as context:
        together = lh.generate_parallel(context, asked, **more)
    pairs = list(zip(alone, together, strict=True))
    texts = np.mean([a.text == b.text for a, b in pairs])
    bits = np.mean([a.logprobs == b.logprobs for a, b in pairs])
    return [float(texts), float(bits)]


def run(path: str, output: Path) -> None:
    """Measure everything with a model, and write the result."""
    found: dict[str, Any] = {"device": devices.gpus()[0].description}
    found["loop"] = loop_seconds(path)
    with lh.Model(path, n_gpu_layers=-1) as model:
        found["throughput"] = throughput(model)
        found["same"] = {"Q4_0": same(model)}
        found["same"]["Q4_0, deterministic"] = same(model, deterministic=True)
    with lh.Model(path) as model:
        key = "Q4_0, deterministic, no layers on the GPU"
        found["same"][key] = same(model, deterministic=True)
    with tempfile.TemporaryDirectory() as folder:
        write_random(f"{folder}/random.gguf")
        with lh.Model(f"{folder}/random.gguf", n_gpu_layers=-1) as model:
            found["steps"] = step_times(model)
    output.write_text(json.dumps(found, indent=1) + "\n")


def report() -> None:
    """Write the tables of docs/gpu.md."""
    found = json.loads(RESULT.read_text())
    loop = 64 / found["loop"]
    lines = ["| prompts at once | tokens/s | the loop |", "| --- | ---: | ---: |"]
    for name, rate in found["throughput"].items():
        title = name if name.isdigit() else f"40, {name}"
        lines.append(f"| {title} | {rate:.0f} | {rate / loop:.1f} x |")
    steps = ["| rows of a step | ms | tokens/s |", "| ---: | ---: | ---: |"]
    for n, ms in found["steps"].items():
        steps.append(f"| {n} | {ms:.2f} | {int(n) / ms * 1000:.0f} |")
    equal = ["| model | same texts | same bits |", "| --- | ---: | ---: |"]
    for name, (texts, bits) in found["same"].items():
        equal.append(f"| {name} | {texts:.0%} | {bits:.0%} |")
    parts = {"throughput": lines, "steps": steps, "same": equal}
    marked.write(PAGE, {name: "\n".join(part) for name, part in parts.items()})


def main(arguments: list[str]) -> None:
    """Run `run MODEL OUTPUT` or `report`."""
    warnings.simplefilter("ignore")
    match arguments:
        case ["run", path, output]:
            run(path, Path(output))
        case ["report"]:
            report()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
