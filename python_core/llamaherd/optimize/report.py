"""Result of `model_optimize`."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.phrases import percents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from llamaherd.engine.native.models import Closeness
    from llamaherd.optimize.measure import Speeds

LEAST_SPEEDUP = 1.05  # a smaller speedup may be noise
# Columns of the printed table, in the order of the fields of FileRow.
_COLUMNS: dict[str, Callable[[Any], str]] = {
    "type": str,
    "MB": lambda size: f"{size / 1e6:.0f}",
    "prefill/s": "{:.0f}".format,
    "decode/s": "{:.0f}".format,
    "speedup": "{:.2f}".format,
    "perplexity": "{:.2f}".format,
    "mean KL": "{:.4f}".format,
    "p99 KL": "{:.4f}".format,
    "same top": lambda share: percents(share, 0),
    "same answers": lambda share: percents(share, 0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """A measured file: a row of the report's table.

    Attributes:
        type: Type of the file, such as "Q8_0"; "original" for one without a known type.
        size_bytes: Size of the file.
        prefill_tokens_per_s: Tokens per second of a long prompt.
        decode_tokens_per_s: Tokens per second of 8 answers generated together.
        speedup: Geometric mean of the prefill and the decode speed as multiples of the
            original's, measured at the same time; files are ranked by it.
        perplexity: Perplexity of the sample text.
        mean_kl: Mean KL divergence (original || this file) of the predictions, in nats.
        p99_kl: 99th percentile of the KL divergence.
        same_top: Share of predictions with the same most likely token, in [0, 1].
        same_answers: Share of greedy answers that are equal, in [0, 1].
    """

    type: str
    size_bytes: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    speedup: float = 1.0
    perplexity: float
    mean_kl: float = 0.0
    p99_kl: float = 0.0
    same_top: float = 1.0
    same_answers: float = 1.0


def row_of_original(kind: str, size: int, near: Closeness, speeds: Speeds) -> FileRow:
    """Return the row of the original, as measured together with another file."""
    return FileRow(
        type=kind,
        size_bytes=float(size),
        prefill_tokens_per_s=speeds.base.prefill,
        decode_tokens_per_s=speeds.base.decode,
        perplexity=near.base_perplexity,
    )


def row_of_copy(kind: str, size: int, near: Closeness, speeds: Speeds) -> FileRow:
    """Return the row of a requantized file."""
    base, other = speeds.base, speeds.other
    return FileRow(
        type=kind,
        size_bytes=float(size),
        prefill_tokens_per_s=other.prefill,
        decode_tokens_per_s=other.decode,
        speedup=sqrt(other.prefill / base.prefill * other.decode / base.decode),
        perplexity=near.other_perplexity,
        mean_kl=near.mean_kl,
        p99_kl=near.p99_kl,
        same_top=near.same_top,
        same_answers=speeds.same_answers,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """Result of `model_optimize`. `str(report)` is a readable table.

    Attributes:
        path: File to use: the new file, or the original if no file was better.
        original: Original file, unchanged.
        chosen: Type of the kept file; None if no file was kept.
        max_kl: Maximum KL divergence, as requested.
        rows: All measured files: the original, with its speed beside the first copy, and
            the copies in the order of `types`.
    """

    path: Path
    original: Path
    chosen: str | None
    max_kl: float
    rows: tuple[FileRow, ...]

    def __str__(self) -> str:
        table = [list(_COLUMNS)]
        for row in self.rows:
            values = zip(_COLUMNS.values(), astuple(row), strict=True)
            table.append([form(value) for form, value in values])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in table
        ]
        return "\n".join([*lines, self.verdict])

    @property
    def verdict(self) -> str:
        """Sentence that names the file to use and gives the reason."""
        close = f"a mean KL divergence of at most {self.max_kl:g}"
        if self.chosen is None:
            return (
                f"Kept the original: no candidate has {close} and is at least "
                f"{LEAST_SPEEDUP:g} times as fast."
            )
        return f"Kept {self.chosen}, the fastest with {close}: {self.path}"


def choose(rows: Sequence[FileRow], max_kl: float) -> FileRow | None:
    """Return the fastest requantized file that is close and fast enough, or None."""
    good = [row for row in rows if row.mean_kl <= max_kl and row.speedup >= LEAST_SPEEDUP]
    return max(good, key=lambda row: row.speedup, default=None)
