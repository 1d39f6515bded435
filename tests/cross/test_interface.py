"""Assumptions of the R package and its tests about Python are true."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import rscript
from llamaherd import _r
from llamaherd.journal.journal import Journal
from llamaherd.optimize.report import FileRow

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

WITHOUT_MODEL = (
    "llamaherd._r.coding_page",
    "llamaherd._r.methods",
    "llamaherd._r.plots",
    "llamaherd._r.ready",
    "llamaherd._r.remote",  # R's tests start a server of a tiny model
    "llamaherd._r.spans",
    "llamaherd._r.validation",
)
REAL = {"vote", "corrected_columns", "replicate_weights"}  # need no model either
# Fields of the state of a job that R reads.
STATE = {"done", "problem", "n_done", "n_total", "unit", "line", "messages"}


@pytest.fixture(scope="module")
def interface(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("r") / "interface.json"
    rscript.run_shared("interface.R", path)
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def fake() -> ModuleType:
    """Return the module that replaces `_r` in the R package's tests."""
    path = rscript.ROOT / "r_package" / "tests" / "testthat" / "python" / "fake_r.py"
    spec = importlib.util.spec_from_file_location("fake_r", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_r_knows_all_sampling_settings(interface: dict[str, Any]) -> None:
    fields = {field.name for field in dataclasses.fields(lh.SamplingParams)}
    assert set(interface["sampling"]) == fields


def test_r_has_the_same_defaults(interface: dict[str, Any]) -> None:
    parameters = inspect.signature(lh.generate_parallel).parameters
    for name, default in interface["defaults"].items():
        if name not in ("verbosity", "clean", "hash", "dotted"):
            assert default == parameters[name].default, name


def test_r_knows_all_settings_of_contexts(interface: dict[str, Any]) -> None:
    known = {*interface["context"], *interface["context_dots"]} - {"verbosity", "..."}
    known -= {"cluster", "n_actors", "num_cpus"}  # functions of herds
    assert known == set(inspect.signature(lh.Context).parameters)


def test_contexts_have_the_same_defaults(interface: dict[str, Any]) -> None:
    parameters = inspect.signature(lh.Context).parameters
    defaults = interface["context_defaults"]
    assert {"n_ctx", "n_threads", "n_seq_max", "kv_layout"} <= set(defaults)
    for name, default in defaults.items():
        same = "auto" if parameters[name].default is None else parameters[name].default
        assert default == same, name


def public_functions(module: ModuleType) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(function).parameters)
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and hasattr(function, "__wrapped__")  # created by boundary
    }


def test_the_fake_has_the_functions_of_the_real_module(fake: ModuleType) -> None:
    # R's tests also use the real functions where no model is needed.
    real = {
        name: parameters
        for name, parameters in public_functions(_r).items()
        if getattr(_r, name).__module__ not in WITHOUT_MODEL and name not in REAL
    }
    assert public_functions(fake) == real


@pytest.mark.model
def test_the_fake_answers_in_the_real_module_s_shape(
    fake: ModuleType, smollm2_path: Path, tmp_path: Path
) -> None:
    fake_model = tmp_path / "fake.gguf"
    fake_model.write_bytes(b"GGUF")
    shapes = []
    for module, path in ((fake, fake_model), (_r, smollm2_path)):
        options = {
            "n_gpu_layers": 0,
            "use_mmap": True,
            "use_mlock": False,
            "check_memory": True,
        }
        model = value(module.model_load(str(path), options))
        context = value(module.context_create(model["python"], {"n_ctx": 512}))
        call = {
            "sampling": {},
            "each": {},
            "parse_special": "auto",
            "on_error": "continue",
            "strict": False,
            "retries": 2,
            "logprobs": None,
        }
        job = value(module.generate_start(context["python"], ["a", [1], None], call))
        progress = value(module.job_wait(job["job"], 0.01))
        while not value(module.job_wait(job["job"], 0.1))["done"]:
            pass
        result = value(module.job_result(job["job"]))
        value(module.close(model["python"]))
        stats = result.pop("stats")
        columns = [column for column in result.values() if column is not None]
        assert {len(column) for column in columns} == {3}
        shapes.append([set(model), set(context), set(job), set(progress), set(result)])
        assert {"line", "seed"} <= set(stats)
    assert shapes[0] == shapes[1]


