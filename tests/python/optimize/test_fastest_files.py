"""The search for the fastest file of a model runs only once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.optimize import fastest_files

if TYPE_CHECKING:
    from collections.abc import Callable


class Finder:
    """Replaces model_optimize, which takes minutes and depends on the machine."""

    def __init__(self, *, finds: bool) -> None:
        self.finds = finds
        self.n_calls = 0

    def __call__(self, path: Path, out: Path, *, progress: object) -> object:
        del progress
        self.n_calls += 1
        best = Path(path)
        if self.finds:
            best = Path(out) / f"{best.stem}.Q4_0.llamaherd.gguf"
            best.write_bytes(Path(path).read_bytes())
        return type("Report", (), {"path": best, "verdict": "Kept it."})


@pytest.mark.parametrize("finds", [True, False])
def test_it_is_found_once_for_a_file_as_it_is(
    tiny_path: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    finds: bool,
) -> None:
    finder = Finder(finds=finds)
    monkeypatch.setattr(fastest_files, "model_optimize", finder)
    original = tmp_path / "model.gguf"
    original.write_bytes(tiny_path("llama").read_bytes())
    cache = tmp_path / "cache"

    def best() -> Path:
        return lh.optimized_model(original, cache_dir=cache, progress=False)

    first = best()
    assert first == original or finds
    assert best() == first
    assert finder.n_calls == 1
    lh.Model(first).close()
    assert not list((cache / "optimized").glob(".*"))
    # Cases: a file that was removed, another machine, another file.
    if finds:
        first.unlink()
        assert best() == first
        assert finder.n_calls == 2
    n_calls = finder.n_calls
    monkeypatch.setattr(fastest_files, "cpu_features", lambda: ("neon",))
    assert (best() == first) is not finds
    assert finder.n_calls == n_calls + 1
    original.write_bytes(tiny_path("llama").read_bytes() + b"\0")
    best()
    assert finder.n_calls == n_calls + 2


def test_a_failure_leaves_nothing(
    tiny_path: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise lh.QuantizeError("no room")

    monkeypatch.setattr(fastest_files, "model_optimize", fail)
    with pytest.raises(lh.QuantizeError, match="no room"):
        lh.optimized_model(tiny_path("llama"), cache_dir=tmp_path, progress=False)
    assert list((tmp_path / "optimized").iterdir()) == []


def test_a_model_is_really_optimized(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tiny_path("llama")
    best = lh.optimized_model(path, cache_dir=tmp_path, progress=False)
    assert lh.optimized_model(path, cache_dir=tmp_path, progress=False) == best
    (result,) = (tmp_path / "optimized").glob("*/result.json")
    is_own = json.loads(result.read_text())["file"] is None
    assert best == path if is_own else best.parent == result.parent
    with lh.Model(best) as model, lh.Context(model) as context:
        assert lh.generate(context, [1, 2], max_tokens=2).error is None
