"""Options for GPUs: every command that loads a model passes them to `Model`."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd.cli
import pytest
from llamaherd.cli import main
from llamaherd.model.model import Model
from llamaherd.model.placement import memory_for_models

if TYPE_CHECKING:
    from collections.abc import Callable

GIVEN = ["--n-gpu-layers", "7", "--split-mode", "row", "--main-gpu", "1"]
GIVEN += ["--tensor-split", "3,1"]
WANTED = {
    "n_gpu_layers": 7,
    "split_mode": "row",
    "main_gpu": 1,
    "tensor_split": [3.0, 1.0],
}
# Modules of commands that load a model otherwise, each with the reason.
OTHERWISE = {
    "tiny_run.py": "`llamaherd doctor` loads a tiny model on the processor",
    "optimize.py": "measures files on the processor",
}
TO_MODEL = ["-m", "MODEL", "-o", "o.csv", "--prefix", "new_"]
COMMANDS: dict[str, list[str]] = {
    "annotate": ["t.csv", "--codebook", "ready:sentiment", *TO_MODEL],
    "bench": ["MODEL"],
    "chat": ["MODEL"],
    "classify": ["t.csv", "--labels", "a,b", *TO_MODEL],
    "codebooks compare": ["g.csv", "--codebook", "ready:sentiment", "-m", "MODEL"],
    "codebooks evaluate": ["c.json", "g.csv", "-m", "MODEL"],
    "embed": ["t.csv", "-m", "MODEL", "-o", "o.csv"],
    "pairs": ["t.csv", "--question", "Which?", "-m", "MODEL", "-o", "o.csv"],
    "recalibrate": ["t.csv", "--gold", "g.csv", "--embeddings", "MODEL", "-o", "o.csv"],
    "run": ["t.csv", "-m", "MODEL", "-o", "o.csv", "--prompt", "{text}"],
    "serve": ["MODEL", "--port", "0"],
}


class LoadedError(RuntimeError):
    """A model is loaded; ends the command of a test."""


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Arguments of all models that are loaded; each command ends at its first."""
    found: list[dict[str, Any]] = []

    @functools.wraps(Model.__init__)  # run files take keys from its signature
    def load(_self: Model, _path: object, **loading: Any) -> None:
        found.append(loading)
        raise LoadedError

    monkeypatch.setattr(Model, "__init__", load)
    return found


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the input files of all commands."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("id,text,label,p_a,p_b\n1,x,a,.6,.4\n2,y,b,.3,.7\n")


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_passes_the_options(
    name: str,
    loads: list[dict[str, Any]],
    tiny_path: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "g.csv" in COMMANDS[name] or "c.json" in COMMANDS[name]:
        _stand_in_for_research(monkeypatch)
    model = str(tiny_path("llama"))
    words = [model if word == "MODEL" else word for word in COMMANDS[name]]
    with contextlib.suppress(LoadedError):
        main([*name.split(), *words, *GIVEN])
    assert loads == [WANTED]


def _stand_in_for_research(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what would read a gold sample before the model is loaded."""
    from llamaherd.research.selection.choice import CodebookChoice  # noqa: PLC0415

    Path("g.csv").write_text("id,text,label,prob\n1,x,a,1\n2,y,b,1\n")
    Path("c.json").write_text(json.dumps({}))
    monkeypatch.setattr(CodebookChoice, "from_json", staticmethod(lambda _text: None))
    monkeypatch.setattr("llamaherd.read_gold", lambda _path: None)


def test_no_command_loads_a_model_without_them() -> None:
    folder = Path(llamaherd.cli.__file__).parent
    loading = {
        path.name
        for path in folder.glob("*.py")
        if re.search(
            r"\bModel\((?!\.\.\.)|model_optimize\(", path.read_text(encoding="utf-8")
        )
    }
    assert loading == {"model_flags.py", *OTHERWISE}


@pytest.mark.parametrize("text", ["all", "1.5", "", "-"])
def test_layers_that_are_no_number(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert main(["bench", "no.gguf", "--n-gpu-layers", text]) == 2
    assert "--n-gpu-layers" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["a", "1,,2", ""])
def test_shares_that_are_no_numbers(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert main(["bench", "no.gguf", "--tensor-split", text]) == 2
    assert "--tensor-split" in capsys.readouterr().err


def test_auto_loads_on_the_processor_without_a_gpu(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llamaherd.native.shim.supports_gpu", lambda: False)
    with Model(tiny_path("llama"), n_gpu_layers="auto") as model:  # warns of nothing
        assert model.n_gpu_layers == 0


@pytest.mark.parametrize("layers", ["all", "", "-1"])
def test_other_texts_are_refused(tiny_path: Callable[[str], Path], layers: Any) -> None:
    with pytest.raises(ValueError, match="n_gpu_layers must be a whole number or"):
        Model(tiny_path("llama"), n_gpu_layers=layers)


def test_memory_of_several_models_is_that_of_their_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llamaherd.native.shim.supports_gpu", lambda: True)
    monkeypatch.setattr("llamaherd.memory.device.free_gpu_memory", lambda _: 1 << 40)
    host = memory_for_models({})
    assert memory_for_models({"n_gpu_layers": -1}) == 1 << 40
    assert memory_for_models({"n_gpu_layers": "auto"}) == 1 << 40
    assert memory_for_models({"n_gpu_layers": 3}) > host


def test_set_gives_the_server_any_other_argument(
    loads: list[dict[str, Any]],
    tiny_path: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve = ["serve", str(tiny_path("llama")), "--port", "0", "--n-ctx", "64"]
    with contextlib.suppress(LoadedError):
        main([*serve, "--set", "model.use_mlock=true", *GIVEN])
    assert loads == [{**WANTED, "use_mlock": True}]
    monkeypatch.undo()
    given: list[dict[str, Any]] = []

    def create(_model: Model, **arguments: Any) -> None:
        given.append(arguments)
        raise LoadedError

    monkeypatch.setattr("llamaherd.server.models.loading.Context", create)
    with contextlib.suppress(LoadedError):
        main([*serve, "--set", "context.type_k=q8_0", "--set", "context.n_batch=64"])
    assert given == [{"n_ctx": 64, "type_k": "q8_0", "n_batch": 64}]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("context.type_k", "is not KEY=VALUE"),
        ("type_k=q8_0", "a key is model.NAME or context.NAME"),
        ("sampling.top_p=1", "a key is model.NAME or context.NAME"),
        ("context.n_ctx=64", "use --n-ctx"),
        ("model.n_gpu_layers=1", "use --n-gpu-layers"),
        ("model.path=x", "give it as MODEL or --model"),
        ("context.typ_k=q8_0", "did you mean 'type_k'?"),
        ("model.interrupt=1", "[model] has no key 'interrupt'"),
    ],
)
def test_set_refuses_other_keys(
    capsys: pytest.CaptureFixture[str], text: str, shown: str
) -> None:
    assert main(["serve", "no.gguf", "--port", "0", "--set", text]) == 2
    assert shown in capsys.readouterr().err
