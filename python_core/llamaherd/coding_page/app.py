"""The ASGI application of the coding page, and the keys of its users."""

from __future__ import annotations

import base64
import hashlib
import hmac
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from llamaherd.coding_page.desk import CHANGED, Desk
from llamaherd.coding_page.results import are_spans, export_codes, exports
from llamaherd.coding_page.views import codebook_view, overview, text_view
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import BadArgumentError
from llamaherd.engine.core.words import spoken_in
from llamaherd.server.access import AccessMiddleware, Guard
from llamaherd.server.errors import JSON, ApiError
from llamaherd.server.pages import SHARED_FILES, static_routes
from llamaherd.server.protocol import ClientGoneError, RequestRecord, dumps, read_object
from llamaherd.server.schemas import shown_value, unfit
from llamaherd.server.settings import Hosts, ServerSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request

    from llamaherd.server.serving import ServedState

_MAX_BODY = 1 << 20
_OWNER = "owner"
_STATIC_FILES = {
    "/": "coding.html",
    "/owner": "owner.html",
    "/coding.js": "coding.js",
    "/texts.js": "texts.js",
    "/fields.js": "fields.js",
    "/inputs.js": "inputs.js",
    "/finder.js": "finder.js",
    "/requests.js": "requests.js",
    "/owner.js": "owner.js",
    "/coding.css": "coding.css",
}
_PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class CoderKeys:
    """Keys of a file of codes. The person who runs the coding always needs one."""

    def __init__(self, secret: str, people: Sequence[str], *, are_needed: bool) -> None:
        self._secret = secret.encode()
        self._people = tuple(people)
        self.are_needed = are_needed  # by coders

    @property
    def of_owner(self) -> str:
        """Key of the person who runs the coding."""
        return self._key(_OWNER)

    def of_coder(self, coder: str) -> str:
        """Return the key of a coder."""
        return self._key(f"coder:{coder}")

    def check_owner(self, key: str) -> None:
        """Check the key of the person who runs the coding."""
        if not hmac.compare_digest(key.encode(), self.of_owner.encode()):
            raise _refusal()

    def coder(self, key: str, name: str) -> str:
        """Return the coder who sent a request."""
        if key:
            for coder in self._people:
                if hmac.compare_digest(key.encode(), self.of_coder(coder).encode()):
                    return coder
            raise _refusal()
        if self.are_needed:
            raise _refusal()
        if name not in self._people:
            text = f"there is no coder {shown_value(name)}"
            raise ApiError(403, text, param="coder", code="unknown_coder")
        return name

    def _key(self, purpose: str) -> str:
        digest = hmac.new(self._secret, purpose.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest[:18]).decode()


class _NoQueue:
    n_inside = 0


class PageState:
    """State for the server and its middleware; like `SharedState`, without a context."""

    def __init__(self) -> None:
        self.connections = 256  # at most
        self.queue = _NoQueue()  # of requests to wait for at the end: none takes long
        self.is_ending = False
        # Ends the server; set by the code that runs it.
        self.stop_server: Callable[[], None] = lambda: None

    def begin_ending(self) -> None:
        """Record that the server is ending."""
        self.is_ending = True

    def stop(self) -> None:
        """Do nothing: no request takes so long that it must be ended."""

    def count(self, path: str, record: RequestRecord, seconds: float) -> None:
        """Do nothing: the page has no metrics."""


def create_app(desk: Desk, keys: CoderKeys, hosts: Hosts) -> Starlette:
    """Create the application that serves a desk."""
    page_state = PageState()
    served: ServedState = page_state  # mypy checks that `Server` can end the page
    state: Any = served  # the middleware expects a `SharedState`
    api = _Api(desk, keys, page_state)
    routes = [
        *static_routes("llamaherd.server", SHARED_FILES),
        *static_routes("llamaherd.coding_page", _STATIC_FILES),
        Route("/api/start", api.answered(api.start)),
        Route("/api/text", api.answered(api.text)),
        Route("/api/code", api.answered(api.code), methods=["POST"]),
        Route("/api/skip", api.answered(api.skip), methods=["POST"]),
        Route("/api/undo", api.answered(api.undo), methods=["POST"]),
        Route("/api/overview", api.answered(api.overview)),
        Route("/api/export", api.answered(api.export)),
        Route("/api/stop", api.answered(api.stop), methods=["POST"]),
    ]
    paths = [route.path for route in routes]
    guard = Guard(ServerSettings(model_name="coding page", hosts=hosts))
    app = Starlette(
        routes=routes,
        middleware=[Middleware(AccessMiddleware, guard, state, state, paths)],
        exception_handlers={HTTPException: _http_error},
    )
    app.state.shared = state
    return app


