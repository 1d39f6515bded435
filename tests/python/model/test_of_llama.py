"""Contexts that are like an open Llama of llama-cpp-python."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import llama_cpp
import llamaherd as lh
import pytest
import tiny_loras
import tiny_models
from llamaherd.calls.run.context import as_context
from llamaherd.engine.model import loading
from llamaherd.engine.model.loading import _rope_arguments
from llamaherd.engine.model.model import model_of_llama
from llamaherd.engine.native import shim
from llamaherd.ray import Config
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = pytest.mark.model


@pytest.fixture
def llama(smollm2_path: Path) -> object:
    return llama_cpp.Llama(str(smollm2_path), n_ctx=256, verbose=False)


def test_a_plain_llama_answers_many_prompts(llama: object, smollm2: lh.Model) -> None:
    prompts = [f"The colour of {thing} is" for thing in ("grass", "snow", "blood")]
    out = lh.generate_parallel(llama, prompts, max_tokens=8)
    with lh.Context(smollm2) as context:
        assert out.texts == lh.generate_parallel(context, prompts, max_tokens=8).texts
    context = as_context(llama)
    lh.generate_parallel(llama, prompts, max_tokens=8)
    assert as_context(llama) is context


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's /proc")
def test_a_llama_and_a_call_compute_on_the_same_threads(llama: object) -> None:
    def tasks() -> set[str]:
        return {task.name for task in Path("/proc/self/task").iterdir()}

    assert shim.own_threads()
    # Threads of earlier tests end with a context.
    with lh.Context(lh.Model.from_llama(llama), n_threads=1) as context:
        lh.generate(context, "Hello", max_tokens=2)
    gc.collect()
    before = tasks()
    llama_cpp.llama_set_n_threads(llama.ctx, 2, 2)
    llama.eval([1, 2, 3])
    (other,) = tasks() - before
    context = lh.Context(lh.Model.from_llama(llama), n_threads=1)
    lh.generate(context, "Hello", max_tokens=2)
    wait_until(lambda: not tasks() - before - {other})
    assert other in tasks()
    context.close()
    gc.collect()
    wait_until(lambda: other not in tasks())


def test_the_context_goes_with_its_llama(tiny_path: Callable[[str], Path]) -> None:
    llama = llama_cpp.Llama(str(tiny_path("llama")), n_ctx=64, verbose=False)
    lh.generate(llama, "Hello", max_tokens=2)
    context = as_context(llama)
    gone = [weakref.ref(part) for part in (llama, context, context.model)]
    del llama, context
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


def test_a_model_outlives_its_llama(tiny_path: Callable[[str], Path]) -> None:
    llama = llama_cpp.Llama(str(tiny_path("llama")), n_ctx=64, verbose=False)
    with lh.Model.from_llama(llama) as model, lh.Context(model) as context:
        assert model.path == tiny_path("llama").absolute()
        expected = lh.generate(context, "Hello", max_tokens=2)
        llama.close()
        assert lh.generate(context, "Hello", max_tokens=2).tokens == expected.tokens
    assert lh.generate(llama, "Hello", max_tokens=2).tokens == expected.tokens


def test_a_context_that_was_closed_is_made_again(
    tiny_path: Callable[[str], Path],
) -> None:
    llama = llama_cpp.Llama(str(tiny_path("llama")), n_ctx=64, verbose=False)
    first = lh.generate(llama, "Hello", max_tokens=2)
    as_context(llama).model.close()
    assert lh.generate(llama, "Hello", max_tokens=2).tokens == first.tokens


def test_embeddings_load_the_file_once(tiny_path: Callable[[str], Path]) -> None:
    llama = llama_cpp.Llama(
        str(tiny_path("bert")), n_ctx=64, embedding=True, verbose=False
    )
    lh.embed_parallel(llama, ["a"])
    model = model_of_llama(llama)
    lh.embed_parallel(llama, ["b"])
    assert model_of_llama(llama) is model


def test_a_file_that_is_gone_is_named(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "copy.gguf"
    path.write_bytes(tiny_path("llama").read_bytes())
    llama = llama_cpp.Llama(str(path), n_ctx=64, verbose=False)
    path.unlink()
    with pytest.raises(lh.ModelLoadError, match=r"copy\.gguf"):
        lh.generate(llama, "Hello")


@pytest.mark.parametrize("value", [None, "llama", object()])
def test_what_is_no_llama_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"llama must be a llama_cpp\.Llama, not"):
        lh.Model.from_llama(value)


def test_a_llama_goes_on_working(llama: object) -> None:
    before = llama("The sea is", max_tokens=6, temperature=0)["choices"][0]["text"]
    lh.generate(llama, "The sea is", max_tokens=6)
    after = llama("The sea is", max_tokens=6, temperature=0)["choices"][0]["text"]
    assert before == after


def test_its_settings_go_along_to_a_cluster(tiny_path: Callable[[str], Path]) -> None:
    path = str(tiny_path("llama"))
    llama = llama_cpp.Llama(path, n_ctx=64, rope_freq_base=5000.0, verbose=False)
    machine = {"Resources": {"CPU": 2}, "Alive": True}
    with lh.Model.from_llama(llama) as model:
        config = Config(model, context={"n_seq_max": 4})
        plain = config.on_cluster(SimpleNamespace(nodes=lambda: [machine]))
        assert plain.model == path
        assert plain.context == {"rope_freq_base": 5000.0, "n_seq_max": 4}
        model.template = "{{ messages }}"
        with pytest.raises(ValueError, match="with a chat format of its own"):
            Config(model)


PROMPTS = ["The sea is", "My favourite animal is", "Once upon a time"]
N = tiny_models.N_EMBD
TINY = {"blk.0.attn_q.weight": (N, N), "blk.1.ffn_up.weight": (N, tiny_models.N_FF)}
N_EMBD, N_LAYER = 576, 30  # of SmolLM2


def make(path: Path, **settings: object) -> Any:
    settings = {"n_ctx": 256, "verbose": False, "flash_attn": True, **settings}
    return llama_cpp.Llama(str(path), **settings)


def own_answers(llama: Any) -> list[str]:
    options = {"max_tokens": 12, "temperature": 0}
    return [llama(prompt, **options)["choices"][0]["text"] for prompt in PROMPTS]


def answers(ctx: Any) -> list[str]:
    return [lh.generate(ctx, prompt, max_tokens=12).text for prompt in PROMPTS]


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lora") / "smollm2.gguf"
    return tiny_loras.write(path, tiny_loras.smollm2_shapes())


@pytest.fixture(scope="module")
def base(smollm2_path: Path) -> list[str]:
    llama = make(smollm2_path)
    texts = own_answers(llama)
    assert answers(llama) == texts
    llama.close()
    return texts


@pytest.mark.more(reason="loads a model twice for each case", cases=1)
@pytest.mark.parametrize(
    "settings",
    [
        {"lora_scale": 0.5},
        {"lora_scale": -0.75},
        {"rope_freq_base": 20000.0},
        {"rope_freq_scale": 0.5},
        {"rope_scaling_type": 2, "rope_freq_scale": 0.25, "yarn_orig_ctx": 64},
        {"yarn_ext_factor": 1.0, "rope_freq_scale": 0.5, "yarn_beta_fast": 8.0},
        {"yarn_attn_factor": 1.5},
        {"type_k": 2, "type_v": 2},
    ],
    ids=str,
)
def test_a_llama_is_computed_as_it_was_told(
    settings: dict[str, object],
    smollm2_path: Path,
    adapter: Path,
    base: list[str],
) -> None:
    lora = {"lora_path": str(adapter)} if "lora_scale" in settings else {}
    llama = make(smollm2_path, **settings, **lora)
    expected = own_answers(llama)
    assert expected != base
    assert answers(llama) == expected
    with lh.Model.from_llama(llama) as model, lh.Context(model) as context:
        assert answers(context) == expected
        if "rope_freq_base" in settings:
            with lh.Context(model, rope_freq_base=10000.0) as other:
                assert answers(other) != expected
    llama.close()


def test_a_context_takes_the_same_settings(smollm2: lh.Model, smollm2_path: Path) -> None:
    settings = {"yarn_orig_ctx": 64, "rope_freq_scale": 0.25, "yarn_beta_slow": 2.0}
    llama = make(smollm2_path, rope_scaling_type=2, **settings)
    expected = own_answers(llama)
    llama.close()
    with lh.Context(smollm2, rope_scaling_type="yarn", **settings) as context:
        assert answers(context) == expected


class OtherTokenizer(llama_cpp.llama_tokenizer.BaseLlamaTokenizer):
    def tokenize(self, *_: object) -> list[int]:
        return [1]

    def detokenize(self, *_: object) -> bytes:
        return b""

    def __repr__(self) -> str:  # part of a test's name, always the same
        return "OtherTokenizer()"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention_type": 1}, "attention_type=1, with which tokens depend on later"),
        ({"kv_overrides": {"llama.rope.freq_base": 20000.0}}, "made with kv_overrides"),
        ({"tokenizer": OtherTokenizer()}, "tokenizer=OtherTokenizer"),
        ({"rope_freq_base": -1.0}, "rope_freq_base must be above 0"),
        ({"rope_scaling_type": 7}, "rope_scaling_type must be one of .* not 7"),
    ],
    ids=str,
)
def test_what_cannot_be_computed_alike_is_refused_by_name(
    settings: dict[str, object], message: str, smollm2_path: Path
) -> None:
    llama = make(smollm2_path, **settings)
    with pytest.raises(lh.ContextError, match=message):
        lh.generate(llama, "Hello")
    with pytest.raises(lh.ContextError, match=message):
        lh.Model.from_llama(llama)
    llama.close()


# ---- journals -------------------------------------------------------------------------


@pytest.fixture
def n_stored(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Answer two prompts; return the number of answers that the journal had."""

    def n_stored(ctx: Any) -> int:
        out = lh.generate_parallel(
            ctx, ["One", "Two"], max_tokens=3, journal=tmp_path / "run.sqlite"
        )
        assert out.errors == [None, None]
        return out.stats.n_journal

    return n_stored


