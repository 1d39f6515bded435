"""Names and titles of the coefficients of agreement of labels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """Words for a coefficient, for pages, plots, notes and methods paragraphs.

    Attributes:
        title: Title in tables and plots.
        short: Name in a note about its interval; empty if it has no such note.
        sentence: Name in a methods paragraph; empty if no paragraph reports it.
        reference: Key of the reference of the methods paragraph.
    """

    title: str
    short: str = ""
    sentence: str = ""
    reference: str = ""


# In the order of tables. A coefficient that is computed must be here.
COEFFICIENTS = {
    "percent": Coefficient(title="percent agreement"),
    "kappa": Coefficient(
        title="Cohen's kappa",
        short="kappa",
        sentence="Cohen's kappa",
        reference="cohen1960",
    ),
    "weighted kappa": Coefficient(
        title="quadratic kappa",
        short="kappa",
        sentence="Cohen's kappa with quadratic weights",
        reference="cohen1968",
    ),
    "alpha": Coefficient(
        title="Krippendorff's alpha",
        short="alpha",
        sentence="Krippendorff's alpha",
        reference="hayes2007",
    ),
    "ac1": Coefficient(
        title="Gwet's AC1", short="AC1", sentence="Gwet's AC1", reference="gwet2008"
    ),
}
