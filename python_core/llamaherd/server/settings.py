"""What a server is told once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.server.connections import ConnectionLimits

if TYPE_CHECKING:
    from llamaherd.server.hosts import Hosts

_LIMITS = ConnectionLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an application treats its clients.

    Attributes:
        model_name: Name of the model in answers.
        aliases: More names that clients may call it by.
        any_model: Whether they may call it by any name.
        queue: Requests that may wait for a slot; what comes on top is refused.
        timeout_s: Seconds that a request may take; None: any.
        max_body: Bytes that the body of a request may have.
        max_tokens: Tokens of a chat's answer where the request names no number.
        n_ctx: Tokens that a prompt with its answer may have; None: those that the model
            was trained for.
        api_key: What clients must show; None: nothing.
        hosts: Names that the Host header may have; None: not looked at.
        connections: Bounds on connections and on slow clients.
    """

    model_name: str
    aliases: tuple[str, ...] = ()
    any_model: bool = False
    queue: int = 256
    timeout_s: float | None = None
    max_body: int = 4 << 20
    max_tokens: int = 1024
    n_ctx: int | None = None
    api_key: str | None = None
    hosts: Hosts | None = None
    connections: ConnectionLimits = _LIMITS

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the model, that of answers first."""
        return (self.model_name, *self.aliases)

    def name_of(self, asked: str) -> str | None:
        """The model's name that a client means; None: it means another model.

        With `.gguf` it is a name as well, as that of the file.
        """
        for name in self.names:
            if asked in {name, f"{name}.gguf"}:
                return name
        return self.model_name if self.any_model else None

    def __repr__(self) -> str:
        """Without the key: a repr may end up in a log."""
        return f"<Settings of {self.model_name!r}>"
