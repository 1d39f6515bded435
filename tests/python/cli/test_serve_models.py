"""Models, adapters and memory on the command line of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from llamaherd.cli.kinds import size
from llamaherd.cli.main import main
from llamaherd.cli.serve_run import given_loras, given_models

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("16GB", 16 * 10**9),
        ("1.5 gb", 15 * 10**8),
        ("500MB", 5 * 10**8),
        ("2TB", 2 * 10**12),
        ("8kb", 8000),
        ("123", 123),
    ],
)
def test_sizes(text: str, n_bytes: int) -> None:
    assert size(text) == n_bytes


def test_names_of_models(tmp_path: Path) -> None:
    odd = tmp_path / "a=b.gguf"
    odd.touch()
    texts = {
        "x.gguf": ("x", "x.gguf"),
        "small=/m/x.gguf": ("small", "/m/x.gguf"),
        "Qwen/Qwen3=hf:Qwen/Qwen3-GGUF": ("Qwen/Qwen3", "hf:Qwen/Qwen3-GGUF"),
        "https://h/m.gguf?a=b": ("m", "https://h/m.gguf?a=b"),
        "w=https://h/m.gguf?a=b": ("w", "https://h/m.gguf?a=b"),
        str(odd): ("a=b", str(odd)),
        f"c={odd}": ("c", str(odd)),
    }
    assert given_models([], list(texts))[:4] == list(texts.values())[:4]
    assert given_models([], list(texts)) == list(texts.values())
    assert given_models(["first.gguf"], ["x.gguf"])[0] == ("first", "first.gguf")


def test_names_of_adapters(tmp_path: Path) -> None:
    odd = tmp_path / "a@b.gguf"
    odd.touch()
    models = given_models([], ["one.gguf", "two.gguf"])
    texts = ["x=x.gguf", "y=y.gguf@two", f"z={odd}", f"w={odd}@two"]
    assert given_loras(texts, models) == [
        ("x", "x.gguf", "one"),
        ("y", "y.gguf", "two"),
        ("z", str(odd), "one"),
        ("w", str(odd), "two"),
    ]


def test_a_missing_file_is_known_at_the_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = tmp_path / "a.gguf"
    model.touch()
    serve = ["serve", "--port", "0", str(model)]
    assert main([*serve, "--model", "no/such.gguf"]) == 1
    assert "no/such.gguf" in capsys.readouterr().err
    assert main([*serve, "--lora", "x=no/lora.gguf"]) == 1
    assert "no/lora.gguf" in capsys.readouterr().err
