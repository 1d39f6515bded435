"""An engine elsewhere in a context's place: `connect` and `RemoteEngine`."""

from __future__ import annotations

import hashlib
import json
from array import array
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Never

from llamaherd.calls.asks.requests import samples_of
from llamaherd.calls.asks.settings import asked_of
from llamaherd.calls.chat.conversations import Refused
from llamaherd.calls.run.host import Elsewhere, LabelRequests
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import unknown_field
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, Failure
from llamaherd.engine.core.request import Request, TokenTree
from llamaherd.engine.core.sampling import MAX_TOKENS_OF_CHAT, SamplingParams
from llamaherd.remote.client import Address, checked_address
from llamaherd.remote.label_probs import classify_answers
from llamaherd.remote.loop import EngineLoop
from llamaherd.remote.openai_form import form_of, label_settings
from llamaherd.remote.own_form import OwnForm
from llamaherd.remote.request import ApiForm, SentRequest, as_json, content_hash, refuse
from llamaherd.remote.server import KEY_VARIABLE, RemoteServer
from llamaherd.remote.vectors import RemoteEmbedder, embedding_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from llamaherd.calls.asks.labels import Labels
    from llamaherd.calls.asks.options import (
        ClassifyOptions,
        EmbedOptions,
        GenerateOptions,
    )
    from llamaherd.calls.asks.scores import ClassifyResults
    from llamaherd.calls.run.embedders import EmbedSpec
    from llamaherd.calls.run.embedding import EmbedCall, Embedder
    from llamaherd.engine.core.results import Results
    from llamaherd.engine.model.file import ModelFile


def connect(
    url: str | RemoteServer,
    model: str | None = None,
    *,
    key_variable: str = KEY_VARIABLE,
    n_at_once: int = 32,
    retries: int = 5,
    timeout_s: float = 600.0,
    **others: Never,
) -> RemoteEngine:
    """Connect to a server with OpenAI's API, which stands in a context's place.

        lab = lh.connect("http://lab:8080/v1")
        out = lh.generate_parallel(lab, prompts, chat=True, journal="out.journal")

    `generate`, `generate_parallel`, `classify_parallel`, `embed_parallel` and `annotate`
    take an engine as they take a context: llamaherd's own server, llama-server, vLLM,
    Ollama or a hosted API. Journal, progress, retries and Ctrl-C are those of this
    process. An option that the server cannot follow is an error that names the option.

    Args:
        url: Address of the API, such as "http://lab:8080/v1" or "https://host/api/v1"; or
            a server of `start_server`.
        model: Name of the model on the server. None takes the only model; llamaherd's
            server then takes its first.
        key_variable: Name of the environment variable of the API key, such as
            "OPENAI_API_KEY". The key is sent to `url` only, and is in no log, journal or
            error.
        n_at_once: Maximum number of requests at once.
        retries: Maximum number of further tries of a request that fails by the network,
            by a busy or broken server (status 429 or 5xx), or that gets an answer which
            is not one. Pauses grow from half a second to a minute, or follow the server's
            `Retry-After`.
        timeout_s: Maximum time of one try, in seconds.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or the server has no such model.
        ServerError: The server does not answer, or refuses the key.
    """
    for name in others:
        if name == "api_key":
            raise ArgumentTypeError(
                f"is not an argument of connect: set the environment variable "
                f"{key_variable}, or name another one (key_variable='LAB_KEY')",
                argument=name,
                code="unknown_argument",
            )
        raise unknown_field(connect, name, signature(connect).parameters)
    return connect_with_key(
        url,
        model,
        key_variable=key_variable,
        n_at_once=n_at_once,
        retries=retries,
        timeout_s=timeout_s,
    )


