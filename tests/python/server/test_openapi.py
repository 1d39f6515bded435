"""The OpenAPI document agrees with the behaviour of the server."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jsonschema
import pytest
import served
import thorough
from llamaherd.server.batches import pages as batch_pages
from llamaherd.server.responses import Responses
from llamaherd.server.routes import FORMATS as ALL_FORMATS
from llamaherd.server.sampling import ALIASES
from llamaherd.server.schemas import kinds_of
from served import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from served import Client

Schema = dict[str, Any]
FORMATS = {
    form.shown_path(): form
    for form in ALL_FORMATS.values()
    if "responses" not in form.path
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
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def document(real: Client) -> Schema:
    status, schema, _ = real.ask("GET", "/openapi.json")
    assert status == 200
    return schema  # type: ignore[no-any-return]


def _checker(document: Schema, schema: Schema) -> jsonschema.Draft202012Validator:
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator.check_schema(whole)
    return jsonschema.Draft202012Validator(whole)


def _operation(document: Schema, path: str, method: str) -> Schema:
    return document["paths"][path][method]  # type: ignore[no-any-return]


def _body_of(document: Schema, path: str) -> Schema:
    body = _operation(document, path, "post")["requestBody"]
    return body["content"]["application/json"]["schema"]  # type: ignore[no-any-return]


def _properties(schema: Schema) -> dict[str, Schema]:
    kinds = schema.get("anyOf", [schema])
    return {name: field for kind in kinds for name, field in kind["properties"].items()}


def test_it_has_every_path(real: Client, document: Schema) -> None:
    assert real.server is not None
    app: Any = real.server.config.app
    shown_routes = [route for route in app.routes if route.include_in_schema]
    routes = {route.path.replace(":path", "") for route in shown_routes}
    assert document["paths"].keys() == routes
    posted = {p for p, methods in document["paths"].items() if "post" in methods}
    with_v1 = {f"/v1{path}" if f"/v1{path}" in FORMATS else path for path in posted}
    others = {"responses", "files", "batches"}
    kept = {path for path in with_v1 if not others & set(path.split("/"))}
    assert kept == FORMATS.keys()
    names = [
        action["operationId"] for p in document["paths"].values() for action in p.values()
    ]
    assert len(set(names)) == len(names)


def test_responses_have_every_field(document: Schema) -> None:
    schema = _body_of(document, "/v1/responses")
    assert Responses.fields <= schema["properties"].keys()
    _checker(document, schema).validate({"input": "a", "text": {}, "stream": True})
    assert not _checker(document, schema).is_valid({"max_output_tokens": 0, "input": "a"})


@pytest.mark.parametrize("path", list(FORMATS))
def test_it_has_every_field(path: str) -> None:
    properties = _properties(ALL_FORMATS[path.removeprefix("/v1")].request_schema())
    form: Any = FORMATS[path]
    assert form.fields <= properties.keys()


@pytest.mark.parametrize("path", list(FORMATS))
def test_every_field_is_known(real: Client, document: Schema, path: str) -> None:
    """Null, which means no value, is accepted for all optional fields."""
    schema = _body_of(document, path)
    kinds = schema.get("anyOf", [schema])
    for kind, body in zip(kinds, BODIES[path], strict=False):
        free = kind["properties"].keys() - body.keys()
        status, response = real.post(path, {**dict.fromkeys(free), **body})
        assert status == 200, response
    status, response = real.post(path, {**BODIES[path][0], "nonsense": 1})
    assert (status, response["error"]["code"]) == (400, "unsupported_parameter")


@pytest.mark.more(reason="many requests or long waits in the server", cases=5)
@pytest.mark.parametrize("path", list(FORMATS))
def test_requests_and_answers_follow_it(
    real: Client, document: Schema, path: str
) -> None:
    responses = _operation(document, path, "post")["responses"]
    for body in BODIES[path]:
        _checker(document, _body_of(document, path)).validate(body)
        status, response = real.post(path, body)
        assert status == 200, response
        schema = responses["200"]["content"]["application/json"]["schema"]
        _checker(document, schema).validate(response)
    status, response = real.post(path, {})
    assert status == 400
    assert not _checker(document, _body_of(document, path)).is_valid({}) or path in (
        "/tokenize",
        "/api/show",
    )
    schema = responses["400"]["content"]["application/json"]["schema"]
    _checker(document, schema).validate(response)


def test_pages_follow_it(real: Client, document: Schema) -> None:
    pages = {p for p, of in document["paths"].items() if "get" in of and "{id}" not in p}
    assert len(pages) > 10
    for path in pages:
        ((media, content),) = _operation(document, path, "get")["responses"]["200"][
            "content"
        ].items()
        status, response, headers = real.ask("GET", path.replace("{name}", NAME))
        assert (status, headers["content-type"].partition(";")[0]) == (200, media)
        _checker(document, content["schema"]).validate(response)


# Paths that take the fields of chats, without their rules.
OF_CHATS = ("/tokenize", "/apply-template", "/v1/chat/completions/input_tokens")
# A value of each JSON type.
SAMPLES: dict[str, Any] = {
    "boolean": True,
    "integer": 5,
    "number": 1.5,
    "string": "zqx",
    "array": ["zqx"],
    "object": {"zqx": 1},
}


def _alternatives(schema: Schema) -> list[Schema]:
    parts = [x for part in schema.get("anyOf", ()) for x in _alternatives(part)]
    return parts or [schema]


def _valid(schema: Schema) -> Any:
    """Return a value that follows a schema."""
    (schema, *_) = _alternatives(schema)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    (kind, *_) = kinds_of(schema)
    if kind == "object":
        return {n: _valid(schema["properties"][n]) for n in schema.get("required", ())}
    if kind == "array":
        return [_valid(schema.get("items", {"type": "string"}))]
    return max(schema.get("minimum", 1), 1) if kind in ("integer", "number") else "a"


def _wrong(schema: Schema) -> Iterator[tuple[Any, str]]:
    """Yield values that do not follow a schema, each with the place of its fault."""
    kinds = {*kinds_of(schema)}
    for kind, value in SAMPLES.items():
        if kind not in kinds and not (kind == "integer" and "number" in kinds):
            yield value, ""
    options = _alternatives(schema)
    is_only_list = sum("items" in option for option in options) == 1
    for option in options:
        beyond = {
            "enum": lambda _: "zqx",
            "minimum": lambda n: n - 1,
            "maximum": lambda n: n + 1,
            "minLength": lambda _: "",
            "maxLength": lambda n: "a" * (n + 1),
            "minItems": lambda _: [],
            "maxItems": lambda n, x=option: _valid(x) * (n + 1),
        }
        for limit in beyond.keys() & option.keys():
            yield beyond[limit](option[limit]), ""
        if "items" in option and is_only_list:
            for item, place in _wrong(option["items"]):
                yield [item], f"[0]{place}"
        yield from _wrong_objects(option)


def _wrong_objects(schema: Schema) -> Iterator[tuple[Any, str]]:
    if "properties" not in schema:
        return
    for name, part in schema["properties"].items():
        for value, place in _wrong(part):
            yield {**_valid(schema), name: value}, f".{name}{place}"
    for name in schema["required"]:
        yield {n: x for n, x in _valid(schema).items() if n != name}, f".{name}"
    if schema.get("additionalProperties") == {"type": "null"}:
        yield {**_valid(schema), "zqx": 1}, ".zqx"


@pytest.mark.more(reason="every field of every path: 3,000 requests", cases=4)
@pytest.mark.parametrize("path", [path for path in served.BODIES if path not in OF_CHATS])
def test_what_a_schema_does_not_allow_is_refused_by_its_place(
    real: Client, path: str
) -> None:
    form, body = ALL_FORMATS[path.removeprefix("/v1")], served.BODIES[path]
    n = 0
    for name in form.field_schemas.keys() & form.fields - ALIASES.keys():
        for value, place in _wrong(form.field_schemas[name]):
            status, response = real.post(path, {**body, name: value})
            assert status == 400, (name, value, response)
            error = response["error"]
            assert error["param"] in (name, f"{name}{place}"), (value, response)
            assert f"{name}{place}" in error["message"], (value, response)
            is_unknown = place.endswith(".zqx")
            code = "unsupported_parameter" if is_unknown else "invalid_value"
            assert error["code"] == code, (value, response)
            n += 1
    assert n > 2


ODD: list[Any] = [
    *(True, 0, -1, 1.5, 1e308, 1 << 63, "", "zqx", "\x00", "\ud800", [], [[]], {}),
    *([None], [1 << 40], {"": None}, {"a": [1]}, [{"role": "user"}]),
]
# Words of libraries, which a client does not know.
FOREIGN = re.compile(
    r"is not of type|\$: |does not match|[Ii]nput should|[Ff]ield required|pydantic|"
    r"validation error|NoneType|<class|Traceback|\^\(|\b(None|True|False)\b"
)
BATCH = {"input_file_id": "file-0", "endpoint": "/v1/completions"}
BODIES_OF_ALL = {
    **BODIES,
    **{path: [served.BODIES[path]] for path in served.BODIES if "responses" in path},
    "/v1/batches": [{**BATCH, "completion_window": "24h"}],
}
PARSED = re.compile(
    "cannot be parsed|is not valid JSON|is a mapping"
)  # a text with its own errors
FORM = {
    "purpose": "batch",
    "expires_after[anchor]": "created_at",
    "expires_after[seconds]": "3600",
}
# A value that is refused together with others, or by the rules of another text.
TOGETHER = (
    "needs",
    "cannot be combined",
    "not supported here",
    "is for streams",
    "differ",
)


def _check_refusal(status: int, response: Any, name: str, value: object) -> None:
    """Check that an error names the parameter and its value, in the server's words."""
    if status == 200:
        return
    assert status in (400, 404, 422), (name, value, response)
    # Anthropic's clients read further `details` of some fields.
    assert response["error"].keys() - {"details"} == {"message", "type", "param", "code"}
    message, param = response["error"]["message"], response["error"]["param"]
    assert param is not None, (name, value, response)
    assert not FOREIGN.search(message), (name, value, message)
    field = param.partition("[")[0].partition(".")[0]
    assert field in message or field == "id", (name, value, message)
    if field != name or any(words in message for words in TOGETHER):
        return
    if value in (-1, "zqx") and not isinstance(value, bool):
        assert str(value) in message or PARSED.search(message), (name, message)


