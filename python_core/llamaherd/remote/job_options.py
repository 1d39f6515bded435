"""Checks of the options of a job, before any text is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.asks.annotate_options import AnnotateOptions
from llamaherd.asks.options import ClassifyOptions
from llamaherd.core import checks
from llamaherd.core.argument import argument_of
from llamaherd.core.errors import ArgumentError
from llamaherd.core.sampling import DEFAULT_SEED, SamplingParams
from llamaherd.native.shim import derive_seed
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.codebook_file import codebook_of_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_options(task: str, options: Mapping[str, Any]) -> None:
    """Check the options of a job before any text is sent.

    The server would refuse a wrong option only later, in each request of the job.

    Lists and mappings are left to the server, except labels and the codebook.

    Raises:
        ArgumentError: A needed option is missing, or an option has a wrong value.
        ArgumentTypeError: An option has the wrong type.
    """
    needed = {"classify": "labels", "annotate": "codebook"}.get(task)
    if needed is not None and options.get(needed) is None:
        raise ArgumentError(f"is needed to {task} texts", argument=needed, code="missing")
    simple: dict[str, Any] = {
        name: value
        for name, value in options.items()
        if isinstance(value, (bool, int, float, str)) and name != needed
    }
    if task == "generate":
        of_sampling = SamplingParams.declared
        SamplingParams(
            **{name: value for name, value in simple.items() if name in of_sampling}
        )
    elif task == "classify":
        labels = options["labels"]
        for i, label in enumerate(labels if isinstance(labels, list) else ()):
            checks.text(argument_of("labels", (i,)), label)
        ClassifyOptions(labels=labels, **simple)
    else:
        AnnotateOptions(**simple)
        book = options["codebook"]
        if isinstance(book, str):
            codebook_of_yaml(book, "codebook")
        else:
            Codebook.from_dict(book)


def check_of_several_requests(options: Mapping[str, Any], at_once: int) -> None:
    """Refuse batch calibration of texts that are sent in several requests.

    Each request would be calibrated separately, by its few texts.

    Args:
        options: Options of the task "annotate".
        at_once: Number of texts of a request.

    Raises:
        ArgumentError: Batch calibration was asked for.
    """
    if options.get("calibrate") == "batch":
        raise ArgumentError(
            f"must not be 'batch' in a job of more than {at_once} texts: it is fitted to "
            f"all texts together, but a job sends {at_once} at a time; use 'contextual', "
            "or code the texts in this session",
            argument="calibrate",
            code="conflict",
        )


def seed_of_request(options: Mapping[str, Any], first: int) -> dict[str, int]:
    """Return a seed for one request of a job, so that answers of requests differ.

    Seeds of answers depend on the index of a text in its request, so equal texts of
    several requests would have the same random numbers. The first request keeps the
    job's seed.

    Args:
        options: Options of the task.
        first: Index of the request's first text in the job.
    """
    seed = options.get("seed", DEFAULT_SEED)
    least = {"temperature": 0, "n_thoughts": 1}  # higher values: sampled answers
    given = {name: options.get(name) for name in least}
    is_drawn = any(
        isinstance(value, (int, float)) and value > least[name]
        for name, value in given.items()
    )
    if not is_drawn or first == 0 or not isinstance(seed, int) or seed < 0:
        return {}
    return {"seed": derive_seed(seed, first)}
