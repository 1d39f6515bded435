"""Joint tokenization of a prompt and its continuations.

A tokenizer may merge the end of a prompt with the following text: " " and "yes" become
one token " yes". Both texts are therefore tokenized together. If the prompt alone has
other tokens at its end, the continuation begins at the first token that differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.engine.model.tokens import TOKENIZING, prompt_tokens
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.engine.core.argument import Name
    from llamaherd.engine.model.model import Model
    from llamaherd.engine.model.tokens import ParseSpecial

_MARKS = ("\ufdd0", "\ufdd1")  # see lh_tokenize_prompt
_LEAST_TAIL = 24  # characters; a continuation changes no token before them
_MOST_TAIL = 400
_MAX_CACHED = 1024


@dataclass(frozen=True, slots=True)
class Joined:
    """Tokens of a prompt and of its continuations.

    Attributes:
        prompt: int32[n], the tokens that all continuations share.
        continuations: int32[n] for each continuation, at least one token.
    """

    prompt: array[int]
    continuations: list[array[int]]


class Joiner:
    """Tokenizer of prompts with continuations.

    Args:
        model: Model with the vocabulary.
        parse_special: Treatment of special tokens in prompts, see `prompt_tokens`.
            Continuations are read as plain text.
    """

    def __init__(self, model: Model, parse_special: ParseSpecial) -> None:
        self._model = model
        self._parse_special = parse_special
        self._tails: dict[tuple[str, bool], dict[str, array[int]]] = {}

    def prompt(self, name: Name, prompt: object) -> array[int]:
        """Tokenize a prompt alone, without the end tokens that the model adds.

        Raises:
            TypeError: `prompt` is neither text nor token ids.
            TokenizeError: llama_tokenize fails.
        """
        tokens = prompt_tokens(self._model, name, prompt, self._parse_special)
        return self._without_end(tokens) if isinstance(prompt, str) else tokens

    def join(self, prompt: object, tokens: array[int], texts: Sequence[str]) -> Joined:
        """Tokenize a prompt and its continuations.

        Args:
            prompt: Text, or token ids, which are not changed.
            tokens: Tokens of the prompt, see `prompt`.
            texts: Continuations, which must not be empty.

        Raises:
            TokenizeError: llama_tokenize fails.
        """
        with TOKENIZING:
            if isinstance(prompt, str):
                return self._join(prompt, tokens, texts)
            return Joined(tokens, [self._behind(tokens, text) for text in texts])

    # ---- internal ----

    def _behind(self, tokens: array[int], text: str) -> array[int]:
        """Tokenize a text that follows other tokens.

        A tokenizer that adds a space before a text adds it also after a special token.
        """
        with self._model.using() as handle:
            if not tokens or vocabulary.is_special(handle, tokens[-1]):
                return vocabulary.tokenize(
                    handle, text, add_special=False, parse_special=False
                )
            return vocabulary.tokenize_inside(handle, text)

    def _join(self, prompt: str, tokens: array[int], texts: Sequence[str]) -> Joined:
        tail = self._tail(prompt, tokens)
        if tail is not None and tail.parses and any(self._is_special(t) for t in texts):
            tail = None  # literal marks make the text plain
        wholes = [self._whole(prompt, tail, text) for text in texts]
        # Start of the tail. The tokens before the tail are the same for all texts.
        first = 0 if tail is None else len(tokens) - len(tail.tokens)
        n_common = len(tokens)
        for whole in wholes:
            n_common = min(n_common, first + n_common_tokens(tokens[first:], whole))
        return Joined(tokens[:n_common], [whole[n_common - first :] for whole in wholes])

    def _whole(self, prompt: str, tail: _Tail | None, text: str) -> array[int]:
        """Tokenize a prompt, or its tail, together with a continuation."""
        if tail is None:
            how = self._parse_special
            joined = prompt + (self._literal(text) if self._parses(prompt) else text)
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

    def _tail(self, prompt: str, tokens: array[int]) -> _Tail | None:
        """Return an end of a prompt that can be tokenized alone; None if none is found.

        The returned text begins with a special token, or at a word so far before the end
        of the prompt that no token joined with a continuation can reach the word. The
        tokens of the returned text are the last tokens of the prompt. If such a text is
        found, a long prompt need not be tokenized again for each of many labels, which
        would take longer than computing the labels.
        """
        parses = self._parses(prompt)
        for start in self._starts(prompt, tokens, parses=parses):
            text = prompt[start:]
            if any(mark in text for mark in _MARKS):
                continue
            found = self._tokens(text, parses=parses)
            if 0 < len(found) < len(tokens) and tokens[-len(found) :] == found:
                return _Tail(text, parses, found)
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


def n_common_tokens(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the number of tokens with which both sequences begin."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)
