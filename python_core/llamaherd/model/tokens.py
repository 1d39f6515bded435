"""Text to tokens and back."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from io import IOBase
from typing import Literal, SupportsIndex

from llamaherd.core import checks
from llamaherd.core.errors import ModelClosedError, NativeError, TokenizeError
from llamaherd.model.model import Model, as_model
from llamaherd.native import vocabulary

ParseSpecial = bool | Literal["auto"]
PARSE_SPECIAL: tuple[ParseSpecial, ...] = ("auto", True, False)
Prompt = str | Sequence[SupportsIndex]


def tokenize(
    model: Model, text: str, *, add_special: bool = True, parse_special: bool = False
) -> list[int]:
    """Turns text into token ids.

    Args:
        model: Whose vocabulary to use; a context stands for its model.
        text: Any text.
        add_special: Add the special tokens that the model wants at the ends.
        parse_special: Take the texts of special tokens for those tokens.

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
    """Turns token ids into text; bytes that are no UTF-8 become U+FFFD.

    Args:
        model: Whose vocabulary to use; a context stands for its model.
        tokens: Token ids.
        remove_special: Leave out the special tokens that `tokenize` adds.
        unparse_special: Write special tokens as text instead of leaving them out.

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


def prompt_tokens(
    model: Model, name: str, prompt: object, parse_special: ParseSpecial = "auto"
) -> array[int]:
    """The tokens of a prompt, int32[n_tokens]; token ids stay as they are.

    Args:
        model: Whose vocabulary to use.
        name: What messages call the prompt.
        prompt: Text or token ids.
        parse_special: Whether the texts of special tokens in it mean those tokens;
            "auto": if it starts with one, as the prompts of chat templates do, or has
            literal marks (see `apply_chat_template`).

    Raises:
        TypeError: `prompt` is neither text nor token ids.
        ValueError: It is not valid Unicode, or an id does not fit into 32 bits.
        TokenizeError: llama_tokenize fails, or an id is none of the vocabulary's.
    """
    if not isinstance(prompt, str):
        tokens = token_array(name, prompt)
        _check_ids(tokens, model.info.n_vocab)
        return tokens
    how = vocabulary.PARSE_AUTO if parse_special == "auto" else int(parse_special)
    text = checks.text(name, prompt)
    with tokenizing(), model.using() as handle:
        return vocabulary.tokenize_prompt(handle, text, how)


def _check_ids(tokens: array[int], n_vocab: int) -> None:
    if tokens and not 0 <= min(tokens) <= max(tokens) < n_vocab:
        i, wrong = next((i, t) for i, t in enumerate(tokens) if not 0 <= t < n_vocab)
        raise TokenizeError(
            f"the prompt's token {i} is {wrong}, but the model's token ids are 0 to "
            f"{n_vocab - 1}"
        )


@contextmanager
def tokenizing() -> Iterator[None]:
    """Makes what tokenizing a text raises the error of that text.

    A closed model is nobody's text's fault, so its error stays what it is.
    """
    try:
        yield
    except (TokenizeError, ModelClosedError):
        raise
    except (NativeError, ValueError) as error:
        raise TokenizeError(f"the text cannot be tokenized: {error}") from error


def token_array(name: str, tokens: object) -> array[int]:
    """Token ids as int32[n].

    Raises:
        TypeError: They are no sequence of integers.
        ValueError: An id does not fit into 32 bits.
    """
    no_order = isinstance(tokens, (AbstractSet, Mapping, IOBase))
    is_text = isinstance(tokens, (str, bytes, bytearray))
    if is_text or no_order or not hasattr(tokens, "__iter__"):
        raise TypeError(
            f"{name} must be text or a sequence of token ids, not {checks.shown(tokens)}"
        )
    try:
        return array("i", tokens)
    except TypeError as error:
        raise TypeError(f"{name} must hold integers only: {error}") from error
    except OverflowError as error:
        raise ValueError(f"{name} holds an id that does not fit: {error}") from error
