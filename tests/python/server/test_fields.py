"""Each field of other servers is served, has no effect, or is refused by its name.

`request_fields.json` lists the fields; scripts/request_fields.py writes it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from llamaherd.server.fields import UNKNOWN, status_of

sys.path.append(str(Path(__file__).parents[3] / "scripts"))

import request_fields

if TYPE_CHECKING:
    from served import Client

RECORD: dict[str, Any] = json.loads(request_fields.RECORD.read_text(encoding="utf-8"))
CASES = [
    (path, name)
    for path, name in sorted(
        {
            (path, name)
            for own in RECORD.values()
            for path, names in own["paths"].items()
            for name in names
        }
    )
]
NEEDED: dict[str, dict[str, Any]] = {
    request_fields.CHAT: {"messages": [{"role": "user", "content": "a"}]},
    request_fields.TEXT: {"prompt": "a"},
    request_fields.RESPONSES: {"input": "a"},
    request_fields.COUNT: {"input": "a"},
}
STRANGE = {"never": "a value without an effect"}


def test_the_record_has_the_fields_of_the_installed_client() -> None:
    """Fails for a field that a new version of the client adds.

    Record the field, and serve it or add it to `server/neutral.py`.
    """
    recorded = RECORD["OpenAI"]["paths"]
    for path, names in request_fields.of_openai().items():
        assert set(names) <= set(recorded[path]), path


@pytest.mark.parametrize(("path", "name"), CASES)
def test_no_field_is_unknown(path: str, name: str) -> None:
    assert status_of(path, name) != UNKNOWN


def test_a_new_field_is_noticed() -> None:
    assert status_of(request_fields.CHAT, "brand_new_field") == UNKNOWN


@pytest.mark.parametrize(
    ("path", "name"),
    [case for case in CASES if status_of(*case).startswith("refused")],
)
def test_a_refused_field_is_named(client: Client, path: str, name: str) -> None:
    status, got = client.post(path, {**NEEDED[path], name: STRANGE})
    assert status == 400, got
    error = got["error"]
    assert (error["param"], error["code"]) == (name, "unsupported_parameter")
    assert name in error["message"]
    assert "did you mean" not in error["message"]
    status, got = client.post(path, {**NEEDED[path], name: None})
    assert status == 200, got


def test_the_table_of_the_docs_is_current() -> None:
    assert request_fields.table() in request_fields.PAGE.read_text(encoding="utf-8")
