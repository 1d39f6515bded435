"""Every behaviour of a model that thinks, in each kind of call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from thinking_behaviours import BEHAVIOURS, COLUMNS, TEMPLATE, Behaviour, codebook
from thinking_doors import DOORS, FORMS, Desk, Door, has

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
CELLS = [
    pytest.param(
        behaviour,
        door,
        id=f"{behaviour.name}-{door.name}",
    )
    for door in DOORS
    for behaviour in BEHAVIOURS
    if door.name != "Ray" and has(door.name, behaviour)
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    desk = Desk(tmp_path_factory.mktemp("doors"))
    yield desk
    desk.close()


# The warning that a model would think is issued once, in the first cell.
@pytest.mark.filterwarnings("ignore::llamaherd.ThinkingWarning")
@pytest.mark.parametrize(("behaviour", "door"), CELLS)
def test_a_behaviour_is_right_through_a_door(
    behaviour: Behaviour, door: Door, desk: Desk
) -> None:
    expected = behaviour.told
    if door.is_held and behaviour.scored is not None:
        expected = behaviour.scored
    told = door.abilities[behaviour.does](desk, behaviour)
    assert tuple(told) == expected


@pytest.mark.parametrize("texts", [["refused #0"], [], ["A #0", "refused #0"]])
def test_columns_of_thoughts_do_not_depend_on_what_fails(
    texts: list[str], desk: Desk
) -> None:
    refuses = "{%- if 'refused' in m.content -%}{{ raise_exception('no') }}{%- endif -%}"
    loop = "{%- for m in messages -%}"
    how: dict[str, Any] = {"chat": True, "thinking": 9}
    how["template"] = TEMPLATE.replace(loop, loop + refuses)
    context = desk.context("plain")
    n_failed = sum("refused" in text for text in texts)
    columns = [*COLUMNS, "error"]
    for settings in FORMS.values():
        results = lh.generate_parallel(context, texts, **settings, **how)
        assert list(results.to_pandas())[-4:] == columns
        assert sum(error is not None for error in results.errors) == n_failed
    frame = {"text": texts}
    for method in ("generate", "classify"):
        coded = lh.annotate(frame, "text", codebook(), context, method=method, **how)
        assert list(coded.frame)[-4:] == columns
        assert sum(error is not None for error in coded.errors) == n_failed


def test_every_cell_without_a_meaning_has_a_reason() -> None:
    names = {door.name for door in DOORS}
    for behaviour in BEHAVIOURS:
        assert set(behaviour.lacks) <= names
        assert all(behaviour.lacks.values())
        for door in DOORS:
            if has(door.name, behaviour):
                assert behaviour.does in door.abilities, (behaviour.name, door.name)
    assert len(BEHAVIOURS) >= 20
