"""Models and contexts of a llama_cpp.Llama."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import llama_cpp
import llamaherd as lh
import pytest
from llamaherd.calls.run.context import as_context
from llamaherd.engine.model.model import model_of_llama
from llamaherd.engine.native import shim
from llamaherd.ray import Config
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

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
    gone = [weakref.ref(each) for each in (llama, context, context.model)]
    del llama, context
    gc.collect()
    assert [each() for each in gone] == [None] * 3


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
