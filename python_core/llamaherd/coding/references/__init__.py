"""References of methods, codebooks and guidelines, by their keys.

`references.bib` has the entries. Reports cite a reference only if its method or codebook
was used; the checklist cites the guidelines, the entries with the keyword "guideline".
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from importlib.resources import files

# Letters with accents, by their form in BibTeX.
_ACCENTS = {
    "{\\`e}": "\u00e8",
    "{\\'a}": "\u00e1",
    "{\\'o}": "\u00f3",
    "{\\~n}": "\u00f1",
    '{\\"o}': "\u00f6",
}
_ENTRY = re.compile(r"^@(\w+)\{(\w+),\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (\w+) = \{(.*)\},$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reference:
    """A published work.

    Attributes:
        key: Key in BibTeX.
        kind: Type of the entry, such as "article".
        letter: Letter after the year if several works have the same authors and year.
    """

    key: str
    kind: str
    fields: dict[str, str]
    letter: str = ""

    @property
    def short(self) -> str:
        """Citation with authors or editors and year: "Egami et al. 2023"."""
        people = self.fields.get("author") or self.fields.get("editor", "")
        names = [_letters(person.partition(",")[0]) for person in people.split(" and ")]
        year = f"{self.fields['year']}{self.letter}"
        if len(names) > 2 or "others" in names:
            return f"{names[0]} et al. {year}"
        return f"{' and '.join(names)} {year}"

    @property
    def address(self) -> str:
        """DOI or arXiv number, such as "doi:10.1000/1"; "" if neither is known."""
        if "doi" in self.fields:
            return f"doi:{self.fields['doi']}"
        return f"arXiv:{self.fields['eprint']}" if "eprint" in self.fields else ""

    @property
    def bibtex(self) -> str:
        """Entry for a BibTeX file."""
        fields = {name: v for name, v in self.fields.items() if name != "keywords"}
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def _letters(name: str) -> str:
    for written, letter in _ACCENTS.items():
        name = name.replace(written, letter)
    return name.strip("{}")


def read_bibtex(text: str) -> dict[str, Reference]:
    """Read entries, with one field a line, as `Reference.bibtex` writes them."""
    entries = [
        Reference(key, kind, dict(_FIELD.findall(fields)))
        for kind, key, fields in _ENTRY.findall(text)
    ]
    alike = defaultdict(list)
    for entry in entries:
        alike[entry.short].append(entry.key)
    letters = {
        key: "abcdefgh"[i]
        for keys in alike.values()
        if len(keys) > 1
        for i, key in enumerate(keys)
    }
    return {e.key: replace(e, letter=letters.get(e.key, "")) for e in entries}


REFERENCES = read_bibtex(
    files(__name__).joinpath("references.bib").read_text(encoding="utf-8")
)
GUIDELINES = tuple(
    entry for entry in REFERENCES.values() if entry.fields.get("keywords") == "guideline"
)
