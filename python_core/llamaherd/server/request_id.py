"""The X-Request-Id header: the id that the client sent, or a new id."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

HEADER = b"x-request-id"
# Ids that may be sent back in a header; an id that is longer or has other characters is
# replaced.
_SAFE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


def request_id(scope: Scope) -> bytes:
    """Return the id of a request."""
    for name, value in scope["headers"]:
        if name == HEADER and _SAFE.fullmatch(value):
            return bytes(value)
    return secrets.token_hex(16).encode()
