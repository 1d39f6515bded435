"""Conversion of text to tokens and back, on top of llamaherd.h."""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING

from llamaherd.engine.native.shim import check, decode_text, ffi, lib, text_or_none

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.native._shim import CData

PARSE_AUTO = -1  # in `tokenize_prompt`: depends on the start of the prompt


def tokenize(
    model: CData, text: str, *, add_special: bool, parse_special: bool
) -> array[int]:
    """Tokenize a text (`llama_tokenize`) into int32[n_tokens]."""
    return _tokens(lib.lh_tokenize, model, text, add_special, parse_special)


def tokenize_inside(model: CData, text: str) -> array[int]:
    """Tokenize the continuation of another text into int32[n_tokens]."""
    return _tokens(lib.lh_tokenize_inside, model, text)


def tokenize_prompt(model: CData, text: str, parse_special: int) -> array[int]:
    """Tokenize a prompt (`lh_tokenize_prompt`) into int32[n_tokens]."""
    return _tokens(lib.lh_tokenize_prompt, model, text, parse_special)


def _tokens(
    function: Callable[..., int], model: CData, text: str, *options: int
) -> array[int]:
    utf8 = text.encode()
    call = partial(function, model, utf8, len(utf8), *options)
    return _filled_array("int32_t", len(utf8) + 8, call)


def detokenize(
    model: CData, tokens: array[int], *, remove_special: bool, unparse_special: bool
) -> str:
    """Convert tokens, int32[n], to text; invalid UTF-8 becomes U+FFFD."""
    return decode_text(
        _bytes_of(
            model, tokens, remove_special=remove_special, unparse_special=unparse_special
        )
    )


def token_bytes(model: CData, token: int) -> bytes:
    """Return the bytes of a token within a text; for a special token, its text."""

    def of(n: int) -> bytes:
        tokens = array("i", [token] * n)
        return _bytes_of(model, tokens, remove_special=False, unparse_special=True)

    # Detokenization may remove the space at the start of a text's first token.
    return of(2)[len(of(1)) :]


def _bytes_of(
    model: CData, tokens: array[int], *, remove_special: bool, unparse_special: bool
) -> bytes:
    pointer, n = ffi.from_buffer("int32_t[]", tokens), len(tokens)
    options = (remove_special, unparse_special)
    call = partial(lib.lh_detokenize, model, pointer, n, *options)
    return _filled_array("char", 8 * n + 16, call).tobytes()


def mark_literals(model: CData, text: str) -> str:
    """Return the text with literal marks around the texts of special tokens."""
    utf8 = text.encode()
    call = partial(lib.lh_mark_literals, model, utf8, len(utf8))
    return decode_text(_filled_array("char", 2 * len(utf8) + 64, call).tobytes())


def _filled_array(
    ctype: str, capacity: int, function: Callable[[CData, int, CData, CData], int]
) -> array[int]:
    """Call a function that fills an array; repeat with a larger array if necessary."""
    size = ffi.new("int32_t *")
    error = ffi.new("lh_error *")
    while True:
        out = ffi.new(f"{ctype}[]", capacity)
        status = function(out, capacity, size, error)
        if status != lib.LH_NO_SPACE or size[0] <= capacity:
            check(status, error)
            filled = array("i" if ctype == "int32_t" else "b")
            filled.frombytes(ffi.buffer(out)[: size[0] * filled.itemsize])
            return filled
        capacity = size[0]


def is_control(model: CData, token: int) -> bool:
    """Return whether a token is a control token without text, such as an end of turn."""
    return bool(lib.lh_token_is_control(model, token))


def ends_answer(model: CData, token: int) -> bool:
    """Return whether a token ends an answer."""
    return bool(lib.lh_token_is_eog(model, token))


# Bits of enum llama_token_attr.
_UNKNOWN = 1
_CONTROL = 8
_USER_DEFINED = 16


def is_special(model: CData, token: int) -> bool:
    """Return whether llama_tokenize splits a text at the text of this token."""
    attr = lib.lh_token_attr(model, token)
    return attr >= 0 and bool(attr & (_UNKNOWN | _CONTROL | _USER_DEFINED))


def has_text(model: CData, token: int) -> bool:
    """Return whether a token has text in an answer; control tokens have none."""
    attr = lib.lh_token_attr(model, token)
    return attr >= 0 and not attr & (_UNKNOWN | _CONTROL)


def token_text(model: CData, token: int) -> str | None:
    """Return the text of a token in the vocabulary; None for an invalid token."""
    return text_or_none(lib.lh_token_text(model, token))