@pytest.mark.more(reason="many requests or long waits in the server", cases=5)
@pytest.mark.filterwarnings("ignore::UserWarning")  # settings without an effect
@pytest.mark.more(reason="every value in every field: 9,000 requests")
@pytest.mark.parametrize("path", list(BODIES_OF_ALL))
def test_odd_values_are_answered_or_refused_by_name(
    real: Client, document: Schema, path: str
) -> None:
    """In `make test`, two of the values are tried for each field."""
    bodies = BODIES_OF_ALL[path]
    n_values = thorough.sized(2, len(ODD))
    for i, name in enumerate(sorted(_properties(_body_of(document, path)))):
        for j in range(n_values):
            odd = ODD[(n_values * i + j) % len(ODD)]
            _check_refusal(*real.post(path, {**bodies[-1], name: odd}), name, odd)


def test_every_body_of_the_document_is_tried(document: Schema) -> None:
    bodies = {
        path
        for path, operations in document["paths"].items()
        if "application/json"
        in operations.get("post", {}).get("requestBody", {}).get("content", ())
    }
    with_v1 = {f"/v1{path}" if f"/v1{path}" in bodies else path for path in bodies}
    assert with_v1 == BODIES_OF_ALL.keys()


@pytest.mark.parametrize("path", ["/v1/batches", "/v1/responses"])
def test_all_odd_values_of_batches_and_responses(real: Client, path: str) -> None:
    (body,) = BODIES_OF_ALL[path]
    for name in body:
        for odd in ODD:
            _check_refusal(*real.post(path, {**body, name: odd}), name, odd)


