"""Prose of methods paragraphs and checklists: templates, and words for values in them."""

from __future__ import annotations

from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jinja2

from llamaherd.coding.gold.draw import DESIGNS
from llamaherd.coding.references import REFERENCES
from llamaherd.coding.sentences import FILTERS, WORDS, enumeration, number, with_interval
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.engine.core.phrases import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MISSING = "not available"  # in place of a number
_PROGRAMS = {"llamaherd": "llamaherd authors", "llamacpp": "llama.cpp"}


def cite(used: list[str], *keys: str) -> str:
    """Return a citation of works in parentheses, and record their keys in `used`."""
    used += [key for key in keys if key not in used]
    works = [_PROGRAMS.get(key) or REFERENCES[key].short for key in keys]
    return f"({'; '.join(works)})"


def format_measure(measure: Mapping[str, Any], level: float | None = None) -> str:
    """Format a measure with its interval, and with the confidence level if given."""
    name = "" if level is None else f"{percent(level)} interval "
    return with_interval(measure, form=f"({name}{{}} to {{}})", missing=MISSING)


def short_hash(sha256: str) -> str:
    """Return the first digits of a SHA-256, to identify it in a text."""
    return f"SHA-256 {sha256[:12]}\u2026"


def date_of(time: str) -> str:
    """Format the date of an ISO time, such as "25 November 2026"."""
    day = datetime.fromisoformat(time)
    return f"{day.day} {day:%B %Y}"


def design_text(design: Mapping[str, Any]) -> str:
    """Return how a sample was drawn, with the columns of its strata."""
    by = design.get("by")
    columns = (
        "" if by is None else f" of {by if isinstance(by, str) else enumeration(by)}"
    )
    return f"{DESIGNS[design['kind']]}{columns}"


def weights_of(validation: Mapping[str, Any]) -> Sequence[str]:
    """Return the weights of a validation, also of a report of an earlier version."""
    earlier = ("inclusion",) if validation["is_weighted"] else ()
    known: Sequence[str] = validation.get("weighted_by", earlier)
    return known


def paragraphs(template: str, facts: Mapping[str, Any]) -> list[list[str]]:
    """Render a template of plain text."""
    text = _TEXTS.get_template(template).render(facts)
    sentences: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip() == "--":
            sentences.append([])
        elif line.strip():
            sentences[-1].append(line.strip())
    return sentences


def phrase(source: str, facts: Mapping[str, Any]) -> str:
    """Render a phrase, the text of a template of ours."""
    return _compile_template(source).render(facts).strip()


@cache
def _compile_template(source: str) -> jinja2.Template:
    return _TEXTS.from_string(source)


def _in_one_line(value: object) -> object:
    return value.replace("\n", " ") if isinstance(value, str) else value


# Plain text, which pages and documents escape.
_TEXTS = jinja2.Environment(
    loader=jinja2.PackageLoader("llamaherd.coding.reports"),
    autoescape=False,  # noqa: S701 - no HTML
    undefined=jinja2.StrictUndefined,
    finalize=_in_one_line,
    trim_blocks=True,
    lstrip_blocks=True,
)
REPORT_WORDS = WORDS | {
    "coefficients": COEFFICIENTS,
    "date_of": date_of,
    "design_text": design_text,
    "designs": DESIGNS,
    "measured": format_measure,
    "number": partial(number, missing=MISSING),
    "references": REFERENCES,
    "short_hash": short_hash,
}
_TEXTS.globals |= REPORT_WORDS
_TEXTS.filters |= FILTERS | {"short": lambda key: REFERENCES[key].short}
