"""A hub on this machine and empty caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hub_server import Hub, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VARIABLES = (
    *("HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN"),
    *("HF_HUB_OFFLINE", "OLLAMA_MODELS", "LLAMAHERD_CACHE_DIR"),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of this user's is seen, and nothing written to."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no_token"))
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.setenv("NO_PROXY", "*")
    return tmp_path / "xdg" / "llamaherd" / "models"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[Hub]:
    del cache
    # No test waits for a server that comes back.
    monkeypatch.setattr("llamaherd.hub.transfer._MOST_WAIT_S", 0)
    monkeypatch.setattr("llamaherd.hub.transfer._wait_after", lambda _n: 0.0)
    with serving(Hub()) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server
