"""Models on the command line: options for GPUs, several models, adapters, memory."""

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
from llamaherd.cli.kinds import size
from llamaherd.cli.model_flags import fits_file_to_memory
from llamaherd.cli.serve_run import given_loras, given_models
from llamaherd.engine.memory.device import memory_of_model
from llamaherd.engine.model.model import Model, checked_load_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands import Commands
    from llamaherd.calls.run.context import Context
    from llamaherd.server.settings import ServerSettings


GIVEN = "--n-gpu-layers 7 --split-mode row --main-gpu 1 --tensor-split 3,1"
WANTED = {
    "n_gpu_layers": 7,
    "split_mode": "row",
    "main_gpu": 1,
    "tensor_split": [3.0, 1.0],
}
# Modules of commands that load a model otherwise, each with the reason.
OTHERWISE = {
    "tiny_run.py": "`llamaherd doctor` loads a tiny model on the processor",
    "speed.py": "measures files on the processor",
}
TO_MODEL = "-m MODEL -o o.csv --prefix new_"
COMMANDS = [
    f"annotate t.csv --codebook ready:sentiment {TO_MODEL}",
    "bench MODEL",
    "chat MODEL",
    f"classify t.csv --labels a,b {TO_MODEL}",
    "codebooks compare g.csv --codebook ready:sentiment -m MODEL",
    "codebooks evaluate c.json g.csv -m MODEL",
    "embed t.csv -m MODEL -o o.csv",
    "pairs t.csv --question Which? -m MODEL -o o.csv",
    "recalibrate t.csv --gold g.csv --embeddings MODEL -o o.csv",
    "run t.csv -m MODEL -o o.csv --prompt {text}",
    "serve MODEL --port 0",
]
SERVE = "serve MODEL --port 0"


class LoadedError(RuntimeError):
    """A model is loaded; ends the command of a test."""


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Arguments of all models that are loaded; each command ends at its first."""
    loadings: list[dict[str, Any]] = []

    @functools.wraps(Model.__init__)  # run files take keys from its signature
    def load(_self: Model, _path: object, **loading: Any) -> None:
        loadings.append(loading)
        raise LoadedError

    monkeypatch.setattr(Model, "__init__", load)
    return loadings


def until_loaded(cli: Commands, line: str, *more: str) -> None:
    """Run a command until it loads a model."""
    with contextlib.suppress(LoadedError):
        main(cli.words(line, *more))


@pytest.fixture
def _table(cli: Commands) -> None:
    """Write the table of all commands."""
    del cli  # it is in its folder
    Path("t.csv").write_text("id,text,label,p_a,p_b\n1,x,a,.6,.4\n2,y,b,.3,.7\n")


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_passes_the_options(
    command: str,
    loads: list[dict[str, Any]],
    cli: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "g.csv" in command:
        _stand_in_for_research(monkeypatch)
    until_loaded(cli, f"{command} {GIVEN}")
    assert loads == [WANTED]


def _stand_in_for_research(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what would read a gold sample before the model is loaded."""
    from llamaherd.coding.selection.evaluation import CodebookChoice

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


