"""R downloads from a hub on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rscript
from hub_server import Hub, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_r_loads_models_of_a_hub(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    files = {"tiny-F16.gguf": tiny_path("llama").read_bytes()}
    hub = Hub(repos={"open/tiny-GGUF": files, "gated/tiny-GGUF": files})
    hub.gated.add("gated/tiny-GGUF")
    with serving(hub):
        output = rscript.run(
            "hub.R",
            *("open/tiny-GGUF", "gated/tiny-GGUF", hub.token),
            HF_ENDPOINT=hub.url,
            HF_HOME=str(tmp_path / "hf"),
            HF_TOKEN="",
            LLAMAHERD_CACHE_DIR=str(tmp_path / "cache"),
            HOME=str(tmp_path),
            NO_PROXY="*",
        )
    assert "hub: done" in output
    assert "hf:open/tiny-GGUF: taking F16" in output
    assert "there is no token" in output
    assert hub.token not in output
    written = b"".join(p.read_bytes() for p in (tmp_path / "cache").rglob("*.json"))
    assert hub.token.encode() not in written
