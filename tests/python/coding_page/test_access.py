"""Access to a coding page: responses to each kind of visitor."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES = (
    *("/", "/owner", "/coding.js", "/texts.js", "/requests.js", "/owner.js"),
    *("/fields.js", "/inputs.js", "/finder.js", "/elements.js"),
    *("/base.css", "/coding.css", "/icon.svg"),
)
OF_CODERS = (
    *(("GET", "/api/text"), ("POST", "/api/code"), ("POST", "/api/skip")),
    ("POST", "/api/undo"),
)
OF_OWNER = (("GET", "/api/overview"), ("GET", "/api/export"), ("POST", "/api/stop"))
CODE = {"i": 0, "value": "War"}


def body_of(method: str) -> Any:
    return CODE if method == "POST" else None


def test_pages_have_no_data_and_strict_headers(served: Callable[..., Any]) -> None:
    with served(keys=True) as at:
        for path in PAGES:
            with socket.create_connection(
                ("127.0.0.1", int(at.url.split(":")[-1]))
            ) as connection:
                head = (
                    f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
                )
                connection.sendall(head.encode())
                answer = connection.makefile("rb").read().decode().lower()
            assert answer.startswith("http/1.1 200"), path
            assert (
                "content-security-policy: default-src 'none'; script-src 'self'" in answer
            )
            assert "unsafe" not in answer
            assert "x-content-type-options: nosniff" in answer
            # The page has no foreign host, no inline code, and no HTML from texts.
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer)
            assert not re.search(r"<script[^>]*>[^<]|<style|\son\w+=|innerhtml", answer)
            assert "text number" not in answer


def test_keys_are_needed_if_said_and_belong_to_one_coder(
    served: Callable[..., Any],
) -> None:
    with served(keys=True) as at:
        for method, path in (("GET", "/api/start"), *OF_CODERS):
            for headers in (
                {},
                {"X_Coder": "anna"},
                {"Authorization": "Bearer wrong"},
                {"Authorization": f"Bearer {at.owner_key}"},
                {"Authorization": "Bearer \xe9"},
                {"Authorization": at.key("anna")},
            ):
                status, response = at.ask(method, path, body_of(method), **headers)
                assert (status, response["error"]["code"]) == (401, "invalid_api_key"), (
                    headers
                )
        bearer = {"Authorization": f"Bearer {at.key('anna')}", "X_Coder": "ben"}
        assert at.ask("POST", "/api/code", CODE, **bearer)[0] == 200
        assert at.desk.values("anna")[0] == "War"
        assert at.desk.values("ben")[0] is None
        assert at.ask("GET", "/api/start", **bearer)[1]["coders"] == ["anna"]


def test_coders_cannot_see_agreement_nor_others(served: Callable[..., Any]) -> None:
    with served() as at:
        for method, path in OF_OWNER:
            for key in ("", "Bearer ", f"Bearer {at.key('anna')}"):
                status, _ = at.ask(
                    method, path, body_of(method), Authorization=key, X_Coder="anna"
                )
                assert status == 401
        at.code("anna", 0, "War", note="secret")
        position = at.desk.texts_of("ben").index(0)
        status, response = at.ask("GET", f"/api/text?position={position}", X_Coder="ben")
        assert status == 200
        assert response["text"]["value"] is None
        assert "secret" not in str(response)
        assert "War" not in str(response)
        status, response = at.ask(
            "GET", "/api/overview", Authorization=f"Bearer {at.owner_key}"
        )
        assert (status, response["coders"][0]["n_coded"]) == (200, 1)


def test_the_model_is_not_shown(served: Callable[..., Any]) -> None:
    data = {"id": ["a"], "text": ["A text."], "model_label": ["War!"], "p": [0.123]}
    with served(data) as at:
        seen = [
            at.ask("GET", path, X_Coder="anna") for path in ("/api/start", "/api/text")
        ]
    assert "War!" not in str(seen)
    assert "0.123" not in str(seen)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_type": "multipart/form-data"}, 415),
        ({"X_Coder": "carla"}, 403),
        ({"X_Coder": ""}, 403),
        ({"X_Coder": "%FF"}, 403),
    ],
)
def test_other_sites_can_store_nothing(
    served: Callable[..., Any], headers: dict[str, str], status: int
) -> None:
    with served() as at:
        sent = {"X_Coder": "anna", **headers}
        assert at.ask("POST", "/api/code", CODE, **sent)[0] == status
        assert at.desk.values("anna")[0] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"i": 0, "value": NaN}', 400),
        (b"[" * 100_000, 400),
        (b'{"note": "' + b"x" * 2_000_000 + b'"}', 413),
        ({"i": 0}, 400),
        ({"i": 10**30, "value": "War"}, 400),
        ({"i": 0, "value": "War", "note": None}, 400),
    ],
)
def test_bad_bodies_get_an_error(
    served: Callable[..., Any], body: Any, status: int
) -> None:
    with served() as at:
        returned, answer = at.ask("POST", "/api/code", body, X_Coder="anna")
        assert returned == status
        assert answer["error"]["message"]
        assert at.ask("GET", "/api/text?position=x", X_Coder="anna")[0] == 400
        assert at.ask("GET", "/api/text?position=99", X_Coder="anna")[1]["text"] is None
        assert at.ask("GET", "/etc/passwd")[0] == 404
        assert at.ask("GET", "/..%2fconftest.py")[0] == 404
        assert at.ask("GET", "/api/code")[0] == 405
        assert at.ask("POST", "/api/undo", {}, X_Coder="anna")[0] == 409


ODD: list[Any] = [
    *(True, -1, 1.5, 1 << 70, "", "zqx", "\x00", "\ud800", [], [[1]], {}, {"a": None}),
    *([None], ["zqx", "zqx"], "zqx" * 2000, None),
]
# Words of Python or of a library.
FOREIGN = re.compile(r"\b(None|True|False|dict|str|NoneType)\b|pydantic|Traceback|<class")


def test_odd_values_are_refused_by_name_in_our_words(
    served: Callable[..., Any],
) -> None:
    with served() as at:
        for path in ("/api/code", "/api/skip", "/api/undo"):
            for name in ("i", "value", "note", "seconds", "seen"):
                for odd in ODD:
                    body = {"i": 0, "value": "War", name: odd}
                    status, response = at.ask("POST", path, body, X_Coder="anna")
                    if status == 200:
                        continue
                    assert status in (400, 409), (path, name, odd, response)
                    error = response["error"]
                    assert error["param"] in (name, None), (path, name, odd, error)
                    assert not FOREIGN.search(error["message"]), error
        for query, param in (
            ("text?position=-1", "position"),
            ("export?field=-1", "field"),
        ):
            key = {"Authorization": f"Bearer {at.owner_key}"} if "export" in query else {}
            response = at.ask("GET", f"/api/{query}", **({"X_Coder": "anna"} | key))[1]
            assert response["error"]["param"] == param
            assert '"-1"' in response["error"]["message"]


def test_a_code_that_cannot_be_stored_is_reported(served: Callable[..., Any]) -> None:
    with served() as at:
        at.desk.close()
        status, response = at.ask("POST", "/api/code", CODE, X_Coder="anna")
        assert (status, response["error"]["code"]) == (503, "not_saved")


def test_other_machines_need_a_key(served: Callable[..., Any]) -> None:
    with served(host="0.0.0.0") as at:
        assert at.url.startswith(f"http://{socket.gethostname()}:")
        at.url = f"http://127.0.0.1:{at.url.split(':')[-1]}"
        assert at.ask("GET", "/api/text", X_Coder="anna")[0] == 401
        key = {"Authorization": f"Bearer {at.key('anna')}"}
        assert at.ask("GET", "/api/text", **key)[0] == 200
        assert at.ask("GET", "/api/text", Host="evil.example", **key)[0] == 403


def test_the_owner_ends_the_page(served: Callable[..., Any]) -> None:
    with served() as at:
        key = {"Authorization": f"Bearer {at.owner_key}"}
        assert at.ask("POST", "/api/stop", {}, **key)[0] == 200


def test_a_text_that_is_no_tie_any_more_is_not_shown(served: Callable[..., Any]) -> None:
    with served(tie_coder="cleo") as at:
        assert at.ask("GET", "/api/text", X_Coder="cleo")[1]["text"] is None
        for i in (1, 2):
            at.code("anna", i, "War")
            at.code("ben", i, "Money")
        at.code("cleo", 1, "War")
        at.code("ben", 1, "War")
        status, body = at.ask("POST", "/api/undo", {}, X_Coder="cleo")
        assert (status, body["text"]["i"], body["text"]["position"]) == (200, 2, 0)
        at.code("ben", 2, "War")
        status, body = at.ask("GET", "/api/text?position=0", X_Coder="cleo")
        assert (status, body["text"], body["progress"]["n_texts"]) == (200, None, 0)
