"""Conversion of text to tokens and back."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from io import IOBase
from operator import index
from typing import TYPE_CHECKING, Literal, SupportsIndex

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import argument_of
from llamaherd.engine.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    ModelClosedError,
    NativeError,
    TokenizeError,
)
from llamaherd.engine.model.model import Model, as_model
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from types import TracebackType

    from llamaherd.engine.core.argument import Name

ParseSpecial = bool | Literal["auto"]
PARSE_SPECIAL: tuple[ParseSpecial, ...] = ("auto", True, False)
Prompt = str | Sequence[SupportsIndex]


def tokenize(
    model: Model, text: str, *, add_special: bool = True, parse_special: bool = False
) -> list[int]:
    """Convert text to token ids.

    Args:
        model: Model with the vocabulary, or a context of it.
        text: Text to tokenize.
        add_special: Add the special tokens that the model uses at the ends of a text.
        parse_special: Convert the texts of special tokens to these tokens.

    Source: `llama_tokenize`.
    """
    with as_model(model).using() as handle:
        tokens = vocabulary.tokenize(
            handle,
            checks.text("text", text),
            add_special=checks.flag("add_special", add_special),
            parse_special=checks.flag("parse_special", parse_special),
        )
    return tokens.tolist()


def detokenize(
    model: Model,
    tokens: Sequence[SupportsIndex],
    *,
    remove_special: bool = False,
    unparse_special: bool = False,
) -> str:
    """Convert token ids to text; invalid UTF-8 becomes U+FFFD.

    Args:
        model: Model with the vocabulary, or a context of it.
        tokens: Token ids.
        remove_special: Omit the special tokens that `tokenize` adds.
        unparse_special: Write special tokens as text instead of omitting them.

    Raises:
        ValueError: A token is outside the vocabulary.

    Source: `llama_detokenize`.
    """
    with as_model(model).using() as handle:
        return vocabulary.detokenize(
            handle,
            token_array("tokens", tokens),
            remove_special=checks.flag("remove_special", remove_special),
            unparse_special=checks.flag("unparse_special", unparse_special),
        )


def token_bytes(model: Model, tokens: Sequence[int]) -> list[bytes]:
    """Return the bytes that each token has within a text; for special tokens, their text.

    Args:
        model: Model with the vocabulary.
        tokens: Token ids. The bytes of one character may be divided among several
            tokens.

    Raises:
        ValueError: A token is outside the vocabulary.
    """
    with model.using() as handle:
        known = {token: vocabulary.token_bytes(handle, token) for token in set(tokens)}
    return [known[token] for token in tokens]


def prompt_tokens(
    model: Model, name: Name, prompt: object, parse_special: ParseSpecial = "auto"
) -> array[int]:
    """Return the tokens of a prompt, int32[n_tokens]; token ids are not changed.

    Args:
        model: Model with the vocabulary.
        name: Name of the prompt in messages.
        prompt: Text or token ids.
        parse_special: Whether to parse the texts of special tokens as these tokens.
            "auto" parses them if the prompt starts with one, as prompts of chat templates
            do, or has literal marks (see `apply_chat_template`).

    Raises:
        TypeError: `prompt` is neither text nor token ids.
        ValueError: The text is not valid Unicode.
        TokenizeError: llama_tokenize fails, or an id is not in the vocabulary.
    """
    if not isinstance(prompt, str):
        ids = _checked_ids(name, prompt)
        _check_range(ids, model.info.n_vocab)
        return _as_array(name, ids)
    how = vocabulary.PARSE_AUTO if parse_special == "auto" else int(parse_special)
    text = checks.text(name, prompt)
    with TOKENIZING, model.using() as handle:
        return vocabulary.tokenize_prompt(handle, text, how)


def _check_range(ids: Collection[int], n_vocab: int) -> None:
    if len(ids) and not 0 <= min(ids) <= max(ids) < n_vocab:
        wrong = next(token for token in ids if not 0 <= token < n_vocab)
        raise TokenizeError(
            f"the prompt has the token {wrong}, but the model's token ids are 0 to "
            f"{n_vocab - 1}"
        )


class Tokenizing:
    """Context manager that converts errors in its block to a TokenizeError of the text.

    The error of a closed model is not converted, because it does not concern the text.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, (TokenizeError, ModelClosedError)):
            return
        if isinstance(error, (NativeError, ValueError)):
            raise TokenizeError(f"the text cannot be tokenized: {error}") from error


TOKENIZING = Tokenizing()


def token_array(name: Name, tokens: object) -> array[int]:
    """Convert token ids to int32[n].

    Raises:
        TypeError: `tokens` is not a sequence of integers.
        ValueError: An id does not fit into 32 bits.
    """
    return _as_array(name, _checked_ids(name, tokens))


def _checked_ids(name: Name, tokens: object) -> Collection[int]:
    """Return token ids; raise an error for text, unordered values and non-integers."""
    no_order = isinstance(tokens, (AbstractSet, Mapping, IOBase))
    is_text = isinstance(tokens, (str, bytes, bytearray))
    if is_text or no_order or not hasattr(tokens, "__iter__"):
        raise ArgumentTypeError(
            f"must be text or a sequence of token ids, not {checks.shown(tokens)}",
            argument=name,
        )
    if isinstance(tokens, (list, tuple)) and set(map(type, tokens)) != {int}:
        for i, token in enumerate(tokens):
            if isinstance(token, bool) or not hasattr(token, "__index__"):
                raise ArgumentTypeError(
                    f"must be an integer, not {checks.shown(token)}",
                    argument=argument_of(name).at(i),
                )
    if isinstance(tokens, (list, tuple, array)):
        return tokens
    try:
        return list(map(index, tokens))
    except TypeError as error:
        raise ArgumentTypeError(
            f"must hold integers only: {error}", argument=name
        ) from error


def _as_array(name: Name, ids: Collection[int]) -> array[int]:
    try:
        return array("i", ids)
    except TypeError as error:
        raise ArgumentTypeError(
            f"must hold integers only: {error}", argument=name
        ) from error
    except OverflowError as error:
        raise ArgumentError(
            f"contains a token id outside the range of int32: {error}", argument=name
        ) from error
