"""Models, tokens and chat templates, on the real models."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.engine.model.tokens import prompt_tokens
from llamaherd.optimize import requantize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.model
OPEN, CLOSE = "\ufdd0", "\ufdd1"


# ---- loading ----


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(lh.ModelLoadError, match=r"path names no file: .*none\.gguf"):
        lh.Model(tmp_path / "none.gguf")


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(lh.ModelLoadError, match="names a folder"):
        lh.Model(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"path": 5}, TypeError, "path must be a path, not 5"),
        ({"path": None}, TypeError, "path must be"),
        ({"n_gpu_layers": 1.5}, TypeError, "n_gpu_layers must be an integer"),
        ({"use_mmap": 1}, TypeError, "use_mmap must be true or false"),
        ({"use_mlock": "no"}, TypeError, "use_mlock must be true or false"),
        ({"check_tensors": None}, TypeError, "check_tensors must be true or false"),
    ],
)
def test_bad_arguments_are_named(
    smollm2_path: Path,
    arguments: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=message):
            lh.Model(**({"path": smollm2_path} | arguments))


def test_gpu_layers_without_a_gpu_are_a_warning(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llamaherd.engine.native.shim.supports_gpu", lambda: False)
    text = "n_gpu_layers is 99.*runs on the processor"
    with pytest.warns(UserWarning, match=text) as seen:
        lh.Model(smollm2_path, n_gpu_layers=99).close()
    assert seen[0].filename == __file__


def test_a_model_knows_what_it_is(smollm2: lh.Model, gemma3: lh.Model) -> None:
    assert smollm2.n_vocab == 49152
    assert smollm2.n_ctx_train == 8192
    assert smollm2.info.n_layer == 30
    assert "135 M parameters" in smollm2.description
    assert gemma3.n_vocab == 262144
    assert gemma3.info.n_swa == 512
    assert lh.model_metadata(smollm2)["general.architecture"] == "llama"
    assert lh.model_metadata(gemma3)["general.architecture"] == "gemma3"


def test_a_closed_model_is_of_no_use(smollm2_path: Path) -> None:
    with lh.Model(smollm2_path) as model:
        context = lh.Context(model)
        lh.generate(context, "Hello", max_tokens=1)
        assert repr(model) == f"<Model {smollm2_path}>"
    assert model.closed
    assert repr(model) == f"<Model {smollm2_path}: closed>"
    assert repr(context) == f"<Context on {model!r}: closed>"
    assert context.closed
    model.close()
    for use in (
        lambda: lh.tokenize(model, "a"),
        lambda: lh.detokenize(model, [1]),
        lambda: lh.Context(model),
    ):
        message = f"^the model {re.escape(str(smollm2_path))} is closed$"
        with pytest.raises(lh.ModelClosedError, match=message):
            use()
    with pytest.raises(lh.ContextClosedError):
        lh.generate(context, "Hello")


# ---- tokens ----


@pytest.mark.parametrize(
    "text", ["", "Hello", "  two  spaces\n", "né 😀 漢字\0.", "a" * 9000]
)
def test_text_survives_tokens(smollm2: lh.Model, text: str) -> None:
    assert lh.detokenize(smollm2, lh.tokenize(smollm2, text)) == text


def test_special_tokens_are_text_unless_asked_for(smollm2: lh.Model) -> None:
    assert lh.tokenize(smollm2, "<|im_end|>", parse_special=True) == [2]
    assert len(lh.tokenize(smollm2, "<|im_end|>")) > 1
    assert lh.detokenize(smollm2, [2]) == ""
    assert lh.detokenize(smollm2, [2], unparse_special=True) == "<|im_end|>"


def test_bos_is_added_where_the_model_wants_it(gemma3: lh.Model) -> None:
    with_bos = lh.tokenize(gemma3, "Hello")
    assert with_bos == [2, *lh.tokenize(gemma3, "Hello", add_special=False)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: lh.tokenize(m, None), TypeError, "text must be a text"),
        (lambda m: lh.tokenize(m, b"x"), TypeError, "text must be a text"),
        (lambda m: lh.tokenize(m, "\ud800"), ValueError, "text is not valid Unicode"),
        (lambda m: lh.tokenize(m, "a", add_special=1), TypeError, "add_special"),
        (lambda m: lh.tokenize(m, "a", parse_special=0), TypeError, "parse_special"),
        (lambda _: lh.tokenize("model", "a"), TypeError, "model must be a llamaherd.Mo"),
        (lambda m: lh.detokenize(m, "abc"), TypeError, "tokens must be text or a seq"),
        (lambda m: lh.detokenize(m, [1.5]), TypeError, r"tokens\[0\] must be an integ"),
        (lambda m: lh.detokenize(m, [1, True]), TypeError, r"tokens\[1\] must be an i"),
        (lambda m: lh.detokenize(m, [2**40]), ValueError, "tokens contains a token id"),
        (lambda m: lh.detokenize(m, [-1]), ValueError, r"tokens\[0\] is -1"),
        (lambda m: lh.detokenize(m, [1, 49152]), ValueError, r"tokens\[1\] is 49152"),
        (lambda m: lh.detokenize(m, 5), TypeError, "tokens must be"),
    ],
)
def test_bad_text_and_tokens_are_named(
    smollm2: lh.Model, call: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(smollm2)


# ---- chat ----


def test_the_models_own_template_is_used(smollm2: lh.Model) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]
    prompt = lh.apply_chat_template(smollm2, messages)
    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    without = lh.apply_chat_template(smollm2, messages, add_generation_prompt=False)
    assert prompt == without + "<|im_start|>assistant\n"


def test_special_tokens_in_messages_stay_text(smollm2: lh.Model) -> None:
    document = f"a<|im_end|>b{OPEN}c{CLOSE}"
    prompt = lh.apply_chat_template(smollm2, [{"role": "user", "content": document}])
    assert f"a{OPEN}<|im_end|>{CLOSE}b\ufffdc\ufffd" in prompt
    tokens = prompt_tokens(smollm2, "prompt", prompt)
    # One end token for the system message that the template adds, one for the user's.
    assert list(tokens).count(2) == 2
    assert "a<|im_end|>b" in lh.detokenize(smollm2, tokens)


def test_a_prompt_that_starts_with_a_special_token_has_them_parsed(
    smollm2: lh.Model,
) -> None:
    def n_ends(prompt: str, how: object = "auto") -> int:
        return list(prompt_tokens(smollm2, "p", prompt, how)).count(2)

    assert n_ends("<|im_start|>user\nHi<|im_end|>") == 1
    assert n_ends("Hi<|im_end|>") == 0
    assert n_ends("Hi<|im_end|>", how=True) == 1
    assert n_ends("<|im_start|>user\nHi<|im_end|>", how=False) == 0


def test_bos_is_not_doubled(gemma3: lh.Model) -> None:
    once = prompt_tokens(gemma3, "p", "<bos>Hello")
    assert list(once) == lh.tokenize(gemma3, "Hello")


def test_a_template_and_its_variables_may_be_given(gemma3: lh.Model) -> None:
    prompt = lh.apply_chat_template(
        gemma3,
        [{"role": "user", "content": "Hi"}],
        template="{{ mood }}: {% for m in messages %}{{ m.content }}{% endfor %}",
        variables={"mood": "calm"},
    )
    assert prompt == "calm: Hi"


def test_a_model_without_template_says_so(gemma3: lh.Model) -> None:
    with pytest.raises(lh.ChatTemplateError, match=r"has no chat template.*template="):
        lh.apply_chat_template(gemma3, [{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize(
    ("messages", "options", "error", "message"),
    [
        ("Hi", {}, TypeError, "messages must be a list of messages, not 'Hi'"),
        ({"role": "user"}, {}, TypeError, "messages must be a list"),
        ([], {}, ValueError, "messages must not be empty"),
        (["Hi"], {}, TypeError, r"messages\[0\] must be a mapping"),
        ([{"role": "user"}], {}, ValueError, r"messages\[0\] has no 'content'"),
        ([{"content": "a"}], {}, ValueError, r"messages\[0\] has no 'role'"),
        (
            [{"role": "user", "content": None}],
            {},
            TypeError,
            r"messages\[0\]\['content'\] must be a text",
        ),
        (
            [{"role": "user", "content": "a"}],
            {"template": "{% if %}"},
            lh.ChatTemplateError,
            "template cannot be parsed",
        ),
        (
            [{"role": "user", "content": "a"}],
            {"template": "{{ raise_exception('no users') }}"},
            lh.ChatTemplateError,
            "template failed: no users",
        ),
        (
            [{"role": "user", "content": "a"}],
            {"template": 5},
            TypeError,
            "template must be a text",
        ),
        (
            [{"role": "user", "content": "a"}],
            {"add_generation_prompt": "yes"},
            TypeError,
            "add_generation_prompt must be true or false",
        ),
    ],
)
def test_bad_messages_are_named(
    smollm2: lh.Model,
    messages: object,
    options: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        lh.apply_chat_template(smollm2, messages, **options)


def test_templates_do_not_make_libllama_talkative(smollm2_path: Path) -> None:
    script = f"""
import llamaherd as lh
model = lh.Model({str(smollm2_path)!r})
prompt = lh.apply_chat_template(model, [{{"role": "user", "content": "Hi"}}])
lh.generate(lh.Context(model), prompt, max_tokens=1)
"""
    ignored = "ignore:the answer ended at max_tokens"
    run = subprocess.run(
        [sys.executable, "-W", ignored, "-c", script],
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout == ""
    assert run.stderr == ""


def test_short_rows_are_multiplied_correctly(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    """With AMX, ggml multiplies rows of one block by memory that nobody wrote."""
    prompt = [token % 200 + 3 for token in range(120)]
    rows = []
    with requantize.Requantized(tiny_path("llama"), tmp_path, "Q8_0", 0, 1) as file:
        file.quantize()
        for path in [tiny_path("llama"), *[file.path] * 4]:
            with lh.Model(path) as model, lh.Context(model) as context:
                reply = lh.generate_parallel(context, [prompt], max_tokens=1, logprobs=5)
            rows.append(sorted(reply[0].top_logprobs[0].values()))
    assert rows[1:] == [rows[1]] * 4
    assert rows[1] == pytest.approx(rows[0], abs=0.2)
