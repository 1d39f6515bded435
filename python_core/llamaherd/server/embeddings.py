"""`POST /v1/embeddings` and `/v1/rerank`: vectors of texts, and relevance."""

from __future__ import annotations

import math
import secrets
from base64 import b64encode
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from llamaherd.calls.api.embed import prepare_embed
from llamaherd.calls.api.score import prepare_score
from llamaherd.calls.asks.options import EmbedOptions, ScoreOptions
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import options_of
from llamaherd.engine.core.errors import BadArgumentError, code_of
from llamaherd.server import schemas
from llamaherd.server.errors import bad_field, of_text
from llamaherd.server.formats import Prepared, Served, WorkFormat, only_one
from llamaherd.server.limits import check_pairs
from llamaherd.server.running import usage_of_reading
from llamaherd.server.schemas import (
    FLAG,
    OBJECT,
    Schema,
    either,
    list_schema,
    part,
    record,
    ref,
    whole,
)
from llamaherd.server.settings import name_among
from llamaherd.server.unused_fields import OF_CLIENTS, UnusedField

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from llamaherd.calls.asks.continuations import ScoreResults
    from llamaherd.calls.run.embedding import Embeddings
    from llamaherd.calls.run.job import Runnable
    from llamaherd.engine.model.model import Model

_OPTIONS = options_of(EmbedOptions, "http").keys()
_FORMATS = ("float", "base64")
# A request may only ask for the maximum length of the model.
_TRUNCATE: dict[str, Schema] = {"truncate_prompt_tokens": {"const": -1}}


class EmbeddingsApi(WorkFormat):
    """Format of `/v1/embeddings`."""

    path = "/embeddings"
    summary = "Compute vectors of texts, as OpenAI's API does."
    options: ClassVar[Any] = (EmbedOptions, "http")
    field_schemas: ClassVar = {
        "model": schemas.TEXT,
        "input": either(
            schemas.SOME_TEXT,
            schemas.SOME_TOKENS,
            list_schema(schemas.SOME_TEXT, **schemas.ITEMS),
            list_schema(schemas.SOME_TOKENS, **schemas.ITEMS),
        ),
        "encoding_format": {"enum": list(_FORMATS)},
        "dimensions": whole(1),
        **_TRUNCATE,
    }
    needed = ("input",)
    answers = record(
        object={"const": "list"},
        model=schemas.TEXT,
        data=list_schema(
            record(
                object={"const": "embedding"},
                index=schemas.COUNT,
                embedding=either(list_schema(schemas.NUMBER), schemas.TEXT),
            )
        ),
        usage=ref("Usage"),
    )
    in_batches = True
    needs_text = False

    def prepare(self, fields: dict[str, object]) -> Prepared[Embeddings]:
        return self.prepared(self.effective_fields(fields))

    def prepared(self, request: Mapping[str, Any]) -> Prepared[Embeddings]:
        """Return the job of a request whose fields are known."""
        name, model = self.chosen(request)
        if self.served.embedding_model is not None:  # it computes all vectors
            name, model = str(self._settings.embedding_name), self.served.embedding_model
        form = request.get("encoding_format", "float")
        n_embd = model.info.n_embd_out
        size = n_embd
        if "dimensions" in request:
            size = checks.integer("dimensions", request["dimensions"], 1, n_embd)
        content = request["input"]
        is_many = isinstance(content, list) and isinstance(content[0], (str, list))
        texts = content if is_many else [content]
        options = {name: request[name] for name in _OPTIONS & request.keys()}
        try:
            work = self.work(model, texts, request, options)
        except BadArgumentError as error:
            if error.argument != "texts":
                raise
            place = error.place if is_many else error.place[1:]
            raise error.moved(argument="input", place=place) from None

        def render(embeddings: Embeddings) -> dict[str, object]:
            _check_all(embeddings.errors, lambda i: f"input[{i}]" if is_many else "input")
            is_scaled = options.get("normalize", True)
            vectors = _first_dimensions(embeddings.vectors, size, is_scaled=is_scaled)
            data = [
                {
                    "object": "embedding",
                    "index": i,
                    "embedding": _write_vector(vector, form),
                }
                for i, vector in enumerate(vectors)
            ]
            usage = usage_of_reading(embeddings.stats.n_text_tokens)
            return {"object": "list", "data": data, "model": name, "usage": usage}

        return Prepared(work, render, "vectors")

    def work(
        self,
        model: Model,
        texts: list[Any],
        request: Mapping[str, object],
        options: dict[str, Any],
    ) -> Runnable[Embeddings]:
        """Return a job that computes embeddings."""
        if "truncate_prompt_tokens" in request:
            options.setdefault("truncate", True)
        return prepare_embed(model, texts, options)  # type: ignore[arg-type]

    def chosen(self, request: Mapping[str, Any]) -> tuple[str, Model]:
        """Return the requested model, or else the one for embeddings, with its name."""
        settings, embedding_model = self._settings, self.served.embedding_model
        name = name_among(request.get("model", ""), settings.names)
        if embedding_model is not None and name in (None, settings.embedding_name):
            return str(settings.embedding_name), embedding_model
        return name or settings.model_name, self._model


