"""Settings of calls, codes of failures, missing prompts."""

from __future__ import annotations

import inspect
import pydoc
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_type_hints

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
import tiny_models
from llamaherd.calls.asks.keywords import SamplingSettings
from llamaherd.engine.core.sampling import OF_REQUEST, PLAIN_SETTINGS
from llamaherd.engine.native.shim import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


CALLS = [lh.generate, lh.generate_parallel, lh.start_parallel]
DEFAULTS = {field.name: field.default for field in fields(lh.SamplingParams)}


def test_type_checkers_know_the_same_settings() -> None:
    assert get_type_hints(SamplingSettings) == get_type_hints(lh.SamplingParams)
    assert not SamplingSettings.__required_keys__


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_calls_show_each_setting_with_its_default(call: Callable[..., object]) -> None:
    parameters = inspect.signature(call).parameters
    defaults = {name: parameters[name].default for name in DEFAULTS}
    assert defaults == DEFAULTS | {"seed": 1234}
    assert {parameters[name].kind for name in DEFAULTS} == {
        inspect.Parameter.KEYWORD_ONLY
    }
    assert "settings" not in parameters
    shown_as = pydoc.plain(pydoc.render_doc(call))
    assert re.search(r"temperature: ('?)float\1 = 0\.0", shown_as)  # 3.14: without quotes


def test_the_shim_has_the_same_settings_and_defaults() -> None:
    native = ffi.new("lh_sampling_params *")
    lib.lh_sampling_default_params(native)
    members = {name for name, _ in ffi.typeof("lh_sampling_params").fields}
    others = {"logit_bias_token", "logit_bias_value", "choice_size", "seed"}
    others |= {"n_stop_token_ids"}
    counts = {"struct_size", "n_logit_bias", "n_dry_breakers", "n_choices"}
    pointers = {"dry_breakers", "grammar", "choices", "stop_token_ids"}
    grammars = {"schema", "regex", "quote_from"}  # by their kind
    assert members == {*PLAIN_SETTINGS, *pointers, *others, *counts, "grammar_kind"}
    assert {*PLAIN_SETTINGS, *pointers, *grammars, *OF_REQUEST, "logit_bias"} == set(
        DEFAULTS
    )
    for name in PLAIN_SETTINGS:
        assert getattr(native, name) == pytest.approx(float(DEFAULTS[name])), name


@pytest.mark.model
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_what_is_no_setting_is_named(
    smollm2: lh.Model, call: Callable[..., object]
) -> None:
    with lh.Context(smollm2) as context:
        with pytest.raises(TypeError, match=r"'tempreature'; did you mean 'temperature'"):
            call(context, ["a"], tempreature=0.5)
        with pytest.raises(TypeError, match=r"'zzz'; its sampling settings are fields"):
            call(context, ["a"], zzz=1)
        assert context.plan is None


@pytest.mark.model
def test_any_setting_may_be_given_to_a_call(smollm2: lh.Model) -> None:
    prompts = ["One", "Two"]
    settings = {"temperature": 0.9, "typical_p": 0.5, "grammar": 'root ::= "a" | "b"'}
    with lh.Context(smollm2, deterministic=True) as context:
        as_settings = lh.generate_parallel(context, prompts, seed=3, **settings)
        as_params = lh.generate_parallel(
            context, prompts, seed=3, params=lh.SamplingParams(**settings)
        )
    assert as_settings.texts == as_params.texts
    assert [result.seed for result in as_settings] == [r.seed for r in as_params]
    assert set(as_settings.texts) <= {"a", "b"}


PROMPTS = ["a", [], "a" * 5000, [10**6]]
CODES = [None, "empty", "too_long", "not_tokenized"]


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        yield context


