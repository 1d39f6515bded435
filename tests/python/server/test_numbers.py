"""Every field with a number, on every path, with the values that go wrong most often.

A value has an effect that is documented, or the request is refused with the name of the
field. No value is an error of the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema
import llamaherd as lh
import pytest
import tiny_models
from llamaherd.server.routes import FORMATS
from served import BODIES, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from served import Client

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
pytestmark = pytest.mark.filterwarnings("ignore:.* has no effect:UserWarning")
VALUES: list[Any] = [0, -1, 10**9, 1e9, -(10**30), True, "3", 3.0, 0.5, [3], None]
# Some numbers are fields of chats, or of encoders.
NEEDED: dict[str, dict[str, Any]] = {
    **BODIES,
    "/tokenize": BODIES["/apply-template"],
    "/v1/embeddings": {"input": "a", "model": "vectors"},
    "/api/embed": {"input": "a", "model": "vectors"},
}


def _properties(path: str) -> dict[str, Any]:
    """Return the schema of each field of a path."""
    schema = FORMATS[path.removeprefix("/v1")].request_schema()
    properties: dict[str, Any] = {}
    for body in schema.get("anyOf", [schema]):
        properties |= body["properties"]
    return properties


def _has_number(schema: Any) -> bool:
    """Whether a value of a field may be a number."""
    if "anyOf" in schema:
        return any(map(_has_number, schema["anyOf"]))
    kinds = schema.get("type", [])
    if {"integer", "number"} & {*([kinds] if isinstance(kinds, str) else kinds)}:
        return True
    values = schema.get("enum", [schema.get("const")])
    return any(isinstance(x, (int, float)) and not isinstance(x, bool) for x in values)


PATHS = [form.shown_path() for form in FORMATS.values()]
CASES = [
    (path, name)
    for path in PATHS
    for name, schema in sorted(_properties(path).items())
    if _has_number(schema)
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("numbers")
    path = tiny_models.write(folder / "tiny.gguf", "llama", chat_template=TEMPLATE)
    encoder = tiny_models.write(folder / "vectors.gguf", "bert")
    with (
        lh.Model(path) as model,
        lh.Context(model, n_seq_max=4, n_threads=1) as ctx,
        lh.Model(encoder) as other,
        served(ctx, embedding_model=other, embedding_name="vectors") as connection,
    ):
        yield connection


def test_the_table_has_the_fields_with_numbers() -> None:
    assert list(NEEDED) == PATHS
    for case in (
        ("/generate", "max_tokens"),
        ("/v1/completions", "logprobs"),
        ("/v1/completions", "best_of"),
        ("/v1/chat/completions", "top_logprobs"),
        ("/v1/chat/completions", "thinking"),
        ("/v1/responses", "max_output_tokens"),
        ("/v1/embeddings", "dimensions"),
        ("/v1/classify", "n_thoughts"),
        ("/v1/rerank", "top_n"),
        ("/v1/rerank", "priority"),
    ):
        assert case in CASES
    assert len(CASES) > 200


@pytest.mark.more(reason="many requests or long waits in the server", cases=46)
@pytest.mark.parametrize(("path", "name"), CASES)
def test_each_number_has_a_meaning_or_is_refused_by_name(
    client: Client, path: str, name: str
) -> None:
    schema = _properties(path)[name]
    needed = NEEDED[path]
    if name == "max_completion_tokens":  # another name of the same field
        needed = {key: field for key, field in needed.items() if key != "max_tokens"}
    if name == "top_logprobs" and path == "/v1/chat/completions":
        needed = {**needed, "logprobs": True}
    for value in VALUES:
        status, response = client.post(path, {**needed, name: value})
        case = f"{path} {name}={value!r}: {status} {response}"
        assert status in (200, 400), case
        if status == 400:
            assert value is not None or name in NEEDED[path], case
            error = response["error"]
            assert error["param"] == name, case
            assert name in error["message"], case
        elif not jsonschema.Draft202012Validator(schema).is_valid(value):
            pytest.fail(f"not in the OpenAPI document: {case}")


@pytest.mark.more(reason="many requests or long waits in the server", cases=129)
@pytest.mark.parametrize(("path", "name"), CASES)
def test_an_integer_may_have_an_empty_fraction(
    client: Client, path: str, name: str
) -> None:
    """JSON has one type of numbers: 2.0 and 2e0 are the integer 2."""
    needed = {"logprobs": True} if path == "/v1/chat/completions" else {}
    needed = {**needed, **NEEDED[path]}
    statuses = [client.post(path, {**needed, name: value})[0] for value in (2, 2.0, 2.5)]
    assert statuses[0] == statuses[1]
    if _properties(path)[name].get("type") == "integer":
        assert statuses[2] == 400


def test_lists_of_tokens_may_have_empty_fractions(client: Client) -> None:
    for path, fields in (
        ("/detokenize", {"tokens": [1.0, 2.0]}),
        ("/generate", {"prompt": [1.0, 2.0], "max_tokens": 1.0}),
        ("/v1/completions", {"prompt": [[1.0], [2.0]], "max_tokens": 1.0}),
        ("/generate", {"prompt": "a", "stop_token_ids": [2.0], "max_tokens": 1}),
    ):
        status, response = client.post(path, fields)
        assert status == 200, response


@pytest.mark.parametrize("name", ["documents", "texts"])
def test_the_number_of_ranked_documents(client: Client, name: str) -> None:
    """0, the default of vLLM, stands for all documents, like a large number."""
    body = {"query": "a", name: ["b", "c", "d"]}
    for n, expected in ((0, 3), (1, 1), (3, 3), (4, 3), (10**9, 3), (None, 3)):
        status, response = client.post("/v1/rerank", {**body, "top_n": n})
        rows = response if name == "texts" else response["results"]
        assert (status, len(rows)) == (200, expected), response
