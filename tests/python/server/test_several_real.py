"""Real models, loaded in turn. ggml repacks their weights, but not tiny models'."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import psutil
import pytest
import tiny_loras
from llamaherd.server.models.spec import AdapterSpec, ModelSpec
from served import room_for, served_models

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.model,
    pytest.mark.long(reason="loads real models one after the other"),
]

ASK: dict[str, Any] = {"prompt": "The sky is", "max_tokens": 8, "temperature": 0}
TEXT = "The cat sat on the mat."


def _alone(path: Path, **options: Any) -> str | None:
    with lh.Model(path, **options) as model, lh.Context(model, n_threads=1) as ctx:
        return lh.generate(ctx, ASK["prompt"], max_tokens=8).text


def _mapped() -> Counter[str]:
    """Return the number of mappings of each model file; a freed model has none."""
    maps = psutil.Process(os.getpid()).memory_maps(grouped=False)
    return Counter(mapping.path for mapping in maps if mapping.path.endswith(".gguf"))


def test_real_models_take_turns(
    smollm2_path: Path,
    gemma3_path: Path,
    minilm_path: Path,
    minilm: lh.Model,
    tmp_path: Path,
) -> None:
    lora = tiny_loras.write(tmp_path / "lora.gguf", tiny_loras.smollm2_shapes())
    specs = [
        ModelSpec("smollm2", smollm2_path, (AdapterSpec("lora", lora),)),
        ModelSpec("gemma", gemma3_path),
        ModelSpec("minilm", minilm_path),
    ]
    expected = {
        "smollm2": _alone(smollm2_path),
        "gemma": _alone(gemma3_path),
        "lora": _alone(smollm2_path, lora=lora),
    }
    assert len(set(expected.values())) == 3
    vector = lh.embed_parallel(minilm, [TEXT]).vectors[0]
    gemma_spec = specs[1]  # enough for each model alone
    room = room_for(gemma_spec)
    before, gemma = _mapped(), str(gemma3_path)
    with served_models(specs, memory=room) as client:
        for _ in range(4):
            for name, text in expected.items():
                status, body = client.post("/v1/completions", {**ASK, "model": name})
                assert status == 200, body
                assert body["choices"][0]["text"] == text
                mapped = set(_mapped() - before)
                assert mapped == {gemma} if name == "gemma" else gemma not in mapped
            fields = {"model": "minilm", "input": TEXT}
            status, body = client.post("/v1/embeddings", fields)
            assert status == 200, body
            np.testing.assert_allclose(body["data"][0]["embedding"], vector, atol=1e-6)
            assert gemma not in _mapped() - before
        figures = client.ask("GET", "/metrics")[1]
    assert 'llamaherd_model_n_unloads{model="gemma"} 4.0' in figures
