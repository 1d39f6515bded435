"""`POST /v1/embeddings`: vectors of texts, in the format of OpenAI's API."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.api.embed import prepare_embed
from llamaherd.asks.options import EmbedOptions
from llamaherd.core import checks
from llamaherd.core.declaration import options_of
from llamaherd.core.errors import ModelLoadError
from llamaherd.core.failure import code_of
from llamaherd.server.costs import MOST_ITEMS
from llamaherd.server.errors import ApiError, bad_field, code_of_prompt, renamed
from llamaherd.server.work_api import Prepared, given_fields, other_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from llamaherd.core.embeddings import Embeddings, EmbedProgress
    from llamaherd.model.model import Model
    from llamaherd.run.embed_job import EmbedWork
    from llamaherd.run.job import Runnable
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.work_threads import VectorThread, VectorThreads

_OPTIONS = frozenset(options_of(EmbedOptions, "http"))
_FORMATS = ("float", "base64")


class EmbeddingsApi:
    """Format of `/v1/embeddings`.

    Args:
        own: Model of the server, used if `model` is None.
        settings: Settings of the server.
        threads: Threads that compute the vectors of the models.
        model: Model for embeddings; None uses `own`.
    """

    fields = _OPTIONS | {
        *("model", "input", "encoding_format", "dimensions", "truncate_prompt_tokens")
    }

    def __init__(
        self,
        own: Model,
        settings: ServerSettings,
        threads: VectorThreads,
        model: Model | None = None,
    ) -> None:
        self._own = own
        self._settings = settings
        self._threads = threads
        self._model = model

    def prepare(self, fields: dict[str, object]) -> Prepared[Embeddings]:
        """See `WorkShape`."""
        given = given_fields(fields, self.fields, ("input",))
        name, model = self.chosen(given)
        form = checks.choice(
            "encoding_format", given.get("encoding_format", "float"), _FORMATS
        )
        n_embd = model.info.n_embd_out
        size = n_embd
        if "dimensions" in given:
            size = checks.integer("dimensions", given["dimensions"], 1, n_embd)
        texts = _texts(given["input"])
        options = {name: given[name] for name in _OPTIONS & given.keys()}
        is_scaled = checks.flag("normalize", options.get("normalize", True))
        with renamed({"texts": "input"}):
            work = self.work(model, texts, given, options)

        def render(found: Embeddings) -> dict[str, object]:
            _check_all(found)
            vectors = _cut(found.vectors, size, is_scaled=is_scaled)
            data = [
                {"object": "embedding", "index": i, "embedding": _written(vector, form)}
                for i, vector in enumerate(vectors)
            ]
            n = found.stats.n_text_tokens
            usage = {"prompt_tokens": n, "total_tokens": n}
            return {"object": "list", "data": data, "model": name, "usage": usage}

        return Prepared(work, render, self.thread(model))

    def thread(self, model: Model) -> VectorThread:
        """Return the thread that computes the vectors of a model."""
        return self._threads.of(model)

    def work(
        self,
        model: Model,
        texts: list[Any],
        given: Mapping[str, object],
        options: dict[str, object],
    ) -> Runnable[Embeddings]:
        """Return a job that computes embeddings.

        Args:
            model: Model from `chosen`.
            texts: Texts, or lists of token ids.
            given: Fields of the request, of which `truncate_prompt_tokens` is read.
            options: Options of `embed_parallel`.

        Raises:
            ApiError: The model cannot compute embeddings.
        """
        if "truncate_prompt_tokens" in given:
            n = given["truncate_prompt_tokens"]
            if isinstance(n, bool) or n != -1:
                text = "truncate_prompt_tokens must be -1: the maximum of the model"
                raise bad_field("truncate_prompt_tokens", text)
            options.setdefault("truncate", True)
        try:
            work = prepare_embed(model, texts, options)  # type: ignore[arg-type]
        except ModelLoadError as error:
            raise _no_vectors(str(error)) from None
        return _Vectors(work)

    def chosen(self, given: Mapping[str, object]) -> tuple[str, Model]:
        """Return the model of a request with its name."""
        own = self._settings.embedding_name
        asked = given.get("model", own or self._settings.model_name)
        if not isinstance(asked, str):
            text = f"model must be a string, not {checks.shown(asked)}"
            raise bad_field("model", text)
        if self._model is not None and asked in {own, f"{own}.gguf"}:
            return str(own), self._model
        name = self._settings.name_of(asked)
        if name is None:
            names = self._settings.names
            raise other_model(asked, names if own is None else (*names, own))
        if self._model is not None and asked not in self._settings.names:
            return str(own), self._model  # any name is accepted
        return name, self._own


class _Vectors:
    """Job that computes embeddings, with errors for clients of the server.

    Args:
        work: Job that computes the embeddings.
    """

    problem = ""

    def __init__(self, work: EmbedWork) -> None:
        self._work = work

    @property
    def progress(self) -> EmbedProgress:
        return self._work.progress

    def cancel(self) -> None:
        self._work.cancel()

    def run(self) -> Embeddings:
        try:
            return self._work.run()
        except ModelLoadError as error:
            raise _no_vectors(str(error)) from None


def _no_vectors(reason: str) -> ApiError:
    return ApiError(
        400,
        f"{reason}; start the server with --embedding-model FILE",
        param="model",
        code="no_embeddings",
    )


def _texts(value: object) -> list[Any]:
    """Return the texts of a request: texts, or lists of token ids."""
    if not isinstance(value, list):
        return [value]
    is_one = bool(value) and not isinstance(value[0], (str, list))
    texts = [value] if is_one else value
    if not texts or len(texts) > MOST_ITEMS:
        text = f"input must have 1 to {MOST_ITEMS} texts, not {len(texts)}"
        raise bad_field("input", text)
    if any(not text for text in texts):
        raise bad_field("input", "input must not have an empty text")
    return texts


def _check_all(found: Embeddings) -> None:
    """Raise the error of the first text that failed."""
    for i, reason in enumerate(found.errors):
        if reason is not None:
            code = code_of_prompt(code_of(reason))
            text = f"input[{i}]: {reason}"
            raise ApiError(400, text, param="input", code=code)


def _cut(vectors: Any, size: int, *, is_scaled: bool) -> NDArray[np.float32]:  # noqa: ANN401 - an array
    """Return the first dimensions of vectors, scaled to length 1 if `is_scaled`."""
    rows = np.asarray(vectors, dtype="<f4")
    if size == rows.shape[1]:
        return rows
    rows = rows[:, :size]
    if not is_scaled:
        return rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype="<f4")


def _written(vector: NDArray[np.float32], form: str) -> object:
    if form == "base64":
        return b64encode(np.ascontiguousarray(vector).tobytes()).decode("ascii")
    return [float(value) for value in vector]
