"""A model on a Ray cluster, in a context's place for whole calls."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from llamaherd.calls.run.context import Context
from llamaherd.calls.run.host import Host
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import (
    ArgumentError,
    ClusterError,
    ContextClosedError,
    ContextError,
    ModelLoadError,
    NativeError,
)
from llamaherd.engine.core.words import name_of
from llamaherd.engine.model.model import Model
from llamaherd.ray.config import Config, check_config, versions
from llamaherd.ray.connect import check_connected, connect, leave
from llamaherd.ray.loop import ClusterLoop, cause_of, is_loss
from llamaherd.ray.worker import Actor, ActorInfo, why_it_cannot_generate

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence

    from llamaherd.calls.run.embedders import EmbedSpec
    from llamaherd.calls.run.embedding import Embedder

_SLICE_S = 0.1  # maximum delay until Ctrl-C is noticed
# Ray starts actors again without limit, and repeats a call once; see `loop`.
_FIXED = {"max_restarts": -1, "max_task_retries": 1, "max_concurrency": 64}


class Cluster(Host):
    """Actors of a Ray cluster that run whole calls, in a context's place.

        config = lh.ray.Config("model.gguf", concurrency=8, num_cpus=4)
        with lh.ray.Cluster(config, address="auto") as cluster:
            out = lh.generate_parallel(cluster, prompts, journal="out.journal")

    All calls on many prompts or texts take a cluster as they take a context, and return
    the same results. This process handles journal, progress and Ctrl-C. Ray starts an
    actor that died again, and its prompts are computed again. Streams need a context, or
    `serve_app`.

    Args:
        config: Model and actors.
        address: Address of a cluster: "auto", "host:port" or "ray://host:port". None for
            the cluster to which this process is connected. If there is none, Ray is
            started on this machine, and ends together with the last `Cluster`.
        start_timeout_s: Maximum time to wait for actors, in seconds.
        is_cancelled: Function called repeatedly during the start, which it ends by True.

    Attributes:
        actors: Information about each actor when it was first ready.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        ClusterError: Ray is not installed, the cluster cannot be reached or has too few
            free resources for the actors, or its machines have other versions.
        ModelLoadError: The model cannot be loaded, here or by all actors.
    """

    _called = "the cluster"

    def __init__(
        self,
        config: Config,
        *,
        address: str | None = None,
        start_timeout_s: float = 600.0,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        check_config(config)
        if isinstance(config.concurrency, tuple):
            raise ArgumentError(
                f"must be one number for a Cluster, not {config.concurrency}",
                argument="concurrency",
            )
        start_s = checks.real("start_timeout_s", start_timeout_s, 0.1, 1e9)
        model, lora = config.model, config.model_options.get("lora")
        # Only the vocabulary is used here: the model may exceed this machine's memory.
        self.model = (
            model
            if isinstance(model, Model)
            else Model(model, lora=lora, check_memory=False)
        )
        self._problem = why_it_cannot_generate(self.model)
        # This context never runs. It checks the arguments and resolves their defaults.
        self._like = None if self._problem else Context(self.model, **config.context)
        n_cpus = (config.concurrency or 1) * (config.num_cpus or 1)
        self._ray = connect(self, address, n_cpus)
        self._actors: list[Any] = []
        try:
            actor_config = config.on_cluster(self._ray)
            options = {
                "scheduling_strategy": "SPREAD",
                **actor_config.actor_options,
                **_FIXED,
            }
            make = self._ray.remote(Actor).options(
                num_cpus=actor_config.num_cpus, **options
            )
            for _ in range(actor_config.bounds(1)[0]):
                self._actors.append(make.remote(actor_config, versions()))
            self.actors = self._start_actors(start_s, actor_config, is_cancelled)
            self._loop = ClusterLoop(
                self._ray,
                self._actors,
                self.actors,
                self._problem,
                self._end_actors,
            )
            self.model.register(self)
        except BaseException:
            self._end_actors()
            raise

    @property
    def loop(self) -> ClusterLoop:
        """Loop that runs the requests."""
        return self._loop

    @property
    def numerics(self) -> dict[str, object]:
        """See `Host`. A model for embeddings raises ContextError."""
        return self._context.numerics

    @property
    def options(self) -> dict[str, object]:
        """See `Host`. A model for embeddings raises ContextError."""
        n_threads = max(info.n_threads for info in self.actors)
        return {**self._context.options, "n_threads": n_threads}

    def lent_embedder(self, spec: EmbedSpec) -> AbstractContextManager[Embedder]:
        """Lend an embedder that runs on the actors."""
        return nullcontext(_Embedder(self._ray, self._actors, spec))

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self._actors)} actors"
        return f"<Cluster on {self.model!r}: {state}>"

    @property
    def _context(self) -> Context:
        if self._like is None:
            raise ContextError(self._problem)
        return self._like

    def _start_actors(
        self, start_s: float, config: Config, is_cancelled: Callable[[], bool]
    ) -> list[ActorInfo]:
        """Wait until the actors are ready; drop those that failed, with a warning."""
        refs = [actor.info.remote() for actor in self._actors]
        end_s, left = monotonic() + start_s, refs
        while left:
            _, left = self._ray.wait(left, num_returns=len(left), timeout=_SLICE_S)
            if is_cancelled():
                raise ContextClosedError("the cluster was closed while it was started")
            if left and monotonic() > end_s:
                more = config.actor_options
                takes = {"CPU": config.num_cpus, "GPU": more.get("num_gpus")}
                takes |= more.get("resources") or {}
                needs = {name: n for name, n in takes.items() if n}
                has = self._ray.cluster_resources()
                needed = ", ".join(f"{n:g} {name}" for name, n in needs.items())
                available = ", ".join(f"{has.get(name, 0):g} {name}" for name in needs)
                raise ClusterError(
                    f"{len(left)} of {len(refs)} actors were not ready after "
                    f"{start_s:.0f} s. Each takes {needed}, the cluster has "
                    f"{available} in all: lower {name_of('concurrency')} or "
                    f"{name_of('num_cpus')}",
                    code="not_ready",
                    remedy=", or raise start_timeout_s",
                )
        infos = [self._info(ref) for ref in refs]
        pairs = zip(self._actors, infos, strict=True)
        self._actors[:] = [actor for actor, info in pairs if isinstance(info, ActorInfo)]
        errors = [info for info in infos if not isinstance(info, ActorInfo)]
        if not self._actors:
            raise errors[0]
        if errors:
            text = f"{len(errors)} actors cannot be started; others continue: {errors[0]}"
            warnings.warn(text, stacklevel=3)
        return [info for info in infos if isinstance(info, ActorInfo)]

    def _info(self, ref: Any) -> ActorInfo | Exception:  # types of Ray
        """Return the information about an actor, or why it cannot be used."""
        own_bytes = self.model.file.size_bytes
        try:
            info = cast("ActorInfo", self._ray.get(ref))
        except Exception as error:  # noqa: BLE001 - of Ray, or of the actor
            return cause_of(error)
        if own_bytes == info.model_bytes:
            return info
        return ModelLoadError(
            f"the model has {info.model_bytes} bytes on {info.node}, and {own_bytes} "
            "here: copy the same file to every machine"
        )

    def _end_actors(self) -> None:
        for actor in self._actors:
            with suppress(Exception):  # Ray itself may be gone
                check_connected(self._ray)
                self._ray.kill(actor)
        leave(self)


class _Embedder:
    """Embedder that computes each batch of texts on an actor that is free."""

    def __init__(self, ray: Any, actors: Sequence[Any], spec: EmbedSpec) -> None:
        self._ray, self._spec = ray, spec
        self.n_at_once = len(actors)
        self._free: SimpleQueue[Any] = SimpleQueue()
        for actor in actors:
            self._free.put(actor)
        self._is_aborted = False
        self._n_gone = 0  # actors that Ray does not start again

    def abort(self) -> None:
        """End all current runs; later runs fail at once."""
        self._is_aborted = True

    def run(self, texts: Sequence[array[int]]) -> array[float]:
        """See `Embedder`; also a NativeError if the processes with the texts died."""
        while True:
            actor = self._borrow_actor()
            try:
                ref = actor.embed.remote(self._spec, list(texts))
                while not self._ray.wait([ref], timeout=_SLICE_S)[0]:
                    self._check()
                vectors: array[float] = self._ray.get(ref)
            except self._ray.exceptions.ActorDiedError as error:  # for good
                self._n_gone += 1
                if self._n_gone == self.n_at_once:
                    raise cause_of(error) from None
                continue
            except self._ray.exceptions.RayError as error:
                self._free.put(actor)
                if is_loss(error):
                    text = f"the processes that computed the text died: {error}"
                    raise NativeError(text, 0) from None
                raise cause_of(error) from None
            except BaseException:
                self._free.put(actor)
                raise
            self._free.put(actor)
            return vectors

    def _borrow_actor(self) -> Any:  # types of Ray
        """Wait for an actor that is free."""
        while True:
            self._check()
            with suppress(Empty):
                return self._free.get(timeout=_SLICE_S)

    def _check(self) -> None:
        check_connected(self._ray)
        if self._is_aborted:
            raise NativeError("the call was cancelled", 0)
