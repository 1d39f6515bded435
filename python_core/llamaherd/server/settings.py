"""Settings of a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llamaherd.core.sampling import MAX_TOKENS_OF_CHAT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llamaherd.core.thinking import ThinkingOption
    from llamaherd.model.model import Model
    from llamaherd.server.hosts import Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of a server application.

    Attributes:
        model_name: Name of the model in answers.
        aliases: Additional names of the model in requests.
        any_model: Whether requests may use any name.
        queue: Maximum number of waiting requests; further requests are refused.
        timeout_s: Maximum duration of a request in seconds; None for no limit.
        max_body: Maximum size of a body in bytes.
        data: Folder of files and batches; None for a temporary folder, removed at the
            end.
        max_file: Maximum size of a file in bytes.
        max_tokens: Default maximum number of tokens of the answer of a chat.
        n_ctx: Maximum number of tokens of a prompt with its answer; None for the context
            length of the training.
        api_key: Key that clients must send; None requires no key.
        hosts: Allowed values of the Host header; None turns the check off.
        thinking: Default value of the option `thinking` for chats, see
            `generate_parallel`.
        template: Chat template that replaces the model's.
        variables: Variables of the chat template; a request may add or replace variables.
        merge_system: Whether to put the system text into the first message of the user
            where the template refuses it.
        connections: Maximum number of connections; requests on further ones are refused.
        embedding_name: Name of the model for embeddings; None if there is no such model.
        memory: Memory for the weights, KV caches and buffers of several models in bytes;
            None for the memory that is available at the start.
        model_wait_s: Maximum time in seconds that a request waits for memory for its
            model.
    """

    model_name: str
    aliases: tuple[str, ...] = ()
    any_model: bool = False
    queue: int = 256
    timeout_s: float | None = None
    max_body: int = 4 << 20
    data: Path | None = None
    max_file: int = 200 << 20
    max_tokens: int = MAX_TOKENS_OF_CHAT
    n_ctx: int | None = None
    api_key: str | None = None
    hosts: Hosts | None = None
    thinking: ThinkingOption = None
    template: str | None = None
    variables: Mapping[str, object] = field(default_factory=dict)
    merge_system: bool = False
    connections: int = 1024
    embedding_name: str | None = None
    memory: int | None = None
    model_wait_s: float = 60.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model; the first is the name in answers."""
        return (self.model_name, *self.aliases)

    def name_of(self, asked: str) -> str | None:
        """Return the name of the requested model; None if it is not this server's model.

        The name of the file, with `.gguf`, is accepted, too.
        """
        for name in self.names:
            if asked in {name, f"{name}.gguf"}:
                return name
        return self.model_name if self.any_model else None

    def n_ctx_of(self, model: Model) -> int:
        """Return the maximum number of tokens of a prompt with its answer."""
        return min(self.n_ctx or model.n_ctx_train, model.n_ctx_train)

    def __repr__(self) -> str:
        """Return a text that may be logged, since it does not contain the API key."""
        return f"<Settings of {self.model_name!r}>"