def _check_all(errors: Sequence[str | None], name_of: Callable[[int], str]) -> None:
    """Raise the error of the first text that failed, with its name."""
    for i, reason in enumerate(errors):
        if reason is not None:
            name = name_of(i)
            raise of_text(f"{name}: {reason}", code_of(reason), name.partition("[")[0])


def _first_dimensions(
    vectors: Any, size: int, *, is_scaled: bool
) -> NDArray[np.float32]:  # an array
    """Return the first dimensions of vectors, scaled to length 1 if `is_scaled`."""
    rows = np.asarray(vectors, dtype="<f4")
    if size == rows.shape[1]:
        return rows
    rows = rows[:, :size]
    if not is_scaled:
        return rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype="<f4")


def _write_vector(vector: NDArray[np.float32], form: str) -> object:
    if form == "base64":
        return b64encode(np.ascontiguousarray(vector).tobytes()).decode("ascii")
    return [float(value) for value in vector]


# Fields of vLLM without an effect.
_UNUSED_OF_RERANK: dict[str, UnusedField] = {
    "activation": UnusedField(FLAG, (True,)),
    "mm_processor_kwargs": UnusedField(OBJECT, ({},)),
    "priority": UnusedField(schemas.WHOLE, (0,)),
    "softmax": UnusedField(FLAG, (True,)),
    "use_activation": UnusedField(FLAG, (True,)),
}
_DOCUMENT = either(schemas.SOME_TEXT, part({"text": schemas.SOME_TEXT}))
_PROMPT = "Passage: {}\nQuestion that this passage answers:"


