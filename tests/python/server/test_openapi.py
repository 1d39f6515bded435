"""The OpenAPI document agrees with the behaviour of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import served
import thorough
from llamaherd.server.responses import Responses
from llamaherd.server.routes import SHAPES as ROUTES
from llamaherd.server.sampling import ALIASES
from served import NAME

if TYPE_CHECKING:
    from served import Client

Schema = dict[str, Any]
SHAPES = {
    shape.shown_path(): shape
    for shape in ROUTES.values()
    if "responses" not in shape.path
}
MESSAGES = [{"role": "user", "content": "a"}]
CODEBOOK = {"question": "Which?", "labels": ["a", "b"]}
# Valid requests for each path.
BODIES: dict[str, list[Schema]] = {
    **{path: [body] for path, body in served.BODIES.items()},
    "/v1/completions": [
        {"prompt": ["a", "b"], "max_tokens": 2, "logprobs": 1, "echo": True}
    ],
    "/v1/chat/completions": [{"messages": MESSAGES, "max_tokens": 2, "n": 2}],
    "/v1/embeddings": [{"input": ["a"]}, {"input": [1], "encoding_format": "base64"}],
    "/v1/score": [{"prompts": ["a"], "continuations": [[" b", " c"]]}],
    "/v1/classify": [{"prompts": ["a", "a " * 600], "labels": ["b", "c"]}],
    "/v1/annotate": [{"texts": ["a", None], "codebook": CODEBOOK}],
    "/v1/rerank": [
        {"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1},
        {"query": "a", "texts": ["b", "c"], "return_text": True},
    ],
    "/tokenize": [{"prompt": "a"}, {"messages": MESSAGES, "return_token_strs": True}],
}
PAGES = [
    *("/v1/models", "/tokenizer_info", "/api/tags", "/version", "/health"),
    *("/openapi.json", f"/v1/models/{NAME}"),
]
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def document(real: Client) -> Schema:
    status, got, _ = real.ask("GET", "/openapi.json")
    assert status == 200
    return got  # type: ignore[no-any-return]


def _checker(document: Schema, schema: Schema) -> jsonschema.Draft202012Validator:
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator.check_schema(whole)
    return jsonschema.Draft202012Validator(whole)


def _operation(document: Schema, path: str, method: str) -> Schema:
    shown = "/v1/models/{name}" if path == f"/v1/models/{NAME}" else path
    return document["paths"][shown][method]  # type: ignore[no-any-return]


def _body_of(document: Schema, path: str) -> Schema:
    body = _operation(document, path, "post")["requestBody"]
    return body["content"]["application/json"]["schema"]  # type: ignore[no-any-return]


def _properties(schema: Schema) -> dict[str, Schema]:
    kinds = schema.get("anyOf", [schema])
    return {name: each for kind in kinds for name, each in kind["properties"].items()}


def test_it_has_every_path(real: Client, document: Schema) -> None:
    assert real.server is not None
    app: Any = real.server.config.app
    shown_routes = [route for route in app.routes if route.include_in_schema]
    routes = {route.path.replace(":path", "") for route in shown_routes}
    assert document["paths"].keys() == routes
    shown = {p for p, each in document["paths"].items() if "post" in each}
    with_v1 = {f"/v1{path}" if f"/v1{path}" in SHAPES else path for path in shown}
    others = {"responses", "files", "batches"}
    kept = {path for path in with_v1 if not others & set(path.split("/"))}
    assert kept == SHAPES.keys()
    names = [
        each["operationId"] for p in document["paths"].values() for each in p.values()
    ]
    assert len(set(names)) == len(names)


def test_responses_have_every_field(document: Schema) -> None:
    schema = _body_of(document, "/v1/responses")
    assert Responses.fields <= schema["properties"].keys()
    _checker(document, schema).validate({"input": "a", "text": {}, "stream": True})
    assert not _checker(document, schema).is_valid({"max_output_tokens": 0, "input": "a"})


@pytest.mark.parametrize("path", list(SHAPES))
def test_it_has_every_field(path: str) -> None:
    shown = _properties(ROUTES[path.removeprefix("/v1")].request_schema())
    shape: Any = SHAPES[path]
    assert shape.fields <= shown.keys()


@pytest.mark.parametrize("path", list(SHAPES))
def test_every_field_is_known(real: Client, document: Schema, path: str) -> None:
    """Null, which means no value, is accepted for all optional fields."""
    schema = _body_of(document, path)
    kinds = schema.get("anyOf", [schema])
    for kind, body in zip(kinds, BODIES[path], strict=False):
        free = kind["properties"].keys() - body.keys()
        status, got = real.post(path, {**dict.fromkeys(free), **body})
        assert status == 200, got
    status, got = real.post(path, {**BODIES[path][0], "nonsense": 1})
    assert (status, got["error"]["code"]) == (400, "unsupported_parameter")


@pytest.mark.more(reason="many requests or long waits in the server", cases=5)
@pytest.mark.parametrize("path", list(SHAPES))
def test_requests_and_answers_follow_it(
    real: Client, document: Schema, path: str
) -> None:
    responses = _operation(document, path, "post")["responses"]
    for body in BODIES[path]:
        _checker(document, _body_of(document, path)).validate(body)
        status, got = real.post(path, body)
        assert status == 200, got
        schema = responses["200"]["content"]["application/json"]["schema"]
        _checker(document, schema).validate(got)
    status, got = real.post(path, {})
    assert status == 400
    assert not _checker(document, _body_of(document, path)).is_valid({}) or path in (
        "/tokenize",
        "/api/show",
    )
    schema = responses["400"]["content"]["application/json"]["schema"]
    _checker(document, schema).validate(got)


@pytest.mark.parametrize("path", PAGES)
def test_pages_follow_it(real: Client, document: Schema, path: str) -> None:
    responses = _operation(document, path, "get")["responses"]
    status, got, _ = real.ask("GET", path)
    assert status == 200
    schema = responses["200"]["content"]["application/json"]["schema"]
    _checker(document, schema).validate(got)


@pytest.mark.parametrize("path", list(SHAPES)[:7])
def test_nothing_beyond_a_range_is_taken(
    real: Client, document: Schema, path: str
) -> None:
    (body, *_) = BODIES[path]
    for name, each in _properties(_body_of(document, path)).items():
        (schema, *_) = each.get("anyOf", [each])
        for side, step in (("minimum", -1), ("maximum", 1)):
            if side not in schema or name in ALIASES:
                continue
            status, got = real.post(path, {**body, name: schema[side] + step})
            assert (status, got["error"]["param"]) == (400, name), got


ODD: list[Any] = [
    *(True, 0, -1, 1.5, 1e308, 1 << 63, "", "x", "\x00", "\ud800", [], [[]], {}),
    *([None], [1 << 40], {"": None}, {"a": [1]}, [{"role": "user"}]),
]


@pytest.mark.more(reason="many requests or long waits in the server", cases=5)
@pytest.mark.filterwarnings("ignore::UserWarning")  # settings without an effect
@pytest.mark.more(reason="every value in every field: 9,000 requests")
@pytest.mark.parametrize("path", list(SHAPES))
def test_odd_values_are_answered_or_refused_by_name(
    real: Client, document: Schema, path: str
) -> None:
    """In `make test`, two of the values are tried for each field."""
    bodies = BODIES[path]
    n_values = thorough.sized(2, len(ODD))
    for i, name in enumerate(sorted(_properties(_body_of(document, path)))):
        for j in range(n_values):
            odd = {name: ODD[(n_values * i + j) % len(ODD)]}
            status, got = real.post(path, {**bodies[-1], **odd})
            assert status in (200, 400, 404, 422), (odd, got)
            if status == 400:
                assert got["error"]["param"] is not None, (odd, got)
