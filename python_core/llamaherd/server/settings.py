"""What a server is told once."""

from __future__ import annotations

from dataclasses import dataclass

from llamaherd.server.protocol import ConnectionLimits

_LIMITS = ConnectionLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an application treats its clients.

    Attributes:
        model_name: What clients call the model.
        queue: Requests that may wait for a slot; what comes on top is refused.
        timeout_s: Seconds that a request may take; None: any.
        max_body: Bytes that the body of a request may have.
        max_tokens: Tokens of a chat's answer where the request names no number.
        n_ctx: Tokens that a prompt with its answer may have; None: those that the model
            was trained for.
        api_key: What clients must show; None: nothing.
        hosts: Names that the Host header may have; None: any.
        connections: Bounds on connections and on slow clients.
    """

    model_name: str
    queue: int = 256
    timeout_s: float | None = None
    max_body: int = 4 << 20
    max_tokens: int = 1024
    n_ctx: int | None = None
    api_key: str | None = None
    hosts: frozenset[str] | None = None
    connections: ConnectionLimits = _LIMITS

    def __repr__(self) -> str:
        """Without the key: a repr may end up in a log."""
        return f"<Settings of {self.model_name!r}>"
