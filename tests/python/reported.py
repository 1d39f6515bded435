"""Texts and labels of a coding, and changes of the content of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import llamaherd as lh

N = 60
TEXTS = [f"Text number {i} & <{i % 7}>." for i in range(N)]
LABELS = ["yes", "no"]


def with_run(contents: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Return the content of a report with other parts of the record."""
    return {**contents, "run": {**contents["run"], **parts}}


def with_settings(contents: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Return the content of a report with other settings."""
    return with_run(contents, settings={**contents["run"]["settings"], **settings})


def with_codebook(contents: dict[str, Any], book: lh.Codebook) -> dict[str, Any]:
    """Return the content of a report with another codebook."""
    return with_run(contents, codebook={"hash": book.hash, "content": book.to_dict()})