def test_a_journal_tells_adapters_and_settings_apart(
    tiny_path: Callable[[str], Path], tmp_path: Path, n_stored: Callable[..., int]
) -> None:
    path = tiny_path("llama")
    first = tiny_loras.write(tmp_path / "a.gguf", TINY, size=0.5)
    equal = tiny_loras.write(tmp_path / "same.gguf", TINY, size=0.5)
    other = tiny_loras.write(tmp_path / "b.gguf", TINY, size=0.5, seed=2)
    kinds: list[tuple[object, dict[str, object]]] = [
        (None, {}),
        (first, {}),
        ((first, 0.1), {}),
        (other, {}),
        ([first, other], {}),
        (None, {"rope_freq_base": 5000.0}),
        (None, {"rope_freq_scale": 0.1}),
        (first, {"rope_freq_scale": 0.1}),
        (None, {"rope_scaling_type": "none"}),
    ]
    for n_known in (0, 2):
        for lora, settings in kinds:
            with lh.Model(path, lora=lora) as model, lh.Context(model, **settings) as ctx:
                assert n_stored(ctx) == n_known
    # The same adapters with other names and in another order, or with scale 0.
    for lora in (equal, [other, equal], [(first, 0)], [(equal, 0.1), (other, 0)]):
        with lh.Model(path, lora=lora) as model, lh.Context(model) as ctx:
            assert n_stored(ctx) == 2
    # A Llama with the same settings.
    for settings in (
        {},
        {"lora_path": str(equal), "lora_scale": 0.1},
        {"rope_freq_scale": 0.1},
        {"yarn_beta_fast": 32.0, "yarn_attn_factor": 1.0},
    ):
        llama = make(path, flash_attn=False, **settings)
        assert n_stored(llama) == 2
        llama.close()


