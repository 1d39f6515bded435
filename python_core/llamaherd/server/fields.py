"""Effect of each field of a request, for the docs and tests."""

from __future__ import annotations

from llamaherd.server import neutral
from llamaherd.server.endpoints import FIELDS
from llamaherd.server.responses import REFUSED
from llamaherd.server.wording import JSON

UNKNOWN = "unknown"


def unused_field(path: str, name: str) -> neutral.UnusedField | None:
    """Return a field without an effect on a path.

    Args:
        path: Path of an endpoint with `/v1`.
        name: Name of the field.

    Returns:
        The field; None for a field with an effect and for an unknown field.
    """
    key = path.removeprefix("/v1")
    if key.startswith("/responses") and name in REFUSED:
        return REFUSED[name]
    return None if name in FIELDS[key] else neutral.FIELDS.get(name)


def status_of(path: str, name: str) -> str:
    """Return the effect of a field in requests to a path.

    Args:
        path: Path of an endpoint with `/v1`.
        name: Name of the field.

    Returns:
        "served" for a field with an effect, "no effect", a text that begins with
        "refused", or `UNKNOWN` for a field that no table of the server contains.
    """
    field = unused_field(path, name)
    if field is None:
        is_served = name in FIELDS[path.removeprefix("/v1")]
        return "served" if is_served else UNKNOWN
    if field.values is None:
        return "no effect"
    reason = f": {field.reason}" if field.reason else ""
    return f"refused{_except(field.values)}{reason}"


def _except(values: tuple[object, ...]) -> str:
    shown = " or ".join(f"`{JSON.literal(value)}`" for value in (None, *values))
    return f", except {shown}"
