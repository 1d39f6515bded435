"""What all tests share: the real models, and where the fakes lie."""

from __future__ import annotations

import functools
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent / "python"))
# A shell's background jobs ignore Ctrl-C, and so would all programs that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import llamaherd as lh
import tiny_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
_FOLDER = _CACHE / "llamaherd" / "models"

# Where models and tokens are looked for.
_PLACES = (
    *("HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN"),
    *("HF_HUB_OFFLINE", "OLLAMA_MODELS", "LLAMAHERD_CACHE_DIR"),
)


# First, as xdist writes the group into the test's name.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Side by side (`-n`), a file's tests share a process, and all that start Ray."""
    if not config.getoption("numprocesses", None):
        return
    for item in items:
        path = item.path.relative_to(Path(__file__).parent)
        group = "ray" if "ray" in path.parts or "cluster" in path.name else str(path)
        item.add_marker(pytest.mark.xdist_group(group))


def _model_path(variable: str, name: str) -> Path:
    path = Path(os.environ.get(variable) or _FOLDER / name)
    if not path.exists():
        pytest.fail(f"{path} is missing: run `make models`, or set {variable}")
    return path


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of models, empty. Nothing of this user's is seen, or written to."""
    for name in _PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
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
    """Writes a tiny model of a kind, see `tiny_models`, once."""
    folder = tmp_path_factory.mktemp("tiny")

    @functools.cache
    def path(kind: str) -> Path:
        return tiny_models.write(folder / f"{kind}.gguf", kind)

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
