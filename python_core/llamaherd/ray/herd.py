"""A herd: actors of Ray that stand where a context stands."""

from __future__ import annotations

import inspect
import warnings
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.core import checks
from llamaherd.core.errors import ClusterError, ContextClosedError, ContextError
from llamaherd.model.model import Model
from llamaherd.ray.connect import connect, leave
from llamaherd.ray.embedder import HerdEmbedder
from llamaherd.ray.files import wanted_of
from llamaherd.ray.loop import HerdLoop
from llamaherd.ray.member import Member, Payload, State
from llamaherd.ray.place import warn_of
from llamaherd.ray.placing import placed
from llamaherd.run.context import Context
from llamaherd.run.host import Host

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.model.adapters import LoraOption
    from llamaherd.ray.wire import ActorInfo
    from llamaherd.run.embedders import EmbedSpec
    from llamaherd.run.embedding import Embedder

_SLICE_S = 0.1  # longest wait after which Ctrl-C is seen
_MAX_ACTORS = 10_000


class Herd(Host):
    """Actors of Ray, each with the model and a context, that answer as one context.

        with lh.ray.Herd("model.gguf", n_actors=8, num_cpus=4) as herd:
            out = lh.generate_parallel(herd, prompts, journal="out.journal")

    Whatever takes a context takes a herd, with the same arguments and the same results
    (see docs/cluster.md): prompts are handed out as actors become free, those that begin
    alike to the same one; journal, progress and Ctrl-C are the caller's. An actor that
    dies is started again, and what it had not told is computed again.

    Args:
        model: The path of a file, as `Model` takes it, or a model. Actors load it from
            the same path if the same file is there, and get it sent otherwise.
        n_actors: How many, wherever there is room; "nodes": one on each machine; "numa":
            one on each NUMA node of each machine.
        address: Of a cluster: "auto", "host:port" or "ray://host:port". None: the one
            that this process is connected to, or else one on this machine, which is
            started, and ends with the herd.
        num_cpus: CPUs that Ray counts for each actor; None: an equal share of all.
        n_threads: Threads of an actor; None: one on each physical core of its CPUs. They
            are pinned to processors of their own.
        resources: Other resources that Ray counts for an actor, by name.
        actor_options: Other options of Ray for actors, such as `runtime_env`.
        send_model: Whether the model is sent to nodes where it is not, which keep it in
            their model cache; otherwise that is an error.
        start_timeout_s: Longest time to wait for actors.
        silence_timeout_s: Longest time that an actor may say nothing before it is given
            up and started again. However long its batches take, it says something four
            times a second.
        lora: As in `Model`, like the next three.
        n_gpu_layers: As there, for actors.
        use_mmap: As there. False gives each actor memory of its own, near to its cores.
        use_mlock: As there.
        **context: Arguments of `Context`. Sizes are each actor's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        ClusterError: Ray is not installed, the cluster cannot be reached, there is no
            room for the actors, or they have another version of llamaherd.
        ModelLoadError: The model cannot be loaded, here or there.
    """

    _called = "the herd"

    def __init__(
        self,
        model: str | os.PathLike[str] | Model,
        *,
        n_actors: int | Literal["nodes", "numa"] = "nodes",
        address: str | None = None,
        num_cpus: float | None = None,
        n_threads: int | None = None,
        resources: Mapping[str, float] | None = None,
        actor_options: Mapping[str, object] | None = None,
        send_model: bool = True,
        start_timeout_s: float = 600.0,
        silence_timeout_s: float = 300.0,
        lora: LoraOption | Sequence[LoraOption] | None = None,
        n_gpu_layers: int = 0,
        use_mmap: bool = True,
        use_mlock: bool = False,
        **context: Any,  # noqa: ANN401 - those of Context, which checks them
    ) -> None:
        _check_names(context)
        if isinstance(n_actors, str):
            checks.choice("n_actors", n_actors, ("nodes", "numa"))
        else:
            checks.integer("n_actors", n_actors, 1, _MAX_ACTORS)
        if num_cpus is not None:
            num_cpus = checks.real("num_cpus", num_cpus, 0.01, 1e6)
        self._patience_s = checks.real("start_timeout_s", start_timeout_s, 0.1, 1e9)
        self._silence_s = checks.real("silence_timeout_s", silence_timeout_s, 1.0, 1e9)
        n_layers = checks.integer("n_gpu_layers", n_gpu_layers, -checks.INT32_MAX)
        of_model = {
            "n_gpu_layers": n_layers,
            "use_mmap": checks.flag("use_mmap", use_mmap),
            "use_mlock": checks.flag("use_mlock", use_mlock),
        }
        self._members: list[Member] = []
        # Of this one only the vocabulary is used: it may be larger than the memory here.
        if isinstance(model, Model):
            if lora is not None:
                raise ValueError("lora is the model's, which was loaded already")
            self.model = model
        else:
            self.model = Model(model, lora=lora, check_memory=False)
        self._problem = _why_it_cannot_generate(self.model)
        # Never runs; checks the arguments, and says what a context is that has them.
        self._like = (
            None
            if self._problem
            else Context(self.model, n_threads=n_threads or 1, **context)
        )
        files, n_files = wanted_of(self.model)
        payload = Payload(
            files,
            n_files,
            scales=[lora.scale for lora in self.model.loras],
            model=of_model,
            context=None if self._problem else context,
            n_threads=n_threads,
            may_send=checks.flag("send_model", send_model),
        )
        n_slots = context.get("n_seq_max")
        n_own = n_actors if isinstance(n_actors, int) else 1
        self._ray = connect(self, address, n_own * (num_cpus or 1))
        self._changed = Event()
        try:
            options = placed(
                self._ray,
                n_actors,
                num_cpus=num_cpus,
                resources=resources,
                others=actor_options,
                slice_s=_SLICE_S,
            )
            self._members = [
                Member(i, self._ray, own, payload, self._has_changed)
                for i, own in enumerate(options)
            ]
            self._loop = HerdLoop(
                self._members,
                n_slots=n_slots if isinstance(n_slots, int) else None,
                patience_s=self._patience_s,
                silence_s=self._silence_s,
                problem=self._problem,
                on_close=self._end_actors,
            )
            for member in self._members:
                member.start()
            self._wait_for_all()
            self.model.register(self)
            self._warn_of_differences()
        except BaseException:
            self._end_actors()
            raise

    @property
    def loop(self) -> HerdLoop:
        """What runs requests here."""
        return self._loop

    @property
    def actors(self) -> list[ActorInfo]:
        """The actors as they were when they were started last."""
        return [member.info for member in self._members if member.info is not None]

    @property
    def numerics(self) -> dict[str, object]:
        """Settings that change what is computed by more than rounding, by argument.

        Raises:
            ContextError: The model is one for embeddings.
        """
        return self._context.numerics

    @property
    def options(self) -> dict[str, object]:
        """What a context is to be told to be like one of the actors'.

        Raises:
            ContextError: The model is one for embeddings.
        """
        n_threads = max(info.n_threads for info in self.actors)
        return {**self._context.options, "n_threads": n_threads}

    @property
    def _context(self) -> Context:
        if self._like is None:
            raise ContextError(self._problem)
        return self._like

    def embedder(self, spec: EmbedSpec) -> Callable[[], Embedder]:
        """What makes an embedder that computes on the actors."""
        return lambda: HerdEmbedder(
            self._members, spec, patience_s=self._patience_s, silence_s=self._silence_s
        )

    def close(self) -> None:
        """Ends the actors. What runs ends with `ContextClosedError`."""
        super().close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self._members)} actors"
        return f"<Herd on {self.model!r}: {state}>"

    def _has_changed(self, member: Member) -> None:
        self._changed.set()
        self._loop.changed(member)

    def _wait_for_all(self) -> None:
        end_s = monotonic() + self._patience_s
        while True:
            self._changed.clear()
            n_left = sum(m.state is State.STARTING for m in self._members)
            if n_left == 0:
                self._check_some()
                return
            if monotonic() > end_s:
                there = self._ray.cluster_resources()
                raise ClusterError(
                    f"{n_left} of {len(self._members)} actors were not ready after "
                    f"{self._patience_s:.0f} s. Each takes {self._members[0].takes}, the "
                    f"cluster has {there.get('CPU', 0):g} CPUs in all: lower n_actors or "
                    "num_cpus, or raise start_timeout_s"
                )
            self._changed.wait(_SLICE_S)

    def _check_some(self) -> None:
        """Checks that there is an actor; warns of those that there are not."""
        if self.closed:
            raise ContextClosedError("the herd was closed while it was started")
        failed = [m for m in self._members if m.state is State.FAILED]
        if len(failed) == len(self._members) and failed[0].error is not None:
            raise failed[0].error
        for member in failed:
            if member.error is not None:
                warn_of(member, "cannot be started", member.error)

    def _end_actors(self) -> None:
        for member in self._members:
            member.close()
        leave(self)

    def _warn_of_differences(self) -> None:
        kinds = {info.processor for info in self.actors}
        if len(kinds) > 1 and self._like is not None:
            if not self._like.numerics["deterministic"]:
                return
            warnings.warn(
                "deterministic=True: the actors have different processors "
                f"({', '.join(sorted(kinds))}), on which answers may differ",
                stacklevel=3,
            )


def _check_names(context: Mapping[str, object]) -> None:
    """Refuses arguments of nobody; those of a context are a herd's, too."""
    of_context = inspect.signature(Context).parameters.keys() - {"model"}
    for name in context.keys() - of_context:
        known = [*inspect.signature(Herd).parameters, *of_context]
        raise TypeError(f"Herd has no argument {name!r}{checks.meant(name, known)}")


def _why_it_cannot_generate(model: Model) -> str:
    try:
        model.check_generates()
    except ContextError as error:
        return str(error)
    return ""