def connect_with_key(
    url: str | RemoteServer,
    model: str | None = None,
    *,
    key_variable: str = KEY_VARIABLE,
    key: str | None = None,
    n_at_once: int = 32,
    retries: int = 5,
    timeout_s: float = 600.0,
) -> RemoteEngine:
    """Connect as `connect`, with a key that another program such as R has read."""
    place, link = "", url
    if isinstance(url, RemoteServer):
        place, link, key = f"server {url.name}", url.url, url.key
    checks.integer("n_at_once", n_at_once, 1, 1024)
    address = checked_address(
        link,
        key_variable=key_variable,
        key=key,
        retries=checks.integer("retries", retries, 0, 100),
        timeout_s=checks.real("timeout_s", timeout_s, 0.01, 86400.0),
    )
    named = None if model is None else checks.text("model", model)
    entry = _choose_model(address, named)
    is_own = entry.get("owned_by") == "llamaherd"
    host = address.host.partition(":")[0]
    form: ApiForm = OwnForm() if is_own else form_of(entry.get("owned_by"), host)
    identity = EngineFile(entry["id"], place or address.host, entry.get("meta"))
    return RemoteEngine(address, form, identity, n_at_once)


def _choose_model(address: Address, named: str | None) -> dict[str, Any]:
    """Return the entry of a model in the list of a server."""
    listed_models = address.models()
    names = [model["id"] for model in listed_models]
    if named is None:
        is_own = bool(names) and listed_models[0].get("owned_by") == "llamaherd"
        if len(names) == 1 or is_own:
            return listed_models[0]
        n_models = f"{address.api} has {len(names)} models"
        few = ", ".join(map(checks.quoted, names[:8]))
        raise ArgumentError(
            f"is needed: {n_models}" + (f", such as {few}" if few else ""),
            argument="model",
            code="missing",
        )
    # Ollama lists "name:latest" for "name".
    for model in listed_models:
        if model["id"] in {named, f"{named}:latest"}:
            return model
    if not names:  # some gateways list none
        return {"id": named}
    raise ArgumentError(
        f"is not on {address.api}: {checks.brief(named)}{checks.meant(named, names)}",
        argument="model",
    )


class EngineFile:
    """Identity of a model elsewhere, in the place of a `ModelFile`.

    The identity consists of the name of the model, of the server's address (or the name
    of a server of `start_server`), and of what the server tells of the model.
    """

    is_unchanged = True

    def __init__(self, name: str, place: str, meta: object = None) -> None:
        self.name = name
        self.place = place
        self.state = json.dumps(["elsewhere", name, place, meta], sort_keys=True)

    def remember(self, sha256: bytes) -> None:
        """Do nothing: the hash is that of `state`."""

    def sha256(self, is_cancelled: Callable[[], bool] = lambda: False) -> bytes:
        """Return the hash of the identity."""
        del is_cancelled
        return hashlib.sha256(self.state.encode()).digest()


