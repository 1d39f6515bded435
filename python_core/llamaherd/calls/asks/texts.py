"""Conversion of a caller's texts to tokens, for embedding models."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.calls.chat.conversations import Refused, prompts_or_refusals
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import Failure, TokenizeError
from llamaherd.engine.core.words import name_of
from llamaherd.engine.model.tokens import TOKENIZING, prompt_tokens
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from llamaherd.engine.core.argument import Name
    from llamaherd.engine.model.model import Model

# Assumed for the part that is tokenized first: some tokenizers of libllama take time
# quadratic in the length of a text.
_CHARS_PER_TOKEN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text to embed, with special tokens; with a problem, it is not computed."""

    tokens: array[int]
    problem: str = ""
    is_cut: bool = False


def make_texts(model: Model, value: object, *, truncate: bool) -> list[Text]:
    """Check and tokenize texts; set `problem` for a text that cannot be computed."""
    texts = prompts_or_refusals(value, "texts", "")
    empty = len(_tokens(model, ""))
    return [
        _make_text(model, Argument("texts", (i,)), text, empty, truncate=truncate)
        for i, text in enumerate(texts)
    ]


def _make_text(
    model: Model, name: Name, text: object, n_empty: int, *, truncate: bool
) -> Text:
    if isinstance(text, Refused):
        return Text(tokens=array("i"), problem=text.failure)
    most = model.n_ctx_train
    is_all = True
    try:
        if isinstance(text, str):
            tokens, is_all = _first_tokens(model, text, most)
        else:
            n_empty = 0
            tokens = prompt_tokens(model, name, text)
    except TokenizeError as error:
        return Text(tokens=array("i"), problem=Failure(str(error), "not_tokenized"))
    problem = ""
    if len(tokens) <= n_empty:
        problem = Failure("the text is empty", "empty")
    elif len(tokens) <= most:
        return Text(tokens=tokens)
    elif truncate:
        return Text(tokens=_cut(model, text, tokens, most), is_cut=True)
    else:
        problem = Failure(
            f"the text has {'' if is_all else 'more than '}{len(tokens)} tokens, more "
            f"than the {most} that the model was trained for: shorten it, or set "
            f"{name_of('truncate')}",
            "too_long",
        )
    return Text(tokens=array("i"), problem=problem)


def _first_tokens(model: Model, text: str, most: int) -> tuple[array[int], bool]:
    """Return the tokens of a text, or of a part with more than `most`; True for all."""
    n_chars = _CHARS_PER_TOKEN * (most + 1)
    while n_chars < len(text):
        tokens = _tokens(model, text[:n_chars])
        if len(tokens) > 1.25 * most:  # a cut may add some tokens
            return tokens, False
        n_chars *= 2
    return _tokens(model, text), True


def _cut(model: Model, text: object, tokens: array[int], most: int) -> array[int]:
    """Return the first tokens, followed by the special tokens that end a text."""
    if not isinstance(text, str):
        return tokens[:most]
    ends = _tokens(model, "")
    # The tokens of an empty text are the special tokens of the start and the end.
    n_end = 0
    while n_end < len(ends) and ends[-1 - n_end] == tokens[-1 - n_end]:
        n_end += 1
    return tokens[: most - n_end] + tokens[len(tokens) - n_end :]


def _tokens(model: Model, text: str) -> array[int]:
    with TOKENIZING, model.using() as handle:
        return vocabulary.tokenize(handle, text, add_special=True, parse_special=False)
