"""The tokens of a prompt and what comes after it, tokenized together.

A tokenizer may merge the end of a prompt with what follows: " " and "yes" are one token
" yes". So the text of both is tokenized as one. Where the tokens of the prompt alone end
otherwise than in that, the continuation begins with the first token that differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.model.tokens import prompt_tokens, tokenizing
from llamaherd.native import vocabulary

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.model.model import Model
    from llamaherd.model.tokens import ParseSpecial

_MARKS = ("\ufdd0", "\ufdd1")  # see lh_tokenize_prompt
_LEAST_TAIL = 24  # characters, so that what follows changes no token before them
_MOST_TAIL = 400
_MAX_CACHED = 1024


@dataclass(frozen=True, slots=True)
class Joined:
    """Tokens of a prompt, and of each continuation.

    Attributes:
        prompt: int32[n], as far as all continuations have it in common.
        continuations: Each an int32[n] that follows on it, one token or more.
    """

    prompt: array[int]
    continuations: list[array[int]]


class Joiner:
    """Tokenizes prompts with what follows on them.

    Args:
        model: Whose vocabulary to use.
        parse_special: Of the prompts, see `prompt_tokens`. Continuations are plain text.
    """

    def __init__(self, model: Model, parse_special: ParseSpecial) -> None:
        self._model = model
        self._parse_special = parse_special
        self._tails: dict[tuple[str, bool], dict[str, array[int]]] = {}

    def prompt(self, name: str, prompt: object) -> array[int]:
        """Tokens of a prompt alone, without an end that the model adds.

        Raises:
            TypeError: `prompt` is neither text nor token ids.
            TokenizeError: llama_tokenize fails.
        """
        tokens = prompt_tokens(self._model, name, prompt, self._parse_special)
        return self._without_end(tokens) if isinstance(prompt, str) else tokens

    def join(self, prompt: object, tokens: array[int], texts: Sequence[str]) -> Joined:
        """Tokens of a prompt and of the texts that follow on it.

        Args:
            prompt: Text, or token ids, which stay as they are.
            tokens: Its tokens, see `prompt`.
            texts: None of them empty.

        Raises:
            TokenizeError: llama_tokenize fails.
        """
        with tokenizing():
            if isinstance(prompt, str):
                return self._join(prompt, tokens, texts)
            return Joined(tokens, [self._behind(tokens, text) for text in texts])

    # ---- inside ----

    def _behind(self, tokens: array[int], text: str) -> array[int]:
        """Tokens of a text behind others.

        Where a tokenizer puts a space before a text, it also does behind a special token.
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
            tail = None  # what is plain text has to be marked as such
        wholes = [self._whole(prompt, tail, text) for text in texts]
        # Where the tail begins; what comes before it is the same with all texts.
        first = 0 if tail is None else len(tokens) - len(tail.tokens)
        n_common = len(tokens)
        for whole in wholes:
            n_common = min(n_common, first + _n_common(tokens[first:], whole))
        return Joined(tokens[:n_common], [whole[n_common - first :] for whole in wholes])

    def _whole(self, prompt: str, tail: _Tail | None, text: str) -> array[int]:
        """Tokens of a prompt, or of its tail, together with what follows."""
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
        """Whether the texts of special tokens in a prompt mean those."""
        if self._parse_special != "auto":
            return self._parse_special
        if any(mark in prompt for mark in _MARKS):
            return True
        with self._model.using() as handle:  # it does, if the prompt starts with one
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
        """An end of a prompt that can be tokenized without what comes before it.

        It begins with a special token, or at a word, behind which are more characters
        than a token may reach back; and its tokens are those that the prompt ends with.
        To tokenize all of a long prompt again for each of many labels would take longer
        than to compute them. None: it has no such end.
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
        """Where the tail may begin."""
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
        """Tokens of text in the middle; with `parses` some may be special."""
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


def _n_common(a: array[int], b: array[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
