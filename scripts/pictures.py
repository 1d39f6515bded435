"""Pictures of the README and of pages, made by the examples that they belong to.

A picture of the repository carries a record of the words and numbers that it shows.
Another machine may draw other pixels, so only these records are compared.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

if TYPE_CHECKING:
    from pathlib import Path

_KEY = "llamaherd"
_DRAWN = """
options(device = function(...) {{
  grDevices::png("picture.png", {width}, {height}, "in", res = {dots})
}})
"""
_RECORDED = """
grDevices::graphics.off()
shown <- as.data.frame({object})
shown <- shown[intersect(c("estimate", "value", "low", "high"), names(shown))]
shown <- Filter(is.finite, unlist(shown, use.names = FALSE))
suppressWarnings(grDevices::xfig("picture.fig", width = {width}, height = {height}))
print({call})
invisible(grDevices::dev.off())
writeLines(jsonlite::toJSON(shown, digits = 4), "picture.json")
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture and the R example that draws it."""

    path: str  # path in the repository
    object: str  # name of the object of the example that is plotted
    call: str  # call that plots it
    width: float  # width in inches
    height: float  # height in inches
    dots: int  # dots per inch
    # Largest difference of two numbers. Rounding on another processor may change the
    # label of a text.
    tolerance: float

    def drawing(self, code: str) -> str:
        """Return an example that also writes the picture and its record, see `made`."""
        size = {"width": self.width, "height": self.height, "dots": self.dots}
        before = _DRAWN.format(**size)
        after = _RECORDED.format(object=self.object, call=self.call, **size)
        return f"{before}\n{code}\n{after}"

    def made(self, folder: Path) -> tuple[bytes, dict[str, Any]]:
        """Return the picture that an example wrote to a folder, and its record."""
        text = (folder / "picture.fig").read_text(encoding="latin-1")
        drawn = re.findall(r"^4(?: \S+){12} (.*)\\001$", text, re.MULTILINE)
        words = sorted(word for line in drawn for word in line.split())
        numbers = json.loads((folder / "picture.json").read_text())
        record = {"words": words, "numbers": numbers}
        return with_record((folder / "picture.png").read_bytes(), record), record

    def problem(self, known: dict[str, Any] | None, record: dict[str, Any]) -> str:
        """Return how the record of a picture differs from another; "" if it does not."""
        if known is None:
            return "it has no record"
        old, new = set(known["words"]), set(record["words"])
        if old != new:
            return f"it shows {sorted(old - new)} in place of {sorted(new - old)}"
        pairs = list(zip(known["numbers"], record["numbers"], strict=False))
        n_old, n_new = len(known["numbers"]), len(record["numbers"])
        if n_old != n_new:
            return f"it shows {n_old} numbers, not {n_new}"
        far = [pair for pair in pairs if abs(pair[0] - pair[1]) > self.tolerance]
        return f"it shows {far[0][0]} in place of {far[0][1]}" if far else ""


def with_record(picture: bytes, record: dict[str, Any]) -> bytes:
    """Return a PNG with a record in its texts."""
    texts = PngInfo()
    texts.add_text(_KEY, json.dumps(record, separators=(",", ":")))
    with Image.open(io.BytesIO(picture)) as image:
        stored = io.BytesIO()
        image.save(stored, "PNG", pnginfo=texts, dpi=image.info.get("dpi"))
    return stored.getvalue()


def record_of(picture: bytes) -> dict[str, Any] | None:
    """Return the record in a PNG; None without one."""
    with Image.open(io.BytesIO(picture)) as image:
        text = getattr(image, "text", {}).get(_KEY)
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found
