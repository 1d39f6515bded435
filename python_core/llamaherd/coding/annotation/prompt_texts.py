"""Fixed words of codebook prompts; `words.yaml` has them in four languages."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Words that another language may omit; the English words are then used.
_OPTIONAL = frozenset({"quote"})
# words that only some codebooks need
_OF_TYPES = frozenset(("number", "numbers", "scale"))


@cache
def fixed_words() -> dict[str, dict[str, str]]:
    """Return the words by language and key."""
    text = Path(__file__).with_name("words.yaml").read_text(encoding="utf-8")
    words: dict[str, dict[str, str]] = yaml.safe_load(text)
    return words


def words_of(
    language: str | None, user_words: Mapping[str, str] | None, more: Collection[str] = ()
) -> dict[str, str]:
    """Return all fixed words of a codebook; `more` are the keys that its type needs."""
    languages = fixed_words()
    keys = tuple(languages["en"])
    checked_words = dict(user_words or {})
    for key, word in checked_words.items():
        if key not in keys:
            raise ArgumentError(
                f"must have names among {', '.join(map(repr, keys))}, not "
                f"{checks.shown(key)}",
                argument="words",
                code="unknown_argument",
            )
        checked_words[key] = checks.text(Argument("words", (key,)), word)
    english = {key: languages["en"][key] for key in _OPTIONAL}
    defaults = languages.get(language or "en", english)
    words = {key: checked_words.get(key, defaults.get(key, "")) for key in keys}
    needed = [key for key in keys if key not in _OF_TYPES or key in more]
    missing = [key for key in needed if key not in checked_words and key not in defaults]
    if missing:
        raise ArgumentError(
            f"must be one of {', '.join(map(repr, languages))}, not "
            f"{checks.shown(language)}, unless words contains "
            f"{', '.join(map(repr, missing))}",
            argument="language",
            code="unknown_choice",
        )
    if language is None and "told" not in checked_words:
        words["told"] = ""
    return words
