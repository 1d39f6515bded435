"""Model, context and actors of a computation on a Ray cluster."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import psutil

from llamaherd.calls.run.context import Context
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import suggests_names
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, ClusterError
from llamaherd.engine.model.model import Model
from llamaherd.engine.native import _build_info

_MAX_ACTORS = 10_000
_OF = {
    "context": inspect.signature(Context).parameters.keys() - {"model"},
    "model_options": inspect.signature(Model).parameters.keys() - {"path", "interrupt"},
}
# Options of Ray's actors that other arguments, or this package, set.
_OWN = {"num_cpus", "max_restarts", "max_task_retries", "max_concurrency"}


@suggests_names
@dataclass(frozen=True, slots=True)
class Config:
    """Model and actors, for `map`, `Cluster` and `serve_app`.

    Attributes:
        model: Path that exists on every machine, a source such as "hf:owner/repo", which
            each machine downloads once, or an open `Model`, whose file is loaded.
        concurrency: Number of actors; a pair (least, most) for an autoscaling pool of
            `map` and `serve_app`; None for one actor on each machine.
        num_cpus: CPUs that Ray reserves for each actor; None for an equal share of all.
        batch_size: Number of rows of a batch of `map`.
        context: Arguments of `Context`, for each actor. The default of "n_threads" is the
            number of physical cores of the reserved CPUs.
        model_options: Further arguments of `Model`, for each actor.
        actor_options: Further options of Ray's actors, such as `num_gpus`, `resources`
            and `runtime_env`.

    Raises:
        TypeError: An argument has the wrong type or an unknown name.
        ValueError: An argument is out of range, or is set by the package.
    """

    model: str | os.PathLike[str] | Model
    _: KW_ONLY
    concurrency: int | tuple[int, int] | None = None
    num_cpus: float | None = None
    batch_size: int = 1024
    context: Mapping[str, Any] = field(default_factory=dict)
    model_options: Mapping[str, Any] = field(default_factory=dict)
    actor_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("context", "model_options", "actor_options"):
            _check_names(name, getattr(self, name))
        if isinstance(self.concurrency, tuple) and len(self.concurrency) != 2:
            raise ArgumentError(
                f"must be a number or a pair, not {checks.brief(self.concurrency)}",
                argument="concurrency",
            )
        least, most = self.bounds(1)
        checks.integer("concurrency", least, 1, _MAX_ACTORS)
        checks.integer("concurrency", most, least, _MAX_ACTORS)
        if self.num_cpus is not None:
            checks.real("num_cpus", self.num_cpus, 0.01, 1e6)
        checks.integer("batch_size", self.batch_size, 1, 10**9)
        model = self.model if isinstance(self.model, Model) else None
        if model is not None and (model.template or model.foreign_format):
            raise ArgumentError(
                "was made from a llama_cpp.Llama with a chat format of its own, which "
                "other processes do not have: give its path, and template= to calls",
                argument="model",
            )

    def bounds(self, n_machines: int) -> tuple[int, int]:
        """Return the least and the largest number of actors."""
        size = n_machines if self.concurrency is None else self.concurrency
        return size if isinstance(size, tuple) else (size, size)

    def on_cluster(self, ray: Any) -> Config:  # types of Ray
        """Return the configuration with numbers, a path and plain data only.

        Raises:
            ClusterError: The cluster has no machine with CPUs.
        """
        nodes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        cpus = [n for n in nodes if n > 0]
        if not cpus:
            raise ClusterError("the cluster has no machine with CPUs")
        bounds = self.bounds(len(cpus))
        share = min(cpus) if self.concurrency is None else sum(cpus) // bounds[1]
        model, options = self.model, dict(self.model_options)
        context = dict(self.context)
        if isinstance(model, Model):
            context = {**model.context_defaults, **context}
            loras = [(lora.path, lora.scale) for lora in model.loras]
            options = {
                "n_gpu_layers": model.n_gpu_layers,
                "lora": loras or None,
                **options,
            }
            model = str(model.path)
        return replace(
            self,
            model=os.path.abspath(model) if os.path.isfile(model) else os.fspath(model),  # noqa: PTH100, PTH113
            model_options=options,
            context=context,
            concurrency=bounds,
            num_cpus=max(1.0, share) if self.num_cpus is None else self.num_cpus,
        )

    def open_model(self, expected: Mapping[str, str]) -> Model:
        """Load the model in an actor's process; `expected`: versions of the caller.

        Raises:
            ClusterError: The versions differ.
            ModelLoadError: The model cannot be loaded.
        """
        if versions() != expected:
            raise ClusterError(
                f"an actor has {versions()}, the calling process {expected}: install the "
                "same versions everywhere"
            )
        return Model(self.model, **self.model_options)  # type: ignore[arg-type]

    def open_context(self, model: Model) -> Context:
        """Create the context of an actor, which leaves memory to other actors."""
        n_cpus = self.num_cpus or 1
        context = Context(model, **{"n_threads": n_threads_of(n_cpus), **self.context})
        n_here = max(1, round((psutil.cpu_count() or 1) / n_cpus))
        context.loop.share(min(self.bounds(1)[1], n_here))
        return context


def check_config(config: object) -> None:
    """Check that an argument is a `Config`."""
    if not isinstance(config, Config):
        raise ArgumentTypeError(
            f"must be a lh.ray.Config, not {checks.brief(config)}", argument="config"
        )


def _check_names(name: str, options: object) -> None:
    if not isinstance(options, Mapping):
        raise ArgumentTypeError(
            f"must map names to values, not be {checks.brief(options)}", argument=name
        )
    for key in options:
        if name in _OF and key not in _OF[name]:
            meant = checks.meant(key, sorted(_OF[name]))
            raise ArgumentTypeError(f"has no {key!r}{meant}", argument=name)
        if name not in _OF and key in _OWN:
            raise ArgumentError(
                f"must not have {key!r}: llamaherd sets it", argument=name
            )


def versions() -> dict[str, str]:
    """Return the versions that must be equal on all machines for equal answers."""
    from llamaherd import __version__  # this import loads all subpackages

    return {
        "llamaherd": __version__,
        "llama-cpp-python": _build_info.LLAMA_CPP_PYTHON_VERSION,
        "llama.cpp": _build_info.LLAMA_BUILD_COMMIT,
    }


def n_threads_of(n_cpus: float) -> int:
    """Return the number of threads for an actor: one per physical core of its CPUs."""
    logical = psutil.cpu_count(logical=True) or 1
    physical = psutil.cpu_count(logical=False) or logical
    return max(1, round(n_cpus * physical / logical))