def test_auto_loads_on_the_processor_without_a_gpu(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llamaherd.engine.native.shim.supports_gpu", lambda: False)
    with Model(tiny_path("llama"), n_gpu_layers="auto") as model:  # warns of nothing
        assert model.n_gpu_layers == 0


@pytest.mark.parametrize("layers", ["all", "", "-1"])
def test_other_texts_are_refused(tiny_path: Callable[[str], Path], layers: Any) -> None:
    with pytest.raises(ValueError, match="n_gpu_layers must be a whole number or"):
        Model(tiny_path("llama"), n_gpu_layers=layers)


def test_memory_of_several_models_is_that_of_their_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llamaherd.engine.native.shim.supports_gpu", lambda: True)
    monkeypatch.setattr(
        "llamaherd.engine.memory.device.free_gpu_memory", lambda _: 1 << 40
    )

    def memory(**loading: object) -> int:
        return memory_of_model(checked_load_options(loading).placement)

    assert memory(n_gpu_layers=-1) == memory(n_gpu_layers="auto") == 1 << 40
    assert memory(n_gpu_layers=3) > memory()


def test_set_gives_the_server_any_other_argument(
    loads: list[dict[str, Any]], cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_loaded(cli, f"{SERVE} --n-ctx 64 --set model.use_mlock=true {GIVEN}")
    assert loads.pop() == {**WANTED, "use_mlock": True}
    values = ("n_gpu_layers=7", "split_mode=row", "main_gpu=1", "tensor_split=[3, 1]")
    flags = [word for value in values for word in ("--set", f"model.{value}")]
    until_loaded(cli, SERVE, *flags)  # also those that have a flag
    assert loads == [WANTED]
    monkeypatch.undo()
    contexts: list[dict[str, Any]] = []

    def create_context(_model: Model, **arguments: Any) -> None:
        contexts.append(arguments)
        raise LoadedError

    with monkeypatch.context() as patch:
        patch.setattr("llamaherd.server.models.loading.Context", create_context)
        of_context = "--set context.type_k=q8_0 --set context.n_batch=64"
        until_loaded(cli, f"{SERVE} --n-ctx 64 {of_context}")
    assert contexts == [{"n_ctx": 64, "type_k": "q8_0", "n_batch": 64}]
    hosts: list[tuple[int | None, bool]] = []

    def create_app(host: Context, settings: ServerSettings, _: None) -> None:
        deterministic = bool(host.options["deterministic"])
        hosts.append((settings.n_ctx, deterministic))
        raise LoadedError

    monkeypatch.setattr("llamaherd.server.app.create_app", create_app)
    of_context = "--set context.n_ctx=64 --set context.deterministic=true"
    until_loaded(cli, f"{SERVE} {of_context}")
    until_loaded(cli, f"{SERVE} --set context.n_ctx=auto")
    assert hosts == [(64, True), (None, False)]


@pytest.fixture
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a server starts; otherwise it would run without end."""

    def start(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("llamaherd.server.serving.Server", start)


@pytest.mark.usefixtures("_no_server")
@pytest.mark.parametrize("n_models", [1, 2])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--set", "context.type_k=foo"], "type_k must be"),
        (["--set", "context.n_batch=abc"], "n_batch must be"),
        (["--set", "context.n_ctx=few"], "n_ctx must be"),
        (["--set", "context.rope_freq_base=-1"], "rope_freq_base must be"),
        (["--set", "model.use_mmap=3"], "use_mmap must be"),
        (["--set", "model.n_gpu_layers=all"], "n_gpu_layers must be"),
        (["--memory", "1GB", "--tensor-split", "nan"], "--tensor-split must"),
    ],
)
def test_wrong_values_end_the_server_at_its_start(
    cli: Commands, flags: list[str], message: str, n_models: int
) -> None:
    models = [f"--model={name}=MODEL" for name in "ab"[:n_models]]
    cli("serve --port 0", *models, *flags, status=2, err=message)


def test_auto_without_a_gpu_fits_the_file_to_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for has_gpu in (True, False):
        monkeypatch.setattr(
            "llamaherd.engine.native.shim.supports_gpu", lambda it=has_gpu: it
        )
        assert fits_file_to_memory({"n_gpu_layers": "auto"}) == (not has_gpu)
    assert fits_file_to_memory({})
    assert not fits_file_to_memory({"n_gpu_layers": 7})
    assert not fits_file_to_memory({"check_memory": False})


def write_run_file(cli: Commands) -> None:
    (model,) = cli.words("MODEL")
    Path("run.toml").write_text(
        'task = "generate"\ninput = "t.csv"\noutput = "o.csv"\n'
        f"[model]\npath = {json.dumps(model)}\n"
        'n_gpu_layers = "auto"\n[sampling]\nmax_tokens = 2\n'
    )


@pytest.mark.usefixtures("_table", "loads")
@pytest.mark.parametrize(
    "run", ["run t.csv -m MODEL -o o.csv --n-gpu-layers auto", "run run.toml"]
)
def test_runs_fit_the_file_to_memory_with_auto(
    cli: Commands, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    monkeypatch.setattr("llamaherd.engine.native.shim.supports_gpu", lambda: False)
    checks: list[bool] = []

    def find(path: str, *, check_memory: bool, **_: object) -> Path:
        checks.append(check_memory)
        return Path(path)

    monkeypatch.setattr("llamaherd.engine.hub.fetch.model_path", find)
    write_run_file(cli)
    until_loaded(cli, run)
    assert checks == [True]


@pytest.mark.usefixtures("_table")
def test_a_run_file_with_auto_runs(cli: Commands) -> None:
    write_run_file(cli)
    cli("run run.toml -q")
    assert len(Path("o.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("16GB", 16 * 10**9),
        ("1.5 gb", 15 * 10**8),
        ("500MB", 5 * 10**8),
        ("2TB", 2 * 10**12),
        ("8kb", 8000),
        ("123", 123),
    ],
)
def test_sizes(text: str, n_bytes: int) -> None:
    assert size(text) == n_bytes


def test_names_of_models(tmp_path: Path) -> None:
    odd = tmp_path / "a=b.gguf"
    odd.touch()
    texts = {
        "x.gguf": ("x", "x.gguf"),
        "small=/m/x.gguf": ("small", "/m/x.gguf"),
        "Qwen/Qwen3=hf:Qwen/Qwen3-GGUF": ("Qwen/Qwen3", "hf:Qwen/Qwen3-GGUF"),
        "https://h/m.gguf?a=b": ("m", "https://h/m.gguf?a=b"),
        "w=https://h/m.gguf?a=b": ("w", "https://h/m.gguf?a=b"),
        str(odd): ("a=b", str(odd)),
        f"c={odd}": ("c", str(odd)),
    }
    assert given_models([], list(texts))[:4] == list(texts.values())[:4]
    assert given_models([], list(texts)) == list(texts.values())
    assert given_models(["first.gguf"], ["x.gguf"])[0] == ("first", "first.gguf")


def test_names_of_adapters(tmp_path: Path) -> None:
    odd = tmp_path / "a@b.gguf"
    odd.touch()
    models = given_models([], ["one.gguf", "two.gguf"])
    texts = ["x=x.gguf", "y=y.gguf@two", f"z={odd}", f"w={odd}@two"]
    assert given_loras(texts, models) == [
        ("x", "x.gguf", "one"),
        ("y", "y.gguf", "two"),
        ("z", str(odd), "one"),
        ("w", str(odd), "two"),
    ]


def test_a_missing_file_is_known_at_the_start(cli: Commands) -> None:
    Path("a.gguf").touch()
    serve = "serve --port 0 a.gguf"
    cli(f"{serve} --model no/such.gguf", status=1, err="no/such.gguf")
    cli(f"{serve} --lora x=no/lora.gguf", status=1, err="no/lora.gguf")
