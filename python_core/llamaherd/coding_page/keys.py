"""Keys of the pages: one for each coder, and one for the person who runs the coding.

All keys are derived from the secret in the file of codes, so links stay valid when the
page is started again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

from llamaherd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

_OWNER = "owner"


class CoderKeys:
    """Keys of a file of codes.

    Args:
        secret: Secret of the file.
        people: Names of the coders.
        are_needed: Whether coders must send their key. The person who runs the coding
            always needs a key.

    Attributes:
        are_needed: As in the arguments.
    """

    def __init__(self, secret: str, people: Sequence[str], *, are_needed: bool) -> None:
        self._secret = secret.encode()
        self._people = tuple(people)
        self.are_needed = are_needed

    @property
    def of_owner(self) -> str:
        """Key of the person who runs the coding."""
        return self._made(_OWNER)

    def of_coder(self, coder: str) -> str:
        """Return the key of a coder."""
        return self._made(f"coder:{coder}")

    def check_owner(self, shown: str) -> None:
        """Check the key of the person who runs the coding.

        Raises:
            ApiError: The key is wrong.
        """
        if not hmac.compare_digest(shown.encode(), self.of_owner.encode()):
            raise _refused()

    def coder(self, shown: str, name: str) -> str:
        """Return the coder who sent a request.

        Args:
            shown: Key in the request; "" without a key.
            name: Name in the request, used if no key is needed; "" without a name.

        Raises:
            ApiError: The key belongs to no coder, or no coder has this name.
        """
        if shown:
            for each in self._people:
                if hmac.compare_digest(shown.encode(), self.of_coder(each).encode()):
                    return each
            raise _refused()
        if self.are_needed:
            raise _refused()
        if name not in self._people:
            raise ApiError(403, "there is no coder of this name", code="unknown_coder")
        return name

    def _made(self, purpose: str) -> str:
        digest = hmac.new(self._secret, purpose.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest[:18]).decode()


def _refused() -> ApiError:
    return ApiError(
        401,
        "the key is missing or wrong: use the link that was printed for you",
        code="invalid_api_key",
        headers=(("www-authenticate", "Bearer"),),
    )
