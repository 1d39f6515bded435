"""Result of `model_optimize`."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.phrases import percents

if TYPE_CHECKING:
    from collections.abc import Callable
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
class Candidate:
    """A requantized file, compared with the original.

    Attributes:
        type: Type of the file, such as "Q8_0".
        size_bytes: Size of the file.
        closeness: Comparison of its predictions with the predictions of the original.
        speeds: Speeds of the file and of the original (`speeds.base`), measured at the
            same time.
    """

    type: str
    size_bytes: int
    closeness: Closeness
    speeds: Speeds

    @property
    def prefill_speedup(self) -> float:
        """Prefill speed, as a multiple of the original's."""
        return self.speeds.other.prefill / self.speeds.base.prefill

    @property
    def decode_speedup(self) -> float:
        """Decode speed, as a multiple of the original's."""
        return self.speeds.other.decode / self.speeds.base.decode

    @property
    def speedup(self) -> float:
        """Geometric mean of both speedups, by which candidates are ranked."""
        return sqrt(self.prefill_speedup * self.decode_speedup)

    @property
    def row(self) -> FileRow:
        """Row of the report's table."""
        return FileRow(
            type=self.type,
            size_bytes=float(self.size_bytes),
            prefill_tokens_per_s=self.speeds.other.prefill,
            decode_tokens_per_s=self.speeds.other.decode,
            speedup=self.speedup,
            perplexity=self.closeness.other_perplexity,
            mean_kl=self.closeness.mean_kl,
            p99_kl=self.closeness.p99_kl,
            same_top=self.closeness.same_top,
            same_answers=self.speeds.same_answers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """A row of the report's table.

    Attributes:
        size_bytes: Size of the file.
        speedup: See `Candidate.speedup`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """Result of `model_optimize`. `str(report)` is a readable table.

    Attributes:
        path: File to use: the new file, or the original if no file was better.
        original: Original file, unchanged.
        original_type: Type of the original; None if its metadata names no known type.
        chosen: Type of the kept file; None if no file was kept.
        max_kl: Maximum KL divergence, as requested.
        original_size_bytes: Size of the original.
        candidates: All measured files, in the order of `types`.
    """

    path: Path
    original: Path
    original_type: str | None
    chosen: str | None
    max_kl: float
    original_size_bytes: int
    candidates: tuple[Candidate, ...]

    @property
    def rows(self) -> list[FileRow]:
        """Rows of the table: one per file, the original first."""
        # The original was measured again with each candidate, to compute the speedups.
        # The row shows its speed in the measurement with the first candidate.
        first = self.candidates[0]
        original = FileRow(
            type=self.original_type or "original",
            size_bytes=float(self.original_size_bytes),
            prefill_tokens_per_s=first.speeds.base.prefill,
            decode_tokens_per_s=first.speeds.base.decode,
            perplexity=first.closeness.base_perplexity,
        )
        return [original, *(candidate.row for candidate in self.candidates)]

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


def choose(candidates: tuple[Candidate, ...], max_kl: float) -> Candidate | None:
    """Return the fastest candidate that is close and fast enough, or None."""
    good = [
        candidate
        for candidate in candidates
        if candidate.closeness.mean_kl <= max_kl and candidate.speedup >= LEAST_SPEEDUP
    ]
    return max(good, key=lambda candidate: candidate.speedup, default=None)
