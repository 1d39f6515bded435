"""Sampling settings are declared once: all interfaces accept the same settings."""

from __future__ import annotations

import inspect
import pydoc
import re
from dataclasses import fields
from typing import TYPE_CHECKING, get_type_hints

import llamaherd as lh
import pytest
from llamaherd.calls.asks.keywords import SamplingSettings
from llamaherd.engine.core.sampling import OF_REQUEST, PLAIN_SETTINGS
from llamaherd.engine.native.shim import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = [lh.generate, lh.generate_parallel, lh.start_parallel]
DEFAULTS = {field.name: field.default for field in fields(lh.SamplingParams)}


def test_type_checkers_know_the_same_settings() -> None:
    assert get_type_hints(SamplingSettings) == get_type_hints(lh.SamplingParams)
    assert list(SamplingSettings.__annotations__) == list(DEFAULTS)
    assert not SamplingSettings.__required_keys__


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_calls_show_each_setting_with_its_default(call: Callable[..., object]) -> None:
    parameters = inspect.signature(call).parameters
    shown = {name: parameters[name].default for name in DEFAULTS}
    assert shown == DEFAULTS | {"seed": 1234}
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
        with pytest.raises(
            TypeError,
            match=r"'zzz'; llamaherd\.SamplingParams has them",
        ):
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
