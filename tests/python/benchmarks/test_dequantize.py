"""Quantized weights are written in BF16 for two kinds of programs."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import gguf
import llamaherd as lh
import numpy as np
import pytest
from tiny_models import N_EMBD, N_HEAD, write

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    return importlib.import_module("dequantize")


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        assert about["dtype"] == "BF16"
        first, end = about["data_offsets"]
        bits = np.frombuffer(content[start + first : start + end], np.uint16)
        values = (bits.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = values.reshape(about["shape"])
    return tensors


def test_both_outputs_have_the_weights(bench: ModuleType, tmp_path: Path) -> None:
    # Real files have one number of heads for all layers.
    heads = {"attention.head_count": N_HEAD, "attention.head_count_kv": N_HEAD}
    source = write(tmp_path / "tiny.gguf", "llama", changes=heads, tokenizer="gpt2")
    output, folder = tmp_path / "bf16.gguf", tmp_path / "folder"
    bench.main(source, output, folder)
    read = gguf.GGUFReader(source)
    weights = {each.name: each.data for each in read.tensors}
    written = {each.name: each for each in gguf.GGUFReader(output).tensors}
    tensors = read_safetensors(folder / "model.safetensors")
    assert len(tensors) == len(written) == len(weights)
    for name, weight in weights.items():
        in_file = gguf.dequantize(written[name].data, written[name].tensor_type)
        np.testing.assert_allclose(in_file, weight, rtol=2**-8)
    query = weights["blk.1.attn_q.weight"]
    # Row 2 i + j of a head in the GGUF file is row i + j * (half of its rows).
    half = N_EMBD // N_HEAD // 2
    in_folder = tensors["model.layers.1.self_attn.q_proj.weight"]
    for i_head in range(N_HEAD):
        first = 2 * half * i_head
        for i in range(half):
            for j in range(2):
                np.testing.assert_allclose(
                    in_folder[first + i + j * half], query[first + 2 * i + j], rtol=2**-8
                )
    down = tensors["model.layers.0.mlp.down_proj.weight"]
    np.testing.assert_allclose(down, weights["blk.0.ffn_down.weight"], rtol=2**-8)

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    assert len(tokenizer["model"]["vocab"]) == config["vocab_size"]
    with lh.Model(output) as model:
        assert len(lh.tokenize(model, "the answer: yes")) > 2


def test_numbers_are_rounded_to_the_nearest(bench: ModuleType) -> None:
    one, next_one = 1.0, 1 + 2**-7
    middle = (one + next_one) / 2  # a tie: the last bit of 1 is even
    values = [one, next_one, middle, middle + 2**-20, next_one + 2**-8, -middle]
    bits = bench.to_bf16(np.array(values, np.float32))
    rounded = (bits.astype(np.uint32) << 16).view(np.float32)
    expected = [one, next_one, one, next_one, 1 + 2**-6, -one]
    np.testing.assert_array_equal(rounded, expected)
