"""`POST /v1/annotate`: texts coded with the codebook in the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.asks.annotate_options import AnnotateOptions
from llamaherd.core.declaration import options_of
from llamaherd.core.errors import BadArgumentError
from llamaherd.core.failure import codes_of
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.codebook_file import codebook_of_yaml
from llamaherd.server.costs import check_items, check_pairs
from llamaherd.server.errors import bad_field
from llamaherd.server.scores import answer, options_with_defaults
from llamaherd.server.work_api import Prepared, check_model, given_fields
from llamaherd.tasks.annotate import Annotate

if TYPE_CHECKING:
    from llamaherd.research.coding.coded import Coded
    from llamaherd.run.context import Context
    from llamaherd.server.settings import ServerSettings

_OPTIONS = frozenset(options_of(AnnotateOptions, "http"))


class AnnotateApi:
    """Format of `/v1/annotate`.

    Args:
        ctx: Context to run in.
        settings: Settings of the server.
    """

    fields = _OPTIONS | {"model", "texts", "codebook"}

    def __init__(self, ctx: Context, settings: ServerSettings) -> None:
        self._ctx = ctx
        self._settings = settings

    def prepare(self, fields: dict[str, object]) -> Prepared[Coded]:
        """See `WorkShape`."""
        given = given_fields(fields, self.fields, ("texts", "codebook"))
        check_model(given, self._settings)
        texts = check_items("texts", given["texts"])
        for i, text in enumerate(texts):
            if text is not None and not isinstance(text, str):
                raise bad_field("texts", f"texts[{i}] must be a string or null")
        options = options_with_defaults(given, _OPTIONS, self._settings)
        codebook = _codebook(given["codebook"])
        check_pairs(texts, list(codebook.labels or ()), "codebook")
        task = Annotate(codebook, options)
        work = task.requests(self._ctx, texts, range(len(texts)), None)

        def render(found: Coded) -> dict[str, object]:
            columns = {name: _cells(each) for name, each in task.rows(found).items()}
            failed = zip(found.errors, codes_of(found.errors), strict=True)
            columns["error"] = [
                None if text is None else {"message": str(text), "code": code}
                for text, code in failed
            ]
            data = [
                {"index": i, **{name: cells[i] for name, cells in columns.items()}}
                for i in range(len(texts))
            ]
            body = answer(self._settings, data, found.stats)
            notes = task.notes(task.rows(found))
            return {**body, "codebook": task.codebook.hash, "notes": notes}

        return Prepared(work, render)


def _codebook(value: object) -> Codebook:
    """Return a codebook: an object with its fields, or YAML in a string.

    Raises:
        ApiError: The value is not a codebook.
    """
    try:
        if isinstance(value, str):
            return codebook_of_yaml(value, "codebook")
        if isinstance(value, dict):
            return Codebook.from_dict(value)
    except BadArgumentError as error:
        where = error.rendered(lambda argument: f"codebook.{argument.dotted()}")
        text = where if isinstance(value, dict) else str(error)
        raise bad_field("codebook", text) from None
    raise bad_field("codebook", "codebook must be an object, or a string with YAML")


def _cells(values: Any) -> list[object]:  # noqa: ANN401 - a column of any type
    return [_plain(value) for value in values]


def _plain(value: Any) -> object:  # noqa: ANN401 - a cell of any type
    """Return a value in JSON types; NaN becomes None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
