"""The ASGI application and its routes."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from llamaherd.calls.run.context import Context, checked_options
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import LlamaHerdError
from llamaherd.engine.core.words import spoken_in
from llamaherd.engine.memory.device import memory_of_model
from llamaherd.engine.model.model import Model, checked_load_options
from llamaherd.server.access import AccessMiddleware, Guard
from llamaherd.server.answering import Endpoint, JsonRequest
from llamaherd.server.batches.pages import BODIES, FIELDS, QUERIES, BatchPages
from llamaherd.server.batches.service import BatchService
from llamaherd.server.batches.store import NOT_STORED, reason_of
from llamaherd.server.errors import JSON, ApiError, not_stored, of_exception
from llamaherd.server.formats import Served
from llamaherd.server.models.loading import (
    OpenModel,
    load_files,
    stored_files,
    warm_up,
)
from llamaherd.server.models.spec import FileContents, ModelSpec, check_each_fits
from llamaherd.server.models.store import ModelStore
from llamaherd.server.ollama import ShowApi, describe_model, model_of_show
from llamaherd.server.pages import Dashboard, Metrics, ModelPages, known_name
from llamaherd.server.protocol import (
    CLIENT_GONE,
    ClientGoneError,
    error_response,
    send_json,
)
from llamaherd.server.routes import ALIASES, FORMATS, computing_of, openapi
from llamaherd.server.schemas import checked_string
from llamaherd.server.state import SharedState
from llamaherd.server.threads import run_on

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Collection,
        Mapping,
        Sequence,
    )

    from starlette.requests import Request
    from starlette.types import ExceptionHandler

    from llamaherd.server.settings import ServerSettings

log = logging.getLogger(__name__)

_POST = ["POST"]
# Errors of pages that have responses of their own.
_OF_PAGES = (ApiError, ClientGoneError, LlamaHerdError, *NOT_STORED)


def create_app(
    ctx: Context | Model,
    settings: ServerSettings,
    embedding_model: Model | None = None,
) -> Starlette:
    """Create an ASGI application for one model, which the caller opened and closes.

    `ctx` is a model if it computes embeddings only. Without `embedding_model` the model
    of the context computes embeddings, too.
    """
    main = Served(
        model=ctx if isinstance(ctx, Model) else ctx.model,
        ctx=None if isinstance(ctx, Model) else ctx,
        settings=settings,
        embedding_model=embedding_model,
    )
    warm_up(main)
    models = [OpenModel(main)]
    if embedding_model is not None:
        name = str(settings.embedding_name)
        named = settings.replaced(model_name=name, aliases=())
        models.append(OpenModel(Served(model=embedding_model, settings=named)))
    store = ModelStore(models, any_model=settings.any_model)
    return _application(SharedState(main, settings), settings, store)


def create_app_of_models(
    specs: Sequence[ModelSpec],
    settings: ServerSettings,
    options: Mapping[str, Any],
    loading: Mapping[str, Any],
) -> Starlette:
    """Create an ASGI application for several models, each loaded when a request needs it.

    Requests without a name get the first. `options` are arguments of each context,
    `loading` those of each model.

    Raises:
        TypeError: A value of `options` or `loading` has the wrong type.
        ValueError: A value of `options` or `loading` is out of range.
        ContextError: The memory cannot hold the KV cache of a model with a fixed `n_ctx`,
            or the available memory is too small for a model.
        ArgumentError: The memory of the settings is too small for a model.
    """
    checked = checked_options(options)
    placement = checked_load_options(loading).placement
    for spec in specs:
        spec.check_cells(checked, placement)
    least = [spec.n_working(checked, placement) for spec in specs]
    is_given = settings.memory is not None
    n_bytes = memory_of_model(placement) if settings.memory is None else settings.memory
    needs = {spec.name: spec.n_bytes + n for spec, n in zip(specs, least, strict=True)}
    check_each_fits(needs, n_bytes, is_given=is_given)
    contents = FileContents()
    load = partial(
        load_files,
        settings=settings,
        options=options,
        loading=loading,
        contents=contents,
    )
    files = stored_files(
        specs, load, contents, n_bytes=n_bytes, n_waiting=settings.queue, least=least
    )
    models = ModelStore(
        files,
        n_bytes=n_bytes,
        wait_s=settings.model_wait_s,
        any_model=settings.any_model,
    )
    # Each model has its own limit; this limit is for the requests of all models.
    shared = SharedState(models, settings.replaced(queue=settings.queue * len(specs)))
    return _application(shared, settings, models)


def _application(
    shared: SharedState, settings: ServerSettings, models: ModelStore
) -> Starlette:
    """Return the application with all routes."""
    shared.when_ending = models.stop_loading
    endpoints: dict[str, Endpoint] = {
        path: ByModel(shared, models, path) for path in FORMATS
    }
    endpoints[ShowApi.path] = ShowModel(shared, models)
    metrics = Metrics(models)
    pages = ModelPages(models, metrics)
    routes: list[Route] = []
    for path, form in FORMATS.items():
        post = Route(path, endpoints[path], methods=_POST)
        routes += _with_and_without_v1(post) if form.has_v1 else [post]
    routes += _with_and_without_v1(
        *(
            Route(alias, endpoints[path], methods=_POST, include_in_schema=False)
            for alias, path in ALIASES.items()
        )
    )
    routes += pages.routes()
    in_batches = {
        form.shown_path(): endpoints[path]
        for path, form in FORMATS.items()
        if form.in_batches
    }
    batches = BatchService(shared, settings.data, in_batches, models)
    routes += Dashboard(shared, models, batches.progress).routes()
    batch_pages = BatchPages(batches, settings.max_file)
    routes += _with_and_without_v1(*batch_pages.routes())
    pages.document = openapi(routes, BODIES, QUERIES)
    paths = [route.path for route in routes]
    documented = [route.path for route in routes if route.include_in_schema]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await batches.resume()
        yield
        await batches.close()
        await models.close()
        shared.close()

    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(AccessMiddleware, Guard(settings), shared, metrics, paths)
        ],
        exception_handlers={
            HTTPException: _http_errors(documented),
            **dict.fromkeys(_OF_PAGES, _page_error),
        },
        lifespan=lifespan,
    )
    app.state.shared = shared
    return app


def _with_and_without_v1(*routes: Route) -> list[Route]:
    """Return the routes of OpenAI clients, with and without `/v1`."""
    return [
        Route(
            f"{start}{route.path}",
            route.endpoint,
            methods=route.methods,
            include_in_schema=route.include_in_schema,
        )
        for start in ("/v1", "")
        for route in routes
    ]


async def _page_error(request: Request, error: Exception) -> Response:
    """Return the response of an error of a page; endpoints answer with theirs."""
    if isinstance(error, ClientGoneError):
        request.scope["llamaherd.record"].is_gone = True
        return Response(status_code=CLIENT_GONE)
    with spoken_in(JSON):
        api_error = of_exception(error, FIELDS)
    if api_error is None and isinstance(error, NOT_STORED):
        log.warning("%s %s: %s", request.method, request.url.path, error)
        api_error = not_stored(reason_of(error))
    if api_error is None:
        raise error
    return error_response(api_error)


def _http_errors(paths: Collection[str]) -> ExceptionHandler:
    """Return the handler of requests with an unknown path or method."""
    plain = [path for path in paths if "{" not in path]
    names = ", ".join(path for path in plain if f"/v1{path}" not in plain)

    async def http_error(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        headers = dict(error.headers or {})
        texts = {
            404: f"there is no path {checks.quoted(request.url.path)}"
            f"{checks.meant(request.url.path, plain) or '.'} Paths are {names} (those "
            "with /v1 also without it)",
            405: f"{request.method} is not allowed here, only {headers.get('Allow')}",
        }
        text = texts.get(error.status_code, error.detail)
        return error_response(
            ApiError(error.status_code, text, headers=tuple(headers.items()))
        )

    return http_error


class ByModel(Endpoint):
    """ASGI application of one path, which a model answers."""

    def __init__(self, shared: SharedState, models: ModelStore, path: str) -> None:
        super().__init__(shared, FORMATS[path])
        self._models = models
        self._path = path

    async def answer(self, request: JsonRequest) -> None:
        """Answer one request with the model that it names; see `Endpoint`."""
        record = request.record
        record.model = name = self._model_name(request.fields)
        lease = self._models.lease(name, request.receive, is_patient=record.is_background)
        async with lease as served:
            await computing_of(self._shared, served, self._path).answer(request)

    def _model_name(self, fields: dict[str, object]) -> str:
        """Return the name of the model of a request."""
        value = fields.get("model")
        name = None if value is None else checked_string("model", value)
        return known_name(self._models, name)


class ShowModel(Endpoint):
    """Application of `/api/show`, which programs send for every model: it loads none."""

    def __init__(self, shared: SharedState, models: ModelStore) -> None:
        super().__init__(shared, ShowApi)
        self._models = models

    async def answer(self, request: JsonRequest) -> None:
        """Answer one request; see `Endpoint`."""
        requested = model_of_show(request.fields)
        request.record.model = name = known_name(self._models, requested)
        threads = self._shared.threads.pool("long")
        header = await run_on(threads, lambda: self._models.header(name))
        entry = next(model for model in self._models.statuses() if model.name == name)
        n_params = None if entry.model is None else entry.model.info.n_params
        body = describe_model(header, n_params, entry.parent)
        await send_json(request.send, 200, body)
