"""`POST /v1/rerank`: documents ordered by their relevance to a query.

As in vLLM and llama-server, the format follows Jina's and Cohere's APIs. With `texts`,
the format follows Text Embeddings Inference.
"""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.api.score import prepare_score
from llamaherd.asks.options import ScoreOptions
from llamaherd.core import checks
from llamaherd.core.argument import Argument
from llamaherd.core.failure import code_of
from llamaherd.server.costs import check_items, check_pairs
from llamaherd.server.errors import ApiError, bad_field, code_of_prompt
from llamaherd.server.neutral import FLAG, INTEGER, OBJECT, UnusedField
from llamaherd.server.work_api import Prepared, given_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.asks.continuations import ScoreResults
    from llamaherd.core.embeddings import Embeddings
    from llamaherd.run.context import Context
    from llamaherd.server.embeddings import EmbeddingsApi

# Fields of vLLM without an effect.
UNUSED: dict[str, UnusedField] = {
    "activation": UnusedField(FLAG, (True,)),
    "mm_processor_kwargs": UnusedField(OBJECT, ({},)),
    "priority": UnusedField(INTEGER, (0,)),
    "softmax": UnusedField(FLAG, (True,)),
    "use_activation": UnusedField(FLAG, (True,)),
}
_PROMPT = "Passage: {}\nQuestion that this passage answers:"


class RerankApi:
    """Format of `/v1/rerank`.

    With a model for embeddings, the relevance of a document is the cosine of its vector
    and the vector of the query. With a model that generates text, the relevance is the
    geometric mean of the probabilities of the query's tokens after the document (query
    likelihood).

    Source: Ponte and Croft 1998; Sachan et al. 2022, arXiv 2204.07496.

    Args:
        vectors: Format of `/v1/embeddings`, which selects the model.
        ctx: Context of the server's model; None for a model that only embeds texts.
    """

    fields = frozenset(
        {
            *("model", "query", "documents", "top_n", "return_documents"),
            *("texts", "return_text", "truncate_prompt_tokens"),
            *UNUSED,
        }
    )

    def __init__(self, vectors: EmbeddingsApi, ctx: Context | None) -> None:
        self._vectors = vectors
        self._ctx = ctx

    def prepare(self, fields: dict[str, object]) -> Prepared[Any]:
        """See `WorkShape`."""
        given = given_fields(fields, self.fields, ("query",))
        for name, field in UNUSED.items():
            field.check(name, given.get(name))
        name, model = self._vectors.chosen(given)
        query = _text(Argument("query"), given["query"])
        answer = _Answer(given, name)
        texts = answer.documents
        if self._ctx is not None and self._ctx.model is model:
            if "truncate_prompt_tokens" in given:
                text = "truncate_prompt_tokens needs a model for embeddings"
                raise bad_field("truncate_prompt_tokens", text)
            check_pairs(texts, [query], "query")
            work = prepare_score(
                self._ctx,
                [_PROMPT.format(each) for each in texts],
                [[f" {query}"]] * len(texts),
                ScoreOptions(on_error="continue"),
            )
            return Prepared(work, answer.of_scores)
        vectors = self._vectors.work(model, [query, *texts], given, {"normalize": True})
        return Prepared(vectors, answer.of_vectors, self._vectors.thread(model))


class _Answer:
    """Checked documents of a request, and the format of its answer.

    Args:
        given: Fields of the request.
        model_name: Name of the model in the answer.
    """

    def __init__(self, given: Mapping[str, object], model_name: str) -> None:
        names = [name for name in ("documents", "texts") if name in given]
        if len(names) != 1:
            text = "needs documents or texts, and only one of them"
            code = "missing_field"
            raise ApiError(400, f"the request {text}", param="documents", code=code)
        (self._name,) = names
        self._is_plain = self._name == "texts"
        items = check_items(self._name, given[self._name])
        self.documents = [
            _text(Argument(self._name, (i,)), each) for i, each in enumerate(items)
        ]
        n = given.get("top_n", 0)
        self._n = checks.integer("top_n", n, 0) or len(items)
        flag = "return_text" if self._is_plain else "return_documents"
        with_texts = given.get(flag, not self._is_plain)
        self._with_texts = checks.flag(flag, with_texts)
        self._model_name = model_name

    def of_vectors(self, found: Embeddings) -> object:
        """Return the body of an answer, from the vectors of the query and documents."""
        self._check([*found.errors], 1)
        vectors = np.asarray(found.vectors, dtype=np.float64)
        scores = vectors[1:] @ vectors[0]
        return self._body([float(each) for each in scores], found.stats.n_text_tokens)

    def of_scores(self, found: ScoreResults) -> object:
        """Return the body of an answer, from the query's log-probabilities."""
        self._check([*found.errors], 0)
        rows = [each for row in found.continuations for each in row or ()]
        scores = [math.exp(float(np.mean(each.token_logprobs))) for each in rows]
        return self._body(scores, found.stats.n_prompt_tokens)

    def _check(self, errors: Sequence[str | None], n_before: int) -> None:
        """Raise the error of the first text that failed."""
        for i, reason in enumerate(errors):
            if reason is None:
                continue
            at = i - n_before
            where = "query" if at < 0 else f"{self._name}[{at}]"
            code = code_of_prompt(code_of(reason))
            param = where.partition("[")[0]
            raise ApiError(400, f"{where}: {reason}", param=param, code=code)

    def _body(self, scores: Sequence[float], n_tokens: int) -> object:
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[: self._n]
        name = "score" if self._is_plain else "relevance_score"
        rows = [{"index": i, name: scores[i], **self._shown(i)} for i in order]
        if self._is_plain:
            return rows
        return {
            "id": f"rerank-{secrets.token_hex(12)}",
            "object": "list",
            "model": self._model_name,
            "results": rows,
            "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
        }

    def _shown(self, i: int) -> dict[str, object]:
        """Return the text of a document, if the answer contains the texts."""
        if not self._with_texts:
            return {}
        text = self.documents[i]
        return {"text": text} if self._is_plain else {"document": {"text": text}}


def _text(where: Argument, value: object) -> str:
    """Return a query or a document: a text, or an object with a text."""
    if isinstance(value, dict) and value.keys() == {"text"}:
        value = value["text"]
    found = checks.text(where, value)
    if not found:
        raise bad_field(where.name, f"{where.spelled()} must not be empty")
    return found
