"""Tests settings of a llama_cpp.Llama, and LoRA adapters: one JSON line for each row."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "python"))

import llama_cpp
import llamaherd as lh
import tiny_loras
import tiny_models
from llama_cpp._logger import set_verbose
from rows import tell

set_verbose(False)

MODEL = os.environ["LLAMAHERD_TEST_SMOLLM2"]
PROMPTS = ["The sea is", "Once upon a time"]
N_MIXES = 16
N_FLIPS = 400
N_KEYS = 24
N_TINY = tiny_models.N_EMBD
TINY = {
    "blk.0.attn_q.weight": (N_TINY, N_TINY),
    "blk.1.ffn_up.weight": (N_TINY, tiny_models.N_FF),
}


def row(what: str, held: list[bool], note: str = "") -> None:
    tell(2, what, len(held), sum(held), note)


def own_answers(llama: llama_cpp.Llama) -> list[str]:
    llama.reset()
    options = {"max_tokens": 10, "temperature": 0}
    return [llama(prompt, **options)["choices"][0]["text"] for prompt in PROMPTS]


def answers(ctx: lh.Context | llama_cpp.Llama) -> list[str]:
    return [lh.generate(ctx, prompt, max_tokens=10).text for prompt in PROMPTS]


def mix(chance: random.Random, adapter: Path) -> dict[str, object]:
    """Return settings of a Llama."""
    kinds = [
        {"lora_path": str(adapter), "lora_scale": chance.uniform(0.3, 1)},
        {"rope_freq_base": chance.uniform(2e4, 1e5)},
        {"rope_freq_scale": chance.uniform(0.2, 0.6)},
        {"rope_scaling_type": 2, "rope_freq_scale": 0.25, "yarn_orig_ctx": 64},
        {"yarn_attn_factor": chance.uniform(1.2, 2)},
        {"type_k": 8, "type_v": 8},
    ]
    settings: dict[str, object] = {}
    for chosen in chance.sample(kinds, chance.choice([1, 1, 2, 3])):
        settings |= chosen
    return settings


def settings_agree(adapter: Path) -> None:
    chance = random.Random(2)
    base = lh.Model(MODEL)
    plain = answers(lh.Context(base))
    held, other = [], 0
    for _ in range(N_MIXES):
        settings = mix(chance, adapter)
        llama = llama_cpp.Llama(
            MODEL, n_ctx=128, flash_attn=True, verbose=False, **settings
        )
        expected = own_answers(llama)
        held.append(answers(llama) == expected)
        other += expected != plain
        llama.close()
    row(
        "a Llama with LoRA, rope, YaRN, types of the cache, in combinations: "
        "same greedy texts as the Llama itself",
        held,
        f"{other} of them differ from the texts of the model without settings",
    )
    held = []
    for scale in (0.25, 0.5, 0.75, 1.0, 0.0):
        llama = llama_cpp.Llama(
            MODEL,
            n_ctx=128,
            flash_attn=True,
            verbose=False,
            lora_path=str(adapter),
            lora_scale=scale,
        )
        with lh.Model(MODEL, lora=[(adapter, scale)]) as model:
            held.append(answers(lh.Context(model)) == own_answers(llama))
        llama.close()
    row("Model(lora=[(path, scale)]): same texts as Llama(lora_path=, lora_scale=)", held)


def refused() -> None:
    held = []
    for settings, name in (
        ({"attention_type": 1}, "attention_type"),
        (
            {"tokenizer": type("Other", (llama_cpp.LlamaTokenizer,), {})},
            "tokenizer=Other",
        ),
        ({"rope_freq_base": -1.0}, "rope_freq_base"),
        ({"rope_scaling_type": 9}, "rope_scaling_type"),
        ({"chat_format": "vicuna"}, "vicuna"),
        ({"kv_overrides": {"llama.rope.freq_base": 2e4}}, "kv_overrides"),
    ):
        if "tokenizer" in settings:
            settings["tokenizer"] = settings["tokenizer"](
                llama_cpp.Llama(MODEL, n_ctx=64, verbose=False)
            )
        llama = llama_cpp.Llama(MODEL, n_ctx=64, verbose=False, **settings)
        try:
            model = lh.Model.from_llama(llama)
            lh.apply_chat_template(model, [{"role": "user", "content": "a"}])
            held.append(False)
        except (lh.ContextError, lh.ChatTemplateError) as error:
            held.append(name in str(error))
        llama.close()
    row("settings of a Llama that are not supported: an error that names them", held)


def flipped(folder: Path) -> None:
    """Test adapters with changed bytes, each in a process that may crash."""
    base = tiny_models.write(folder / "tiny.gguf", "llama")
    whole = tiny_loras.write(folder / "whole.gguf", TINY, size=0.5).read_bytes()
    chance = random.Random(3)
    n_header = whole.index(b"\0" * 4, 200)
    for i in range(N_FLIPS):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 2, 8])):
            last = n_header + 500 if chance.random() < 0.9 else len(data) - 1
            data[chance.randrange(4, min(last, len(data)))] = chance.randrange(256)
        (folder / f"{i}.gguf").write_bytes(data)
    done, died = 0, 0
    loaded = 0
    while done < N_FLIPS:
        command = [sys.executable, __file__, "flips", str(base), str(done)]
        out = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
        lines = out.stdout.split()
        loaded += lines.count("loaded")
        done += len(lines)
        if done < N_FLIPS:  # the next adapter ended the process
            died += 1
            done += 1
    held = [True] * (N_FLIPS - died) + [False] * died
    row(
        "adapters with changed bytes, loaded and used: no process crashes",
        held,
        f"{loaded} loaded, the others refused",
    )


def use_flips(base: Path, first: int) -> None:
    for i in range(first, N_FLIPS):
        try:
            with (
                lh.Model(base, lora=base.parent / f"{i}.gguf") as model,
                lh.Context(model, n_threads=1) as context,
            ):
                lh.generate_parallel(context, ["a", "b"], max_tokens=2)
            print("loaded", flush=True)
        except (lh.LlamaHerdError, ValueError):
            print("refused", flush=True)


def journal(folder: Path) -> None:
    """Run with different adapters and settings on one journal, in random order."""
    base = tiny_models.write(folder / "tiny.gguf", "llama")
    paths = [
        tiny_loras.write(folder / f"j{i}.gguf", TINY, size=0.5, seed=i) for i in (1, 2)
    ]
    kinds = [
        (lora, scale, freq)
        for lora in (None, *paths)
        for scale in ((1.0,) if lora is None else (0.5, 1.0))
        for freq in (None, 5000.0)
    ]
    alone: dict[object, list[str]] = {}
    chance = random.Random(4)
    held = []
    for _ in range(N_KEYS):
        kind = lora, scale, freq = chance.choice(kinds)
        with (
            lh.Model(base, lora=None if lora is None else (lora, scale)) as model,
            lh.Context(model, rope_freq_base=freq) as context,
        ):
            fresh = lh.generate_parallel(context, PROMPTS, max_tokens=6)
            path = folder / "run.sqlite"
            out = lh.generate_parallel(context, PROMPTS, max_tokens=6, journal=path)
        n_known = len(PROMPTS) if kind in alone else 0
        alone.setdefault(kind, fresh.texts)
        is_same = out.texts == fresh.texts == alone[kind]
        held.append(is_same and out.stats.n_journal == n_known)
    row("one journal, other adapters or rope in each run: no answer of another run", held)


R_PROGRAM = """
library(llamaherd)
arguments <- commandArgs(TRUE)
model <- model_load(arguments[[1]], lora = stats::setNames(0.5, arguments[[2]]))
context <- context_create(model, n_ctx = 256, rope_freq_base = 20000)
cat(generate(context, "The sea is", max_tokens = 10))
"""


def from_r(folder: Path, adapter: Path) -> None:
    program = folder / "lora.R"
    program.write_text(R_PROGRAM)
    command = ["Rscript", "--vanilla", str(program), MODEL, str(adapter)]
    environment = {**os.environ, "RETICULATE_PYTHON": sys.executable}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, check=False, text=True
    )
    llama = llama_cpp.Llama(
        MODEL,
        n_ctx=128,
        flash_attn=True,
        verbose=False,
        lora_path=str(adapter),
        lora_scale=0.5,
        rope_freq_base=20000.0,
    )
    row(
        "R: model_load(lora = ), context_create(rope_freq_base = ): same text as a Llama",
        [done.stdout.strip() == own_answers(llama)[0].strip()],
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        adapter = tiny_loras.write(folder / "smollm2.gguf", tiny_loras.smollm2_shapes())
        settings_agree(adapter)
        refused()
        flipped(folder)
        journal(folder)
        from_r(folder, adapter)


if __name__ == "__main__":
    if sys.argv[1:2] == ["flips"]:
        use_flips(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
