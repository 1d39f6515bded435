"""Effect of each field of a request, for the docs and tests."""

from __future__ import annotations

from llamaherd.server import neutral
from llamaherd.server.endpoints import FIELDS
from llamaherd.server.responses import REFUSED
from llamaherd.server.wording import JSON

UNKNOWN = "unknown"


def status_of(path: str, name: str) -> str:
    """Return the effect of a field in requests to a path.

    Args:
        path: Path of an endpoint with `/v1`.
        name: Name of the field.

    Returns:
        "served" for a field with an effect, "no effect", a text that begins with
        "refused", or `UNKNOWN` for a field that no table of the server contains.
    """
    key = path.removeprefix("/v1")
    if key.startswith("/responses") and name in REFUSED:
        reason, values = REFUSED[name]
        return f"refused{_except(values)}: {reason}"
    if name in FIELDS[key]:
        return "served"
    if neutral.is_of_client(name, None):
        return "no effect"
    found = neutral.values_of(name)
    return UNKNOWN if found is None else f"refused{_except(found)}"


def _except(values: tuple[object, ...]) -> str:
    shown = " or ".join(f"`{JSON.literal(value)}`" for value in (None, *values))
    return f", except {shown}"
