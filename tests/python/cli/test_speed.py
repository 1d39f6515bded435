"""The commands `bench` and `optimize`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.cli import main
from llamaherd.optimize.measure import measure_throughput
from llamaherd.optimize.report import FileRow, OptimizeReport

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TINY = ["--n-prompt", "16", "--n-answer", "4"]


def test_bench_measures_each_number_of_prompts(
    tiny_path: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(tiny_path("llama"))
    assert main(["bench", model, "--n-seq-max", "1,3", *TINY, "--json"]) == 0
    seen = capsys.readouterr()
    assert seen.err == ""
    found = json.loads(seen.out)
    assert found["model"] == "llama.gguf"
    assert [row["n_seq_max"] for row in found["rows"]] == [1, 3]
    for row in found["rows"]:
        n = row["n_prompts"]
        assert n == 2 * row["n_seq_max"]
        assert row["n_prefill_tokens"] == 16 * n  # no result existed before
        assert row["n_decode_tokens"] == 3 * n  # the prompt's batch has the first
        assert row["prompts_per_s"] == pytest.approx(n / row["wall_s"])
    assert main(["bench", model, "--n-seq-max", "2", *TINY]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[3].split()[0] == "2"


def test_bench_stops_when_its_time_is_up(
    tiny_path: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--n-seq-max", "1,2,4", *TINY, "--seconds", "0", "--json"]
    assert main(["bench", str(tiny_path("llama")), *arguments]) == 0
    seen = capsys.readouterr()
    assert len(json.loads(seen.out)["rows"]) == 1
    assert "2, 4" in seen.err


def test_throughput_refuses_more_than_the_model_takes(
    tiny_path: Callable[[str], Path],
) -> None:
    with lh.Model(tiny_path("llama")) as model:
        for sizes in ({"n_prompt": 600}, {"n_prompt": 500, "n_answer": 50}):
            with pytest.raises(ValueError, match="must be between"):
                next(measure_throughput(model, [1], **sizes))


def test_optimize_hands_its_options_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, Any] = {}

    def model_optimize(path: Path, **options: Any) -> OptimizeReport:
        seen.update(options, path=path)
        speeds = {"prefill_tokens_per_s": 500, "decode_tokens_per_s": 300}
        rows = [
            FileRow(type=name, size_bytes=20, perplexity=20.0, **speeds)
            for name in ("F16", "Q8_0")
        ]
        return OptimizeReport(
            path=path, original=path, chosen=None, max_kl=0.05, rows=tuple(rows)
        )

    monkeypatch.setattr("llamaherd.cli.speed.model_optimize", model_optimize)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    (tmp_path / "text").write_text("Añ")
    model = ["optimize", str(tmp_path / "m.gguf")]
    more = ["--type", "q8_0", "--max-kl", "0.05", "--text", str(tmp_path / "text")]
    assert main([*model, *more]) == 0
    assert "Kept the original" in capsys.readouterr().out
    assert seen == {
        "path": tmp_path / "m.gguf",
        "out": None,
        "types": ["Q8_0"],
        "max_kl": 0.05,
        "text": "Añ",
        "n_threads": None,
        "progress": False,  # nothing reads the progress
    }
    assert main([*model, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chosen"] is None
    assert [row["type"] for row in found["rows"]] == ["F16", "Q8_0"]
    (tmp_path / "text").write_bytes(b"\xff")
    assert main([*model, *more]) == 2
    assert "is not in UTF-8" in capsys.readouterr().err
    assert main([*model, "--type", "Q9"]) == 2
