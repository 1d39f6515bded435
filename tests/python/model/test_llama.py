"""Models and contexts of a llama_cpp.Llama."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import llama_cpp
import llamaherd as lh
import pytest
from llamaherd.native import shim
from llamaherd.run.contexts_of_llamas import _contexts_of_llamas
from waiting import wait_until

pytestmark = pytest.mark.model


@pytest.fixture
def llama(smollm2_path: Path) -> object:
    return llama_cpp.Llama(str(smollm2_path), n_ctx=256, verbose=False)


def test_a_plain_llama_answers_many_prompts(llama: object, smollm2: lh.Model) -> None:
    prompts = [f"The colour of {thing} is" for thing in ("grass", "snow", "blood")]
    out = lh.generate_parallel(llama, prompts, max_tokens=8)
    with lh.Context(smollm2) as context:
        assert out.texts == lh.generate_parallel(context, prompts, max_tokens=8).texts
    context = _contexts_of_llamas[llama]
    lh.generate_parallel(llama, prompts, max_tokens=8)
    assert _contexts_of_llamas[llama] is context


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


def test_the_context_goes_with_its_llama(smollm2_path: Path) -> None:
    llama = llama_cpp.Llama(str(smollm2_path), n_ctx=256, verbose=False)
    lh.generate(llama, "Hello", max_tokens=2)
    context = _contexts_of_llamas[llama]
    gone = weakref.ref(llama)
    del llama
    gc.collect()
    assert gone() is None
    assert context.closed
    assert context.model.closed


def test_a_model_keeps_its_llama_alive(smollm2_path: Path) -> None:
    llama = llama_cpp.Llama(str(smollm2_path), n_ctx=256, verbose=False)
    alive = weakref.ref(llama)
    model = lh.Model.from_llama(llama)
    del llama
    gc.collect()
    assert alive() is not None
    assert lh.tokenize(model, "a")
    assert model.path is None
    model.close()
    gc.collect()
    assert alive() is None


def test_closing_the_llama_closes_the_model(llama: object) -> None:
    model = lh.Model.from_llama(llama)
    context = lh.Context(model)
    lh.generate(context, "Hello", max_tokens=2)
    llama.close()
    assert model.closed
    assert context.closed
    with pytest.raises(lh.ModelClosedError, match="the Llama is closed"):
        lh.Model.from_llama(llama)
    with pytest.raises(lh.ModelClosedError, match="the Llama is closed"):
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
