"""Messages to clients: no folders of the server, no arguments of Python, suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.server.models.spec import AdapterSpec, ModelSpec
from served import served, served_models

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from served import Client

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "a"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model without a template, a damaged model and adapter, and a reranker."""
    made = tmp_path_factory.mktemp("secret-folder")
    tiny_models.write(made / "plain.gguf", "llama")
    tiny_models.write(made / "ranks.gguf", "bert", changes={"pooling_type": 4})
    tiny_models.write(made / "t5.gguf", "t5")
    (made / "damaged.gguf").write_bytes(b"GGUF nothing")
    (made / "adapter.gguf").write_bytes(b"GGUF nothing")
    return made


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    adapter = AdapterSpec("adapter", folder / "adapter.gguf")
    specs = [
        ModelSpec("plain", folder / "plain.gguf", (adapter,)),
        *(
            ModelSpec(name, folder / f"{name}.gguf")
            for name in ("ranks", "damaged", "t5")
        ),
    ]
    with served_models(specs) as made:
        yield made


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (CHAT, {"messages": HELLO, "model": "plain"}, 400),
        ("/v1/responses", {"input": "a", "model": "plain"}, 400),
        ("/apply-template", {"messages": HELLO, "model": "plain"}, 400),
        (TEXT, {"prompt": "a", "model": "damaged"}, 500),
        (TEXT, {"prompt": "a", "model": "t5"}, 500),
        ("/api/show", {"model": "damaged"}, 500),
        (TEXT, {"prompt": "a", "model": "adapter"}, 500),
        ("/v1/embeddings", {"input": "a", "model": "ranks"}, 400),
        ("/v1/rerank", {"query": "a", "documents": ["b"], "model": "ranks"}, 400),
    ],
)
def test_no_message_shows_a_folder_or_an_argument_of_python(
    client: Client, path: str, body: dict[str, Any], status: int
) -> None:
    found, got = client.post(path, body)
    assert found == status, got
    message = got["error"]["message"]
    for text in ("secret-folder", "<Model", "template=", "leave chat out"):
        assert text not in message
    if body["model"] in {"damaged", "adapter"}:
        assert ".gguf" in message


def test_a_model_without_a_template_has_a_way_out(folder: Path) -> None:
    with (
        lh.Model(folder / "plain.gguf") as model,
        lh.Context(model) as ctx,
        served(ctx) as made,
    ):
        _, got = made.post(CHAT, {"messages": HELLO})
    assert "/v1/completions" in got["error"]["message"]
    assert "--template FILE" in got["error"]["message"]


def test_a_misspelt_model_or_path_gets_a_suggestion(client: Client) -> None:
    _, got = client.post(TEXT, {"prompt": "a", "model": "plian"})
    assert "did you mean 'plain'?" in got["error"]["message"]
    _, got = client.post("/v1/completion", {"prompt": "a"})
    assert "did you mean '/v1/completions'?" in got["error"]["message"]
