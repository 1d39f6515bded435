"""Table of the paths whose answers a model computes.

A path is added by a class of its format, see `PathFormat`, and its name in `SHAPES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, cast

from llamaherd.server.answering import Answering, Endpoint, Working
from llamaherd.server.anthropic import Messages
from llamaherd.server.embeddings import EmbeddingsApi, RerankApi
from llamaherd.server.errors import ApiError
from llamaherd.server.generate import GenerateApi
from llamaherd.server.ollama import OllamaChat, OllamaEmbed, ShowApi
from llamaherd.server.openai import ChatCompletions, Completions
from llamaherd.server.responses import Responses
from llamaherd.server.scores import AnnotateApi, ClassifyApi, ScoreApi
from llamaherd.server.shapes import AnsweringShape
from llamaherd.server.tokenizing import (
    ChatTokensApi,
    CountTokensApi,
    DetokenizeApi,
    InputTokensApi,
    TemplateApi,
    TokenizeApi,
)

if TYPE_CHECKING:
    from llamaherd.calls.run.context import Context
    from llamaherd.server.answering import JsonRequest
    from llamaherd.server.shapes import PathFormat, Served, WorkShape
    from llamaherd.server.state import SharedState

_CLASSES: tuple[type[PathFormat], ...] = (
    *(GenerateApi, Completions, ChatCompletions, ChatTokensApi),
    *(Responses, InputTokensApi, Messages, CountTokensApi),
    *(EmbeddingsApi, ScoreApi, ClassifyApi, AnnotateApi, RerankApi),
    *(TokenizeApi, DetokenizeApi, TemplateApi),
    *(OllamaChat, OllamaEmbed, ShowApi),
)
SHAPES = {shape.path: shape for shape in _CLASSES}  # by path without /v1
# Other names of paths, which clients of llama-server use.
ALIASES = {"/reranking": "/rerank"}


def endpoints_of(shared: SharedState, served: Served) -> dict[str, Endpoint]:
    """Return the application of each path, without `/v1`.

    Args:
        shared: State shared by all requests.
        served: The loaded model.
    """
    return {path: _endpoint(shared, served, shape) for path, shape in SHAPES.items()}


def _endpoint(shared: SharedState, served: Served, shape: type[PathFormat]) -> Endpoint:
    if shape.needs_text and served.ctx is None:
        return _WithoutAnswers(shared, shape, served.settings.model_name)
    made = shape.of(served)
    if isinstance(made, AnsweringShape):
        return Answering(shared, cast("Context", served.ctx), made)
    return Working(shared, cast("WorkShape", made))


class _WithoutAnswers(Endpoint):
    """Application of a path that needs a model that generates text.

    Args:
        shared: State shared by all requests.
        shape: Format of the path.
        name: Name of the model.
    """

    def __init__(self, shared: SharedState, shape: type[PathFormat], name: str) -> None:
        super().__init__(shared, shape)
        self._name = name

    async def answer(self, request: JsonRequest) -> NoReturn:  # noqa: ARG002 - nothing matters
        """Refuse the request."""
        raise ApiError(
            400,
            f"the model {self._name!r} computes embeddings only (/v1/embeddings, "
            "/v1/rerank)",
            param="model",
            code="embeddings_only",
        )