def test_the_fake_s_report_has_the_real_columns(fake: ModuleType) -> None:
    job = value(fake.optimize_start("a.gguf", None, {"max_kl": 0.01}))["job"]
    columns = value(fake.optimize_result(job))["files"]
    assert list(columns) == [field.name for field in dataclasses.fields(FileRow)]
    progress = value(fake.job_wait(job, 0.01))
    assert set(progress) == STATE


@pytest.mark.model
def test_the_fake_makes_vectors_in_the_real_module_s_shape(
    fake: ModuleType, minilm_path: Path, tmp_path: Path
) -> None:
    fake_model = tmp_path / "fake.gguf"
    fake_model.write_bytes(b"GGUF")
    shapes = []
    for module, path in ((fake, fake_model), (_r, minilm_path)):
        options = {"n_gpu_layers": 0, "check_memory": True}
        model = value(module.model_load(str(path), options))["python"]
        job = value(module.embed_start(model, ["a", None, "b"], {}))["job"]
        while True:
            state = value(module.job_wait(job, 0.1))
            if state["done"]:
                break
        result = value(module.embed_result(job))
        assert isinstance(result["vectors"], bytearray)
        assert len(result["vectors"]) == 3 * 4 * result["n_embd"]
        assert [error is None for error in result["errors"]] == [True, False, True]
        assert {"n_texts", "line"} <= set(result["stats"])
        assert set(state) == STATE
        shapes.append(set(result))
        value(module.close(model))
    assert shapes[0] == shapes[1]


def test_r_has_the_arguments_of_embed_parallel(interface: dict[str, Any]) -> None:
    parameters = inspect.signature(lh.embed_parallel).parameters
    assert set(interface["embed"]) - {"verbosity"} == set(parameters)


def value(status: dict[str, Any]) -> Any:
    assert status["ok"], status
    assert status["warnings"] == []
    return status["value"]


def test_the_fake_reads_journals_in_the_real_module_s_shape(
    fake: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "run.sqlite"
    journal = Journal(path)
    empty = value(_r.journal_read(str(path)))
    journal.add(
        [
            lh.JournalEntry(
                prompt="NUL \0",
                text="a",
                finish_reason="stop",
                complete=True,
                error=None,
                n_prompt_tokens=1,
                tokens=[1, 2],
                seed=2**32 - 1,
                model="m.gguf",
                model_sha256="ab" * 32,
                settings="{}",
                created=datetime.fromtimestamp(1.5e9, UTC),
                version=lh.__version__,
                key="cd" * 32,
            )
        ]
    )
    journal.close()
    real = value(_r.journal_read(str(path)))
    pretended = value(fake.journal_read("run.sqlite"))
    kinds = [
        {column["name"]: column["type"] for column in found["columns"]}
        for found in (real, pretended)
    ]
    assert kinds[0] == kinds[1]
    columns = {column["name"]: column["values"] for column in real["columns"]}
    assert columns["prompt"] == ["NUL \ufffd"]  # R's strings contain no NUL
    assert columns["created"] == [1.5e9]
    assert empty == value(fake.journal_read("empty.sqlite"))
    status = _r.journal_read(str(tmp_path))
    assert (status["ok"], status["error_type"]) == (False, "JournalError")


def test_every_exception_comes_back_as_data() -> None:
    status = _r.model_load("/no/such/file.gguf", {})
    assert not status["ok"]
    assert status["error_type"] == "ModelLoadError"
    assert "/no/such/file.gguf" in status["message"]
    assert "Traceback" in status["traceback"]
    status = _r.tokenize(None, ["a"], True, False)
    assert not status["ok"]
    assert status["value"] is None
