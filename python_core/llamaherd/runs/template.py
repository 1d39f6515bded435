"""A row's prompt: a text with `{column}` where the row's values go."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Template:
    """Texts and columns in turn; what comes from a row is never read as a template.

    Attributes:
        parts: Text, or the name of a column, and whether it is that.
    """

    parts: tuple[tuple[str, bool], ...]

    @classmethod
    def parsed(cls, text: str) -> Template:
        """What a user wrote; `{{` and `}}` stand for braces.

        Raises:
            ValueError: A brace has no other one, or no column is named.
        """
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
                raise ValueError(
                    f"prompt has a single {match[0]!r} near {near!r}: write {{column}} "
                    "for a column, and {{ or }} for a brace"
                )
        parts.append((literal + text[end:], False))
        found = cls(tuple(part for part in parts if part[0]))
        if not found.columns:
            raise ValueError(
                "prompt names no column, so that all rows would be asked the same: write "
                f"{{text}} where a column's values go, not {checks.shown(text)}"
            )
        return found

    @classmethod
    def of_column(cls, name: str) -> Template:
        """A column's texts as they are."""
        return cls(((name, True),))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are named, each once."""
        return tuple(dict.fromkeys(name for name, is_column in self.parts if is_column))

    def filled(self, row: Mapping[str, object]) -> tuple[str, str]:
        """The prompt of a row, and why there is none; either is "".

        A column that is empty is not asked about: nobody wants an answer to that.
        """
        texts = []
        for part, is_column in self.parts:
            if not is_column:
                texts.append(part)
                continue
            if part not in row:
                return "", f"the row has no {part!r}"
            text = shown(row[part])
            if not text.strip():
                return "", f"column {part!r} is empty"
            texts.append(text)
        return "".join(texts), ""

    def check(self, columns: Sequence[str]) -> None:
        """Checks that a table has the columns.

        Raises:
            ValueError: It lacks one.
        """
        for name in self.columns:
            if name not in columns:
                known = ", ".join(map(repr, columns[:20])) or "none"
                raise ValueError(
                    f"the input has no column {name!r} for the prompt; it has {known}"
                )

    def __str__(self) -> str:
        doubled = str.maketrans({"{": "{{", "}": "}}"})
        return "".join(
            f"{{{part}}}" if is_column else part.translate(doubled)
            for part, is_column in self.parts
        )


def shown(value: object) -> str:
    """A value as text: of a text itself, of what is missing "", otherwise as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
