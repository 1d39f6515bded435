"""C, Python and R give the same answers to the same prompts."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import rscript
import tiny_loras
import tiny_models
from llamaherd._r.boundary import clean
from thorough import sized

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.model, pytest.mark.more(reason="answers of 12 of 24 tokens")]

N_CTX = 4096
N_SEQ_MAX = 4
CONTEXT: dict[str, Any] = {
    "n_ctx": N_CTX,
    "n_threads": 1,
    "n_seq_max": N_SEQ_MAX,
    "kv_layout": "per_sequence",
}
MAX_TOKENS = sized(12, 24)
RULES = "You label the topic of a headline with one word. " * 4
HEADLINES = [
    "Shares fall as central bank hints at higher rates",
    "Striker scores twice in cup final",
    "New telescope finds water on distant planet",
    "Élections : les bureaux de vote ferment à 20 h",
    "新しい駅が春に開業する",
    "Text with <|im_end|> and <|im_start|>system in it",
    "🎉🎉🎉 Emoji 🤖 headline",
]


@pytest.fixture(scope="module")
def prompts(smollm2: lh.Model) -> list[str]:
    """Return chat prompts with a shared beginning, two equal prompts, and plain texts."""
    chat = [
        lh.apply_chat_template(
            smollm2,
            [{"role": "system", "content": RULES}, {"role": "user", "content": headline}],
        )
        for headline in HEADLINES
    ]
    plain = ["The capital of France is", "Once upon a time", "1 2 3 4 5 6", "\n\n"]
    return [*chat, *plain, chat[0], "The capital of France is", "naïve café: "]


def in_r(folder: Path, job: dict[str, Any], **variables: str) -> dict[str, Any]:
    return rscript.results("texts.R answers", folder, job, **variables)


def in_python(model: lh.Model, prompts: object, **options: object) -> lh.Results:
    with lh.Context(model, **CONTEXT) as context:
        return lh.generate_parallel(context, prompts, **options)


@pytest.fixture(scope="module")
def from_python(smollm2: lh.Model, prompts: list[str]) -> lh.Results:
    return in_python(smollm2, prompts, max_tokens=MAX_TOKENS)


def job(model: Path, prompts: list[object], **generate: object) -> dict[str, object]:
    return {
        "model": str(model),
        "context": CONTEXT,
        "prompts": prompts,
        "generate": {"max_tokens": MAX_TOKENS, **generate},
    }


@pytest.mark.more(reason="starts R, with a real model or several calls", cases=1)
@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_r_gives_the_same_answers_as_python(
    smollm2_path: Path,
    prompts: list[str],
    from_python: lh.Results,
    tmp_path: Path,
    locale: str,
) -> None:
    out = rscript.results(
        "texts.R answers", tmp_path, job(smollm2_path, prompts), LC_ALL=locale
    )
    assert out["texts"] == from_python.texts
    assert out["finish_reasons"] == from_python.finish_reasons
    for name in ("n_prompt_tokens", "n_generated_tokens", "n_reused_tokens"):
        assert out["usage"][name] == [getattr(result, name) for result in from_python]
    assert out["usage"]["seed"] == [result.seed for result in from_python]
    for texts, hashes in (
        (prompts, out["hashes"]["input"]),
        (out["texts"], out["hashes"]["output"]),
    ):
        assert hashes == [hashlib.sha256(text.encode()).hexdigest() for text in texts]


def test_r_draws_the_same_answers_as_python(
    smollm2: lh.Model, smollm2_path: Path, prompts: list[str], tmp_path: Path
) -> None:
    sampling = {"temperature": 0.9, "seed": 7, "top_k": 20, "min_p": 0.1}
    expected = in_python(smollm2, prompts, max_tokens=MAX_TOKENS, **sampling)
    out = rscript.results(
        "texts.R answers", tmp_path, job(smollm2_path, prompts, **sampling)
    )
    assert out["texts"] == expected.texts


def test_r_draws_the_same_samples_as_python(
    smollm2: lh.Model, smollm2_path: Path, prompts: list[str], tmp_path: Path
) -> None:
    sampling = {"temperature": 0.9, "n": 3}
    expected = in_python(smollm2, prompts[-4:], max_tokens=MAX_TOKENS, **sampling)
    every = [sample for samples in expected.samples for sample in samples]
    out = rscript.results(
        "texts.R answers", tmp_path, job(smollm2_path, prompts[-4:], **sampling)
    )
    assert out["texts"] == [sample.text for sample in every]
    assert out["usage"]["seed"] == [sample.seed for sample in every]
    n_reused = [sample.n_reused_tokens for sample in every]
    assert out["usage"]["n_reused_tokens"] == n_reused
    assert out["stats"]["n_samples"] == [12]


@pytest.mark.parametrize("max_tokens", [None, 1])
def test_r_has_the_same_choices_as_python(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path, max_tokens: int | None
) -> None:
    options = {
        "choices": [
            "politique",
            'polit\u00e9 "\U0001f389"\n',
            "sports",
            "science fiction",
        ],
        "max_tokens": max_tokens,
    }
    expected = in_python(smollm2, HEADLINES, **options)
    out = rscript.results(
        "texts.R answers", tmp_path, job(smollm2_path, HEADLINES, **options)
    )
    assert out["texts"] == expected.texts
    assert out["complete"] == expected.complete
    if max_tokens is None:
        assert set(expected.texts) <= set(options["choices"])


@pytest.mark.slow(reason="objects of 90 tokens")
def test_r_has_the_same_data_as_python(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "topic": {"enum": ["politics", "sports", "science"]},
            "sure": {"type": "boolean"},
            "score": {"type": "integer", "minimum": 0, "maximum": 2**33},
            "about": {
                "type": "object",
                "properties": {"who": {"type": "string", "maxLength": 12}},
                "required": ["who"],
            },
            "words": {
                "type": "array",
                "items": {"type": "string", "maxLength": 8},
                "maxItems": 3,
            },
        },
        "required": ["topic", "sure", "score", "about", "words"],
        "additionalProperties": False,
    }
    options = {"schema": schema, "max_tokens": 90}
    headlines = HEADLINES[: sized(4, 7)]
    expected = in_python(smollm2, headlines, **options)
    out = rscript.results(
        "texts.R answers", tmp_path, job(smollm2_path, [*headlines, None], **options)
    )
    assert out["texts"] == [*expected.texts, None]
    rows = [*expected.parsed, None]
    assert any(rows)
    for name, column in out["table"].items():
        if name == "about":
            assert column["who"] == [row and row["about"]["who"] for row in rows]
        else:
            values = [None if value == {} else value for value in column]  # NULL in R
            assert values == [row and row[name] for row in rows], name


def test_failures_are_the_same_in_r_and_python(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path
) -> None:
    prompts = [
        "The capital of France is",
        "",
        [1, 999_999_999],
        "word " * 5000,
        [504, 253],
    ]
    out = rscript.results(
        "texts.R answers", tmp_path, job(smollm2_path, [*prompts, None])
    )
    expected = in_python(smollm2, prompts, max_tokens=MAX_TOKENS)
    assert out["texts"] == [*expected.texts, None]
    assert out["errors"] == [*expected.errors, "the prompt is NA"]
    assert out["finish_reasons"] == [*expected.finish_reasons, "error"]


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile tests/capi/abi/answers.c with the installed C library; return its path."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.fail("a C compiler is missing: run `make setup`")
    installed = Path(lh.__file__).parent
    program = tmp_path_factory.mktemp("c") / "answers"
    subprocess.run(
        [
            *(compiler, "-std=c99", "-I", installed / "include"),
            *(rscript.ROOT / "tests" / "capi" / "abi" / "answers.c", "-o", program),
            *(installed / "libllamaherd.so", f"-Wl,-rpath,{installed}"),
        ],
        check=True,
    )
    return program


def test_c_gives_the_same_answers_as_python(
    c_program: Path, smollm2_path: Path, prompts: list[str], from_python: lh.Results
) -> None:
    done = subprocess.run(
        [c_program, smollm2_path, str(N_CTX), str(N_SEQ_MAX), str(MAX_TOKENS)],
        input=b"".join(prompt.encode() + b"\0" for prompt in prompts),
        stdout=subprocess.PIPE,
        timeout=600,
        check=True,
    )
    texts = done.stdout.decode().split("\0")[:-1]
    assert texts == from_python.texts


def test_r_loads_adapters_as_python_does(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    n = tiny_models.N_EMBD
    lora = tiny_loras.write(
        tmp_path / "a.gguf", {"blk.0.attn_q.weight": (n, n)}, size=0.5
    )
    settings = {"n_seq_max": 4, "n_ctx": 512, "rope_freq_base": 5000}
    job = {
        "model": str(tiny_path("llama")),
        "lora": {str(lora): 0.5},
        "context": settings,
        "prompts": ["One", "Two"],
        "generate": {"max_tokens": 8, "progress": False},
    }
    texts = {}
    for name, adapter in (("base", None), ("adapted", (lora, 0.5))):
        with (
            lh.Model(job["model"], lora=adapter) as model,
            lh.Context(model, **settings) as context,
        ):
            out = lh.generate_parallel(context, job["prompts"], max_tokens=8)
            texts[name] = [clean(text).strip() for text in out.texts]
    answers = in_r(tmp_path, job)
    assert [text.strip() for text in answers["texts"]] == texts["adapted"]
    assert texts["adapted"] != texts["base"]
