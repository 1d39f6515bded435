"""Progress of jobs that start a server or a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from llamaherd.core.progress import JobProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProgress(JobProgress):
    """Progress of a start, without counts until the start is complete.

    Attributes:
        n_done: 1 when the start is complete, 0 before.
        n_total: 0, because the duration is unknown.
    """

    n_done: int
    n_total: int = 0

    unit: ClassVar[str] = "starts"
