"""Requantizing: selection and cache without a model, all other tests on SmolLM2."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import windows_rules
from llamaherd.engine.native.models import Closeness
from llamaherd.optimize import fastest_files, measure, requantize
from llamaherd.optimize.measure import Sample, Speed, Speeds, Stop
from llamaherd.optimize.report import (
    FileRow,
    OptimizeReport,
    choose,
    row_of_copy,
    row_of_original,
)

if TYPE_CHECKING:
    from collections.abc import Callable


BASE = Speed(prefill=500, decode=300)


def row(kind: str, kl: float, prefill: float, decode: float) -> FileRow:
    other = Speed(prefill=500 * prefill, decode=300 * decode)
    speeds = Speeds(base=BASE, other=other, same_answers=0.75)
    return row_of_copy(kind, 100_000_000, near(kl), speeds)


def near(kl: float) -> Closeness:
    return Closeness(1000, 20.0, 20.5, kl, 5 * kl, 20 * kl, 0.97)


GOOD = row("Q8_0", 0.002, 2.0, 1.1)
FAR = row("Q4_0", 0.03, 4.0, 1.5)


def test_the_fastest_that_is_close_enough_is_chosen() -> None:
    assert choose((GOOD, FAR), 0.01) is GOOD
    assert choose((GOOD, FAR), 0.1) is FAR
    assert choose((GOOD, FAR), 0.002) is GOOD
    assert choose((GOOD, FAR), 0.001) is None


def test_both_speeds_count() -> None:
    assert row("Q6_K", 0, 4.0, 0.25).speedup == pytest.approx(1)
    assert row("Q6_K", 0, 2.0, 2.0).speedup == pytest.approx(2)


@pytest.mark.parametrize("speedup", [0.5, 1.0, 1.04])
def test_a_file_must_be_worth_its_room(speedup: float) -> None:
    assert choose((row("Q8_0", 0, speedup, speedup),), 0.01) is None


def report(chosen: str | None) -> OptimizeReport:
    speeds = Speeds(base=BASE, other=BASE, same_answers=1.0)
    return OptimizeReport(
        path=Path("new.gguf"),
        original=Path("old.gguf"),
        chosen=chosen,
        max_kl=0.01,
        rows=(row_of_original("original", 98_000_000, near(0), speeds), GOOD, FAR),
    )


def test_a_report_is_a_table() -> None:
    lines = str(report("Q8_0")).splitlines()
    assert len(lines) == 5
    original = "original 98 500 300 1.00 20.00 0.0000 0.0000 100% 100%"
    assert lines[1].split() == original.split()
    assert lines[3].split()[:5] == ["Q4_0", "100", "2000", "450", "2.45"]
    assert len({len(line) for line in lines[:4]}) == 1
    assert lines[4] == (
        "Kept Q8_0, the fastest with a mean KL divergence of at most 0.01: new.gguf"
    )
    assert str(report(None)).splitlines()[4].startswith("Kept the original: no candidate")


def test_the_name_says_where_it_came_from() -> None:
    path = requantize.target(Path("a/model.Q4_1.gguf"), Path("b"), "Q8_0")
    assert path == Path("b/model.Q4_1.Q8_0.llamaherd.gguf")


def test_the_type_is_read_from_the_metadata() -> None:
    assert requantize.type_of({"general.file_type": "7"}) == "Q8_0"
    assert requantize.type_of({"general.file_type": "1000"}) is None
    assert requantize.type_of({}) is None


@pytest.mark.parametrize("bos", [None, 1])
@pytest.mark.parametrize("n", [64, 255, 256, 257, 400, 1000])
def test_chunks_are_the_text_but_for_a_short_rest(n: int, bos: int | None) -> None:
    tokens = list(range(100, 100 + n))
    start = [] if bos is None else [bos]
    chunks = [list(chunk) for chunk in Sample(tokens=tokens, bos=bos).chunks()]
    assert all(64 <= len(chunk) <= 256 for chunk in chunks)
    assert all(chunk[: len(start)] == start for chunk in chunks)
    joined = [token for chunk in chunks for token in chunk[len(start) :]]
    assert joined == tokens[: len(joined)]
    assert n - len(joined) < 64


def test_windows_begin_differently() -> None:
    sample = Sample(tokens=list(range(100)), bos=None)
    windows = [sample.window(place, 50) for place in range(40)]
    assert len({window[0] for window in windows}) == 40
    assert {len(window) for window in windows} == {50}
    assert len(sample.window(0, 512)) == 512


@pytest.mark.skipif(sys.platform != "linux", reason="imitates Windows by /proc")
def test_the_copy_of_a_read_only_file_loses_its_temporary_name_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "model.gguf"
    source.touch(mode=0o444)
    windows_rules.imitate(monkeypatch)
    with requantize.Requantized(source, tmp_path, "Q8_0", 0, 1) as file:
        kept = file.keep()
    assert set(tmp_path.iterdir()) == {source, kept}


TEXT = " ".join(
    f"In year {year} the river rose by {year % 7} feet." for year in range(20)
)


@pytest.fixture
def one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "N_ROUNDS", 1)


@pytest.mark.long(reason="requantizes real models")
@pytest.mark.model
@pytest.mark.usefixtures("one_round")
def test_a_model_is_requantized(smollm2_q4_1_path: Path, tmp_path: Path) -> None:
    steps = []
    before = smollm2_q4_1_path.stat()
    report = lh.model_optimize(
        smollm2_q4_1_path,
        tmp_path,
        types=["Q8_0"],
        text=TEXT,
        progress=lambda progress: steps.append((progress.n_done, progress.step)),
    )
    original, tried = report.rows
    assert (original.type, tried.type) == ("Q4_1", "Q8_0")
    assert 0 < tried.mean_kl < 0.01
    assert tried.p99_kl < 0.1
    assert tried.same_top > 0.9
    assert 1 < tried.perplexity < 50
    assert tried.same_answers >= 0.25
    assert tried.size_bytes > before.st_size == original.size_bytes
    assert report.max_kl == 0.01
    # The faster file depends on the machine.
    kept = [] if report.chosen is None else [report.path]
    assert list(tmp_path.iterdir()) == kept
    after = smollm2_q4_1_path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert steps[-1] == (3, "timing Q8_0")
    with lh.Model(report.path) as model:
        assert model.n_vocab == 49152


@pytest.mark.model
@pytest.mark.usefixtures("one_round")
@pytest.mark.long(reason="requantizes a real model once more, keeps nothing")
def test_what_is_not_close_enough_is_removed(
    smollm2_q4_1_path: Path, tmp_path: Path
) -> None:
    report = lh.model_optimize(
        smollm2_q4_1_path, tmp_path, types=("Q8_0",), max_kl=0, text=TEXT
    )
    assert report.chosen is None
    assert report.path == smollm2_q4_1_path
    assert list(tmp_path.iterdir()) == []


class PressedError(Exception):
    pass


@pytest.mark.more(reason="requantizes real models", cases=1)
@pytest.mark.model
@pytest.mark.parametrize(
    ("step", "kind"),
    [
        ("writing Q8_0", KeyboardInterrupt),
        ("comparing Q8_0", KeyboardInterrupt),
        ("comparing Q8_0", PressedError),  # an error in `progress` also ends it
        ("timing Q8_0", KeyboardInterrupt),
    ],
)
def test_ctrl_c_leaves_nothing(
    smollm2_q4_1_path: Path, tmp_path: Path, step: str, kind: type[BaseException]
) -> None:
    def press(progress: lh.types.OptimizeProgress) -> None:
        if progress.step == step:
            raise kind

    with pytest.raises(kind):
        lh.model_optimize(
            smollm2_q4_1_path, tmp_path, types=["Q8_0"], text=TEXT, progress=press
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.model
def test_a_file_is_never_overwritten(smollm2_q4_1_path: Path, tmp_path: Path) -> None:
    taken = tmp_path / f"{smollm2_q4_1_path.stem}.Q8_0.llamaherd.gguf"
    taken.write_text("mine")
    with pytest.raises(ValueError, match=r"Q8_0\.llamaherd\.gguf' exists already"):
        lh.model_optimize(smollm2_q4_1_path, tmp_path, text=TEXT)
    assert taken.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [taken]


def test_a_file_that_comes_up_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "model.gguf"
    source.write_text("model")
    taken = requantize.target(source, tmp_path, "Q8_0")
    with requantize.Requantized(source, tmp_path, "Q8_0", 1000, 1) as file:
        taken.write_text("mine")
        with pytest.raises(lh.QuantizeError, match="exists already"):
            file.keep()
    assert taken.read_text() == "mine"
    assert set(tmp_path.iterdir()) == {source, taken}


@pytest.mark.model
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"path": "none.gguf"}, lh.ModelLoadError, r'names no file: "none\.gguf"'),
        ({"path": __file__}, lh.ModelLoadError, "is not a GGUF file"),
        ({"out": "no/such/folder"}, ValueError, "out must be a folder.*'no/such/folder'"),
        ({"out": 5}, TypeError, "out must be a path, not 5"),
        ({"types": "Q8_0"}, TypeError, "types must be a list of texts, not 'Q8_0'"),
        ({"types": []}, ValueError, "types must not be empty"),
        ({"types": ["Q8_0", "Q9"]}, ValueError, r"types\[1\] must be one of .*not 'Q9'"),
        ({"types": ["Q8_0"] * 2}, ValueError, r"types\[1\] is 'Q8_0', which is given"),
        ({"types": ["Q4_1"]}, ValueError, r"types\[0\] is 'Q4_1', the type of the model"),
        ({"max_kl": -1}, ValueError, "max_kl must be between 0 and"),
        ({"max_kl": float("nan")}, ValueError, "max_kl must be between 0 and"),
        ({"text": "short"}, ValueError, "text must have at least 64 tokens, not"),
        ({"text": 5}, TypeError, "text must be a text, not 5"),
        ({"n_threads": 0}, ValueError, "n_threads must be between 1 and"),
        ({"progress": "yes"}, TypeError, "progress must be true or false, or a function"),
    ],
)
def test_bad_arguments_are_named(
    smollm2_q4_1_path: Path,
    tmp_path: Path,
    arguments: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        lh.model_optimize(**({"path": smollm2_q4_1_path, "out": tmp_path} | arguments))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.model
def test_no_room_is_said_with_numbers(
    smollm2_q4_1_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=50_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(lh.QuantizeError, match=r"has 50 MB free, but the Q8_0 .* 143 MB"):
        lh.model_optimize(smollm2_q4_1_path, tmp_path, types=["Q8_0"], text=TEXT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.model
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_named(smollm2_q4_1_path: Path) -> None:
    with pytest.raises(lh.QuantizeError, match=r"out: '/proc/self' (cannot be|has 0 MB)"):
        lh.model_optimize(smollm2_q4_1_path, "/proc/self", types=["Q8_0"], text=TEXT)


FULL_DISK = """
import resource, sys
import llamaherd as lh
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_000, 20_000_000))
try:
    lh.model_optimize(sys.argv[1], sys.argv[2], types=["Q8_0"], text=sys.argv[3])
except lh.QuantizeError as error:
    print(error)
"""


@pytest.mark.model
@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
def test_a_disk_that_becomes_full_leaves_nothing(
    smollm2_q4_1_path: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(smollm2_q4_1_path), str(tmp_path), TEXT],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=600,
    )
    assert re.match("types: the Q8_0 file could not be created: cannot", done.stdout), (
        done
    )
    assert list(tmp_path.iterdir()) == []


def test_no_measurement_runs_on_after_a_stop(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop between the start of a call and the wait for it ends the call, too."""
    stop, jobs = Stop(), []
    start = measure.start_parallel

    def started(*args: Any, **kwargs: Any) -> lh.Job[lh.Results]:
        jobs.append(start(*args, **kwargs))
        stop.set()
        return jobs[0]

    monkeypatch.setattr(measure, "start_parallel", started)
    with (
        lh.Model(tiny_path("llama")) as model,
        lh.Context(model, n_seq_max=1) as context,
    ):
        runner = measure.TimedModel(model, 1, stop)
        with runner, pytest.raises(measure.Stopped):
            runner.run(context, [[5, 6]], 200)
        assert jobs[0].wait(0)


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
