"""A label that is given twice is refused by each function that takes a list of labels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = ["yes", "no", "rare"] * 4
SECOND = ["yes", "no", "no"] * 4
DATA = {"text": [f"text {i}" for i in range(12)], "label": FIRST}

CALLS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "gold_sample": ("names", lambda x: lh.gold_sample(DATA, 4, label="label", names=x)),
    "validate": ("labels", lambda x: lh.validate(FIRST, SECOND, labels=x)),
    "validate, sets": (
        "labels",
        lambda x: lh.validate(FIRST, SECOND, labels=x, several=True),
    ),
    "cohen_kappa": ("levels", lambda x: lh.cohen_kappa(FIRST, SECOND, levels=x)),
    "gwet_ac1": ("levels", lambda x: lh.gwet_ac1([FIRST, SECOND], levels=x)),
    "krippendorff_alpha": (
        "levels",
        lambda x: lh.krippendorff_alpha([FIRST, SECOND], levels=x),
    ),
    "Codebook": ("labels", lambda x: lh.Codebook("Is it?", x)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_label_given_twice_is_refused(name: str) -> None:
    argument, call = CALLS[name]
    call(["yes", "no", "rare"])
    with pytest.raises(ValueError, match=re.escape(argument)) as caught:
        call(["yes", "no", "yes", "rare"])
    assert "'yes'" in str(caught.value)
    assert caught.value.argument.startswith(argument)


@pytest.mark.parametrize("empty", ["", " ", None])
def test_a_sample_has_no_label_without_a_name(empty: str | None) -> None:
    with pytest.raises(ValueError, match=r"names\[1\] must not be empty"):
        lh.gold_sample(DATA, 4, label="label", names=["yes", empty, "rare"])
