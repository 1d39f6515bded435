"""ASGI applications of the paths whose answers a model computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from llamaherd.server.annotations import AnnotateApi
from llamaherd.server.answering import Answering, Endpoint
from llamaherd.server.embeddings import EmbeddingsApi
from llamaherd.server.errors import ApiError
from llamaherd.server.generate import GenerateApi
from llamaherd.server.ollama import ShowApi
from llamaherd.server.openai import ChatCompletions, Completions
from llamaherd.server.rerank import RerankApi
from llamaherd.server.responses import Responses
from llamaherd.server.scores import ClassifyApi, ScoreApi
from llamaherd.server.tokenizing import (
    ChatTokensApi,
    DetokenizeApi,
    InputTokensApi,
    TemplateApi,
    TokenizeApi,
)
from llamaherd.server.work_api import Working

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Send

    from llamaherd.model.model import Model
    from llamaherd.run.context import Context
    from llamaherd.server.api_shape import ApiShape
    from llamaherd.server.record import RequestRecord
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.shared_state import SharedState
    from llamaherd.server.work_api import WorkShape

# Paths that OpenAI's clients use. The server offers each path with and without /v1,
# because some clients omit /v1.
OF_OPENAI = frozenset(
    {
        *("/completions", "/chat/completions", "/responses", "/embeddings"),
        *("/chat/completions/input_tokens", "/responses/input_tokens"),
        *("/score", "/classify", "/annotate", "/rerank"),
    }
)
# Other names of paths, which clients of llama-server use.
ALIASES = {"/reranking": "/rerank"}
# Names of the fields that a request to each path may have.
FIELDS: Mapping[str, frozenset[str]] = {
    "/generate": GenerateApi.fields,
    "/completions": Completions.fields,
    "/chat/completions": ChatCompletions.fields,
    "/chat/completions/input_tokens": ChatTokensApi.fields,
    "/responses": Responses.fields,
    "/responses/input_tokens": InputTokensApi.fields,
    "/embeddings": EmbeddingsApi.fields,
    "/score": ScoreApi.fields,
    "/classify": ClassifyApi.fields,
    "/annotate": AnnotateApi.fields,
    "/rerank": RerankApi.fields,
    "/tokenize": TokenizeApi.fields,
    "/detokenize": DetokenizeApi.fields,
    "/apply-template": TemplateApi.fields,
    "/api/show": ShowApi.fields,
}


def endpoints_of(
    shared: SharedState,
    model: Model,
    ctx: Context | None,
    settings: ServerSettings,
    vectors: EmbeddingsApi,
) -> dict[str, Endpoint]:
    """Return the application of each path, without `/v1`.

    Args:
        shared: State shared by all requests.
        model: Model that answers.
        ctx: Context of the model; None for a model that computes embeddings only.
        settings: Settings of the server, with the names of the model.
        vectors: Format of `/v1/embeddings`, with the model for embeddings.
    """
    found: dict[str, Endpoint] = {}
    if ctx is not None:
        shapes: dict[str, ApiShape] = {
            "/generate": GenerateApi(settings, model),
            "/completions": Completions(model, settings),
            "/chat/completions": ChatCompletions(model, settings),
            "/responses": Responses(model, settings),
        }
        found |= {path: Answering(shared, ctx, each) for path, each in shapes.items()}
    for path, shape in _work_shapes(model, ctx, settings, vectors).items():
        found[path] = Working(shared, shape)
    name = settings.model_name
    return {
        path: found.get(path) or _WithoutAnswers(shared, FIELDS[path], name)
        for path in FIELDS
    }


def _work_shapes(
    model: Model,
    ctx: Context | None,
    settings: ServerSettings,
    vectors: EmbeddingsApi,
) -> dict[str, WorkShape]:
    """Return the formats of paths whose answers are never streamed."""
    found: dict[str, WorkShape] = {
        "/embeddings": vectors,
        "/rerank": RerankApi(vectors, ctx),
        "/tokenize": TokenizeApi(model, settings),
        "/detokenize": DetokenizeApi(model, settings),
        "/apply-template": TemplateApi(model, settings),
        "/api/show": ShowApi(model, settings),
    }
    if ctx is not None:
        found |= {
            "/score": ScoreApi(ctx, settings),
            "/classify": ClassifyApi(ctx, settings),
            "/annotate": AnnotateApi(ctx, settings),
            "/chat/completions/input_tokens": ChatTokensApi(model, settings),
            "/responses/input_tokens": InputTokensApi(model, settings),
        }
    return found


class _WithoutAnswers(Endpoint):
    """Application of a path that needs a model that generates text.

    Args:
        shared: State shared by all requests.
        fields: Names of all fields of a request.
        name: Name of the model.
    """

    def __init__(self, shared: SharedState, fields: frozenset[str], name: str) -> None:
        super().__init__(shared, fields)
        self._name = name

    async def answer(
        self,
        fields: dict[str, object],  # noqa: ARG002 - none of them matters
        n_bytes: int,  # noqa: ARG002
        record: RequestRecord,  # noqa: ARG002
        receive: Receive,  # noqa: ARG002
        send: Send,  # noqa: ARG002
    ) -> NoReturn:
        """Refuse the request."""
        raise ApiError(
            400,
            f"the model {self._name!r} computes embeddings only (/v1/embeddings, "
            "/v1/rerank)",
            param="model",
            code="embeddings_only",
        )
