"""Published works, with BibTeX entries and citations in text."""

from __future__ import annotations

from dataclasses import dataclass

# Letters with accents, by their form in BibTeX.
_ACCENTS = {
    "{\\`e}": "\u00e8",
    "{\\'a}": "\u00e1",
    "{\\'o}": "\u00f3",
    "{\\~n}": "\u00f1",
    '{\\"o}': "\u00f6",
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A published work.

    Attributes:
        key: Key in BibTeX.
        kind: Type of the entry, such as "article".
        authors: Names of authors as "Family, Given", in order; () if unknown.
            The last name may be "others".
        year: Year of publication.
        title: Title.
        where: Other fields of the entry, by name, such as journal, pages and doi.
        letter: Letter after the year if several works have the same authors and year.
        is_edited: True if `authors` are editors.
    """

    key: str
    kind: str
    authors: tuple[str, ...]
    year: int
    title: str
    where: dict[str, str]
    letter: str = ""
    is_edited: bool = False

    @property
    def short(self) -> str:
        """Citation with authors and year: "Egami et al. 2023"."""
        names = [_letters(each.partition(",")[0]) for each in self.authors]
        year = f"{self.year}{self.letter}"
        if len(names) > 2 or "others" in names:
            return f"{names[0]} et al. {year}"
        return f"{' and '.join(names) or self.title} {year}"

    @property
    def address(self) -> str:
        """DOI or arXiv number, such as "doi:10.1000/1"; "" if neither is known."""
        if "doi" in self.where:
            return f"doi:{self.where['doi']}"
        return f"arXiv:{self.where['eprint']}" if "eprint" in self.where else ""

    @property
    def bibtex(self) -> str:
        """Entry for a BibTeX file."""
        role = "editor" if self.is_edited else "author"
        fields = {
            **({role: " and ".join(self.authors)} if self.authors else {}),
            "title": f"{{{self.title}}}",
            "year": str(self.year),
            **self.where,
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def _letters(name: str) -> str:
    for written, letter in _ACCENTS.items():
        name = name.replace(written, letter)
    return name


def article(
    key: str, authors: tuple[str, ...], year: int, title: str, **where: str
) -> Reference:
    """Return the reference of an article; `where` are further fields."""
    return Reference(key, "article", authors, year, title, where)


def proceedings(
    key: str, authors: tuple[str, ...], year: int, title: str, **where: str
) -> Reference:
    """Return the reference of a paper in proceedings; `where` are further fields."""
    return Reference(key, "inproceedings", authors, year, title, where)
