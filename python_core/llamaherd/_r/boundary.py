"""Boundary to R: every decorated function returns a dict, even for errors."""

from __future__ import annotations

import functools
import os
import traceback
from typing import TYPE_CHECKING, Any, ParamSpec

import llamaherd as lh
from llamaherd.calls.chat.conversations import Refused
from llamaherd.engine.core import files
from llamaherd.engine.core.argument import Argument, Id, Step
from llamaherd.engine.core.caller import notes_of, recorded_warnings
from llamaherd.engine.core.errors import BadArgumentError, GenerationError
from llamaherd.engine.core.words import R, spoken_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_DELETED = "the working directory was deleted, choose another one with setwd()"
_P = ParamSpec("_P")
Status = dict[str, Any]


def boundary(function: Callable[_P, object]) -> Callable[_P, Status]:
    """Return a function whose results or errors are a dict; Ctrl-C is still raised."""
    status = unrecorded(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> Status:
        notices: list[str] = []
        notes: list[str] = []
        with recorded_warnings() as caught:
            result = status(*args, **kwargs)
        for warning in caught:
            if issubclass(warning.category, lh.ThinkingWarning):
                notices.append(clean(str(warning.message)))
            # R itself tells of answers that were cut off, when it has all results.
            elif not issubclass(warning.category, lh.CutOffWarning):
                notes += map(clean, notes_of(warning.message))
        return result | {"warnings": notes, "notices": notices}

    return call


def unrecorded(function: Callable[_P, object]) -> Callable[_P, Status]:
    """Decorate like `boundary`, but leave warnings to the thread of a job."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> Status:
        none: Status = {"warnings": [], "notices": []}
        with spoken_in(R):
            try:
                return {"ok": True, "value": form_of(function(*args, **kwargs)), **none}
            except Exception as error:  # noqa: BLE001 -- R raises it again
                return {
                    "ok": False,
                    "value": None,
                    **none,
                    "error_type": known_type(error),
                    **error_fields(error),
                    "traceback": clean(traceback.format_exc()),
                }

    return call


@functools.singledispatch
def form_of(result: Any) -> Any:  # plain data stay as they are
    """Return a result in the form that R reads, see `forms`."""
    return result


def error_fields(error: Exception) -> dict[str, Any]:
    """Return the fields of an error, and its message for R; indices count from 1."""
    if isinstance(error, GenerationError):
        return {"message": clean(str(error)), "code": error.code}
    if isinstance(error, FileNotFoundError) and not files.has_working_folder():
        return {"message": _DELETED}
    if not isinstance(error, BadArgumentError):
        is_of_file = isinstance(error, OSError) and error.filename and error.strerror
        text = _of_file(error) if is_of_file else str(error)  # type: ignore[arg-type]
        return {"message": clean(text)}
    return {
        "message": clean(error.rendered(_name_in_r)),
        "argument": clean(error.argument),
        "place": [_from_one(step) for step in error.place],
        "code": error.code,
        "problem": clean(error.problem),
    }


def _name_in_r(argument: Argument) -> str:
    return R.name(argument.spelled_in_r())


def _of_file(error: OSError) -> str:
    """Return the message for a failed access to a file, without the error number."""
    path = str(error.filename)
    text = files.why_unusable(path, error)
    is_lost = not os.path.isabs(path) and not files.has_working_folder()  # noqa: PTH117
    return f"{text}; {_DELETED}" if is_lost else text


def _from_one(step: Step) -> Step:
    if isinstance(step, str):
        return clean(step)
    return int(step) if isinstance(step, Id) else step + 1


def known_type(error: Exception) -> str:
    """Return the name of the most specific class of an error that R knows."""
    if isinstance(error, (lh.LlamaHerdError, ValueError, TypeError)):
        for cls in type(error).__mro__:
            if cls.__module__ in {"llamaherd", "builtins"}:
                return cls.__name__
    return type(error).__name__


def clean(text: str) -> str:
    """Return a plain str without lone surrogates and NUL, for reticulate."""
    if text.isascii() and "\0" not in text:
        return str(text)
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def clean_or_none(text: str | None) -> str | None:
    """Return `clean(text)`, or None for None."""
    return None if text is None else clean(text)


def clean_data(value: Any) -> Any:  # plain data
    """Return plain data whose texts are clean, see `clean`."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {name: clean_data(field) for name, field in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_data(item) for item in value]
    return value


def given_prompts(prompts: Sequence[Any], *, chat: bool = False) -> list[Any]:
    """Return prompts; a missing one becomes one that fails alone, R adds the reason."""
    missing: object = Refused("the prompt is missing") if chat else []
    return [missing if prompt is None else prompt for prompt in prompts]
