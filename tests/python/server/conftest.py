"""Fixtures: a server on a context that answers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import tiny_loras
import tiny_models
from batch_requests import sdk_of
from fake_context import FakeContext
from served import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import openai
    from served import Client

# Input and output sizes of the tiny llama's weights.
SHAPES = {
    f"blk.{i}.{name}.weight": (tiny_models.N_EMBD, tiny_models.N_EMBD)
    for i in range(2)
    for name in ("attn_q", "attn_output")
}
# Template that writes only the content of a message.
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two models that answer, an encoder, and an adapter of the first model."""
    path = tmp_path_factory.mktemp("models")
    tiny_models.write(path / "one.gguf", "llama", 1)
    tiny_models.write(path / "two.gguf", "llama", 2)
    tiny_models.write(path / "vectors.gguf", "bert")
    tiny_loras.write(path / "style.gguf", SHAPES, size=1.0)
    return path


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Model]:
    """Return a tiny model with a chat template."""
    path = tmp_path_factory.mktemp("chat") / "tiny.gguf"
    with lh.Model(tiny_models.write(path, "llama", chat_template=TEMPLATE)) as model:
        yield model


@pytest.fixture(scope="module")
def ctx(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[lh.Context]:
    """Return a context of a tiny model, by TEMPLATE, MODEL and CONTEXT of the module."""
    module = vars(request.module)
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    template, changes = module.get("TEMPLATE", TEMPLATE), module.get("MODEL", {})
    tiny_models.write(path, "llama", chat_template=template, **changes)
    with lh.Model(path) as model, lh.Context(model, **module.get("CONTEXT", {})) as host:
        yield host


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest, ctx: lh.Context) -> Iterator[Client]:
    """Return the client of a server on `ctx`, with the settings SERVER of the module."""
    with served(ctx, **vars(request.module).get("SERVER", {})) as connection:
        yield connection


@pytest.fixture(scope="module")
def real_sdk(real: Client) -> Iterator[openai.OpenAI]:
    with sdk_of(real) as api:
        yield api


@pytest.fixture(scope="session")
def _both(chat_model: lh.Model) -> Iterator[tuple[FakeContext, Client]]:
    ctx = FakeContext(chat_model)
    with served(ctx) as client:
        yield ctx, client
    ctx.close()


@pytest.fixture
def fake(_both: tuple[FakeContext, Client]) -> FakeContext:
    """Return the context of `client`, without data of other tests."""
    _both[0].reset()
    return _both[0]


@pytest.fixture
def client(fake: FakeContext, _both: tuple[FakeContext, Client]) -> Client:  # noqa: ARG001
    """Return the client of a server without limits."""
    return _both[1]


@pytest.fixture
def sdk(client: Client) -> Iterator[openai.OpenAI]:
    with sdk_of(client) as api:
        yield api
