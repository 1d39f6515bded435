"""Template of prompts: a text in which `{column}` is replaced by the row's value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.plain import cell_text, is_missing
from llamaherd.tasks.task import MissingText

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DELIMITERS = (";", "\t", "|", ",")  # delimiters that programs write into CSV files
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Template:
    """Parsed template. Braces in the values of a row are not interpreted."""

    # Pairs of a text and False, or of a column name and True.
    parts: tuple[tuple[str, bool], ...]

    @classmethod
    def parsed(cls, text: str) -> Template:
        """Parse the text of a template; `{{` and `}}` are literal braces."""
        parts: list[tuple[str, bool]] = []
        literal, end = "", 0
        for match in _PART.finditer(text):
            literal += text[end : match.start()]
            end = match.end()
            if match[0] in ("{{", "}}"):
                literal += match[0][0]
            elif match[1]:
                parts += [(literal, False), (match[1], True)]
                literal = ""
            else:
                near = text[max(0, match.start() - 20) : match.start() + 20]
                raise ArgumentError(
                    f"has a single {match[0]!r} near {near!r}: write {{column}} "
                    "for a column, and {{ or }} for a brace",
                    argument="prompt",
                )
        parts.append((literal + text[end:], False))
        template = cls(tuple(part for part in parts if part[0]))
        if not template.columns:
            raise ArgumentError(
                "names no column, so that all rows would have the same prompt: write "
                f"{{text}} in place of a column's value, not {checks.brief(text)}",
                argument="prompt",
            )
        return template

    @classmethod
    def of_column(cls, name: str) -> Template:
        """Return a template that contains only the value of one column."""
        return cls(((name, True),))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, without duplicates."""
        return tuple(dict.fromkeys(name for name, is_column in self.parts if is_column))

    def filled(self, row: Mapping[str, object]) -> tuple[str, str]:
        """Return (prompt, ""), or ("", reason) if a column of the row is empty."""
        texts = []
        for part, is_column in self.parts:
            if not is_column:
                texts.append(part)
                continue
            if part not in row:
                return "", f"the row has no {part!r}"
            text = cell_text(row[part])
            if not text.strip():
                if len(self.parts) > 1:
                    return "", f"the text is empty in column {part!r}"
                problem = "the text is empty"  # the same text as in calls without a table
                return "", MissingText(problem) if is_missing(row[part]) else problem
            texts.append(text)
        return "".join(texts), ""

    def check(self, columns: Sequence[str]) -> None:
        """Check that a table has the columns; suggest another delimiter."""
        for name in self.columns:
            if name not in columns:
                known = ", ".join(map(repr, columns[:20])) or "none"
                hint = _delimiter_hint(name, columns)
                raise ArgumentError(
                    f"the input has no column {name!r} for the prompt; it has "
                    f"{known}{hint}",
                    argument="prompt",
                    code="missing",
                    form="{problem}",
                )

    def canonical(self) -> str | list[list[object]]:
        """Return JSON types that differ for different templates.

        The text of a column with braces, from `of_column`, could be another template.
        """
        if any(set("{}") & set(name) for name in self.columns):
            return [list(part) for part in self.parts]
        return str(self)

    def __str__(self) -> str:
        doubled = str.maketrans({"{": "{{", "}": "}}"})
        return "".join(
            f"{{{part}}}" if is_column else part.translate(doubled)
            for part, is_column in self.parts
        )


def _delimiter_hint(name: str, columns: Sequence[str]) -> str:
    """Return advice on the delimiter of a table that was read as one column."""
    if len(columns) != 1:
        return ""
    for delimiter in _DELIMITERS:
        if name in (cell.strip().strip('"') for cell in columns[0].split(delimiter)):
            return f"; is its delimiter {delimiter!r} (--delimiter)?"
    return ""