class RerankApi(WorkFormat):
    """Format of `/v1/rerank`.

    As in vLLM and llama-server, the format follows Jina's and Cohere's APIs. With
    `texts`, the format follows Text Embeddings Inference.

    With a model for embeddings, the relevance of a document is the cosine of its vector
    and the vector of the query. With a model that generates text, the relevance is the
    geometric mean of the probabilities of the query's tokens after the document (query
    likelihood).

    Source: Ponte and Croft 1998; Sachan et al. 2022, arXiv 2204.07496.
    """

    path = "/rerank"
    summary = "Order documents by their relevance to a query."
    field_schemas: ClassVar = {
        "model": schemas.TEXT,
        "query": _DOCUMENT,
        "documents": list_schema(_DOCUMENT, **schemas.ITEMS),
        "texts": list_schema(_DOCUMENT, **schemas.ITEMS),
        "top_n": whole(0),
        "return_documents": schemas.FLAG,
        "return_text": schemas.FLAG,
        **_TRUNCATE,
    }
    needed = ("query",)
    unused: ClassVar = {**OF_CLIENTS, **_UNUSED_OF_RERANK}
    answers = either(
        record(
            id=schemas.TEXT,
            object={"const": "list"},
            model=schemas.TEXT,
            results=list_schema(
                record(index=schemas.COUNT, relevance_score=schemas.NUMBER)
            ),
            usage=ref("Usage"),
        ),
        list_schema(record(index=schemas.COUNT, score=schemas.NUMBER)),
    )
    in_batches = True
    needs_text = False

    def __init__(self, served: Served) -> None:
        super().__init__(served)
        self._vectors = EmbeddingsApi(served)

    def prepare(self, fields: dict[str, object]) -> Prepared[Any]:
        request = self.effective_fields(fields)
        name, model = self._vectors.chosen(request)
        query = _text(request["query"])
        answer = _Answer(request, name)
        texts = answer.documents
        if self._ctx is not None and self._ctx.model is model:
            if "truncate_prompt_tokens" in request:
                text = "truncate_prompt_tokens needs a model for embeddings"
                raise bad_field("truncate_prompt_tokens", text)
            check_pairs(texts, [query], "query")
            work = prepare_score(
                self._ctx,
                [_PROMPT.format(document) for document in texts],
                [[f" {query}"]] * len(texts),
                ScoreOptions(on_error="continue"),
            )
            return Prepared(work, answer.of_scores)
        vectors = self._vectors.work(model, [query, *texts], request, {"normalize": True})
        return Prepared(vectors, answer.of_vectors, "vectors")


class _Answer:
    """Checked documents of a request, and the format of its answer."""

    def __init__(self, request: Mapping[str, Any], model_name: str) -> None:
        self._name = only_one(request, "documents", "texts")
        self._is_plain = self._name == "texts"
        self.documents = [_text(document) for document in request[self._name]]
        self._n = request.get("top_n") or len(self.documents)
        flags = ("return_documents", "return_text")
        other, flag = flags if self._is_plain else flags[::-1]
        if other in request:
            raise bad_field(other, f"{other} cannot be combined with {self._name}")
        self._with_texts = request.get(flag, not self._is_plain)
        self._model_name = model_name

    def of_vectors(self, embeddings: Embeddings) -> object:
        """Return the body of an answer, from the vectors of the query and documents."""
        _check_all(
            embeddings.errors, lambda i: self._name_of_row(i - 1) if i else "query"
        )
        vectors = np.asarray(embeddings.vectors, dtype=np.float64)
        scores = vectors[1:] @ vectors[0]
        n_tokens = embeddings.stats.n_text_tokens
        return self._body([float(score) for score in scores], n_tokens)

    def of_scores(self, results: ScoreResults) -> object:
        """Return the body of an answer, from the query's log-probabilities."""
        _check_all(results.errors, self._name_of_row)
        logprobs = [
            continuation.token_logprobs
            for row in results.continuations
            for continuation in row or ()
        ]
        scores = [math.exp(float(np.mean(values))) for values in logprobs]
        return self._body(scores, results.stats.n_prompt_tokens)

    def _name_of_row(self, i: int) -> str:
        return f"{self._name}[{i}]"

    def _body(self, scores: Sequence[float], n_tokens: int) -> object:
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[: self._n]
        name = "score" if self._is_plain else "relevance_score"
        rows = [{"index": i, name: scores[i], **self._shown_text(i)} for i in order]
        if self._is_plain:
            return rows
        return {
            "id": f"rerank-{secrets.token_hex(12)}",
            "object": "list",
            "model": self._model_name,
            "results": rows,
            "usage": usage_of_reading(n_tokens),
        }

    def _shown_text(self, i: int) -> dict[str, object]:
        """Return the text of a document, if the answer contains the texts."""
        if not self._with_texts:
            return {}
        text = self.documents[i]
        return {"text": text} if self._is_plain else {"document": {"text": text}}


def _text(document: str | Mapping[str, str]) -> str:
    return document if isinstance(document, str) else document["text"]
