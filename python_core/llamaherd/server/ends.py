"""Fields of vLLM about the end of an answer, accepted if they change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.native.vocabulary import ends_answer
from llamaherd.server.errors import bad_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.model.model import Model
    from llamaherd.server.answer_form import AnswerForm

FIELDS = frozenset({"min_tokens", "stop_token_ids"})


def check_ends(
    given: Mapping[str, object], model: Model, form: AnswerForm, max_tokens: int | None
) -> None:
    """Check that these fields do not change where the answer ends.

    With `ignore_eos`, and without stop texts and constraints, an answer has `max_tokens`
    tokens, so any `min_tokens` up to this number is satisfied. End-of-generation tokens
    end an answer also without `stop_token_ids`.

    Raises:
        ApiError: A field requests another end.
        TypeError: A field has the wrong type.
        ValueError: A field is out of range.
    """
    least = checks.integer("min_tokens", given.get("min_tokens", 0), 0)
    if least > 0:
        if max_tokens is not None and least > max_tokens:
            text = f"min_tokens is {least}, more than max_tokens ({max_tokens})"
            raise bad_field("min_tokens", text)
        if given.get("ignore_eos") is not True or given.get("stop") or form.constraint:
            raise bad_field(
                "min_tokens",
                'min_tokens needs "ignore_eos": true, without stop texts and without a '
                "form of the answer",
            )
    tokens = given.get("stop_token_ids", [])
    if not isinstance(tokens, list):
        raise bad_field("stop_token_ids", "stop_token_ids must be a list of token ids")
    for i, token in enumerate(tokens):
        is_id = isinstance(token, int) and not isinstance(token, bool)
        if not is_id or not _ends(model, token):
            raise bad_field(
                "stop_token_ids",
                f"stop_token_ids[{i}] must be a token that ends an answer of this model, "
                f"not {checks.shown(token)}; use stop for texts",
            )


def _ends(model: Model, token: int) -> bool:
    if not 0 <= token < model.n_vocab:
        return False
    with model.using() as handle:
        return ends_answer(handle, token)