class RemoteEngine(Elsewhere):
    """Engine of a server, see `connect`; a context manager.

    Attributes:
        name: Name of the model on the server.
        url: Address of the API.
    """

    def __init__(
        self, address: Address, form: ApiForm, identity: EngineFile, n_at_once: int
    ) -> None:
        self._address, self._form, self._identity = address, form, identity
        self._n_at_once = n_at_once
        self._loop = EngineLoop(address, form, n_at_once)
        self.name = identity.name
        self.url = address.api

    @property
    def loop(self) -> EngineLoop:
        """Loop that sends the requests."""
        return self._loop

    @property
    def file(self) -> ModelFile:
        """Identity of the model, for journals and records."""
        return self._identity  # type: ignore[return-value] # what journals read

    @property
    def numerics(self) -> dict[str, object]:
        """See `Host`: only the server knows its arguments."""
        return {"engine": "elsewhere"}

    @property
    def options(self) -> dict[str, object]:
        """See `Host`: the arguments of `connect`, without the key."""
        return {
            "url": self.url,
            "model": self.name,
            "n_at_once": self._n_at_once,
            "retries": self._address.retries,
            "timeout_s": self._address.timeout_s,
        }

    @property
    def record(self) -> dict[str, Any]:
        return {
            "file": self.name,
            "size_bytes": None,
            "sha256": None,
            "n_gpu_layers": None,
            "loras": [],
            "metadata": {},
            "url": self.url,
        }

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.url
        return f"<RemoteEngine {self.name!r}: {state}>"

    def requests(
        self,
        prompts: object,
        options: GenerateOptions,
        places: Sequence[int] | None = None,
    ) -> tuple[list[Request], int]:
        """See `Host`.

        Raises:
            ValueError: The server cannot follow an option.
        """
        if options.stream:
            raise refuse("stream", "an engine elsewhere", "it sends whole answers")
        arguments = asked_of(prompts, options)
        self._form.check(options, [one.sampling for one in arguments.different])
        arguments.warn_idle(options)
        at = range(len(arguments.prompts)) if places is None else places
        requests: list[Request] = []
        for i, prompt in enumerate(arguments.prompts):
            setting = arguments.settings[i]
            sampling = setting.sampling
            shape, problem = setting.shape_or_problem
            is_free = sampling.schema is None and sampling.choices is None
            usual = MAX_TOKENS_OF_CHAT if options.chat and is_free else sampling.n_answer
            request = self._request(
                prompt,
                partial(self._form.prompt, i, prompt, options),
                problem=problem,
                max_tokens=setting.limit or usual,
                sampling=sampling,
                stop=() if sampling.choices is not None else setting.stop,
                seed=arguments.seed(i, at[i]),
                shape=shape,
                priority=options.priority,
            )
            requests += samples_of(request, options.n)
        return requests, arguments.base

    def _request(
        self,
        prompt: object,
        make: Callable[[], tuple[str, dict[str, Any]]],
        *,
        problem: str = "",
        **more: Any,  # fields of SentRequest
    ) -> SentRequest:
        """Return the request of a prompt; a missing or empty prompt fails alone."""
        path = ""
        content: dict[str, Any] = {}
        if isinstance(prompt, Refused):
            problem = prompt.failure
        elif not prompt:
            problem = Failure("the prompt is empty", "empty")
        else:
            path, content = make()
        text = as_json({"model": self.name, **content})
        return SentRequest(
            tokens=content_hash(path, text),
            path=path,
            content=text,
            text=prompt if isinstance(prompt, str) else _as_text(prompt),
            problem=problem,
            **more,
        )

    def labelling(
        self, prompts: Sequence[object], labels: Labels, options: ClassifyOptions
    ) -> LabelRequests:
        self._form.check_labels(options)
        is_own = isinstance(self._form, OwnForm)
        names = labels.names if is_own else labels.readings
        sampling, limit = SamplingParams(), 1
        if not is_own:
            sampling, limit = label_settings(names)
        n = 2 * len(names)
        tree = TokenTree(array("i", range(n)), array("i", [-1] * n), 1)
        requests = [
            self._request(
                prompt,
                partial(self._form.label_prompt, i, prompt, options),
                max_tokens=limit,
                sampling=sampling,
                tree=tree,
                labels=tuple(names),
            )
            for i, prompt in enumerate(prompts)
        ]

        def convert(results: Results) -> ClassifyResults:
            return classify_answers(results, labels, options, is_by_name=is_own)

        return LabelRequests(requests, convert)

    def embedding(self, texts: object, options: EmbedOptions) -> EmbedCall:
        content = {"model": self.name, **self._form.embedding(options)}
        embedder = RemoteEmbedder(
            self._loop, content, self._n_at_once, is_scaled=options.normalize
        )
        return embedding_call(embedder, texts, options)

    def lent_embedder(self, spec: EmbedSpec) -> AbstractContextManager[Embedder]:
        """Refuse: see `embedding`."""
        raise refuse("context", f"an embedder of {spec}")


def _as_text(prompt: object) -> str:
    """Return a prompt that is no text as text, for a journal."""
    return "" if isinstance(prompt, Refused) else json.dumps(prompt, default=str)
