"""The Python blocks of docs/coding.md run as written, in their order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.model,
    pytest.mark.long(reason="labels texts in several ways with a real model"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # few texts, a small model
]
PAGE = rscript.ROOT / "docs" / "coding.md"
ONLINE = "https://github.com/llamaherd/llamaherd/raw/HEAD/examples/data/"
DATA = rscript.ROOT / "examples" / "data"
N_TEXTS = 60


def test_python_blocks_run(
    tmp_path: Path, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpl.use("agg")
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(smollm2_path)
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8").replace(ONLINE, f"{DATA}/")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) > 6
    known: dict[str, Any] = {}
    for i, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, block {i + 1}", "exec"), known)
    assert len(known["coded"].labels) == N_TEXTS
    assert (tmp_path / "report.html").exists()
    for name in ("ctx", "context", "model"):
        known[name].close()