def test_each_failure_has_a_code(context: lh.Context, tmp_path: Path) -> None:
    for _ in range(2):  # the second time with a journal that has the first answer
        out = lh.generate_parallel(
            context, PROMPTS, max_tokens=2, journal=tmp_path / "a.journal"
        )
        assert out.error_codes == CODES
        assert [result.error_code for result in out] == CODES
    frame = out.to_pandas()
    assert list(frame["error"])[1:] == out.errors[1:]
    assert out.to_arrow()["error"].to_pylist() == out.errors
    assert lh.classify_parallel(context, PROMPTS, ["b", "c"]).error_codes == CODES
    assert lh.score_parallel(context, PROMPTS, "b").error_codes == CODES
    texts = lh.embed_parallel(context.model, ["a", "", "a" * 5000], truncate=False)
    assert texts.error_codes == [None, "empty", "too_long"]


def test_answers_have_codes(context: lh.Context) -> None:
    (cut,) = lh.generate_parallel(
        context, ["a"], schema={"type": "string", "minLength": 50}, max_tokens=1
    )
    assert cut.error_code == "cut_off"
    one = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]}
    (stopped,) = lh.generate_parallel(
        context, ["a"], schema=one, stop=["}"], max_tokens=30
    )
    assert stopped.error_code == "schema_not_followed"
    assert "a text of stop ended the answer" in str(stopped.error)


def test_an_error_has_the_code_of_its_prompt(context: lh.Context) -> None:
    with pytest.raises(lh.GenerationError) as caught:
        lh.generate_parallel(context, ["a", []], max_tokens=1, on_error="stop")
    assert caught.value.code == "empty"
    with pytest.raises(lh.PromptError) as single:
        context.submit([], max_tokens=1).result()
    assert single.value.code == "empty"


TEXTS = pd.Series(["a b", None, "a b", float("nan"), pd.NA, pd.NaT, ""], dtype=object)
MISSING_CODES = [None, "missing", None, "missing", "missing", "missing"]
REASONS = [None, "the {} is missing", None, *["the {} is missing"] * 3]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Context]:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    model_path = tiny_models.write(path, "llama", chat_template=TEMPLATE)
    with lh.Model(model_path) as model, lh.Context(model) as context:
        yield context


def _ran(ctx: lh.Context, call: str, options: dict[str, Any]) -> Any:
    if call == "classify_parallel":
        return lh.classify_parallel(ctx, TEXTS, ["x", "y"], **options)
    if call == "score_parallel":
        return lh.score_parallel(ctx, TEXTS, "x", **options)
    if call == "generate_parallel":
        return lh.generate_parallel(ctx, TEXTS, max_tokens=2, **options)
    return lh.perplexity(ctx, TEXTS)


@pytest.mark.filterwarnings("ignore:all labels together are improbable")
@pytest.mark.parametrize(
    ("call", "options"),
    [
        ("generate_parallel", {}),
        ("generate_parallel", {"chat": True}),
        ("generate_parallel", {"temperature": 1.0, "n": 2}),
        ("generate_parallel", {"schema": {"type": "boolean"}}),
        ("generate_parallel", {"choices": ["x", "y"]}),
        ("classify_parallel", {}),
        ("classify_parallel", {"chat": True}),
        ("score_parallel", {}),
        ("perplexity", {}),
    ],
)
def test_a_missing_prompt_fails_alone(
    ctx: lh.Context, call: str, options: dict[str, Any]
) -> None:
    out = _ran(ctx, call, options)
    noun = "text" if call == "perplexity" else "prompt"
    reasons = [None if reason is None else reason.format(noun) for reason in REASONS]
    present = [1, 3, 4, 5]  # a tiny model may not end the answer to the others
    assert [out.errors[i] for i in present] == [reasons[i] for i in present]
    assert out.error_codes[1] == out.error_codes[5] == "missing"
    assert len(out.errors) == len(TEXTS)


def test_a_missing_text_has_no_vector(tmp_path: Path) -> None:
    with lh.Model(tiny_models.write(tmp_path / "bert.gguf", "bert")) as model:
        out = lh.embed_parallel(model, TEXTS)
    assert out.error_codes[:6] == MISSING_CODES
    assert out.errors[1] == "the text is missing"
    assert np.isnan(out.vectors[[1, 3, 4, 5]]).all()
    assert (out.vectors[0] == out.vectors[2]).all()


