"""Groups that have not ended, with the numbers that each turn of the loop needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import ValuesView

    from llamaherd.engine.loop.group import Group


class OpenGroups:
    """Groups of a runner that have not ended, by number.

    A turn of the loop, or the cancellation of a group, looks at no other group: with
    100,000 groups of single prompts, the loop would otherwise be busy with looking.

    The loop's thread adds and removes groups; any thread may read, and call `will_end`.
    """

    def __init__(self) -> None:
        self._groups: dict[int, Group] = {}
        self._needed: set[int] = set()  # numbers of groups that are not cancelled
        self._calls: set[int] = set()  # numbers of groups that are not single prompts
        self._counted: dict[int, Group] = {}  # groups whose counts are updated

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, number: int) -> bool:
        return number in self._groups

    def __getitem__(self, number: int) -> Group:
        return self._groups[number]

    def values(self) -> ValuesView[Group]:
        """Return all groups, in the order of their arrival."""
        return self._groups.values()

    @property
    def are_single(self) -> bool:
        """Whether each group is one of many single prompts."""
        return not self._calls

    @property
    def counted(self) -> ValuesView[Group]:
        """Groups whose counts are updated while they run."""
        return self._counted.values()

    @property
    def is_needed(self) -> bool:
        """Whether a group that is not cancelled runs or waits."""
        return bool(self._needed)

    def will_end(self, group: Group) -> None:
        """Record that a group was cancelled, so that `is_needed` ignores it."""
        self._needed.discard(group.number)

    def add(self, group: Group) -> None:
        """Add a group."""
        self._groups[group.number] = group
        self._needed.add(group.number)
        if group.is_cancelled:  # perhaps since before `will_end` could find it here
            self._needed.discard(group.number)
        if not group.is_alone:
            self._calls.add(group.number)
        if group.is_counted:
            self._counted[group.number] = group

    def remove(self, group: Group) -> None:
        """Remove a group."""
        del self._groups[group.number]
        self._needed.discard(group.number)
        self._calls.discard(group.number)
        self._counted.pop(group.number, None)
