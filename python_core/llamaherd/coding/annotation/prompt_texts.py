"""Fixed words of codebook prompts, in four languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.calls.structured.prompt import JSON_ONLY
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Purpose of each fixed word. The word `told` is omitted if no language is given.
KEYS: dict[str, str] = {
    "text": "precedes each text",
    "answer": "precedes each answer",
    "reason": "precedes the reason of an example",
    "labels": "precedes the list of labels",
    "one": "asks for one label",
    "ordinal": "states that the labels are in order",
    "several": "asks for yes or no for each label",
    "fields": "asks for JSON",
    "yes": "states that a label applies",
    "no": "states that a label does not apply",
    "number": "precedes each number of a scale, instead of `answer`",
    "numbers": "precedes the named numbers of a scale",
    "scale": "asks for a number of a scale; {from}, {to} and {step} are replaced",
    "told": "states which language the texts are in",
    "quote": "precedes the quote that supports a label",
}
# Words that another language may omit; the English words are then used.
_OPTIONAL = frozenset({"quote"})

# words that only some codebooks need
OF_TYPES = frozenset(("number", "numbers", "scale"))

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "text": "Text",
        "answer": "Label",
        "reason": "Reason",
        "labels": "Labels",
        "one": "Answer with exactly one of these labels.",
        "ordinal": "The labels are in order, from the least to the most.",
        "several": "Several labels may apply, or none. For each label answer yes or no.",
        "fields": JSON_ONLY,
        "yes": "yes",
        "no": "no",
        "number": "Number",
        "numbers": "Numbers",
        "scale": "Answer with exactly one number from {from} to {to}, in steps of "
        "{step}.",
        "told": "The texts are in English.",
        "quote": "Words of the text that this label rests on",
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
        "number": "Zahl",
        "numbers": "Zahlen",
        "scale": "Antworte mit genau einer Zahl von {from} bis {to}, in Schritten von "
        "{step}.",
        "told": "Die Texte sind auf Deutsch.",
        "quote": "Wörter des Textes, auf denen diese Kategorie beruht",
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
        "number": "Nombre",
        "numbers": "Nombres",
        "scale": "Réponds par un seul nombre de {from} \u00e0 {to}, par pas de {step}.",
        "told": "Les textes sont en français.",
        "quote": "Mots du texte sur lesquels repose cette catégorie",
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
        "number": "Número",
        "numbers": "Números",
        "scale": "Responde con un solo número de {from} a {to}, en pasos de {step}.",
        "told": "Los textos están en español.",
        "quote": "Palabras del texto en las que se basa esta categoría",
    },
}


def words_of(
    language: str | None, own: Mapping[str, str] | None, more: Collection[str] = ()
) -> dict[str, str]:
    """Return all fixed words of a codebook."""
    given = dict(own or {})
    for key, word in given.items():
        if key not in KEYS:
            allowed = ", ".join(map(repr, KEYS))
            raise ArgumentError(
                f"must have names among {allowed}, not {checks.shown(key)}",
                argument="words",
                code="unknown_argument",
            )
        given[key] = checks.text(Argument("words", (key,)), word)
    english = {key: WORDS["en"][key] for key in _OPTIONAL}
    defaults = WORDS.get(language or "en", english)
    made = {key: given.get(key, defaults.get(key, "")) for key in KEYS}
    needed = [key for key in KEYS if key not in OF_TYPES or key in more]
    missing = [key for key in needed if key not in given and key not in defaults]
    if missing:
        have = ", ".join(map(repr, WORDS))
        raise ArgumentError(
            f"must be one of {have}, not {checks.shown(language)}, unless words "
            f"contains {', '.join(map(repr, missing))}",
            argument="language",
            code="unknown_choice",
        )
    if language is None and "told" not in given:
        made["told"] = ""
    return made