# Half of a surrogate pair, such as half of an emoji, which UTF-8 cannot encode.
INVALID = ["a b", "a \ud800 b"]
NOT_UNICODE = "is not valid Unicode: character 3 is U+D800, half of a surrogate pair"
QUOTE = {"type": "object", "properties": {"a": {"type": "string", "quote": True}}}


@pytest.mark.filterwarnings("ignore:all labels together are improbable")
@pytest.mark.parametrize(
    ("call", "subject"),
    [
        (lambda ctx: lh.generate_parallel(ctx, INVALID), "the prompt"),
        (lambda ctx: lh.generate_parallel(ctx, INVALID, chat=True), "the prompt"),
        (
            lambda ctx: lh.generate_parallel(
                ctx,
                [[{"role": "user", "content": text}] for text in INVALID],
                chat=True,
            ),
            "the prompt[0]['content']",
        ),
        (
            lambda ctx: lh.generate_parallel(ctx, INVALID, schema={"type": "null"}),
            "the prompt",
        ),
        (lambda ctx: lh.generate_parallel(ctx, INVALID, schema=QUOTE), "the prompt"),
        (
            lambda ctx: lh.generate_parallel(
                ctx, ["a", "a"], schema=QUOTE, quote_from=INVALID
            ),
            "quote_from",
        ),
        (lambda ctx: lh.chat(ctx).ask_all(INVALID), "the text"),
        (lambda ctx: lh.classify_parallel(ctx, INVALID, ["x", "y"]), "the prompt"),
        (lambda ctx: lh.score_parallel(ctx, INVALID, "x"), "the prompt"),
        (lambda ctx: lh.score_parallel(ctx, ["a", "a"], INVALID), "the continuation"),
        (lambda ctx: lh.perplexity(ctx, INVALID), "the text"),
        (lambda ctx: lh.embed_parallel(ctx.model, INVALID), "the text"),
    ],
)
def test_half_of_a_surrogate_pair_fails_alone(
    ctx: lh.Context, call: Callable[[lh.Context], Any], subject: str
) -> None:
    out = call(ctx)
    assert out.error_codes[0] != "not_tokenized"
    assert (out.errors[1], out.error_codes[1]) == (
        f"{subject} {NOT_UNICODE}",
        "not_tokenized",
    )


@pytest.mark.parametrize("kind", ["label", "fields", "spans"])
def test_a_text_with_half_of_a_surrogate_pair_is_coded_and_reported(
    ctx: lh.Context, tmp_path: Path, kind: str
) -> None:
    schema = QUOTE if kind == "fields" else None
    labels = None if kind == "fields" else {"x": "an x", "y": "a y"}
    book = lh.Codebook("x or y?", labels, type=kind, schema=schema)
    out = lh.annotate({"text": INVALID}, "text", book, ctx)
    assert out.error_codes[0] != "not_tokenized"
    assert out.error_codes[1] == "not_tokenized"
    page = lh.report(out, tmp_path / "report.html", texts=True)
    assert "a ? b" in page.read_text(encoding="utf-8")


def test_a_missing_prompt_counts_as_a_failure(ctx: lh.Context) -> None:
    with pytest.raises(lh.GenerationError, match="the prompt is missing") as caught:
        lh.generate_parallel(ctx, TEXTS, max_tokens=2, on_error="stop")
    assert caught.value.code == "missing"


def test_a_missing_text_has_no_label_and_no_error(ctx: lh.Context) -> None:
    book = lh.Codebook("x or y?", labels={"x": "an x", "y": "a y"})
    out = lh.annotate(pd.DataFrame({"text": TEXTS[:5]}), "text", book, ctx)
    assert list(out.errors) == [None] * 5
    assert [out.labels[i] for i in (1, 3, 4)] == [None] * 3
