"""R downloads from a hub on this machine."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
import rscript
from hub_server import Hub, serving
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.long(reason="starts R, with a real model or several calls")
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


@pytest.mark.long(reason="starts R, with a real model or several calls")
def test_ctrl_c_in_a_download_keeps_what_there_is(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    content = tiny_path("llama").read_bytes() + bytes(900_000)
    hub = Hub(repos={"open/tiny-GGUF": {"tiny-F16.gguf": content}}, pause_s=1)
    variables = {
        "HF_HOME": str(tmp_path / "hf"),
        "LLAMAHERD_CACHE_DIR": str(tmp_path / "cache"),
        "NO_PROXY": "*",
    }
    with (
        serving(hub),
        subprocess.Popen(
            rscript.command("hub_interrupted.R", "hf:open/tiny-GGUF"),
            env=rscript.environment(HF_ENDPOINT=hub.url, **variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        ) as process,
    ):
        try:
            parts = (tmp_path / "cache").rglob
            wait_until(lambda: any(part.stat().st_size for part in parts(".*.part")))
            process.send_signal(signal.SIGINT)
            lines = [process.stdout.readline()]
            while lines[-1] and "caught" not in lines[-1]:
                lines.append(process.stdout.readline())
            assert "caught" in lines[-1], lines
            # The thread of the download detects that R no longer waits, and closes the
            # connection.
            wait_until(lambda: hub.n_sending == 0)
            hub.pause_s = 0
            hub.requests.clear()
            output = process.communicate("on\n", timeout=600)[0]
        finally:
            process.kill()
    assert "then tiny-F16.gguf" in output
    assert hub.gets()[0]["range"].startswith("bytes=")
