"""Models with LoRA adapters: their answers, and files that are refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import gguf
import llama_cpp
import llamaherd as lh
import numpy as np
import pytest
import tiny_loras
import tiny_models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.model

PROMPTS = ["The sea is", "My favourite animal is", "Once upon a time"]
N = tiny_models.N_EMBD
TINY = {"blk.0.attn_q.weight": (N, N), "blk.1.ffn_up.weight": (N, tiny_models.N_FF)}


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for SmolLM2."""
    path = tmp_path_factory.mktemp("lora") / "smollm2.gguf"
    return tiny_loras.write(path, tiny_loras.smollm2_shapes())


@pytest.fixture(scope="module")
def tiny_adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an adapter for the tiny llama."""
    path = tmp_path_factory.mktemp("lora") / "tiny.gguf"
    return tiny_loras.write(path, TINY, size=0.5)


def answers(model: lh.Model, **settings: object) -> list[str]:
    """Answer one prompt after the other, as a loop over llama-cpp-python does."""
    with lh.Context(model, n_threads=1, **settings) as context:
        return [lh.generate(context, prompt, max_tokens=12).text for prompt in PROMPTS]


def answers_of_llama(path: Path, **settings: object) -> list[str]:
    llama = llama_cpp.Llama(
        str(path), n_ctx=256, verbose=False, flash_attn=True, n_threads=1, **settings
    )
    options = {"max_tokens": 12, "temperature": 0}
    texts = [llama(prompt, **options)["choices"][0]["text"] for prompt in PROMPTS]
    llama.close()
    return texts


@pytest.mark.long(reason="a process or a long template for each case")
def test_a_real_model_answers_as_a_llama_with_the_same_adapter(
    smollm2: lh.Model, smollm2_path: Path, adapter: Path
) -> None:
    expected = answers_of_llama(smollm2_path, lora_path=str(adapter), lora_scale=0.5)
    with lh.Model(smollm2_path, lora=[(adapter, 0.5)]) as model:
        assert answers(model) == expected
        with lh.Context(model, n_threads=1, deterministic=True) as context:
            settings = {"max_tokens": 12}
            alone = [lh.generate(context, text, **settings).text for text in PROMPTS]
            out = lh.generate_parallel(context, PROMPTS * 3, **settings)
            assert out.texts == alone * 3
    base = answers(smollm2)
    assert base != expected


def test_scales_count_and_a_scale_of_0_is_none(
    tiny_path: Callable[[str], Path], tiny_adapter: Path, tmp_path: Path
) -> None:
    path = tiny_path("llama")
    other = tiny_loras.write(tmp_path / "other.gguf", TINY, size=0.5, seed=2)
    texts = {}
    for name, lora in {
        "none": None,
        "0": (tiny_adapter, 0),
        "1": tiny_adapter,
        "1.0": (str(tiny_adapter), 1.0),
        "half": [(tiny_adapter, 0.5)],
        "twice half": [(tiny_adapter, 0.5), (tiny_adapter, 0.5)],
        "minus": (tiny_adapter, -1),
        "both": [tiny_adapter, other],
        "other": [other],
        "empty": [],
    }.items():
        with lh.Model(path, lora=lora) as model:
            texts[name] = tuple(answers(model))
    assert texts["none"] == texts["0"] == texts["empty"]
    assert texts["1"] == texts["1.0"] == texts["twice half"]
    assert len(set(texts.values())) == 6


def test_contexts_share_the_adapter_and_prefixes_are_shared(
    tiny_path: Callable[[str], Path], tiny_adapter: Path
) -> None:
    prompts = [f"{'A long beginning. ' * 6}{i}" for i in range(12)]
    with lh.Model(tiny_path("llama"), lora=tiny_adapter) as model:
        assert [(lora.path, lora.scale) for lora in model.loras] == [(tiny_adapter, 1.0)]
        with lh.Context(model) as one, lh.Context(model) as other:
            alone = [lh.generate(one, text, max_tokens=9).text for text in prompts]
            out = lh.generate_parallel(other, prompts, max_tokens=9)
    assert out.stats.n_reused_tokens > 0
    assert out.texts == alone


@pytest.mark.parametrize("kind", ["mamba", "jamba", "qwen2"])
def test_other_kinds_of_models_take_adapters(
    kind: str, tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    name = "blk.0.ssm_in.weight" if "am" in kind else "blk.0.attn_k.weight"
    n_out = 4 * N if "am" in kind else N
    lora = tiny_loras.write(
        tmp_path / "a.gguf", {name: (N, n_out)}, architecture=kind, size=0.5
    )
    with lh.Model(tiny_path(kind)) as model:
        base = answers(model)
    with lh.Model(tiny_path(kind), lora=lora) as model:
        assert answers(model) != base


# ---- wrong arguments and files --------------------------------------------------------


@pytest.mark.parametrize(
    ("lora", "error", "message"),
    [
        (5, TypeError, "lora must be a path, not 5"),
        ("", ValueError, "lora must be a path, not an empty text"),
        ([None], TypeError, r"lora\[0\] must be a path, not None"),
        (("a", 1, 2), TypeError, "lora must be a path or a pair of path and scale"),
        (["no.gguf"], lh.ModelLoadError, r"lora\[0\]: there is no file 'no.gguf'"),
        (("no.gguf", "1"), TypeError, "lora.scale must be a number, not '1'"),
        (("no.gguf", math.nan), ValueError, "lora.scale must be between"),
        (("no.gguf", math.inf), ValueError, "lora.scale must be between"),
        ([("no.gguf", True)], TypeError, r"lora\[0\]\.scale must be a number"),
    ],
)
def test_wrong_arguments_are_named(
    lora: object,
    error: type[Exception],
    message: str,
    tiny_path: Callable[[str], Path],
) -> None:
    with pytest.raises(error, match=message):
        lh.Model(tiny_path("llama"), lora=lora)


def drop(writer: gguf.GGUFWriter, key: str) -> None:
    del writer.kv_data[0][key]


def put(writer: gguf.GGUFWriter, key: str, value: object, kind: str) -> None:
    writer.kv_data[0].pop(key, None)
    item = gguf.gguf_writer.GGUFValue(value, gguf.GGUFValueType[kind])
    writer.kv_data[0][key] = item


A, B = "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, _: drop(w, "general.type"), 'not an adapter: .* is "" .is it a model'),
        (lambda w, _: put(w, "general.type", "model", "STRING"), "is it a model"),
        (lambda w, _: put(w, "general.type", 1, "UINT32"), "general.type as u32"),
        (lambda w, _: put(w, "general.architecture", 1, "UINT32"), "as u32, but it must"),
        (lambda w, _: put(w, "general.architecture", "qwen2", "STRING"), "arch mismatch"),
        (lambda w, _: drop(w, "adapter.type"), 'of type "": not a LoRA'),
        (lambda w, _: put(w, "adapter.type", 1.5, "FLOAT32"), "adapter.type as f32"),
        (lambda w, _: put(w, "adapter.lora.alpha", "8", "STRING"), "alpha as str"),
        (lambda w, _: put(w, "adapter.lora.alpha", math.nan, "FLOAT32"), "alpha = -?nan"),
        (
            lambda w, _: w.add_array("adapter.alora.invocation_tokens", [1, 2]),
            "is an activated LoRA",
        ),
        (lambda _, t: t.clear(), "has no tensors of an adapter"),
        (
            lambda _, t: t.pop(A),
            r"half of a pair: \"blk.0.attn_q.weight.lora_a\" is miss",
        ),
        (lambda _, t: t.pop(B), 'attn_q.weight.lora_b" is missing'),
        (lambda _, t: t.update({"x.weight": zeros(2, 2)}), 'has tensor "x.weight"'),
        (lambda _, t: t.update({A: t[A].astype(np.int32)}), "in type i32; it must be"),
        (lambda _, t: t.update({B: t[B].astype(np.float64)}), "in type f64; it must be"),
        (lambda _, t: t.update({A: zeros(4, N + 1)}), "do not fit the model's"),
        (lambda _, t: t.update({A: zeros(5, N)}), "do not fit the model's"),
        (lambda _, t: t.update({B: zeros(N + 1, 4)}), "do not fit the model's"),
        (lambda _, t: t.update({A: zeros(2, 4, N)}), "do not fit the model's"),
        (lambda _, t: t.update({B: zeros(3, 2, N, 4)}), "do not fit the model's"),
        (
            lambda _, t: t.update({"q.lora_a": zeros(4, N), "q.lora_b": zeros(N, 4)}),
            'has tensors for "q", which the model does not have',
        ),
        (
            lambda _, t: t.update(
                {
                    "token_embd.weight.lora_a": zeros(tiny_models.N_VOCAB, 4),
                    "token_embd.weight.lora_b": zeros(N, 5),
                }
            ),
            f"token_embd.weight.lora_a of shape 4 x {tiny_models.N_VOCAB}",
        ),
    ],
)
def test_files_that_are_no_adapter_of_the_model_are_refused(
    change: Callable[..., object],
    message: str,
    tiny_path: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    lora = tiny_loras.write(tmp_path / "a.gguf", TINY, change=change)
    with pytest.raises(lh.ModelLoadError, match=message) as error:
        lh.Model(tiny_path("llama"), lora=lora)
    assert "LoRA file" in str(error.value)
    assert "a.gguf" in str(error.value)


def test_a_file_that_is_cut_off_anywhere_is_refused(
    tiny_path: Callable[[str], Path], tiny_adapter: Path, tmp_path: Path
) -> None:
    whole = tiny_adapter.read_bytes()
    lora = tmp_path / "cut.gguf"
    for n in [*range(0, 400, 7), *range(400, len(whole), 997), len(whole) - 1]:
        lora.write_bytes(whole[:n])
        with pytest.raises(lh.ModelLoadError, match=r"LoRA file .*cut\.gguf"):
            lh.Model(tiny_path("llama"), lora=lora)
    with pytest.raises(lh.ModelLoadError, match="is it a model"):
        lh.Model(tiny_path("llama"), lora=tiny_path("llama"))


def test_an_embedding_is_adapted_unless_it_is_the_output_too(
    tiny_path: Callable[[str], Path], smollm2_path: Path, tmp_path: Path
) -> None:
    # For an embedding, libllama exchanges the two matrices.
    def embedding(n_vocab: int, n_embd: int) -> Callable[..., None]:
        random = np.random.default_rng(3)

        def change(_writer: object, tensors: dict[str, np.ndarray]) -> None:
            tensors.clear()
            for half, shape in (("a", (n_vocab, 4)), ("b", (n_embd, 4))):
                values = random.normal(0, 0.5, shape).astype(np.float32)
                tensors[f"token_embd.weight.lora_{half}"] = values

        return change

    change = embedding(tiny_models.N_VOCAB, N)
    lora = tiny_loras.write(tmp_path / "tiny.gguf", TINY, change=change)
    with (
        lh.Model(tiny_path("llama")) as base,
        lh.Model(tiny_path("llama"), lora=lora) as m,
    ):
        assert answers(m) != answers(base)
    lora = tiny_loras.write(tmp_path / "tied.gguf", TINY, change=embedding(49152, 576))
    with pytest.raises(lh.ModelLoadError, match="also uses it for its output"):
        lh.Model(smollm2_path, lora=lora)


def test_an_adapter_of_nan_fails_prompts_not_the_process(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    def change(_writer: object, tensors: dict[str, np.ndarray]) -> None:
        tensors[A][:] = np.nan

    lora = tiny_loras.write(tmp_path / "nan.gguf", TINY, change=change)
    with lh.Model(tiny_path("llama"), lora=lora) as model, lh.Context(model) as context:
        out = lh.generate_parallel(context, PROMPTS, max_tokens=4)
    assert all(error is not None and "logits" in error for error in out.errors)


def test_the_memory_of_adapters_is_asked_for(
    tiny_path: Callable[[str], Path], tiny_adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_path("llama")
    with lh.Model(path) as model:
        room = model.size_bytes + 1000
    monkeypatch.setattr("llamaherd.engine.memory.hardware.available_memory", lambda: room)
    lh.Model(path).close()
    with pytest.raises(lh.ModelLoadError, match="does not fit into memory"):
        lh.Model(path, lora=tiny_adapter)
    lh.Model(path, lora=tiny_adapter, check_memory=False).close()


def test_an_adapted_model_shares_weights_and_answers_as_one_of_its_own(
    tiny_path: Callable[[str], Path], tiny_adapter: Path, tmp_path: Path
) -> None:
    path = tiny_path("llama")
    other = tiny_loras.write(tmp_path / "other.gguf", TINY, size=0.5, seed=2)
    files = [tiny_adapter, (other, 0.5)]
    alone = []
    for file in files:
        with lh.Model(path, lora=file) as model:
            alone.append(answers(model))
    with lh.Model(path) as base:
        adapted = [base.adapted(file) for file in files]
        assert [variant.loras[0].scale for variant in adapted] == [1, 0.5]
        plain = answers(base)
        assert [answers(variant) for variant in adapted] == alone
        assert answers(base) == plain
        assert plain not in alone
        for variant in adapted:
            variant.close()
        assert answers(base) == plain
        kept = base.adapted(tiny_adapter)
        for model in (base, kept):
            with lh.Context(model, n_threads=1) as context:
                for variant in (base, kept):
                    with pytest.raises(lh.ContextError, match="has an open context"):
                        variant.adapted(tiny_adapter)
            assert context.closed
        lh.embed_parallel(base, ["yes"])  # has ended
        base.adapted(tiny_adapter).close()
    with pytest.raises(lh.ModelClosedError):
        base.adapted(tiny_adapter)
    assert answers(kept) == alone[0]  # after its base was closed
    kept.close()


def test_a_wrong_adapter_leaves_the_model_as_it_was(
    tiny_path: Callable[[str], Path], tiny_adapter: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(tiny_adapter.read_bytes()[:300])
    wrong = tiny_loras.write(tmp_path / "wrong.gguf", {"blk.7.attn_q.weight": (N, N)})
    with lh.Model(tiny_path("llama")) as base:
        for file in (cut, wrong, tmp_path / "none.gguf"):
            with pytest.raises(lh.ModelLoadError, match=file.name):
                base.adapted(file)
        adapted = base.adapted(tiny_adapter)
        assert answers(adapted) != answers(base)
        adapted.close()
