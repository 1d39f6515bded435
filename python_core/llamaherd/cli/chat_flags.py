"""Values of the flags for chat templates, for runs and the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from llamaherd.engine.core import checks
from llamaherd.engine.core.plain import DuplicateKeyError, read_json

if TYPE_CHECKING:
    from collections.abc import Sequence

_SWITCHES = {"on": True, "off": False, "true": True, "false": False}


def thinking_of(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> bool | int | None:
    """Parse `--thinking`: a number of tokens, on or off."""
    if value is None:
        return None
    if value.lower() in _SWITCHES:
        return _SWITCHES[value.lower()]
    number = checks.digits(value)
    if number is not None:
        return number
    raise click.BadParameter(f"{value!r} is neither a number nor on or off.", ctx, param)


def variables_of(
    ctx: click.Context, param: click.Parameter, value: Sequence[str]
) -> dict[str, Any] | None:
    """Parse `--var NAME=VALUE`; the value is read as JSON, or as text if that fails."""
    found: dict[str, Any] = {}
    for text in value:
        name, equals, given = text.partition("=")
        if not equals or not name.strip().isidentifier():
            message = f"{text!r} is not NAME=VALUE, such as reasoning_effort=low."
            raise click.BadParameter(message, ctx, param)
        try:
            found[name.strip()] = read_json(given)
        except DuplicateKeyError as error:
            raise click.BadParameter(f"{name.strip()}: {error}.", ctx, param) from None
        except (ValueError, RecursionError):
            found[name.strip()] = given
    return found or None
