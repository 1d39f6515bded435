"""Models with layers on a GPU compute what the processor computes, up to rounding.

The GPU may be one that a driver imitates (`make vulkan-soft`). The numbers of the
processor are those of llama-cpp-python, one prompt after the other. Texts are no measure:
if two tokens are almost equally likely, rounding decides. But a single wrong cell of the
cache changes the log-probabilities of all later tokens, by far more than rounding does.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.engine.model.tokens import prompt_tokens
from llamaherd.engine.native import shim
from step_by_step import StepByStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    TinyPath = Callable[[str], Path]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not shim.supports_gpu(), reason="libllama finds no GPU"),
]

DOCUMENT = "A document that many questions are about, so that its beginning is held. " * 2
PROMPTS = [
    *(f"prompt {i} " + "x" * (i * 7 % 30) for i in range(9)),
    *(f"{DOCUMENT}{i}" for i in range(4)),
    *(f"{DOCUMENT}A second part, which fewer share: {i}" for i in range(3)),
    "the same",
    "the same",
]
ROUNDING = 0.2  # of a log-probability: models in F32, keys and values in F16
ROUNDING_Q4_0 = 0.5  # the processor also rounds activations to 8 bits
WRONG = 1.0  # a smaller difference than that of most other prompts

LAYOUTS = {
    "per sequence": {"kv_layout": "per_sequence", "n_seq_max": 6},
    "one pool": {"kv_layout": "unified", "n_seq_max": 6},
    "a pool that is too small": {"kv_layout": "unified", "n_ctx": 512, "n_seq_max": 6},
    "cache in host memory": {"offload_kqv": False},
    "without flash attention": {"flash_attn": False},
    "deterministic": {"deterministic": True},
}


def answers(
    model: lh.Model, prompts: Sequence[str], **options: object
) -> tuple[lh.Results, list[list[int]]]:
    """Return answers of 24 tokens with log-probabilities, and the prompts' tokens."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "deterministic=True works only")
        with lh.Context(model, **options) as context:
            out = lh.generate_parallel(
                context, prompts, max_tokens=24, ignore_eos=True, logprobs=0
            )
    assert out.errors == [None] * len(prompts)
    tokens = [prompt_tokens(model, "prompt", x) for x in prompts]
    return out, tokens


def furthest(
    path: Path, out: lh.Results, prompts: Sequence[Sequence[int]]
) -> list[float]:
    """Return the largest difference of each answer from the processor's numbers."""
    differences = []
    with StepByStep(path, on_processor=True) as steps:
        for result, tokens in zip(out, prompts, strict=True):
            [expected] = steps.token_logprobs(tokens, [result.tokens], together=True)
            differences.append(float(np.abs(expected - result.logprobs).max()))
    return differences


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_token_is_computed_from_the_cells_of_its_sequence(
    tiny_path: TinyPath, layout: str
) -> None:
    path = tiny_path("llama")
    with lh.Model(path, n_gpu_layers=-1) as model:
        out, tokens = answers(model, PROMPTS, **LAYOUTS[layout])
    assert max(furthest(path, out, tokens)) < ROUNDING
    assert out.stats.n_reused_tokens > 6 * len(DOCUMENT)
    # The numbers differ clearly from the numbers of a prompt whose first two letters are
    # exchanged.
    others = [[x[0], x[2], x[1], *x[3:]] for x in tokens]
    assert np.median(furthest(path, out, others)) > WRONG


@pytest.mark.parametrize("n_gpu_layers", [1, 2])
def test_layers_on_both_sides(tiny_path: TinyPath, n_gpu_layers: int) -> None:
    """One layer is the output, two are the output and the last of two layers."""
    path = tiny_path("llama")
    with lh.Model(path, n_gpu_layers=n_gpu_layers) as model:
        out, tokens = answers(model, PROMPTS, n_seq_max=6)
    assert max(furthest(path, out, tokens)) < ROUNDING


@pytest.mark.parametrize("kind", ["qwen2", "mamba", "mamba2", "jamba"])
def test_other_kinds_of_models(tiny_path: TinyPath, kind: str) -> None:
    """A GPU leaves operations that it lacks to the processor."""
    path = tiny_path(kind)
    with lh.Model(path, n_gpu_layers=-1) as model:
        out, tokens = answers(model, PROMPTS, n_seq_max=6)
    assert max(furthest(path, out, tokens)) < ROUNDING


def test_a_model_of_the_processor_in_a_build_for_gpus(tiny_path: TinyPath) -> None:
    """Deterministic answers are equal to the last bit, together and one by one."""
    settings = {"max_tokens": 12, "ignore_eos": True, "logprobs": 0}
    with lh.Model(tiny_path("llama"), n_gpu_layers=0) as model:
        alone = []
        for prompt in PROMPTS:
            with lh.Context(model, deterministic=True) as context:
                alone.append(lh.generate(context, prompt, **settings).logprobs)
        with lh.Context(model, n_seq_max=6, deterministic=True) as context:
            out = lh.generate_parallel(context, PROMPTS, **settings)
    assert [result.logprobs for result in out] == alone


def test_scores(tiny_path: TinyPath) -> None:
    path = tiny_path("llama")
    labels = [" yes", " no", " answer: no"]
    with lh.Model(path, n_gpu_layers=-1) as model, lh.Context(model) as context:
        scores = lh.score_parallel(context, PROMPTS, [labels] * len(PROMPTS))
        tokens = [lh.tokenize(model, prompt) for prompt in PROMPTS]
        wholes = [[lh.tokenize(model, p + label) for label in labels] for p in PROMPTS]
    with StepByStep(path, on_processor=True) as steps:
        for i, prompt in enumerate(tokens):
            behind = [whole[len(prompt) :] for whole in wholes[i]]
            assert all(whole[: len(prompt)] == prompt for whole in wholes[i])
            for mine, theirs in zip(
                scores.token_logprobs[i],
                steps.token_logprobs(prompt, behind, together=True),
                strict=True,
            ):
                assert np.abs(mine - theirs).max() < ROUNDING


