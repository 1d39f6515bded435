"""Routes of HTML pages with their scripts and styles, with strict headers."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

_MEDIA = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Scripts, styles and data of this server only; no inline script, no frame around a page.
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def page_routes(package: str, names: Mapping[str, str]) -> list[Route]:
    """Return routes of files that need no key, because they contain no data.

    Args:
        package: Package with a folder `static` of the files.
        names: File name for each path.
    """
    folder = files(package) / "static"
    return [
        Route(
            path,
            _endpoint((folder / name).read_bytes(), name.rpartition(".")[2]),
            include_in_schema=False,
        )
        for path, name in names.items()
    ]


def _endpoint(content: bytes, ending: str) -> Callable[[Request], Awaitable[Response]]:
    response = Response(content, headers={**_HEADERS, "content-type": _MEDIA[ending]})

    async def endpoint(_request: Request) -> Response:
        return response

    return endpoint
