"""The fixed words of prompts that are made of codebooks, in four languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Mapping

# What each word is for. `told` is left out where no language was given.
KEYS: dict[str, str] = {
    "text": "stands before each text",
    "answer": "stands before each answer",
    "reason": "stands before the reason of an example",
    "labels": "stands before the list of labels",
    "one": "asks for one label",
    "ordinal": "says that the labels are in order",
    "several": "asks for yes or no for each label",
    "fields": "asks for JSON",
    "yes": "says that a label applies",
    "no": "says that it does not",
    "told": "says which language the texts are in",
}

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "text": "Text",
        "answer": "Label",
        "reason": "Reason",
        "labels": "Labels",
        "one": "Answer with exactly one of these labels.",
        "ordinal": "The labels are in order, from the least to the most.",
        "several": "Several labels may apply, or none. For each label answer yes or no.",
        "fields": "Answer with JSON only, on one line, in this form:",
        "yes": "yes",
        "no": "no",
        "told": "The texts are in English.",
    },
    "de": {
        "text": "Text",
        "answer": "Kategorie",
        "reason": "Grund",
        "labels": "Kategorien",
        "one": "Antworte mit genau einer dieser Kategorien.",
        "ordinal": "Die Kategorien sind geordnet, von der niedrigsten zur höchsten.",
        "several": "Mehrere Kategorien können zutreffen, oder keine. Antworte zu jeder "
        "mit ja oder nein.",
        "fields": "Antworte nur mit JSON, in einer Zeile, in dieser Form:",
        "yes": "ja",
        "no": "nein",
        "told": "Die Texte sind auf Deutsch.",
    },
    "fr": {
        "text": "Texte",
        "answer": "Catégorie",
        "reason": "Raison",
        "labels": "Catégories",
        "one": "Réponds par une seule de ces catégories.",
        "ordinal": "Les catégories sont ordonnées, de la plus basse \u00e0 la plus "
        "haute.",
        "several": "Plusieurs catégories peuvent convenir, ou aucune. Pour chacune, "
        "réponds par oui ou non.",
        "fields": "Réponds uniquement en JSON, sur une ligne, sous cette forme :",
        "yes": "oui",
        "no": "non",
        "told": "Les textes sont en français.",
    },
    "es": {
        "text": "Texto",
        "answer": "Categoría",
        "reason": "Motivo",
        "labels": "Categorías",
        "one": "Responde con una sola de estas categorías.",
        "ordinal": "Las categorías están ordenadas, de la menor a la mayor.",
        "several": "Pueden aplicarse varias categorías, o ninguna. Responde para cada "
        "una sí o no.",
        "fields": "Responde solo con JSON, en una línea, con esta forma:",
        "yes": "sí",
        "no": "no",
        "told": "Los textos están en español.",
    },
}


def words_of(language: str | None, own: Mapping[str, str] | None) -> dict[str, str]:
    """All fixed words of a codebook.

    Args:
        language: One that we have the words of, or another one with all of its own; None:
            English words, and no language is told.
        own: Words to use in place of ours.

    Raises:
        TypeError: `own` maps something else than texts to texts.
        ValueError: There is no such word, or words are missing.
    """
    given = dict(own or {})
    for key, word in given.items():
        if key not in KEYS:
            allowed = ", ".join(map(repr, KEYS))
            raise ValueError(f"words must be among {allowed}, not {checks.shown(key)}")
        checks.text(f"words[{key!r}]", word)
    ours = WORDS.get(language or "en", {})
    made = {key: given.get(key, ours.get(key, "")) for key in KEYS}
    missing = [key for key in KEYS if key not in given and key not in ours]
    if missing:
        have = ", ".join(map(repr, WORDS))
        raise ValueError(
            f"language must be one of {have}, not {checks.shown(language)}, unless words "
            f"has all of {', '.join(map(repr, missing))}"
        )
    if language is None and "told" not in given:
        made["told"] = ""
    return made
