"""The access token of the Hugging Face hub: asked for where used, stored nowhere."""

from __future__ import annotations

import importlib.util
import os

HUB = "https://huggingface.co"


def endpoint() -> str:
    """Address of the hub: HF_ENDPOINT, or the public one."""
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def set_hf_token(token: str | None) -> None:
    """Sets the access token for the Hugging Face hub, for this process.

    It is put into the environment variable HF_TOKEN, which programs that this one starts
    see as well, and into no file. It is sent to the hub alone.

    Args:
        token: As https://huggingface.co/settings/tokens gives it; None takes it away.

    Raises:
        TypeError: It is no text.
        ValueError: It is empty or has characters that tokens do not have.
    """
    if token is None:
        os.environ.pop("HF_TOKEN", None)
    else:
        os.environ["HF_TOKEN"] = checked_token(token) or ""


def checked_token(token: object) -> str | None:
    """A token as headers take it; None: none. No message ever has it.

    Raises:
        TypeError: It is no text.
        ValueError: It is empty or has characters that tokens do not have.
    """
    if token is None:
        return None
    if not isinstance(token, str):
        raise TypeError(f"token must be a str, not {type(token).__name__}")
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            "token must be an access token of the hub, as "
            "https://huggingface.co/settings/tokens gives it (it is not shown here)"
        )
    return token


def token_to_use(token: str | None) -> str | None:
    """The caller's token, HF_TOKEN, or the one that `hf auth login` stored."""
    own = checked_token(token) or os.environ.get("HF_TOKEN", "").strip()
    if own or os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN") == "1":
        return own or None
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import get_token  # noqa: PLC0415 - optional, and slow

    stored = get_token()
    return str(stored) if stored else None


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids to ask the hub."""
    value = os.environ.get("HF_HUB_OFFLINE", "").upper()
    return value in {"1", "ON", "YES", "TRUE"}
