"""`llamaherd doctor`, `bench` and `optimize`: this machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.cli import doctor, tiny_run
from llamaherd.cli.doctor import Finding, look_at
from llamaherd.cli.tiny_run import write_tiny_model
from llamaherd.engine.hub.profile import Gpu
from llamaherd.engine.memory import hardware
from llamaherd.engine.native import abi, shim
from llamaherd.engine.native.shim import GpuMemory
from llamaherd.optimize.measure import measure_throughput
from llamaherd.optimize.report import FileRow, OptimizeReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands import Commands


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLAMAHERD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "cache"


def test_the_tiny_model_is_one(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    with lh.Model(path, check_tensors=True) as model, lh.Context(model) as ctx:
        assert model.info.n_layer == 1
        tokens = lh.tokenize(model, "Añ")
        assert lh.detokenize(model, tokens) == "Añ"
        a, b = lh.generate_parallel(ctx, ["One", "Two"], max_tokens=20)
    assert a.error is None
    assert a.tokens != b.tokens  # noise that depends on the prompt


def test_a_machine_that_works_is_told_so(cache: Path, cli: Commands) -> None:
    finding = "run         a tiny model with random weights gave the same answers"
    lines = cli("doctor", err="", out=f"ok      {finding}").out.splitlines()
    assert all(len(line) <= 80 or "/" in line for line in lines)  # paths are longer
    heads = [line.split()[1] for line in lines if not line.startswith(" ")]
    assert heads == list(doctor.CHECKUPS)
    assert not cache.exists()  # the checks do not create the folder


@pytest.mark.parametrize(
    ("versions", "state", "advice"),
    [
        ("4.2.2 1.28 0.1.0", "ok", ""),
        ("4.2.2 1.28 -", "note", "R_LIBS=/path/to/.rlib"),
        ("4.2.2 - 0.1.0", "note", "install.packages('reticulate')"),
    ],
)
def test_what_r_lacks_is_told_with_what_to_do(
    versions: str,
    state: str,
    advice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "Rscript"
    program.write_text(f"#!/bin/sh\necho {versions}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = look_at("R")
    assert finding.state == state
    assert advice in finding.advice


def test_the_exit_status_and_the_json_tell(
    monkeypatch: pytest.MonkeyPatch, cli: Commands
) -> None:
    def of(state: doctor.State) -> Callable[[], Finding]:
        return lambda: Finding(topic="x", state=state, text="text", advice="do it")

    def broken() -> Finding:
        raise OSError("no such thing")

    topics = {"a": of("ok"), "b": of("warning"), "c": broken}
    monkeypatch.setattr(doctor, "CHECKUPS", topics)
    monkeypatch.setattr("llamaherd.cli.doctor.CHECKUPS", topics)
    report = json.loads(cli("doctor --json").out)
    assert report["ok"] is True
    assert [x["state"] for x in report["findings"]] == ["ok", "warning", "warning"]
    assert "no such thing" in report["findings"][2]["text"]
    topics["d"] = of("error")
    assert json.loads(cli("doctor --json", status=1).out)["ok"] is False
    cli("doctor", status=1, out="-> do it")


def test_a_run_that_dies_is_an_error_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dying(number: int) -> Callable[..., subprocess.CompletedProcess[str]]:
        code = f"import os; os.kill(os.getpid(), {number})"
        real = subprocess.run
        return lambda _, **options: real([sys.executable, "-c", code], **options)

    for number, reason in (
        (signal.SIGILL, "compiled for a processor with more"),
        (signal.SIGKILL, "not enough memory"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(doctor.subprocess, "run", dying(number))
            finding = look_at("run")
        assert finding.state == "error"
        assert reason in finding.text
        assert finding.advice


def test_an_instruction_that_windows_refuses_has_its_reason() -> None:
    finding = doctor._failed_run(0xC000001D, "")  # an exit status instead of a signal
    assert "compiled for a processor with more" in finding.text


def test_a_model_that_makes_no_text_is_passed_over(
    tiny_path: Callable[[str], Path],
) -> None:
    seen = tiny_run.tiny_run([str(tiny_path("bert")), str(tiny_path("llama"))])
    assert (seen.model, seen.is_same) == ("llama.gguf", True)


def test_what_is_missing_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requirements = ['nonsense>=1; extra == "docx"', 'pytest; extra == "plot"']
    monkeypatch.setattr(doctor, "requires", lambda _: requirements)
    finding = look_at("extras")
    assert (finding.state, finding.text) == ("note", "plot; not docx (nonsense)")
    assert 'pip install "llamaherd[docx] @ git' in finding.advice

    monkeypatch.setattr(doctor, "gpus", lambda: (Gpu(name="G", memory_bytes=8 << 30),))
    monkeypatch.setattr(shim, "supports_gpu", lambda: False)
    assert "-DGGML_CUDA=on" in look_at("GPU").advice
    monkeypatch.setattr(shim, "supports_gpu", lambda: True)
    assert look_at("GPU").state == "ok"

    monkeypatch.setattr(doctor, "cpu_features", lambda: ("avx2", "amx_int8"))
    monkeypatch.setattr(abi, "compiled_for", lambda _: frozenset({"AVX2"}))
    finding = look_at("processor")
    assert "compiled without amx_int8" in finding.text
    assert "-DGGML_NATIVE=ON" in finding.advice

    monkeypatch.setattr(shim, "own_threads", lambda: False)
    assert "GGML_OPENMP" in look_at("threads").advice
    monkeypatch.setattr(shim, "own_threads", lambda: True)
    monkeypatch.setattr(hardware, "n_cores", lambda: 64)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    assert "n_threads=4" in look_at("threads").advice

    monkeypatch.setattr(hardware, "available_memory", lambda: 1 << 20)
    assert look_at("memory").state == "warning"
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    assert "only R users" in look_at("R").text


def test_gpus_are_those_that_libllama_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-smi lists neither other makers' GPUs nor GPUs in the order of main_gpu."""
    used = GpuMemory("Vulkan0", "a card of another maker", 1 << 30, 8 << 30)
    monkeypatch.setattr(shim, "gpus", lambda: (used,))
    monkeypatch.setattr(shim, "supports_gpu", lambda: True)
    finding = look_at("GPU")
    assert "a card of another maker (8.6 GB); Model(" in finding.text
    [gpu] = lh.hardware_profile(measure=False).gpus
    assert gpu == Gpu(name=used.description, memory_bytes=8 << 30, source="libllama")


