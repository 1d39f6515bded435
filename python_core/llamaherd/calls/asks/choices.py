"""Choices as tokens: tokenization of each choice after each prompt."""

from __future__ import annotations

import unicodedata
from array import array
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import TokenizeError
from llamaherd.engine.core.request import ChoicePaths, check_wanted
from llamaherd.engine.model.tokens import Joined, Joiner, ParseSpecial
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.engine.model.model import Model

# If there are more choices, only this many are tokenized after every prompt. They show
# whether an earlier tokenization of all choices can be reused.
_N_PROBES = 16
_Ways = list[tuple[str, int]]  # text, and number of its choice


class ChoiceCuts:
    """Finds the tokens of choices after prompts.

    `classify_parallel` uses the same tokens. Prompt and choice are tokenized together,
    with a space between them unless the prompt ends in white space, the choice starts
    with white space, or the prompt is a chat. In some prompts it is uncertain whether a
    choice begins with a space: after an opening quote or bracket, in a script without
    spaces, after token ids that end in white space, and in a chat that does not end in
    white space. Then the tokens of both variants are allowed, provided that the prompt's
    tokens do not change.
    """

    def __init__(self, model: Model, parse_special: ParseSpecial, *, chat: bool) -> None:
        self._joiner = Joiner(model, parse_special)
        self._model = model
        self._chat = chat
        self._sets: dict[Sequence[str], frozenset[str]] = {}
        self._known: dict[object, tuple[int, ChoicePaths]] = {}

    def cut(
        self, prompt: object, tokens: array[int], texts: Sequence[str]
    ) -> tuple[array[int], ChoicePaths]:
        """Return the prompt's tokens, without those that choices change, and paths."""
        step = -(-len(texts) // _N_PROBES)
        probes = range(0, len(texts), step)
        joined, ways = self._join_choices(prompt, tokens, texts, probes)
        ending = tokens[len(joined.prompt) :].tobytes()
        cuts = tuple(continuation.tobytes() for continuation in joined.continuations)
        key = (texts, ending, cuts, len(ways))
        if key not in self._known:
            if step > 1:
                joined, ways = self._join_choices(
                    prompt, tokens, texts, range(len(texts))
                )
            paths = _paths(joined.continuations, ways, texts)
            self._known[key] = len(tokens) - len(joined.prompt), paths
        n_dropped, paths = self._known[key]
        return tokens[: len(tokens) - n_dropped], paths

    def _join_choices(
        self,
        prompt: object,
        tokens: array[int],
        texts: Sequence[str],
        chosen: Sequence[int],
    ) -> tuple[Joined, _Ways]:
        is_text = isinstance(prompt, str)
        before = prompt[-1:] if isinstance(prompt, str) else self._end_of(tokens)
        every = self._sets.setdefault(texts, frozenset(texts))
        bare: _Ways = [(texts[i], i) for i in chosen]
        # Unless the text with the space is another choice.
        can_be_spaced = [not t[0].isspace() and f" {t}" not in every for t, _ in bare]
        unspaced = [way for way, can in zip(bare, can_be_spaced, strict=True) if not can]
        either = [way for way, can in zip(bare, can_be_spaced, strict=True) if can]
        spaced: _Ways = [(f" {text}", i) for text, i in either]
        if is_text and before.isspace():
            first, other = bare, []
        elif self._chat:
            first, other = bare, spaced
        else:
            is_open = before.isspace() or _opens(before)
            first, other = unspaced + spaced, either if is_open else []
        ways = first + other
        joined = self._join(prompt, tokens, ways)
        if other and len(joined.prompt) < len(tokens):
            least = self._join(prompt, tokens, first)
            if len(least.prompt) > len(joined.prompt):
                joined, ways = least, first
        if not joined.prompt:  # otherwise no prompt token would remain to be computed
            joined = self._joiner.join(tokens, tokens, [text for text, _ in ways])
        return joined, ways

    def _end_of(self, tokens: array[int]) -> str:
        with self._model.using() as handle:
            end = vocabulary.detokenize(
                handle, tokens[-1:], remove_special=False, unparse_special=True
            )
        return end[-1:]

    def _join(self, prompt: object, tokens: array[int], ways: _Ways) -> Joined:
        return self._joiner.join(prompt, tokens, [text for text, _ in ways])


def _opens(character: str) -> bool:
    """Return True for a character after which text continues without a space."""
    is_bracket = unicodedata.category(character or "a") in {"Ps", "Pi"}
    is_wide = bool(character) and unicodedata.east_asian_width(character) in {"W", "F"}
    return is_bracket or is_wide or character in {'"', "'", "`"}


Nodes = dict[tuple[int, int], int]  # nodes of a tree, by parent and token


def add_path(nodes: Nodes, tokens: Iterable[int]) -> list[int]:
    """Add a path from the root (-1) to a tree; return its nodes."""
    check_wanted()
    at, path = -1, []
    for token in tokens:
        at = nodes.setdefault((at, token), len(nodes))
        path.append(at)
    return path


def _paths(
    continuations: Sequence[array[int]], ways: _Ways, texts: Sequence[str]
) -> ChoicePaths:
    nodes: Nodes = {}
    ends: dict[int, int] = {}
    # If a text with a space before it is itself a choice, its path ends in this choice,
    # not in the choice without the space.
    cuts = sorted(
        zip(ways, continuations, strict=True),
        key=lambda cut: cut[0][0] != texts[cut[0][1]],
    )
    for (_, choice), tokens in cuts:
        if path := add_path(nodes, tokens):
            ends.setdefault(path[-1], choice)
    missing = {choice for _, choice in ways} - set(ends.values())
    if missing:
        raise TokenizeError(_same(continuations, ways, texts, min(missing)))
    return ChoicePaths(
        tokens=array("i", [token for _, token in nodes]),
        parents=array("i", [parent for parent, _ in nodes]),
        choices=array("i", [ends.get(node, -1) for node in range(len(nodes))]),
        depth=max(map(len, continuations)),
    )


def _same(
    continuations: Sequence[array[int]], ways: _Ways, texts: Sequence[str], choice: int
) -> str:
    """Return the reason why two choices cannot be distinguished."""
    mine = {
        tokens.tobytes()
        for (_, i), tokens in zip(ways, continuations, strict=True)
        if i == choice
    }
    name = checks.quoted(texts[choice])
    for (_, i), tokens in zip(ways, continuations, strict=True):
        if i != choice and tokens and tokens.tobytes() in mine:
            return (
                f"the choices {checks.quoted(texts[i])} and {name} have the same tokens "
                "after the prompt: give only one of them"
            )
    return f"the choice {name} has no tokens after the prompt"
