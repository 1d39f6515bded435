"""Input that Python refuses with errors of its own."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import click
import pytest
from llamaherd.calls.structured.subschemas import referred
from llamaherd.cli.main import main
from llamaherd.cli.serve_run import given_models
from llamaherd.engine.core import checks
from llamaherd.server.access import Guard
from llamaherd.server.errors import ApiError
from llamaherd.server.settings import ServerSettings
from llamaherd.tables.spec_file import read_spec

if TYPE_CHECKING:
    from pathlib import Path

MANY = "1" * 5000


@pytest.mark.parametrize("text", ["", MANY, "-1", "1.0", "\u0663", "\u00b2", "1_0", " 1"])
def test_other_texts_than_digits_are_no_number(text: str) -> None:
    assert checks.digits(text) is None
    assert checks.digits("007") == 7
    assert referred(f"#/a/{text}/b", {"a": [1]}) is None


def test_a_byte_order_mark_is_no_part_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("\ufeffinput = 'a.csv'\noutput = 'b.csv'\nprompt = '{a}'\n", "utf-8")
    assert read_spec(path).input == str(tmp_path / "a.csv")


@pytest.mark.parametrize("names", ["a=x a.gguf=y", "a.gguf=x a=y", "a=x x/a.gguf"])
def test_names_that_requests_cannot_tell_apart_are_refused(names: str) -> None:
    with pytest.raises(click.UsageError, match="two models have the name"):
        given_models([], names.split())


@pytest.mark.parametrize(
    ("host", "origin", "is_own"),
    [
        ("localhost:80", "http://localhost:80", True),
        ("localhost:80", "https://localhost:80", False),  # the server has no TLS
        ("llm.example", "https://llm.example", True),  # a proxy with TLS
        ("localhost:80", "ftp://localhost:80", False),
        ("localhost:80", "localhost:80", False),
        ("localhost:80", "https://", False),
        ("", "https://", False),
        ("", "://", False),
    ],
)
def test_pages_of_this_server_only(host: str, origin: str, is_own: bool) -> None:
    settings = ServerSettings(model_name="m")
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    scope = {"headers": headers, "server": ("127.0.0.1", 80)}
    if is_own:
        Guard(settings).check(scope, is_open=False)
        return
    with pytest.raises(ApiError, match="other origins"):
        Guard(settings).check(scope, is_open=False)


def test_a_deleted_working_directory_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert main(["run", "run.toml"]) != 0
    assert "the working directory was deleted" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)


def test_a_lack_of_threads_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(_: object) -> None:
        raise RuntimeError("can't start new thread")

    module = sys.modules["llamaherd.cli.main"]
    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(
        module._group, "main", lambda *_, **__: threading.Thread().start()
    )
    assert main(["doctor"]) == 1
    assert "can't start new thread: end other programs" in capsys.readouterr().err
