"""Downloads as the work of a job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.hub.fetch import fetch
from llamaherd.hub.progress import FetchMeter
from llamaherd.hub.transfer import Cancelled, Watch

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.hub.downloads import FetchOptions
    from llamaherd.hub.progress import FetchProgress


class FetchWork:
    """Work of a `Job`: searches for a model's file and downloads it.

    Args:
        source: Source of the model, as in `download_model`.
        options: Options of the download. `watch` and `say` are replaced.
        name: Name of the argument in messages.
    """

    problem = ""

    def __init__(
        self, source: object, options: FetchOptions, name: str = "source"
    ) -> None:
        self._source = source
        self._name = name
        self._is_cancelled = False
        self._meter = FetchMeter()
        watch = Watch(step=self._meter.step, is_cancelled=lambda: self._is_cancelled)
        self._options = replace(options, watch=watch, say=self._meter.say)

    @property
    def progress(self) -> FetchProgress:
        """Number of received bytes, and messages for the user."""
        return self._meter.progress

    def cancel(self) -> None:
        """Cancel the download after the current block; the received bytes are kept."""
        self._is_cancelled = True

    def run(self) -> Path | None:
        """Find or download the file; return its path, or None if it was cancelled.

        Raises:
            ModelLoadError: The file does not exist, or does not fit into memory.
            DownloadError: The file could not be downloaded, or has an unexpected content.
        """
        try:
            return fetch(self._source, self._options, self._name)
        except Cancelled:
            return None
