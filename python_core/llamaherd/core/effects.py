"""Settings of sampling that have no effect beside the others, and the reason."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.sampling import PENALTIES, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FILTERS = ("top_k", "top_p", "min_p", "typical_p", "top_n_sigma")
_XTC = ("xtc_probability", "xtc_threshold")
_MIROSTAT = ("mirostat_tau", "mirostat_eta")
_DRY = ("dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_breakers")
_DEFAULTS = {each.name: each.default for each in fields(SamplingParams)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Settings that do nothing under a condition.

    Attributes:
        names: The settings.
        is_idle: Whether others keep them from having an effect.
        why: The reason, and the remedy.
    """

    names: tuple[str, ...]
    is_idle: Callable[[SamplingParams], bool]
    why: str


RULES = (
    Rule(
        names=(*_FILTERS, *_XTC, "mirostat", *_MIROSTAT),
        is_idle=lambda params: params.is_greedy,
        why="temperature is 0 or less, which takes the most likely token; set it above 0",
    ),
    Rule(
        names=(*_FILTERS, *_XTC),
        is_idle=lambda params: params.mirostat != 0,
        why="mirostat replaces it; set mirostat to 0",
    ),
    Rule(
        names=_MIROSTAT,
        is_idle=lambda params: params.mirostat == 0,
        why="mirostat is 0; set it to 1 or 2",
    ),
    Rule(
        names=("xtc_threshold",),
        is_idle=lambda params: params.xtc_probability == 0.0,
        why="xtc_probability is 0; set it above 0",
    ),
    Rule(
        names=("xtc_probability",),
        is_idle=lambda params: params.xtc_threshold > 0.5,
        why="xtc_threshold is above 0.5, which two tokens cannot both reach; lower it",
    ),
    Rule(
        names=PENALTIES,
        is_idle=lambda params: params.repeat_last_n == 0,
        why="repeat_last_n is 0, so it looks at no token; set it to 64, or -1 for all",
    ),
    Rule(
        names=("repeat_last_n",),
        is_idle=lambda params: not params.has_penalty,
        why="no penalty is set; set penalty_repeat, penalty_freq or penalty_present",
    ),
    Rule(
        names=_DRY,
        is_idle=lambda params: params.dry_multiplier == 0.0,
        why="dry_multiplier is 0; set it above 0, 0.8 for example",
    ),
    Rule(
        names=("dry_multiplier",),
        is_idle=lambda params: params.dry_penalty_last_n == 0,
        why="dry_penalty_last_n is 0, so it looks at no token; set it to -1 for all",
    ),
    Rule(
        names=("ignore_eos", "stop"),
        is_idle=lambda params: params.choices is not None,
        why="an answer with choices ends with its choice; leave it out",
    ),
)


def idle_settings(params: SamplingParams) -> dict[str, str]:
    """Finds settings that differ from their defaults and have no effect.

    Returns:
        For each of them the reason.
    """
    found: dict[str, str] = {}
    for rule in RULES:
        if rule.is_idle(params):
            for name in rule.names:
                if getattr(params, name) not in (_DEFAULTS[name], ()):
                    found.setdefault(name, rule.why)
    return found


def warn_idle(each: Iterable[SamplingParams], stop: object = None) -> None:
    """Warns of settings without an effect, once for each setting and reason.

    Args:
        each: Settings of prompts.
        stop: Stop texts of the call.

    Warns:
        UserWarning: A setting has no effect.
    """
    different = {id(params): params for params in each}.values()
    found = {pair: None for params in different for pair in idle_settings(params).items()}
    if stop and any(params.choices is not None for params in different):
        found["stop", RULES[-1].why] = None
    for name, why in found:
        warnings.warn(f"{name} has no effect: {why}", UserWarning, _depth())


@lru_cache(maxsize=64)
def stop_problem(stop: tuple[str, ...], choices: tuple[str, ...]) -> str:
    """Why stop texts cannot be given with choices; "": none is part of a choice."""
    for text in stop:
        choice = next((choice for choice in choices if text in choice), None)
        if choice is not None:
            return (
                f"stop has {checks.quoted(text)}, which is part of the choice "
                f"{checks.quoted(choice)} and would cut it: leave stop out, an answer "
                "with choices ends with its choice"
            )
    return ""


def _depth() -> int:
    """The caller's frame outside of this package, as a stack level."""
    depth, frame = 1, sys._getframe(1)  # noqa: SLF001 - 3.10 has no other way
    while frame.f_back is not None:
        if not frame.f_globals.get("__name__", "").startswith("llamaherd"):
            break
        depth, frame = depth + 1, frame.f_back
    return depth
