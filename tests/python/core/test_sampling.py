"""Sampling settings, and settings that have no effect."""

from __future__ import annotations

import math
import pickle
import warnings
from dataclasses import fields, replace

import pytest
from llamaherd import SamplingParams, Thinking
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.settings import Asked, Setting, idle_settings
from llamaherd.engine.core.sampling import PENALTIES, changed_fields
from setting_examples import EFFECTIVE


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("temperature", math.nan, ValueError, "temperature must be between.*not nan"),
        ("temperature", math.inf, ValueError, "not inf"),
        ("temperature", "hot", TypeError, "temperature must be a number.*'hot'"),
        ("temperature", True, TypeError, "temperature must be a number"),
        ("temperature", None, TypeError, "temperature"),
        ("top_k", 1.5, TypeError, "top_k must be an integer, not 1.5"),
        ("top_k", 2**31, ValueError, "top_k"),
        ("top_p", 1.1, ValueError, "top_p must be between 0 and 1, not 1.1"),
        ("top_p", 1.0000001, ValueError, "between 0 and 1, not 1.0000001"),
        ("min_p", -0.1, ValueError, "min_p must be between 0 and 1, not -0.1"),
        ("typical_p", 2, ValueError, "typical_p"),
        ("repeat_last_n", -2, ValueError, "repeat_last_n must be at least -1, not -2"),
        ("penalty_repeat", 0, ValueError, "penalty_repeat"),
        ("penalty_freq", math.nan, ValueError, "penalty_freq"),
        ("penalty_present", 1e7, ValueError, "penalty_present"),
        ("xtc_probability", -1, ValueError, "xtc_probability"),
        ("xtc_threshold", 2, ValueError, "xtc_threshold"),
        ("dry_multiplier", -1, ValueError, "dry_multiplier"),
        ("dry_base", 0.5, ValueError, "dry_base"),
        ("dry_allowed_length", -1, ValueError, "dry_allowed_length"),
        ("dry_penalty_last_n", -2, ValueError, "dry_penalty_last_n"),
        ("dry_breakers", ["a", ""], ValueError, r"dry_breakers\[1\] must not be empty"),
        ("dry_breakers", ["a\0"], ValueError, r"dry_breakers\[0\].*NUL"),
        ("mirostat", 3, ValueError, "mirostat must be between 0 and 2, not 3"),
        ("mirostat_tau", -1, ValueError, "mirostat_tau"),
        ("mirostat_eta", math.inf, ValueError, "mirostat_eta"),
        ("logit_bias", 5, TypeError, "logit_bias must map.*int"),
        ("logit_bias", {5: math.nan}, ValueError, r"logit_bias\[5\]"),
        ("logit_bias", {"5": 1.0}, TypeError, r"logit_bias\['5'\] needs a token id"),
        ("logit_bias", {-1: 1.0}, ValueError, r"logit_bias\[-1\] needs a token id"),
        ("logit_bias", [(5, 1.0), (5, 2.0)], ValueError, r"logit_bias\[5\] .* twice"),
        ("logit_bias", {5: math.inf}, ValueError, r"logit_bias\[5\]"),
        ("logit_bias", {"a": 1.0}, TypeError, r"logit_bias\['a'\] needs a token id"),
        ("grammar", 5, TypeError, "grammar must be a text"),
        ("grammar", "root ::= \0", ValueError, "grammar.*NUL"),
        ("choices", "yes", TypeError, "choices must be a list of texts, not 'yes'"),
        ("choices", {"a": 1}, TypeError, "choices must be a list of texts, not {'a': 1}"),
        ("choices", iter(["a"]), TypeError, "choices must be a list of texts"),
        ("choices", [], ValueError, "choices must have at least one text"),
        ("choices", ["a", ""], ValueError, r"choices\[1\] must not be empty"),
        ("choices", ["a\0"], ValueError, r"choices\[0\] must not contain a NUL"),
        ("choices", ["a", None], TypeError, r"choices\[1\] must be a text, not None"),
        ("choices", ["\udc00"], ValueError, r"choices\[0\] is not valid Unicode"),
        ("ignore_eos", 1, TypeError, "ignore_eos must be true or false, not 1"),
        ("min_tokens", -1, ValueError, "min_tokens must be at least 0, not -1"),
        ("min_tokens", True, TypeError, "min_tokens must be an integer"),
        ("stop_token_ids", 5, TypeError, "stop_token_ids must be a list of token ids"),
        ("stop_token_ids", "5", TypeError, "stop_token_ids must be a list of token ids"),
        ("stop_token_ids", [1, True], TypeError, r"stop_token_ids\[1\] needs a t"),
        (
            "stop_token_ids",
            [-1],
            ValueError,
            r"stop_token_ids\[0\] needs a token id",
        ),
        ("max_tokens", 0, ValueError, "max_tokens must be at least 1, not 0"),
        ("max_tokens", 1.0, TypeError, "max_tokens must be an integer"),
        ("stop", 5, TypeError, "stop must be a text or a list of texts, not 5"),
        ("stop", [""], ValueError, r"stop\[0\] must not be empty"),
        ("stop", ["a", None], TypeError, r"stop\[1\] must be a text"),
        ("stop", "\ud800", ValueError, r"stop\[0\] is not valid Unicode"),
        ("stop", ["x"] * 1025, ValueError, "stop must have at most 1024"),
        ("seed", 2**32, ValueError, "seed must be between -2147483648 and 4294967295"),
        ("seed", "x", TypeError, "seed must be an integer"),
        ("regex", "", ValueError, "regex must not be empty"),
        ("grammar", " \n", ValueError, "grammar must not be empty"),
        ("top_n_sigma", math.nan, ValueError, "top_n_sigma"),
    ],
)
def test_bad_values_are_named(
    field: str, value: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        SamplingParams(**{field: value})


def test_values_are_brought_into_one_form() -> None:
    params = SamplingParams(
        temperature=1, stop="END", logit_bias={7: -math.inf, 3: 1}, dry_breakers=["x"]
    )
    assert params.temperature == 1.0
    assert isinstance(params.temperature, float)
    assert params.stop == ("END",)
    assert params.dry_breakers == ("x",)
    assert params.logit_bias == ((3, 1.0), (7, -math.inf))
    assert hash(params) == hash(
        SamplingParams(
            temperature=1.0,
            stop=["END"],
            logit_bias=[(7, -math.inf), (3, 1.0)],
            dry_breakers=("x",),
        )
    )


def test_choices_are_a_set_of_texts() -> None:
    params = SamplingParams(choices=["b", "a", "b"])
    assert params.choices == ("a", "b")
    from_set = SamplingParams(choices={"a", "b"})
    assert (params, hash(params)) == (from_set, hash(from_set))
    assert SamplingParams(choices=params.choices).choices is params.choices
    copied = pickle.loads(pickle.dumps(params))
    assert copied == params
    assert copied.choices._hash is None  # hashes of texts differ between processes
    with pytest.raises(ValueError, match="grammar and choices cannot be given together"):
        SamplingParams(choices=["a"], grammar='root ::= "a"')
    assert SamplingParams(choices=["a", "n\u00e9e"]).n_answer == 5
    assert SamplingParams().n_answer == 100


def test_only_temperature_makes_it_greedy() -> None:
    assert SamplingParams().is_greedy
    assert SamplingParams(temperature=-1.0, top_k=5).is_greedy
    assert not SamplingParams(temperature=0.1).is_greedy


def test_changed_fields_are_found() -> None:
    assert changed_fields(SamplingParams()) == []
    assert changed_fields(SamplingParams(top_k=1, min_p=0.0)) == ["top_k", "min_p"]


@pytest.mark.parametrize("name", PENALTIES)
def test_the_window_of_a_penalty_is_among_its_changed_fields(name: str) -> None:
    penalized = SamplingParams(**{name: 1.5})
    assert penalized.repeat_last_n == 64
    assert changed_fields(penalized) == [name, "repeat_last_n"]
    off = SamplingParams(**{name: 1.5}, repeat_last_n=0)
    assert changed_fields(off) == ["repeat_last_n", name]


def test_it_takes_no_positional_and_no_unknown_arguments() -> None:
    with pytest.raises(TypeError):
        SamplingParams(0.5)
    with pytest.raises(TypeError, match="temprature"):
        SamplingParams(temprature=0.5)


def test_a_misspelt_setting_gets_a_suggestion() -> None:
    with pytest.raises(TypeError, match="argument of SamplingParams; did you mean"):
        SamplingParams(temprature=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="argument of Thinking; did you mean 'budget'"):
        Thinking(budgett=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="argument of Thinking; it has budget"):
        Thinking(zzz=1)  # type: ignore[call-arg]


# Settings that make other settings ineffective, with the names of these.
IDLE = [
    ({"temperature": 0.0, "top_p": 0.9, "min_p": 0.2}, ["top_p", "min_p"]),
    ({"temperature": -1.0, "mirostat": 2}, ["mirostat"]),
    ({"temperature": 1.0, "mirostat": 2, "top_k": 3}, ["top_k"]),
    ({"temperature": 1.0, "mirostat_tau": 3.0}, ["mirostat_tau"]),
    ({"temperature": 1.0, "xtc_threshold": 0.3}, ["xtc_threshold"]),
    (
        {"temperature": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.6},
        ["xtc_probability"],
    ),
    ({"penalty_repeat": 1.3, "repeat_last_n": 0}, ["penalty_repeat"]),
    ({"repeat_last_n": 9}, ["repeat_last_n"]),
    ({"dry_base": 2.0, "dry_breakers": ()}, ["dry_base"]),
    ({"dry_multiplier": 0.8, "dry_penalty_last_n": 0}, ["dry_multiplier"]),
    ({"choices": ["a"], "ignore_eos": True, "stop": "x"}, ["ignore_eos", "stop"]),
    ({"choices": ["a"], "stop_token_ids": [3]}, ["stop_token_ids"]),
]


def test_every_setting_is_in_the_table() -> None:
    assert set(EFFECTIVE) == {field.name for field in fields(SamplingParams)}


@pytest.mark.parametrize("name", EFFECTIVE)
def test_a_setting_is_effective_with_what_it_needs(name: str) -> None:
    value, needed = EFFECTIVE[name]
    assert idle_settings(SamplingParams(**{name: value}, **needed)) == {}


@pytest.mark.parametrize(
    "name", [name for name, (_, needed) in EFFECTIVE.items() if needed]
)
def test_a_setting_that_lacks_what_it_needs_is_idle(name: str) -> None:
    value, needed = EFFECTIVE[name]
    if name == "seed":  # a greedy answer is the same with any seed
        return
    default = SamplingParams()
    for other in needed:
        params = replace(
            SamplingParams(**{name: value}, **needed),
            **{other: getattr(default, other)},
        )
        assert name in idle_settings(params)


@pytest.mark.parametrize(("settings", "names"), IDLE)
def test_what_has_no_effect_is_told_once(
    settings: dict[str, object], names: list[str]
) -> None:
    params = SamplingParams(**settings)
    reasons = idle_settings(params)
    assert set(names) <= set(reasons)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        shared = Setting(params, SamplingParams())
        others = [shared] * 5 + [Setting(replace(params), SamplingParams())]
        Asked([], others, 0).warn_idle(GenerateOptions())
    assert len(seen) == len(reasons)
    assert str(seen[0].message).split()[0] in reasons
    assert seen[0].filename == __file__


@pytest.mark.parametrize(
    ("options", "is_idle"),
    [
        ({}, True),
        ({"sampling": {"choices": ["a"]}}, True),
        ({"sampling": {"schema": [None, {}]}}, False),
        ({"params": SamplingParams(schema={})}, False),
    ],
)
def test_tries_need_a_schema(options: dict[str, object], is_idle: bool) -> None:
    assert ("retries" in idle_settings(GenerateOptions(**options, retries=5))) == is_idle


def test_a_stop_text_within_a_choice_is_a_problem() -> None:
    def problem(*stop: str) -> str:
        params = SamplingParams(choices=("Boston", "New York"))
        return Setting(params, SamplingParams(stop=stop)).stop_problem

    assert problem(" ").startswith("stop has ' '")
    assert problem("x") == ""
    assert problem() == ""