class _Api:
    """Answers the requests of the pages' scripts."""

    def __init__(self, desk: Desk, keys: CoderKeys, state: PageState) -> None:
        self._desk = desk
        self._keys = keys
        self._state = state
        self._seen: tuple[int, dict[str, Any]] = (-1, {})  # overview of a version

    def answered(
        self, work: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that sends errors as JSON."""

        async def endpoint(request: Request) -> Response:
            try:
                with spoken_in(JSON):
                    return await work(request)
            except ApiError as error:
                return _error(error)
            except BadArgumentError as error:
                status = 409 if error.code == CHANGED else 400
                return _error(
                    ApiError(status, str(error), param=error.argument, code=error.code)
                )
            except sqlite3.Error as error:  # such as a full disk or a lost network drive
                return _error(
                    ApiError(503, f"the code was not saved: {error}", code="not_saved")
                )
            except ClientGoneError:
                return Response(status_code=499)

        return endpoint

    async def start(self, request: Request) -> Response:
        """Return the codebook as a coder sees it, and the names of the coders."""
        is_known = self._keys.are_needed or bool(_key_of(request))
        coder = self._coder(request) if is_known else None
        coders = [coder] if coder else list(self._desk.sheet.people)
        codebook = codebook_view(self._desk.sheet)
        return _json({"coder": coder, "coders": coders, **codebook})

    async def text(self, request: Request) -> Response:
        """Return the next text, or the text at a position in the coder's order."""
        coder = self._coder(request)
        value = request.query_params.get("position", "")
        position = checks.digits(value)
        if value and position is None:
            raise unfit("position", "a whole number from 0", value)
        return _json(await run_in_threadpool(self._view, coder, position))

    async def code(self, request: Request) -> Response:
        """Store a code; return the next text."""
        coder, body = self._coder(request), await self._body(request)
        code = partial(self._desk.code, coder, body.get("i"), body.get("value"))
        return await self._store_act(coder, body, code)

    async def skip(self, request: Request) -> Response:
        """Store a skip; return the next text."""
        coder, body = self._coder(request), await self._body(request)
        return await self._store_act(
            coder, body, partial(self._desk.skip, coder, body.get("i"))
        )

    async def _store_act(
        self, coder: str, body: dict[str, object], store: Callable[..., int]
    ) -> Response:
        """Store a code or skip with its note; return the next text."""

        def next_text() -> dict[str, Any]:
            at = store(
                note=body.get("note", ""),
                seconds=body.get("seconds"),
                seen=body.get("seen"),
            )
            return text_view(self._desk, coder, self._desk.next_text(coder, at))

        return _json(await run_in_threadpool(next_text))

    async def undo(self, request: Request) -> Response:
        """Undo the coder's last code or skip; return the text."""
        coder, body = self._coder(request), await self._body(request)
        seen = body.get("seen")
        at = await run_in_threadpool(lambda: self._desk.undo(coder, seen=seen))
        if at is None:
            raise ApiError(409, "there is nothing to undo", code="nothing_to_undo")
        return _json(await run_in_threadpool(text_view, self._desk, coder, at))

    async def overview(self, request: Request) -> Response:
        """Return progress and agreement, only for the person who runs the coding."""
        self._keys.check_owner(_key_of(request))
        return _json(await run_in_threadpool(self._overview))

    async def export(self, request: Request) -> Response:
        """Return the codes so far as a file, only for the person who runs the coding."""
        self._keys.check_owner(_key_of(request))
        form, name = self._desk.sheet.form, request.query_params.get("field", "")
        files = {file.field.name: file for file in exports(form)}
        if name not in files:
            text = f"the codebook has no field {shown_value(name)}"
            raise ApiError(404, text, param="field", code="not_found")
        content = await run_in_threadpool(export_codes, self._desk, files[name])
        is_lines = are_spans(form)
        media = "application/x-ndjson" if is_lines else "text/csv; charset=utf-8"
        return Response(content, headers={**_PRIVATE, "content-type": media})

    async def stop(self, request: Request) -> Response:
        """End the server, on request of the person who runs the coding."""
        self._keys.check_owner(_key_of(request))
        await self._body(request)
        self._state.stop_server()
        return _json({})

    def _overview(self) -> dict[str, Any]:
        version = self._desk.version
        if self._seen[0] != version:  # computed once for each version of the codes
            self._seen = version, overview(self._desk)
        return self._seen[1]

    def _coder(self, request: Request) -> str:
        return self._keys.coder(_key_of(request), _coder_of(request))

    async def _body(self, request: Request) -> dict[str, object]:
        """Read a JSON object, which an HTML form of another site cannot send."""
        media = request.headers.get("content-type", "").partition(";")[0].strip()
        if media != "application/json":
            raise ApiError(
                415, "the body must be application/json", code="unsupported_media_type"
            )
        return (await read_object(request.scope, request.receive, _MAX_BODY))[0]

    def _view(self, coder: str, position: int | None) -> dict[str, Any]:
        if position is None:
            return text_view(self._desk, coder, self._desk.next_text(coder))
        texts = self._desk.texts_of(coder)
        i = texts[position] if position < len(texts) else None
        return text_view(self._desk, coder, i)


def _key_of(request: Request) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _coder_of(request: Request) -> str:
    """Return the name of the coder, which the page's script sends encoded in a header."""
    return unquote(request.headers.get("x-coder", ""))


def _json(value: object, status: int = 200) -> Response:
    return Response(dumps(value), status, _PRIVATE, "application/json")


def _error(error: ApiError) -> Response:
    headers = {**_PRIVATE, **dict(error.headers)}
    return Response(dumps(error.body), error.status, headers, "application/json")


async def _http_error(_request: Request, error: Exception) -> Response:
    """Return the error for a request with an unknown path or method."""
    if not isinstance(error, HTTPException):
        raise error
    return _error(
        ApiError(
            error.status_code, error.detail, headers=tuple((error.headers or {}).items())
        )
    )


def _refusal() -> ApiError:
    return ApiError(
        401,
        "the key is missing or wrong: use the link that was printed for you",
        code="invalid_api_key",
        headers=(("www-authenticate", "Bearer"),),
    )
