"""Kinds of values on the command line, by the word that stands for them in the help."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llamaherd.engine.core import checks
from llamaherd.engine.core.files import not_utf8
from llamaherd.engine.core.plain import DuplicateKeyError, read_json

if TYPE_CHECKING:
    from collections.abc import Callable

    _ParamType = click.ParamType[Any, Any]
else:
    _ParamType = click.ParamType

_SWITCHES = {"on": True, "off": False, "true": True, "false": False}
_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(|[kmgt]b)", re.IGNORECASE)


class ValueKind(_ParamType):
    """Values that a function reads; it raises a click.BadParameter with the reason."""

    name = "value"

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    def convert(
        self,
        value: Any,  # types of click
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # types of click
        """Return the value that a text stands for."""
        del param, ctx  # click adds them to an error
        return self._read(value) if isinstance(value, str) else value


def _kind(read: Callable[[str], Any], problem: str) -> ValueKind:
    """Return the kind of values that `read` returns; None or a ValueError: no value."""

    def checked(text: str) -> Any:  # as `read` returns it
        with suppress(ValueError):
            if (value := read(text)) is not None:
                return value
        raise click.BadParameter(f"{text!r} {problem}.")

    return ValueKind(checked)


def whole(low: int, high: int | None = None) -> ValueKind:
    """Return the kind of integers in [low, high]."""
    limits = f"of at least {low}" if high is None else f"from {low} to {high}"

    def read(text: str) -> int | None:
        number = int(text) if re.fullmatch(r"[+-]?[0-9]+", text.strip()) else low - 1
        return number if low <= number <= (math.inf if high is None else high) else None

    return _kind(read, f"is not a whole number {limits}")


def _seconds(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) and value > 0 else None


def size(text: str) -> int | None:
    """Return a number of bytes, from a number with or without a unit; None: no size."""
    match = _SIZE.fullmatch(text.strip())
    n = int(float(match[1]) * _UNITS[match[2].lower()]) if match else 0
    return n or None


def _shard(text: str) -> tuple[int, int] | None:
    i, n = map(checks.digits, text.partition("/")[::2])
    return None if i is None or n is None or not 1 <= i <= n else (i, n)


def _variable(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; the value is read as JSON, or as text if that fails."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name.isidentifier():
        raise click.BadParameter(
            f"{text!r} is not NAME=VALUE, such as reasoning_effort=low."
        )
    try:
        return name, read_json(value)
    except DuplicateKeyError as error:
        raise click.BadParameter(f"{name}: {error}.") from None
    except (ValueError, RecursionError):
        return name, value


def merged_variables(
    _context: click.Context,
    _parameter: click.Parameter,
    value: Any,  # of click
) -> dict[str, Any] | None:
    """Return the variables of all `--var` by name; None without one."""
    return dict(value) or None


def _host_name(text: str) -> str:
    from llamaherd.server.settings import allowed_host  # fast help

    try:
        return allowed_host(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


def to_read(path: str) -> str:
    """Return the path of a file to read, of stdin for "-"."""
    return "/dev/stdin" if path == "-" else path


def _to_write(path: str) -> str:
    return "/dev/stdout" if path == "-" else path


def read_text(path: str) -> str:
    """Return the content of a text file."""
    try:
        return Path(to_read(path)).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{path} is {not_utf8(error)}.") from None
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be read: {error.strerror}.") from None


def _labels(text: str) -> list[str]:
    """Parse labels: separated by commas, or a file with one label per line."""
    lines = text.split(",")
    if len(lines) == 1:
        if not os.path.isfile(text):  # noqa: PTH113 - never raises
            raise click.BadParameter(
                f"there is no file {checks.quoted(text)}, and a single label "
                "leaves no choice: give A,B,C or a file with one label per line."
            )
        try:
            lines = Path(text).read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise click.BadParameter(f"the file {text} is {not_utf8(error)}.") from None
        return [line.strip() for line in lines if line.strip()]
    labels = [line.strip() for line in lines]
    for label in labels:
        if label.startswith('"') != label.endswith('"'):  # parts of one quoted label
            raise click.BadParameter(
                f"{checks.quoted(text)} would have the label {checks.quoted(label)}: "
                "commas divide labels, also between quotation marks. Write labels with "
                "commas into a file, one per line."
            )
    if "" in labels:
        raise click.BadParameter(
            f"label {labels.index('') + 1} of {checks.quoted(text)} is empty: remove "
            "the comma, or write the labels into a file, one per line."
        )
    return labels


KINDS: dict[str, ValueKind] = {
    "SEED": whole(0),
    "PORT": whole(0, 65535),
    "BYTES": whole(1),
    **dict.fromkeys(("X", "GB", "NATS"), _kind(float, "is not a number")),
    "S": _kind(_seconds, "is not a positive number"),
    "SIZE": _kind(size, "is not a size, such as 16GB, 500MB or a number of bytes"),
    "LAYERS": _kind(
        lambda text: text if text == "auto" else int(text),
        "is not a whole number or 'auto'",
    ),
    "X,X,...": _kind(
        lambda text: [float(share) for share in text.split(",")],
        "is not a list of numbers such as 3,1",
    ),
    "NAME,NAME": ValueKind(lambda text: [name.strip() for name in text.split(",")]),
    "A,B,C": ValueKind(_labels),
    "N|on|off": _kind(
        lambda text: _SWITCHES.get(text.lower(), checks.digits(text)),
        "is neither a number nor on or off",
    ),
    "NAME=VALUE": ValueKind(_variable),
    "I/N": _kind(_shard, "is not a part such as 1/50 or 50/50"),
    "ALIAS": _kind(lambda text: text.strip() or None, "must not be empty"),
    "HOST": ValueKind(_host_name),
    "FILE.txt": ValueKind(read_text),
    "FILE.yaml": ValueKind(to_read),
    "FILE.jinja": ValueKind(read_text),
}


def type_of(word: str) -> tuple[_ParamType, str]:
    """Return the type of values for a word of the help, and the word as it is shown."""
    if word in KINDS:
        return KINDS[word], word
    if word.startswith(">"):
        return ValueKind(_to_write), word[1:]
    if match := re.fullmatch(r"N(?:>=(\d+))?(?:<=(\d+))?", word):
        return whole(int(match[1] or 1), int(match[2]) if match[2] else None), "N"
    if "|" in word:
        return click.Choice(word.split("|"), case_sensitive=False), ""
    return click.STRING, word