def test_odd_values_of_queries_and_paths(real: Client, document: Schema) -> None:
    tried = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", ()):
                name = parameter["name"]
                for odd in ODD:
                    text = odd if isinstance(odd, str) else json.dumps(odd)
                    value = quote(text.encode("utf-8", "replace"), safe="")
                    target = path.replace(f"{{{name}}}", value or "%20")
                    if parameter["in"] == "query":
                        target = f"{path}?{name}={value}"
                    status, response, _ = real.ask(method.upper(), target)
                    _check_refusal(status, response, name, odd)
                tried.add((path, name))
    assert {("/v1/files", "limit"), ("/v1/batches/{id}", "id")} <= tried


def test_odd_values_of_forms(real: Client, document: Schema) -> None:
    body = _operation(document, "/v1/files", "post")["requestBody"]
    schema = body["content"]["multipart/form-data"]["schema"]
    for name in schema["properties"].keys() - {"file"}:
        for odd in ("", "zqx", "-1", "1" * 30, "\x00"):
            fields = {**FORM, name: odd}
            parts = "".join(
                f'--b\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n'
                for n, v in fields.items()
            )
            file = '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n{}\r\n'
            kind = {"content-type": "multipart/form-data; boundary=b"}
            status, response, _ = real.ask(
                "POST", "/v1/files", f"{parts}{file}--b--\r\n".encode(), kind
            )
            assert status == 400, (name, odd, response)
            _check_refusal(status, response, name.partition("[")[0], odd)


def test_an_internal_error_of_a_page_has_the_form_of_errors(
    real: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_pages, "_page", lambda *_: 1 / 0)
    status, response, _ = real.ask("GET", "/v1/files")
    assert (status, response["error"]["type"]) == (500, "server_error")
    assert "internal error" in response["error"]["message"]
