"""Folder of files and batches under the rules of Windows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import windows_rules
from llamaherd.server.batches.store import BatchStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(sys.platform != "linux", reason="imitates Windows by /proc")
@pytest.mark.parametrize("by", ["remove_file", "sweep"])
def test_a_file_that_a_client_reads_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    now = [1000.0]
    store = BatchStore(tmp_path, clock=lambda: now[0])
    path = store.new_path()
    path.write_bytes(b"a")
    file = store.add_file(path, "a", "batch", keep_s=3600)
    windows_rules.imitate(monkeypatch)
    with path.open("rb"):
        if by == "sweep":
            now[0] += 3600
            store.sweep()
        else:
            store.remove_file(file)
        assert store.files() == []
        store.close()
        BatchStore(tmp_path).close()  # another server starts
        assert path.exists()
    BatchStore(tmp_path).close()
    assert not path.exists()
