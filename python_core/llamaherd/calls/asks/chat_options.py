"""Checks of the options that need `chat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.thinking import Thinking
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from llamaherd.engine.core.argument import Name
    from llamaherd.engine.core.declaration import Options

# Options that have no effect without a chat template.
_OF_CHAT = ("system", "thinking", "variables", "template", "prefix", "merge_system")


def checked_variables(name: Name, value: object) -> dict[str, object]:
    """Check variables of a chat template: a mapping from names to values.

    Raises:
        TypeError: `value` is not a mapping, or a name is not text.
    """
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            f"must be a mapping of names to values, not {checks.shown(value)}",
            argument=name,
        )
    for key in value:
        if not isinstance(key, str):
            raise ArgumentTypeError(
                f"must have texts as names, not {checks.shown(key)}", argument=name
            )
    variables: dict[str, object] = checks.tree(name, dict(value))
    return variables


def check_no_chat(options: Options) -> None:
    """Check that a call without `chat` has no option that needs `chat`.

    Raises:
        ValueError: The call has such an option.
    """
    for name in _OF_CHAT:
        value = getattr(options, name)
        if value not in (None, False):  # thinking needs a chat template
            # The class of a thought's settings is not how every caller gave them.
            what = "" if isinstance(value, Thinking) else f" for {checks.shown(value)}"
            raise ArgumentError(
                f"needs {setting('chat', True)}; without it there is no chat "
                f"template{what}",
                argument=name,
                code="missing",
            )
