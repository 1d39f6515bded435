"""Access token of the Hugging Face hub, which is read when needed and never stored."""

from __future__ import annotations

import importlib.util
import os

from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.core.words import words

HUB = "https://huggingface.co"


def endpoint() -> str:
    """Return the address of the hub: HF_ENDPOINT, or the public address."""
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def set_hf_token(token: str | None) -> None:
    """Set the access token of the Hugging Face hub for this process.

    The token is stored only in the environment variable HF_TOKEN, which child processes
    inherit, and in no file. The token is sent only to the hub.

    Args:
        token: Token from https://huggingface.co/settings/tokens; None removes it.

    Raises:
        TypeError: `token` is not a str.
        ValueError: `token` is empty or has characters that tokens cannot have.
    """
    if token is None:
        os.environ.pop("HF_TOKEN", None)
    else:
        os.environ["HF_TOKEN"] = checked_token(token) or ""


def checked_token(token: object) -> str | None:
    """Check that a header can contain a token, and return the token or None.

    No message contains the token.

    Raises:
        TypeError: `token` is not a str.
        ValueError: `token` is empty or has characters that tokens cannot have.
    """
    if token is None:
        return None
    if not isinstance(token, str):
        raise ArgumentTypeError(
            f"must be {words().text}, not {type(token).__name__}", argument="token"
        )
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ArgumentError(
            "must be an access token of the hub, as "
            "https://huggingface.co/settings/tokens gives it (it is not shown here)",
            argument="token",
        )
    return token


def token_to_use(token: str | None) -> str | None:
    """Return the given token, HF_TOKEN, or the token that `hf auth login` stored."""
    own = checked_token(token) or os.environ.get("HF_TOKEN", "").strip()
    if own or os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN") == "1":
        return own or None
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import get_token  # noqa: PLC0415 - optional, and slow

    stored = get_token()
    return str(stored) if stored else None


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE forbids requests to the hub."""
    value = os.environ.get("HF_HUB_OFFLINE", "").upper()
    return value in {"1", "ON", "YES", "TRUE"}
