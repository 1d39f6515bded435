"""Check of a task's arguments for batches of Ray Data."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING

from llamaherd.api.classify import classify_parallel
from llamaherd.api.embed import embed_parallel
from llamaherd.api.generate import generate_parallel
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.research.coding.annotate import annotate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llamaherd.tasks.task import Kind

# Arguments of each call that the user cannot set, because rows or actors determine
# them.
_CALLS: dict[Kind, tuple[Callable[..., object], set[str]]] = {
    "generate": (generate_parallel, {"ctx", "prompts"}),
    "classify": (classify_parallel, {"ctx", "prompts"}),
    "annotate": (annotate, {"frame", "text", "context", "columns"}),
    "embed": (embed_parallel, {"model", "texts"}),
}
_REFUSED = {
    "journal": "batches go to any actor; use Ray Data's checkpoints instead",
    "progress": "Ray Data shows it",
    "on_error": "a failed row has its reason in a column, and other rows continue",
    "n": "a row has one answer",
    "params": "give its fields as arguments",
    "logprobs": "there are no columns for them",
    "versions": "there is no record",
}


def check_settings(task: Kind, settings: Mapping[str, object]) -> None:
    """Check the names of settings before a model is loaded.

    Raises:
        TypeError: A setting is unknown, or a required setting is missing.
        ValueError: A setting cannot be used with batches.
    """
    call, given = _CALLS[task]
    parameters = inspect.signature(call).parameters
    allowed = [name for name in parameters if name not in given | _REFUSED.keys()]
    for name in settings:
        if name in _REFUSED and name in parameters:
            raise ArgumentError(
                f"cannot be combined with batches: {_REFUSED[name]}",
                argument=name,
                code="conflict",
            )
        if name not in allowed:
            close = get_close_matches(name, allowed, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ArgumentTypeError(
                f"{task!r} has no argument {name!r}{hint}",
                argument="task",
                code="unknown_argument",
            )
    for name in allowed:
        if parameters[name].default is inspect.Parameter.empty and name not in settings:
            raise ArgumentTypeError(f"{task!r} needs {name}", argument="task")
    seed = settings.get("seed", 0)
    if seed is None or (isinstance(seed, int) and seed < 0):
        raise ArgumentError(
            f"must be at least 0, not {seed!r}: a batch that is answered again must "
            "draw the same tokens",
            argument="seed",
            code="out_of_range",
        )
