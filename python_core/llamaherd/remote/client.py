"""Requests to an engine elsewhere over HTTP, with retries."""

from __future__ import annotations

import asyncio
import json
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, Failure, ServerError
from llamaherd.engine.core.words import name_of, setting
from llamaherd.remote.request import GENERATE, WrongAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PAUSE_S = 0.5  # before the second try; doubled before each further one
_LONGEST_PAUSE_S = 60.0
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_NO_ACCESS = frozenset({401, 403})
_CONNECT_S = 30.0  # maximum time until a connection is open
_LIST_S = 30.0  # maximum time to wait for the list of models
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_SHOWN = 300  # characters of an error message of a server
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_HIDDEN = "[key]"
_JSON = {"content-type": "application/json"}
_UNREACHABLE = (httpx.ConnectError, httpx.ConnectTimeout)


class FailedError(Exception):
    """A request failed, after all its tries. Its only argument is a `Failure`."""

    @property
    def failure(self) -> Failure:
        """Reason why the prompt fails."""
        reason: Failure = self.args[0]
        return reason


class UnreachableError(FailedError):
    """No try of a request reached the engine."""


class _TryError(Exception):
    """One try of a request failed, and another one may succeed."""

    def __init__(
        self, why: str, *, is_reached: bool = True, asked_s: float | None = None
    ) -> None:
        super().__init__(why)
        self.why, self.is_reached, self.asked_s = why, is_reached, asked_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Address of an engine and the rules for its requests."""

    api: str  # address of the API, which mostly ends in `/v1`
    # API key; "" for none. No message contains it.
    key: str = field(default="", repr=False)
    key_variable: str  # environment variable of the key
    retries: int  # maximum number of further tries of a request
    timeout_s: float  # maximum time of one try in seconds

    def url(self, path: str) -> str:
        """Return the address of a path; llamaherd's own `/generate` is beside `/v1`."""
        api = self.api.removesuffix("/v1") if path == GENERATE else self.api
        return api + path

    @property
    def host(self) -> str:
        """Host and port, for identities of models."""
        return urlsplit(self.api).netloc

    def session(self) -> httpx.AsyncClient:
        """Return a client that keeps its connections; the caller closes it."""
        return httpx.AsyncClient(
            headers=self._headers,
            timeout=httpx.Timeout(None, connect=min(_CONNECT_S, self.timeout_s)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            trust_env=self._uses_proxies,
        )

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    @property
    def _uses_proxies(self) -> bool:
        """Whether proxies of the environment apply: not to this machine."""
        return urlsplit(self.api).hostname not in _LOCAL

    def models(self) -> list[dict[str, Any]]:
        """Return the models that the engine lists."""
        try:
            answer = httpx.get(
                f"{self.api}/models",
                headers=self._headers,
                timeout=min(_LIST_S, self.timeout_s),
                trust_env=self._uses_proxies,
            )
        except httpx.HTTPError as error:
            raise ServerError(f"{self.api} does not answer: {_reason(error)}") from None
        if answer.status_code in _NO_ACCESS:
            raise ServerError(self.refused_key)
        try:
            models = answer.json()["data"]
            return [model for model in models if isinstance(model["id"], str)]
        except (ValueError, KeyError, TypeError):
            raise ServerError(
                f"{self.api}/models lists no models (status {answer.status_code}): is "
                "this the address of an API like OpenAI's? It mostly ends in /v1"
            ) from None

    @property
    def refused_key(self) -> str:
        """Message for a request without a valid key."""
        if self.key:
            return f"{self.api} refuses the key in the variable {self.key_variable}"
        return (
            f"{self.api} needs a key: set the environment variable {self.key_variable}, "
            f"or name another one ({setting('key_variable', 'LAB_KEY')})"
        )

    async def ask(
        self,
        session: httpx.AsyncClient,
        path: str,
        body: Mapping[str, object],
        read: Callable[[Mapping[str, Any]], Any],
    ) -> Any:  # as `read` returns it
        """Send a request until `read` can read its answer, and return that."""
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        is_reached = False
        for n_tries in range(self.retries + 1):
            try:
                return read(await self._answer(session, path, data))
            except WrongAnswerError as error:
                failed = _TryError(f"the answer {error}")
            except _TryError as error:
                failed = error
            is_reached = is_reached or failed.is_reached
            if n_tries < self.retries:
                asked_s = failed.asked_s
                await asyncio.sleep(_pause_s(n_tries) if asked_s is None else asked_s)
        kind = FailedError if is_reached else UnreachableError
        text = f"{self.api}: {failed.why} (tried {self.retries + 1} times)"
        raise kind(Failure(self._hidden(text), "engine"))

    async def _answer(
        self, session: httpx.AsyncClient, path: str, data: bytes
    ) -> dict[str, Any]:
        """Send a request once, and return the JSON object of the answer."""
        try:
            async with asyncio.timeout(self.timeout_s):
                answer = await session.post(self.url(path), content=data, headers=_JSON)
        except TimeoutError:
            raise _TryError(f"no answer in {self.timeout_s:g} s") from None
        except httpx.RequestError as error:
            is_reached = not isinstance(error, _UNREACHABLE)
            why = f"no answer: {_reason(error)}"
            raise _TryError(why, is_reached=is_reached) from None
        if answer.status_code == 200:
            return _object(answer)
        raise _TryError(self._refusal(answer), asked_s=_asked_pause_s(answer))

    def _refusal(self, answer: httpx.Response) -> str:
        """Return the reason of a status that another try may not have."""
        status = answer.status_code
        if status in _NO_ACCESS:
            raise ServerError(self.refused_key)
        text = f"status {status}: {self._hidden(_message(answer))}"
        if status not in _AGAIN:
            raise FailedError(Failure(f"{self.api} refuses it, {text}", "engine"))
        return text

    def _hidden(self, text: str) -> str:
        return text.replace(self.key, _HIDDEN) if self.key else text


def checked_address(
    url: object, *, key_variable: object, key: str | None, retries: int, timeout_s: float
) -> Address:
    """Return the address of an engine."""
    text = checks.text("url", url).strip()
    try:
        parts = urlsplit(text)
        _ = parts.port, httpx.URL(text).host.encode("idna")  # as a connection does
    except (ValueError, httpx.InvalidURL) as error:
        raise ArgumentError(f"is not an address: {error}", argument="url") from None
    if "@" in parts.netloc or parts.query:
        raise ArgumentError(
            "must have no user, password or query: put a key into an environment "
            f"variable and give its name in {name_of('key_variable')}",
            argument="url",
        )
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ArgumentError(
            f"must be an address such as 'http://lab:8080/v1', not {checks.brief(text)}",
            argument="url",
        )
    name = checks.text("key_variable", key_variable)
    if not _VARIABLE.fullmatch(name) or name.startswith("sk_"):
        raise ArgumentError(
            "must be the name of an environment variable, not a key itself",
            argument="key_variable",
        )
    path = parts.path.rstrip("/")
    for end in ("/chat/completions", "/completions", "/models"):
        path = path.removesuffix(end)
    value = os.environ.get(name, "") if key is None else key
    if not value.isascii() or any(character.isspace() for character in value.strip()):
        raise ArgumentError(
            f"names {name}, whose value cannot be a key", argument="key_variable"
        )
    return Address(
        api=f"{parts.scheme}://{parts.netloc}{path or '/v1'}",
        key=value.strip(),
        key_variable=name,
        retries=retries,
        timeout_s=timeout_s,
    )


def _object(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer."""
    try:
        content = answer.json()
    except ValueError:
        raise WrongAnswerError("is not JSON") from None
    if not isinstance(content, dict):
        raise WrongAnswerError("is not a JSON object")
    if "choices" not in content and "data" not in content and "text" not in content:
        error = content.get("error")
        if error is not None:  # some gateways answer so with status 200
            raise WrongAnswerError(f"is an error: {str(error)[:_SHOWN]}")
    return content


def _message(answer: httpx.Response) -> str:
    """Return the error message of a server, in any of its usual places."""
    try:
        content = answer.json()
    except ValueError:
        return " ".join(answer.text.split())[:_SHOWN] or "no message"
    error = content.get("error", content) if isinstance(content, dict) else content
    text = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(text).split())[:_SHOWN]


def _pause_s(n_tries: int) -> float:
    """Return the pause after a failed try, with a random part against crowds."""
    return float(min(_LONGEST_PAUSE_S, _PAUSE_S * 2**n_tries) * (0.75 + random() / 2))  # noqa: S311


def _asked_pause_s(answer: httpx.Response) -> float | None:
    """Return the pause that a server asks for by `Retry-After`; None without one."""
    header = answer.headers.get("retry-after", "")
    try:
        wait_s = float(header)
    except ValueError:
        try:
            wait_s = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(0.0, wait_s), 10 * _LONGEST_PAUSE_S)


def _reason(error: httpx.HTTPError) -> str:
    """Return the reason of an error of the network, which may have no text."""
    return str(error) or type(error).__name__
