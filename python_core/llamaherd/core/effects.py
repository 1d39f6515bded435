"""Detection of sampling settings that other settings make ineffective."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.caller import warn_caller
from llamaherd.core.failure import Failure
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
    """Settings that have no effect under a condition.

    Attributes:
        names: Names of the settings.
        is_idle: Function that tests whether other settings make `names` ineffective.
        why: Reason why the settings have no effect, and a remedy.
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
        names=("ignore_eos", "stop", "stop_token_ids"),
        is_idle=lambda params: params.choices is not None,
        why="an answer with choices ends with its choice; leave it out",
    ),
)


def idle_settings(params: SamplingParams) -> dict[str, str]:
    """Find settings that differ from their defaults and have no effect.

    Returns:
        A dict from the name of each setting to the reason.
    """
    found: dict[str, str] = {}
    for rule in RULES:
        if rule.is_idle(params):
            for name in rule.names:
                if getattr(params, name) not in (_DEFAULTS[name], ()):
                    found.setdefault(name, rule.why)
    return found


def warn_idle(each: Iterable[SamplingParams], stop: object = None) -> None:
    """Warn of settings without effect, once per setting and reason.

    Args:
        each: Settings of the prompts.
        stop: Stop texts of the call.

    Warns:
        UserWarning: A setting has no effect.
    """
    different = {id(params): params for params in each}.values()
    found = {pair: None for params in different for pair in idle_settings(params).items()}
    if stop and any(params.choices is not None for params in different):
        found["stop", RULES[-1].why] = None
    for name, why in found:
        warn_caller(f"{name} has no effect: {why}")


@lru_cache(maxsize=64)
def stop_problem(stop: tuple[str, ...], choices: tuple[str, ...]) -> str:
    """Return an error message if a stop text is part of a choice; "" otherwise."""
    for text in stop:
        choice = next((choice for choice in choices if text in choice), None)
        if choice is not None:
            return Failure(
                f"stop has {checks.quoted(text)}, which is part of the choice "
                f"{checks.quoted(choice)} and would cut it: leave stop out, an answer "
                "with choices ends with its choice",
                "constraint",
            )
    return ""
