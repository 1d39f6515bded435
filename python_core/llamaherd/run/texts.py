"""From texts as a caller gives them to tokens that a model for embeddings takes."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import TokenizeError
from llamaherd.model.tokens import prompt_tokens, tokenizing
from llamaherd.native import vocabulary
from llamaherd.run.embedding import Text

if TYPE_CHECKING:
    from llamaherd.model.model import Model

_CHARS_PER_TOKEN = 8  # of which a part of a text is tokenized first


def make_texts(model: Model, given: object, *, truncate: bool) -> list[Text]:
    """Checks and tokenizes texts; what is wrong with one of them is its `problem`.

    Args:
        model: Whose vocabulary to use.
        given: Texts or token ids.
        truncate: Whether what is longer than the model was trained for is cut.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A text is not valid Unicode, or an id does not fit into 32 bits.
    """
    texts = checks.prompt_list(given, "texts", "")
    empty = len(_tokens(model, ""))
    return [
        _make_text(model, f"texts[{i}]", text, empty, truncate=truncate)
        for i, text in enumerate(texts)
    ]


def _make_text(
    model: Model, name: str, given: object, n_empty: int, *, truncate: bool
) -> Text:
    most = model.n_ctx_train
    is_all = True
    try:
        if isinstance(given, str):
            tokens, is_all = _first_tokens(model, checks.text(name, given), most)
        else:
            n_empty = 0
            tokens = prompt_tokens(model, name, given)
    except TokenizeError as error:
        return Text(tokens=array("i"), problem=str(error))
    problem = ""
    bad = next((token for token in tokens if not 0 <= token < model.n_vocab), None)
    if len(tokens) <= n_empty:
        problem = "the text is empty"
    elif bad is not None:
        problem = f"it has a token {bad}, but the vocabulary has {model.n_vocab} tokens"
    elif len(tokens) <= most:
        return Text(tokens=tokens)
    elif truncate:
        return Text(tokens=_cut(model, given, tokens, most), is_cut=True)
    else:
        problem = (
            f"the text has {'' if is_all else 'more than '}{len(tokens)} tokens, more "
            f"than the {most} that the model was trained for: shorten it, or set truncate"
        )
    return Text(tokens=array("i"), problem=problem)


def _first_tokens(model: Model, text: str, most: int) -> tuple[array[int], bool]:
    """Tokens of a text, or of so much of it that these are more than `most`.

    Some of libllama's tokenizers take time that grows with the square of the text.

    Returns:
        The tokens, and whether they are of the whole text.
    """
    n_chars = _CHARS_PER_TOKEN * (most + 1)
    while n_chars < len(text):
        tokens = _tokens(model, text[:n_chars])
        if len(tokens) > 1.25 * most:  # where a text is cut there may be some more
            return tokens, False
        n_chars *= 2
    return _tokens(model, text), True


def _cut(model: Model, given: object, tokens: array[int], most: int) -> array[int]:
    """The first tokens, but with those special ones that a whole text ends with."""
    if not isinstance(given, str):
        return tokens[:most]
    ends = _tokens(model, "")
    # All that the model wants at the ends of a text are there without one, too.
    n_end = 0
    while n_end < len(ends) and ends[-1 - n_end] == tokens[-1 - n_end]:
        n_end += 1
    return tokens[: most - n_end] + tokens[len(tokens) - n_end :]


def _tokens(model: Model, text: str) -> array[int]:
    with tokenizing(), model.using() as handle:
        return vocabulary.tokenize(handle, text, add_special=True, parse_special=False)
