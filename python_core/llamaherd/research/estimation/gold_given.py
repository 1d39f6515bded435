"""Codes of a gold sample that are given as a list, a mapping or a data frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.research import frames
from llamaherd.research.codes import text_of
from llamaherd.research.coding.label_sets import none_of
from llamaherd.research.estimation.gold_codes import CodeReader, summary_of_problems

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Identifiers and row numbers of the n texts of a sample, to match an index."""

    ids: Sequence[str]
    rows: Sequence[int]

    def order_of(self, codes: Any) -> list[int] | None:  # noqa: ANN401 - of any kind
        """Return indices that sort codes into the sample's order, by their pandas index.

        None if there is no index, or if the codes are already in the sample's order.
        """
        index = frames.index_of(codes)
        n = len(self.ids)
        if index is None or len(index) != n or index == list(range(n)):
            return None
        texts = [text_of(each) or "" for each in index]
        for expected in (self.ids, list(map(str, self.rows)), list(map(str, range(n)))):
            if set(texts) == set(expected) and len(set(texts)) == n:
                at = {each: i for i, each in enumerate(texts)}
                return [at[each] for each in expected]
        raise ArgumentError(
            "have an index that is neither the sample's ids nor its rows: give "
            "codes.to_numpy() if they are in the sample's order",
            argument="codes",
        )


def read_codes(
    codes: Any,  # noqa: ANN401 - a data frame of any kind, a mapping, a sequence
    coder: str,
    places: Places,
    reader: CodeReader,
) -> dict[str, list[str | None]]:
    """Return the codes of each coder, in the sample's order.

    Args:
        codes: See `GoldSample.with_codes`.
        coder: Name of the coder if there is a single coder.
        places: Texts of the sample.
        reader: Reader of single codes.

    Raises:
        ValueError: The number of codes is not n, a code is not a label, or an index does
            not match.
    """
    order = places.order_of(codes)
    if isinstance(codes, Mapping) or hasattr(codes, "columns"):
        given = {
            name: frames.column(codes, name, "codes") for name in frames.names(codes)
        }
    else:  # includes pandas Series, which also have items
        given = {coder: codes}
    if isinstance(codes, Mapping):  # may contain Series
        given = {
            name: _ordered(frames.column(codes, name, "codes"), places.order_of(each))
            for name, each in codes.items()
        }
    elif order is not None:
        given = {name: _ordered(list(each), order) for name, each in given.items()}
    return {
        str(name): _checked(each, str(name), places, reader)
        for name, each in given.items()
    }


def _checked(
    codes: Sequence[Any], coder: str, places: Places, reader: CodeReader
) -> list[str | None]:
    n = len(places.ids)
    if not hasattr(codes, "__len__") or isinstance(codes, (bytes, Mapping)):
        raise ArgumentTypeError(
            f"of {coder!r} must be a list, not {checks.shown(codes)}", argument="codes"
        )
    if isinstance(codes, str) or len(codes) != n:
        raise ArgumentError(
            f"of {coder!r} must be {n}, one for each text of the sample",
            argument="codes",
            code="wrong_length",
        )
    made: list[str | None] = []
    problems = []
    for i, code in enumerate(codes):
        text = text_of(code)
        if reader.several and text == "":
            text = none_of(reader.names)
        label, problem = reader.read(text or "")
        made.append(label)
        if problem:
            where = f"codes of {coder!r}, row {i + 1} (id {places.ids[i]})"
            problems.append(f"{where}: {problem}")
    if problems:
        raise ArgumentError(summary_of_problems(problems), code="unknown_codes")
    return made


def _ordered(values: list[Any], order: Sequence[int] | None) -> list[Any]:
    return values if order is None else [values[i] for i in order]
