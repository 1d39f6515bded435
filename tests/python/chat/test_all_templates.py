"""Snapshots of the markers and prompts of 70 real chat templates, and their page."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

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
    thinking = [each for each in SNAPSHOTS.values() if each["thinks"] != "no"]
    assert len(thinking) > 40
    for each in thinking:
        assert each["end"].strip()
        assert not each["closed"].rstrip().endswith(each["start"].strip())
        assert each["opened"].rstrip().endswith(each["start"].strip())
