"""Detection of sampling settings that other settings make ineffective."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.failure import Failure
from llamaherd.engine.core.sampling import OF_CHOICES, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Iterable


def idle_settings(params: SamplingParams) -> dict[str, str]:
    """Find settings that differ from their defaults and have no effect.

    Returns:
        A dict from the name of each setting to the reason.
    """
    found: dict[str, str] = {}
    for name in params.changed():
        if getattr(params, name) != ():
            for idle in SamplingParams.declared[name].idle:
                if idle.holds(params):
                    found.setdefault(name, idle.why)
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
        found["stop", OF_CHOICES.why] = None
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