def test_a_cache_that_cannot_be_written_to_is_an_error(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    assert look_at("cache").state == "ok"
    (cache.parent / "file").write_text("")
    monkeypatch.setenv("LLAMAHERD_CACHE_DIR", str(cache.parent / "file" / "within"))
    finding = look_at("cache")
    assert finding.state == "error"
    assert "LLAMAHERD_CACHE_DIR" in finding.advice


def test_libllama_says_what_it_was_compiled_for() -> None:
    assert "OPENMP" in abi.compiled_for(abi.libllama_folder())
    assert abi.compiled_for(Path("/nowhere")) == frozenset()


BENCH = "bench MODEL --n-prompt 16 --n-answer 4"


def test_bench_measures_each_number_of_prompts(cli: Commands) -> None:
    report = json.loads(cli(f"{BENCH} --n-seq-max 1,3 --json", err="").out)
    assert report["model"] == "llama.gguf"
    assert [row["n_seq_max"] for row in report["rows"]] == [1, 3]
    for row in report["rows"]:
        n = row["n_prompts"]
        assert n == 2 * row["n_seq_max"]
        assert row["n_prefill_tokens"] == 16 * n  # no result existed before
        assert row["n_decode_tokens"] == 3 * n  # the prompt's batch has the first
        assert row["prompts_per_s"] == pytest.approx(n / row["wall_s"])
    lines = cli(f"{BENCH} --n-seq-max 2").out.splitlines()
    assert len(lines) == 4
    assert lines[3].split()[0] == "2"


def test_bench_stops_when_its_time_is_up(cli: Commands) -> None:
    seen = cli(f"{BENCH} --n-seq-max 1,2,4 --seconds 0 --json", err="2, 4")
    assert len(json.loads(seen.out)["rows"]) == 1


def test_throughput_refuses_more_than_the_model_takes(
    tiny_path: Callable[[str], Path],
) -> None:
    with lh.Model(tiny_path("llama")) as model:
        for sizes in ({"n_prompt": 600}, {"n_prompt": 500, "n_answer": 50}):
            with pytest.raises(ValueError, match="must be between"):
                next(measure_throughput(model, [1], **sizes))


def test_optimize_hands_its_options_on(
    cli: Commands, monkeypatch: pytest.MonkeyPatch
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
    Path("m.gguf").write_bytes(b"GGUF")
    Path("text").write_text("Añ")
    full = "optimize m.gguf --type q8_0 --max-kl 0.05 --text text"
    cli(full, out="Kept the original")
    assert seen == {
        "path": Path("m.gguf"),
        "out": None,
        "types": ["Q8_0"],
        "max_kl": 0.05,
        "text": "Añ",
        "n_threads": None,
        "progress": False,  # nothing reads the progress
    }
    report = json.loads(cli("optimize m.gguf --json").out)
    assert report["chosen"] is None
    assert [row["type"] for row in report["rows"]] == ["F16", "Q8_0"]
    Path("text").write_bytes(b"\xff")
    cli(full, status=2, err="is not in UTF-8")
    cli("optimize m.gguf --type Q9", status=2)
