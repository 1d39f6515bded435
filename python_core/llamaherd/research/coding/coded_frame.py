"""The data frame of coded texts; the labels are kept if it cannot be made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.keeping import keep_made
from llamaherd.research.coding.coded import Coded
from llamaherd.research.frames import with_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.research.coding.work import CodingWork


def coded_frame(
    work: CodingWork,
    new: Mapping[str, Any],
    **fields: Any,  # noqa: ANN401 - of Coded
) -> Coded:
    """Return coded texts in the caller's data frame.

    Args:
        work: The texts, with their data frame.
        new: New columns by name.
        **fields: Further fields of `Coded`.

    Raises:
        Exception: The library of the data frame refuses the columns. The `results` of the
            error are the coded texts in a dict of lists.
    """

    def coded(frame: object) -> Coded:
        return Coded(
            frame=frame,
            text=work.text,
            codebook=work.codebook,
            columns=dict(work.columns),
            **fields,
        )

    try:
        frame = with_columns(work.frame, new)
    except Exception as error:
        keep_made(error, lambda: coded(with_columns({work.text: work.texts}, new)))
        raise
    return coded(frame)
