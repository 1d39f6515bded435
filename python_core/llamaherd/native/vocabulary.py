"""Text to tokens and back, on top of llamaherd.h."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from llamaherd.native.shim import check, decoded, ffi, lib, text_or_none

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.native._shim import CData

PARSE_AUTO = -1  # of `tokenize_prompt`: decide by how the prompt starts


def tokenize(
    model: CData, text: str, *, add_special: bool, parse_special: bool
) -> array[int]:
    """Text to tokens (`llama_tokenize`). Returns int32[n_tokens]."""
    utf8 = text.encode()
    return _filled(
        "int32_t",
        len(utf8) + 8,
        lambda *out: lib.lh_tokenize(
            model, utf8, len(utf8), add_special, parse_special, *out
        ),
    )


def tokenize_inside(model: CData, text: str) -> array[int]:
    """Tokens of text that follows on other text. Returns int32[n_tokens]."""
    utf8 = text.encode()
    return _filled(
        "int32_t",
        len(utf8) + 8,
        lambda *out: lib.lh_tokenize_inside(model, utf8, len(utf8), *out),
    )


def tokenize_prompt(model: CData, text: str, parse_special: int) -> array[int]:
    """Text to the tokens of a prompt (`lh_tokenize_prompt`). Returns int32[n_tokens]."""
    utf8 = text.encode()
    return _filled(
        "int32_t",
        len(utf8) + 8,
        lambda *out: lib.lh_tokenize_prompt(model, utf8, len(utf8), parse_special, *out),
    )


def detokenize(
    model: CData, tokens: array[int], *, remove_special: bool, unparse_special: bool
) -> str:
    """Tokens, int32[n], to text; bytes that are no UTF-8 become U+FFFD.

    Raises:
        ValueError: A token is outside the vocabulary.
    """
    pointer = ffi.from_buffer("int32_t[]", tokens)
    filled = _filled(
        "char",
        8 * len(tokens) + 16,
        lambda *out: lib.lh_detokenize(
            model, pointer, len(tokens), remove_special, unparse_special, *out
        ),
    )
    return decoded(filled.tobytes())


def mark_literals(model: CData, text: str) -> str:
    """The text with literal marks around what would parse as a special token."""
    utf8 = text.encode()
    filled = _filled(
        "char",
        2 * len(utf8) + 64,
        lambda *out: lib.lh_mark_literals(model, utf8, len(utf8), *out),
    )
    return decoded(filled.tobytes())


def _filled(
    ctype: str, capacity: int, function: Callable[[CData, int, CData, CData], int]
) -> array[int]:
    """What a function wrote that fills arrays; calls it again if it needs more room."""
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
    """Whether a token stands for no text, such as the end of a turn."""
    return bool(lib.lh_token_is_control(model, token))


# Bits of enum llama_token_attr.
_UNKNOWN = 1
_CONTROL = 8
_USER_DEFINED = 16


def is_special(model: CData, token: int) -> bool:
    """Whether llama_tokenize cuts a text at the text of a token."""
    attr = lib.lh_token_attr(model, token)
    return attr >= 0 and bool(attr & (_UNKNOWN | _CONTROL | _USER_DEFINED))


def token_text(model: CData, token: int) -> str | None:
    """A token as the vocabulary writes it; None outside the vocabulary."""
    return text_or_none(lib.lh_token_text(model, token))
