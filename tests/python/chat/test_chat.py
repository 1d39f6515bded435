"""Chat templates: rendering, the cache of their properties, those of many models."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType


TWO_THREADS = """
import sys
import threading
import llamaherd as lh

model = lh.Model(sys.argv[1])
assert "llama_cpp" not in sys.modules
both = threading.Barrier(2)

def render(role):
    both.wait()
    text = lh.apply_chat_template(model, [{"role": "user", "content": role}])
    assert role in text

threads = [threading.Thread(target=render, args=(f"word {i}",)) for i in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert "llama_cpp" not in sys.modules
with lh.Context(model, n_ctx=256) as context:
    lh.generate(context, "Hello", max_tokens=1)
"""


@pytest.mark.model
def test_the_first_chats_of_two_threads_leave_the_log_silent(smollm2_path: Path) -> None:
    ignored = "ignore:the answer ended at max_tokens"
    done = subprocess.run(
        [sys.executable, "-W", ignored, "-c", TWO_THREADS, str(smollm2_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


ROOT = Path(__file__).parents[3]
SNAPSHOTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "templates.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts/docs_templates.py"
    spec = importlib.util.spec_from_file_location("docs_templates", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(SNAPSHOTS))
def test_a_template_does_what_it_did(
    script: ModuleType, templates_folder: Path, name: str
) -> None:
    source = (templates_folder / f"{name}.jinja").read_text(encoding="utf-8")
    assert script.facts(source) == SNAPSHOTS[name]


def test_no_template_is_left_out(templates_folder: Path) -> None:
    assert {path.stem for path in templates_folder.glob("*.jinja")} == set(SNAPSHOTS)
    assert len(SNAPSHOTS) == 70


def test_the_page_shows_the_snapshots(script: ModuleType) -> None:
    text = (ROOT / "docs/templates.md").read_text(encoding="utf-8")
    assert script.page(text, SNAPSHOTS) == text


def test_every_thought_can_be_closed_and_opened() -> None:
    """For each template that thinks, the thought of a prompt can be closed and opened."""
    thinking = [snapshot for snapshot in SNAPSHOTS.values() if snapshot["thinks"] != "no"]
    assert len(thinking) > 40
    for snapshot in thinking:
        assert snapshot["end"].strip()
        assert not snapshot["closed"].rstrip().endswith(snapshot["start"].strip())
        assert snapshot["opened"].rstrip().endswith(snapshot["start"].strip())
