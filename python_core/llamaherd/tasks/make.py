"""Function that creates a task from its kind and the arguments of its public call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.calls.asks.keywords import GenerateSettings
from llamaherd.calls.asks.options import ClassifyOptions, GenerateOptions
from llamaherd.tasks.annotate import Annotate
from llamaherd.tasks.classify import Classify
from llamaherd.tasks.embed import Embed
from llamaherd.tasks.generate import Generate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.tasks.task import Kind, Task


def make_task(
    kind: Kind, settings: Mapping[str, Any], *, in_file: bool = False
) -> Task[Any]:
    """Create a task."""
    if kind == "generate":
        options = GenerateOptions.of(GenerateSettings, settings)
        return Generate(options, in_file=in_file)
    if kind == "classify":
        return Classify(ClassifyOptions(**settings))
    if kind == "embed":
        return Embed(settings)  # type: ignore[arg-type]
    annotate_settings = {
        name: value for name, value in settings.items() if name != "codebook"
    }
    return Annotate(settings["codebook"], annotate_settings)
