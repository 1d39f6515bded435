"""Result of `model_optimize`."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from llamaherd.engine.core.phrases import percents

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.engine.native.models import Closeness
    from llamaherd.optimize.measure import Speeds

LEAST_SPEEDUP = 1.05  # a smaller speedup may be noise


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """A line of the report's table.

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
    speedup: float
    perplexity: float
    mean_kl: float
    p99_kl: float
    same_top: float
    same_answers: float


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
        base = self.candidates[0]
        original = FileRow(
            type=self.original_type or "original",
            size_bytes=float(self.original_size_bytes),
            prefill_tokens_per_s=base.speeds.base.prefill,
            decode_tokens_per_s=base.speeds.base.decode,
            speedup=1.0,
            perplexity=base.closeness.base_perplexity,
            mean_kl=0.0,
            p99_kl=0.0,
            same_top=1.0,
            same_answers=1.0,
        )
        return [original, *map(_row, self.candidates)]

    def __str__(self) -> str:
        rows = [_HEADER, *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
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


def _row(candidate: Candidate) -> FileRow:
    return FileRow(
        type=candidate.type,
        size_bytes=float(candidate.size_bytes),
        prefill_tokens_per_s=candidate.speeds.other.prefill,
        decode_tokens_per_s=candidate.speeds.other.decode,
        speedup=candidate.speedup,
        perplexity=candidate.closeness.other_perplexity,
        mean_kl=candidate.closeness.mean_kl,
        p99_kl=candidate.closeness.p99_kl,
        same_top=candidate.closeness.same_top,
        same_answers=candidate.speeds.same_answers,
    )


_HEADER = (
    "type",
    "MB",
    "prefill/s",
    "decode/s",
    "speedup",
    "perplexity",
    "mean KL",
    "p99 KL",
    "same top",
    "same answers",
)


def _cells(row: FileRow) -> tuple[str, ...]:
    return (
        row.type,
        f"{row.size_bytes / 1e6:.0f}",
        f"{row.prefill_tokens_per_s:.0f}",
        f"{row.decode_tokens_per_s:.0f}",
        f"{row.speedup:.2f}",
        f"{row.perplexity:.2f}",
        f"{row.mean_kl:.4f}",
        f"{row.p99_kl:.4f}",
        percents(row.same_top, 0),
        percents(row.same_answers, 0),
    )
