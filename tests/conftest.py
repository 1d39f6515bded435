"""Fixtures of all tests: models, fakes, browser. A missing program is a failure."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent / "python"))
# A shell's background jobs ignore Ctrl-C, and commands under nohup ignore SIGHUP. All
# programs that tests start would ignore them, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import llamaherd as lh
import thorough
import tiny_models
from commands import Commands
from llamaherd.engine.memory import hardware
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

pytest_plugins = ["seconds"]
if "LLAMAHERD_TEST_DELAYS" in os.environ:
    pytest_plugins.append("delays")


# Tests run side by side, and threads of one matrix product wait for each other in loops:
# where another program runs, two threads compute longer than one. Tests of several
# threads ask for them.
@functools.wraps(hardware.n_cores)
def _one_core() -> int:
    return 1


hardware.n_cores = _one_core

# On a machine with a GPU, all tests can load their models there, see docs/gpu.md.
_LAYERS = os.environ.get("LLAMAHERD_TEST_GPU_LAYERS")
if _LAYERS is not None:
    lh.Model.__init__.__kwdefaults__["n_gpu_layers"] = int(_LAYERS)

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
_FOLDER = _CACHE / "llamaherd" / "models"

# Where models and tokens are looked for.
_PLACES = (
    *("HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN"),
    *("HF_HUB_OFFLINE", "OLLAMA_MODELS", "LLAMAHERD_CACHE_DIR"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", action="store_true", help="run what `make test` leaves out"
    )
    parser.addoption(
        "--shard",
        metavar="I/N",
        default="1/1",
        help="run the I-th of N parts of the files",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("long"):
        os.environ[thorough.VARIABLE] = "1"
    thorough.register_profiles()


# Last, when hypothesis has marked its tests.
@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def pytest_leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests of the other size."""
    kept, left_out = thorough.divided(items, config.args, config.getoption("shard"))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


# Of seconds by the clock, see `--times`: what takes a minute or more in one process.
_LONGEST = (
    "ray",
    "tests/python/whole/test_faults.py",
    "tests/cross/test_r.py",
    "tests/python/structured/test_masks.py",
    "tests/python/journal/test_disks.py",
    "tests/python/whole/test_contract.py",
)


class _ByFile(LoadScopeScheduling):
    """Run the tests of a file in one process, and all that start Ray in one.

    The longest start first, so that no process is left with one of them at the end.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        for scope in reversed(_LONGEST):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        return "ray" if "ray" in path.parts or "cluster" in path.name else str(path)


# Of xdist (`-n`). Its `--dist loadgroup` groups nothing: it renames tests, which pytest 9
# ignores.
@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByFile:
    return _ByFile(config, log)


def _model_path(variable: str, name: str) -> Path:
    path = Path(os.environ.get(variable) or _FOLDER / name)
    if not path.exists():
        pytest.fail(f"{path} is missing: run `make models`, or set {variable}")
    return path


@pytest.fixture(scope="session")
def templates_folder() -> Path:
    """The chat templates of llama.cpp, from the source of llama-cpp-python."""
    default = _FOLDER.parent / f"templates-{version('llama-cpp-python')}"
    path = Path(os.environ.get("LLAMAHERD_TEST_TEMPLATES") or default)
    if not path.is_dir():
        pytest.fail(f"{path} is missing: run `make models`")
    return path


@pytest.fixture
def cli(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tiny_path: Callable[[str], Path],
) -> Commands:
    """Return a function that runs commands in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Commands(capfd, tiny_path)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of models, empty. Nothing of this user's is seen, or written to."""
    for name in _PLACES:
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):  # Windows uses the second name
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "win32":  # its folders do not follow variables
        models = tmp_path / "xdg" / "llamaherd" / "models"
        monkeypatch.setenv("LLAMAHERD_CACHE_DIR", str(models))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no_token"))
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.setenv("NO_PROXY", "*")
    return tmp_path / "xdg" / "llamaherd" / "models"


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """A chat-tuned llama, 92 MB."""
    return _model_path("LLAMAHERD_TEST_SMOLLM2", "SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def smollm2_q4_1_path(smollm2_path: Path) -> Path:
    """The same as it came, in a type that is worth another."""
    return smollm2_path.with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    """A base model with sliding-window attention and a vocabulary of 262k, 253 MB."""
    return _model_path("LLAMAHERD_TEST_GEMMA3", "gemma-3-270m-q4_k_m.gguf")


@pytest.fixture(scope="session")
def minilm_path() -> Path:
    """all-MiniLM-L6-v2, an encoder for embeddings, 46 MB."""
    return _model_path("LLAMAHERD_TEST_MINILM", "all-MiniLM-L6-v2.F16.gguf")


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a tiny model of a kind, see `tiny_models`, once; "chat" has a template."""
    folder = tmp_path_factory.mktemp("tiny")

    @functools.cache
    def path(kind: str) -> Path:
        file = folder / f"{kind}.gguf"
        if kind == "chat":
            return tiny_models.write(file, "llama", chat_template=tiny_models.CHAT)
        return tiny_models.write(file, kind)

    return path


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> Iterator[lh.Model]:
    with lh.Model(smollm2_path) as model:
        yield model


@pytest.fixture(scope="session")
def minilm(minilm_path: Path) -> Iterator[lh.Model]:
    with lh.Model(minilm_path) as model:
        yield model


@pytest.fixture(scope="session")
def gemma3(gemma3_path: Path) -> Iterator[lh.Model]:
    with lh.Model(gemma3_path) as model:
        yield model


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium of the system.

    Playwright runs an event loop in this thread. It ends with the file, because tests of
    other files could not call `asyncio.run` during this loop.
    """
    from playwright.sync_api import sync_playwright  # takes 0.3 s

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None and sys.platform == "linux":
        pytest.fail("chromium is missing: run `make setup`")
    if program is None:
        pytest.skip("this system has no chromium that scripts/setup_system.sh installs")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield chromium
        chromium.close()