def test_a_changed_adapter_is_refused(
    tiny_path: Callable[[str], Path], tmp_path: Path, n_stored: Callable[..., int]
) -> None:
    lora = tiny_loras.write(tmp_path / "a.gguf", TINY, size=0.5)
    with lh.Model(tiny_path("llama"), lora=lora) as model, lh.Context(model) as context:
        assert n_stored(context) == 0
        tiny_loras.write(lora, TINY, size=0.5, seed=2)
        with pytest.raises(lh.JournalError, match=r"file 'a\.gguf' has changed since"):
            n_stored(context)
    llama = make(tiny_path("llama"), lora_path=str(lora))
    lora.unlink()
    with pytest.raises(lh.ModelLoadError, match=r"there is no file '.*a\.gguf'"):
        n_stored(llama)
    llama.close()


def test_keys_of_plain_models_are_as_they_were(
    tiny_path: Callable[[str], Path], tmp_path: Path, n_stored: Callable[..., int]
) -> None:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        n_stored(context)
    entry, _ = lh.journal_read(tmp_path / "run.sqlite")
    assert entry.settings == (
        '{"deterministic": false, "flash_attn": "auto", "max_tokens": 3, "stop": [], '
        '"type_k": "f16", "type_v": "f16"}'
    )


def test_what_the_file_says_of_rotation_is_not_taken_for_the_default() -> None:
    params = llama_cpp.llama_context_default_params()
    params.yarn_attn_factor, params.yarn_beta_fast, params.yarn_beta_slow = 1, 32, 1
    plain = {"general.architecture": "llama"}

    def rope_of(params: Any, metadata: dict[str, str]) -> dict[str, Any]:
        return _rope_arguments(params, metadata, "llama.rope.scaling")

    assert rope_of(params, plain) == {}
    with_yarn = {**plain, "llama.rope.scaling.yarn_beta_fast": "8.000000"}
    assert rope_of(params, with_yarn) == {"yarn_beta_fast": 32.0}
    params.rope_freq_scale, params.yarn_ext_factor = 0.1, 0.0
    assert rope_of(params, plain) == {
        "rope_freq_scale": loading.checked_rope({"rope_freq_scale": 0.1})[
            "rope_freq_scale"
        ],
        "yarn_ext_factor": 0.0,
    }


