"""Base classes of objects that belong to one process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NoReturn

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class ProcessBound:
    """Object of one process. It cannot be pickled or copied."""

    # What to do instead.
    _instead: ClassVar[str] = "make one in each process, and send results"

    def __reduce__(self) -> NoReturn:
        """Refuse to pickle or copy the object.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it belongs to the "
            f"process that made it; {self._instead}"
        )


class ClosedByWith(ProcessBound, ABC):
    """Object of one process that `with` closes."""

    @abstractmethod
    def close(self) -> None:
        """Free the resources of the object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
