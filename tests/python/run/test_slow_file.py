"""The note that another file of a model would be much faster."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from llamaherd.calls.api import running
from llamaherd.calls.api.running import MANY, note_slow_file
from llamaherd.cli.wording import COMMAND_LINE
from llamaherd.engine.core.words import R, spoken_in

AVX = ("avx", "avx2", "fma")


def _host(path: str, kind: str = "3", n_gpu_layers: int = 0) -> Any:
    file = SimpleNamespace(name=path.rpartition("/")[2])
    metadata = {"general.file_type": kind}
    model = SimpleNamespace(
        metadata=metadata, path=path, file=file, n_gpu_layers=n_gpu_layers
    )
    return SimpleNamespace(model=model)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_noted", set())
    monkeypatch.setattr(running, "cpu_features", lambda: AVX)


def test_a_long_call_on_a_slow_file_names_the_command_once() -> None:
    host = _host("/models/a b.gguf")
    with pytest.warns(UserWarning, match=r'model_optimize\("/models/a b\.gguf"\)'):
        note_slow_file(host, MANY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note_slow_file(host, MANY)
    told = {R: r'model_optimize\("c"\)', COMMAND_LINE: "`llamaherd optimize c`"}
    for terms, text in told.items():
        running._noted.clear()
        with spoken_in(terms), pytest.warns(UserWarning, match=text):
            note_slow_file(_host("c"), MANY)


@pytest.mark.parametrize(
    ("host", "n", "features"),
    [
        (_host("m"), MANY - 1, AVX),
        (_host("m", "7"), MANY, AVX),
        (_host("m", n_gpu_layers=-1), MANY, AVX),
        (_host("m"), MANY, (*AVX, "amx_int8")),
        (_host("m"), MANY, ("asimd",)),
    ],
    ids=["short", "Q8_0", "GPU", "AMX", "ARM"],
)
def test_no_other_call_has_the_note(
    host: Any, n: int, features: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "cpu_features", lambda: features)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note_slow_file(host, n)