# ---- chat formats ---------------------------------------------------------------------


MESSAGES = [{"role": "user", "content": "Hello"}]


def test_chat_formats_that_are_not_the_model_s_are_refused(smollm2_path: Path) -> None:
    for settings in ({}, {"chat_format": "chat_template.default"}):
        llama = make(smollm2_path, **settings)
        model = lh.Model.from_llama(llama)
        assert "<|im_start|>user\nHello" in lh.apply_chat_template(model, MESSAGES)
        llama.close()
    handler = llama_cpp.llama_chat_format.Llava15ChatHandler
    for settings, message in (
        ({"chat_format": "llama-2"}, "made with chat_format='llama-2'"),
        ({"chat_handler": object.__new__(handler)}, r"a chat_handler \(Llava15ChatHandl"),
    ):
        llama = make(smollm2_path, **settings)
        model = lh.Model.from_llama(llama)
        with pytest.raises(lh.ChatTemplateError, match=message):
            lh.apply_chat_template(model, MESSAGES)
        text = lh.apply_chat_template(model, MESSAGES, template="{{ messages[0].role }}")
        assert text == "user"
        llama.close()


def test_another_template_of_the_file_is_taken(smollm2_path: Path) -> None:
    llama = make(smollm2_path, chat_format="chat_template.short")
    llama.metadata["tokenizer.chat_template.short"] = "{{ messages[0].content }}!"
    model = lh.Model.from_llama(llama)
    assert lh.apply_chat_template(model, MESSAGES) == "Hello!"
    llama.close()


def test_factors_that_depend_on_the_size_of_the_context(smollm2_path: Path) -> None:
    # Like Phi-3, whose long factors apply to contexts larger than in training.
    llama = make(smollm2_path, n_ctx=512)
    llama.metadata["llama.rope.scaling.original_context_length"] = "256"
    context = lh.Context(lh.Model.from_llama(llama))
    lh.generate(context, "Hello", max_tokens=2)
    assert (context.plan.n_ctx, context.plan.kv_layout) == (512, "unified")
    llama.metadata["llama.rope.scaling.type"] = "yarn"
    context = lh.Context(lh.Model.from_llama(llama))
    lh.generate(context, "Hello", max_tokens=2)
    assert context.plan.kv_layout == "per_sequence"
    llama.close()