def test_embeddings(tiny_path: TinyPath) -> None:
    texts = [f"a text {'of some words ' * i}" for i in range(12)]
    vectors = []
    for n_gpu_layers in (0, -1):
        with lh.Model(tiny_path("bert"), n_gpu_layers=n_gpu_layers) as model:
            vectors.append(lh.embed_parallel(model, texts).vectors)
    assert cosines(*vectors).min() > 0.999


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return (a * b).sum(axis=1) / lengths


# ---- several GPUs: scripts/vulkan.sh lists one GPU twice ------------------------------


@pytest.mark.parametrize(
    "split",
    [
        {},
        {"tensor_split": [3.0, 1.0]},
        {"tensor_split": [0.0, 1.0]},
        {"split_mode": "none", "main_gpu": 1},
    ],
)
def test_a_model_on_several_gpus(tiny_path: TinyPath, split: dict[str, object]) -> None:
    if len(shim.gpus()) < 2:
        pytest.skip("this machine has one GPU")
    path = tiny_path("llama")
    with lh.Model(path, n_gpu_layers=-1, **split) as model:
        out, tokens = answers(model, PROMPTS, n_seq_max=6)
    assert max(furthest(path, out, tokens)) < ROUNDING


# ---- memory ---------------------------------------------------------------------------


def test_the_memory_of_the_gpu_limits_the_cache(tiny_path: TinyPath) -> None:
    gpus = shim.gpus()
    total = sum(gpu.total_bytes for gpu in gpus)
    assert all(0 < gpu.free_bytes <= gpu.total_bytes for gpu in gpus)
    with lh.Model(tiny_path("llama"), n_gpu_layers=-1) as model:
        with lh.Context(model) as context:
            lh.generate(context, "a", max_tokens=2)
            cell = context.plan.memory_bytes // context.plan.n_ctx
            assert context.plan.memory_bytes <= total / 2
        n_ctx = total // cell + 256
        if n_ctx < 2**31:
            with pytest.raises(lh.ContextError, match="of GPU memory"):
                lh.Context(model, n_ctx=n_ctx)


def test_a_gpu_that_is_not_there_is_named(tiny_path: TinyPath) -> None:
    n = len(shim.gpus())
    with pytest.raises(ValueError, match=rf"number of GPUs \({n}\), not {n}"):
        lh.Model(tiny_path("llama"), n_gpu_layers=-1, main_gpu=n)


# ---- real models ----------------------------------------------------------------------

COUNTS = [", ".join(str(n + i) for n in range(8)) + "," for i in range(8)]


@pytest.fixture(scope="module")
def on_gpu(smollm2_path: Path) -> Iterator[lh.Model]:
    with lh.Model(smollm2_path, n_gpu_layers=-1) as model:
        yield model


@pytest.mark.model
@pytest.mark.slow(reason="a real model, which a driver without a GPU computes slowly")
def test_a_real_model_continues_as_on_the_processor(
    on_gpu: lh.Model, smollm2_path: Path
) -> None:
    """The model is sure enough of these answers that rounding does not matter."""
    settings = {"max_tokens": 8, "logprobs": 0}
    with lh.Context(on_gpu, n_seq_max=4) as context:
        together = lh.generate_parallel(context, COUNTS, **settings)
    with lh.Context(on_gpu, n_seq_max=1) as context:
        alone = [lh.generate(context, x, **settings).text for x in COUNTS[:3]]
    with lh.Model(smollm2_path, n_gpu_layers=0) as model, lh.Context(model) as context:
        expected = lh.generate_parallel(context, COUNTS, **settings)
    assert together.texts == expected.texts
    assert together.texts[:3] == alone
    for mine, theirs in zip(together, expected, strict=True):
        assert np.abs(np.subtract(mine.logprobs, theirs.logprobs)).max() < ROUNDING_Q4_0


@pytest.mark.model
@pytest.mark.slow(reason="a real model, which a driver without a GPU computes slowly")
def test_a_real_model_scores_as_on_the_processor(
    on_gpu: lh.Model, smollm2_path: Path
) -> None:
    labels = [" positive", " negative", " neutral"]
    prompts = [
        f"Text: {text}\nSentiment:"
        for text in ("The weather was great.", "I lost my keys again.", "no")
    ]
    with lh.Context(on_gpu) as context:
        scores = lh.score_parallel(context, prompts, [labels] * 3)
    with lh.Model(smollm2_path, n_gpu_layers=0) as model, lh.Context(model) as context:
        expected = lh.score_parallel(context, prompts, [labels] * 3)
    for mine, theirs in zip(scores.token_logprobs, expected.token_logprobs, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert np.abs(a - b).max() < ROUNDING_Q4_0


@pytest.mark.model
@pytest.mark.slow(reason="a real model, which a driver without a GPU computes slowly")
def test_real_embeddings_are_those_of_the_processor(minilm_path: Path) -> None:
    texts = ["The sea is wide.", "A train to Paris leaves at noon. " * 4, "bread"]
    vectors = []
    for n_gpu_layers in (0, -1):
        with lh.Model(minilm_path, n_gpu_layers=n_gpu_layers) as model:
            vectors.append(lh.embed_parallel(model, texts).vectors)
    assert cosines(*vectors).min() > 0.9999
