"""A hub on this machine and empty caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hub_server import Hub, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache(own_cache: Path) -> Path:
    return own_cache


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[Hub]:
    del cache
    # Tests do not wait between attempts to reach a server.
    monkeypatch.setattr("llamaherd.engine.hub.download._MOST_WAIT_S", 0)
    monkeypatch.setattr("llamaherd.engine.hub.download._wait_after", lambda _n: 0.0)
    with serving(Hub()) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server
