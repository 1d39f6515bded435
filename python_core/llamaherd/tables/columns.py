"""Names of the columns that a run adds to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.calls.structured.columns import Column
    from llamaherd.tables.spec import RunSpec
    from llamaherd.tasks.task import Task


def prefixed(spec: RunSpec, task: Task[Any], given: Iterable[str]) -> dict[str, Column]:
    """Return the types of a run's new columns, by name in the output.

    Args:
        spec: The run.
        task: Task of the run.
        given: Names of the input's columns.

    Raises:
        ValueError: The input already has a column with one of these names.
    """
    found = {spec.prefix + role: column for role, column in task.columns.items()}
    both = [name for name in given if name in found]
    if both:
        raise ArgumentError(
            f"the input already has a column {both[0]!r}, which this run would add: give "
            "the new columns a prefix, such as prefix = 'llm_' (--prefix llm_)",
            code="taken",
        )
    return found
