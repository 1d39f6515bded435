"""Every setting has an effect, or a warning states the reason."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace

import pytest
from llamaherd import SamplingParams
from llamaherd.calls.asks.constraints import idle_settings, stop_problem, warn_idle
from setting_examples import EFFECTIVE

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
    assert set(EFFECTIVE) == {each.name for each in fields(SamplingParams)}


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
    found = idle_settings(params)
    assert set(names) <= set(found)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warn_idle([params] * 5 + [replace(params)])
    assert len(seen) == len(found)
    assert str(seen[0].message).split()[0] in found
    assert seen[0].filename == __file__


def test_a_stop_text_within_a_choice_is_a_problem() -> None:
    assert stop_problem((" ",), ("Boston", "New York")).startswith("stop has ' '")
    assert stop_problem(("x",), ("Boston", "New York")) == ""
    assert stop_problem((), ("a",)) == ""
