"""Tokens of texts and prompts, alone and after a joined text."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from io import IOBase
from typing import TYPE_CHECKING, Literal, SupportsIndex

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Name, argument_of
from llamaherd.engine.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    ModelClosedError,
    NativeError,
    TokenizeError,
)
from llamaherd.engine.core.request import n_common
from llamaherd.engine.model.model import Model, as_model
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from types import TracebackType


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
    """Return the bytes of each token, which may be parts of a character."""
    with model.using() as handle:
        known = {token: vocabulary.token_bytes(handle, token) for token in set(tokens)}
    return [known[token] for token in tokens]


def prompt_tokens(
    model: Model, name: Name, prompt: object, parse_special: ParseSpecial = "auto"
) -> array[int]:
    """Return the tokens of a prompt, int32[n_tokens]; token ids are not changed.

    Args:
        parse_special: Whether to parse the texts of special tokens as these tokens.
            "auto" parses them if the prompt starts with one, as prompts of chat templates
            do, or has literal marks (see `apply_chat_template`).
    """
    if not isinstance(prompt, str):
        ids = _checked_ids(name, prompt)
        _check_range(name, ids, model.info.n_vocab)
        return _as_array(name, ids)
    how = vocabulary.PARSE_AUTO if parse_special == "auto" else int(parse_special)
    text = checks.text(name, prompt)
    with TOKENIZING, model.using() as handle:
        return vocabulary.tokenize_prompt(handle, text, how)


def _check_range(name: Name, ids: Collection[int], n_vocab: int) -> None:
    if len(ids) and not 0 <= min(ids) <= max(ids) < n_vocab:
        wrong = next(token for token in ids if not 0 <= token < n_vocab)
        raise TokenizeError(
            f"the {argument_of(name).name.removesuffix('s')} has the token {wrong}, but "
            f"the model's token ids are 0 to {n_vocab - 1}"
        )


class Tokenizing:
    """Converts errors of its block, except ModelClosedError, to a TokenizeError."""

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
    """Convert token ids to int32[n]."""
    return _as_array(name, _checked_ids(name, tokens))


def _checked_ids(name: Name, tokens: object) -> Collection[int]:
    """Return token ids; raise an error for text, unordered values and non-integers."""
    no_order = isinstance(tokens, (AbstractSet, Mapping, IOBase))
    is_text = isinstance(tokens, (str, bytes, bytearray))
    if is_text or no_order or not hasattr(tokens, "__iter__"):
        raise ArgumentTypeError(
            f"must be text or a sequence of token ids, not {checks.brief(tokens)}",
            argument=name,
        )
    if isinstance(tokens, array):
        return tokens
    ids = tokens if isinstance(tokens, (list, tuple)) else list(tokens)
    if set(map(type, ids)) != {int}:
        for i, token in enumerate(ids):
            if isinstance(token, bool) or not hasattr(token, "__index__"):
                raise ArgumentTypeError(
                    f"must be an integer, not {checks.brief(token)}",
                    argument=argument_of(name).at(i),
                )
    return ids


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


_MARKS = ("\ufdd0", "\ufdd1")  # see lh_tokenize_prompt
_LEAST_TAIL = 24  # characters; a continuation changes no token before them
_MOST_TAIL = 400
_MAX_CACHED = 1024


@dataclass(frozen=True, slots=True)
class Joined:
    """Tokens of a prompt and of each continuation, int32[n]."""

    prompt: array[int]
    continuations: list[array[int]]


class Joiner:
    """Tokenizer of prompts, and of continuations as plain text."""

    def __init__(self, model: Model, parse_special: ParseSpecial) -> None:
        self._model = model
        self._parse_special = parse_special
        self._tails: dict[tuple[str, bool], dict[str, array[int]]] = {}

    def prompt(self, name: Name, prompt: object) -> array[int]:
        """Tokenize a prompt alone, without the end tokens that the model adds."""
        tokens = prompt_tokens(self._model, name, prompt, self._parse_special)
        return self._without_end(tokens) if isinstance(prompt, str) else tokens

    def join(self, prompt: object, tokens: array[int], texts: Sequence[str]) -> Joined:
        """Tokenize a prompt (text or token ids) and its continuations, none empty."""
        with TOKENIZING:
            if isinstance(prompt, str):
                return self._join(prompt, tokens, texts)
            return Joined(tokens, [self._behind(tokens, text) for text in texts])

    # ---- internal ----

    def _behind(self, tokens: array[int], text: str) -> array[int]:
        """Tokenize a text after tokens; a space is added after a special one, too."""
        with self._model.using() as handle:
            if not tokens or vocabulary.is_special(handle, tokens[-1]):
                return vocabulary.tokenize(
                    handle, text, add_special=False, parse_special=False
                )
            return vocabulary.tokenize_inside(handle, text)

    def _join(self, prompt: str, tokens: array[int], texts: Sequence[str]) -> Joined:
        parses = self._parses(prompt)
        tail = self._tail(prompt, tokens, parses=parses)
        if tail is not None and parses and any(self._is_special(t) for t in texts):
            tail = None  # literal marks make the text plain
        wholes = [self._whole(prompt, tail, text, parses=parses) for text in texts]
        # Start of the tail. The tokens before the tail are the same for all texts.
        first = 0 if tail is None else len(tokens) - len(tail.tokens)
        n_shared = len(tokens)
        for whole in wholes:
            n_shared = min(n_shared, first + n_common(tokens[first:], whole))
        return Joined(tokens[:n_shared], [whole[n_shared - first :] for whole in wholes])

    def _whole(
        self, prompt: str, tail: _Tail | None, text: str, *, parses: bool
    ) -> array[int]:
        """Tokenize a prompt, or its tail, together with a continuation."""
        if tail is None:
            how = self._parse_special
            joined = prompt + (self._literal(text) if parses else text)
            return self._without_end(prompt_tokens(self._model, "prompt", joined, how))
        if len(self._tails) > _MAX_CACHED:
            self._tails.clear()
        known = self._tails.setdefault((tail.text, tail.parses), {})
        if text not in known:
            known[text] = self._tokens(tail.text + text, parses=tail.parses)
        return known[text]

    def _parses(self, prompt: str) -> bool:
        """Return whether texts of special tokens in a prompt are parsed as tokens."""
        if self._parse_special != "auto":
            return self._parse_special
        if any(mark in prompt for mark in _MARKS):
            return True
        with self._model.using() as handle:  # "auto": if it starts with one
            how = vocabulary.PARSE_AUTO
            head = prompt[:_LEAST_TAIL]
            auto = vocabulary.tokenize_prompt(handle, head, how)
            return auto != vocabulary.tokenize_prompt(handle, head, 0)

    def _is_special(self, text: str) -> bool:
        return self._literal(text) != text

    def _literal(self, text: str) -> str:
        with self._model.using() as handle:
            return vocabulary.mark_literals(handle, text)

    def _tail(self, prompt: str, tokens: array[int], *, parses: bool) -> _Tail | None:
        """Return an end of a prompt that can be tokenized alone; None if none is found.

        It begins with a special token, or at a word that no token joined with a
        continuation can reach. So a long prompt is not tokenized again for each of many
        labels.
        """
        for start in self._starts(prompt, tokens, parses=parses):
            text = prompt[start:]
            if any(mark in text for mark in _MARKS):
                continue
            tail = self._tokens(text, parses=parses)
            if 0 < len(tail) < len(tokens) and tokens[-len(tail) :] == tail:
                return _Tail(text, parses, tail)
        return None

    def _starts(self, prompt: str, tokens: array[int], *, parses: bool) -> list[int]:
        """Return the possible starts of the tail."""
        starts = []
        if parses:
            with self._model.using() as handle:
                for token in reversed(tokens[1:][-_LEAST_TAIL:]):
                    if vocabulary.is_control(handle, token):
                        text = vocabulary.token_text(handle, token)
                        starts.append(prompt.rfind(text) if text else -1)
                        break
        least = len(prompt) - _MOST_TAIL
        at = len(prompt) - _LEAST_TAIL
        for _ in range(3):
            at = prompt.rfind(" ", max(least, 0), max(at, 0))
            if at <= 0:
                break
            if prompt[at + 1].isalnum() and not prompt[at - 1].isspace():
                starts.append(at)
        return [start for start in starts if start > 0]

    def _tokens(self, text: str, *, parses: bool) -> array[int]:
        """Tokenize text in the middle of a prompt; `parses` allows special tokens."""
        with self._model.using() as handle:
            return vocabulary.tokenize(
                handle, text, add_special=False, parse_special=parses
            )

    def _without_end(self, tokens: array[int]) -> array[int]:
        info = self._model.info
        if info.add_eos and len(tokens) > 1 and tokens[-1] == info.eos:
            return tokens[:-1]
        return tokens


@dataclass(frozen=True, slots=True)
class _Tail:
    text: str
    parses: bool
    tokens: array[int]
