"""A key for each person, and the tokens that each person used."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from llamaherd.cli.serve import serve
from served import served

if TYPE_CHECKING:
    from pathlib import Path

    from fake_context import FakeContext

KEYS = {"ada": "one-key", "ben": "other-key"}
ASK = {"prompt": "a", "max_tokens": 2}


def test_tokens_are_counted_by_person(
    fake: FakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with served(fake, user_keys=KEYS, api_key="main-key") as client:

        def status(key: str) -> int:
            header = {"authorization": f"Bearer {key}"}
            return client.ask("POST", "/generate", ASK, header)[0]

        assert [status(key) for key in ("one-key", "one-key", "other-key")] == [200] * 3
        assert [status("main-key"), status("no-key"), status("ada")] == [200, 401, 401]
        assert client.ask("POST", "/generate", ASK)[0] == 401
        header = {"authorization": "Bearer main-key"}
        text = client.ask("GET", "/metrics", None, header)[1]
    lines = set(text.splitlines())
    for user, n in (("ada", 2), ("ben", 1)):
        name = "llamaherd_user_tokens_total"
        assert f'{name}{{part="prompt",user="{user}"}} {7.0 * n}' in lines
        assert f'{name}{{part="generated",user="{user}"}} {2.0 * n}' in lines
    assert 'user=""' not in text
    assert not any(key in caplog.text for key in (*KEYS.values(), "main-key"))


@pytest.mark.parametrize(
    "lines", ["", "ada", "ada secret more", "ada secret\nada other", "ada ä\u20ac"]
)
def test_a_file_of_keys_that_cannot_be_used(tmp_path: Path, lines: str) -> None:
    """The message has the line, and shows no key."""
    file = tmp_path / "keys.txt"
    file.write_text(lines, encoding="utf-8")
    result = CliRunner().invoke(serve, ["model.gguf", "--user-keys", str(file)])
    assert result.exit_code == 2
    assert "secret" not in result.output
    assert "keys.txt" in result.output
