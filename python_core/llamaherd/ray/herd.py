"""Herds: Ray actors that replace a context."""

from __future__ import annotations

import inspect
import warnings
from contextlib import nullcontext
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.core import checks
from llamaherd.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    ClusterError,
    ContextClosedError,
    ContextError,
)
from llamaherd.model.model import Model
from llamaherd.model.placement import checked_layers
from llamaherd.ray.connect import connect, leave
from llamaherd.ray.embedder import HerdEmbedder
from llamaherd.ray.files import files_of
from llamaherd.ray.loop import HerdLoop
from llamaherd.ray.member import ActorState, Member, Payload
from llamaherd.ray.placing import placed
from llamaherd.ray.tracked_actor import warn_of
from llamaherd.run.context import Context
from llamaherd.run.host import Host

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from llamaherd.model.adapters import LoraOption
    from llamaherd.ray.wire import ActorInfo
    from llamaherd.run.embedders import EmbedSpec
    from llamaherd.run.embedding import Embedder

_SLICE_S = 0.1  # maximum delay until Ctrl-C is noticed
_MAX_ACTORS = 10_000


class Herd(Host):
    """Ray actors that replace a context; each actor has the model and a context.

        with lh.ray.Herd("model.gguf", n_actors=8, num_cpus=4) as herd:
            out = lh.generate_parallel(herd, prompts, journal="out.journal")

    A herd can be used in place of a context, with the same arguments and results (see
    docs/cluster.md). Prompts are sent to actors when the actors become free. Prompts
    with a common prefix are sent to the same actor. The process of the caller handles
    journal, progress and Ctrl-C. An actor that dies is restarted, and answers that it
    has not reported are computed again.

    Args:
        model: Path of a model file, as in `Model`, or a model. Actors load the file
            from the same path if their machine has it there; otherwise the file is sent
            to them.
        n_actors: Number of actors, placed wherever resources are free. "nodes" places
            one actor on each machine, "numa" one actor on each NUMA node of each
            machine.
        address: Address of a cluster: "auto", "host:port" or "ray://host:port". None
            for the cluster to which this process is connected. If there is none, a
            local cluster is started, which ends together with the herd.
        num_cpus: CPUs that Ray reserves for each actor; None for an equal share of all
            CPUs.
        n_threads: Number of threads of an actor; None for one thread on each physical
            core of its CPUs. Threads are pinned to processors that other actors do not
            use.
        resources: Other resources that Ray reserves for an actor, by name.
        actor_options: Further Ray options of actors, such as `runtime_env`.
        send_model: Whether to send the model to nodes that do not have it. These nodes
            store the model in their model cache. If False, a missing model is an error.
        start_timeout_s: Maximum time to wait for actors, in seconds.
        silence_timeout_s: Maximum time without a report from an actor, in seconds.
            After this time, the actor is abandoned and restarted. An actor reports four
            times a second, even during long batches.
        lora: As in `Model`.
        n_gpu_layers: As in `Model`, for each actor.
        use_mmap: As in `Model`. With False, each actor has its own copy of the model in
            memory close to its cores.
        use_mlock: As in `Model`.
        **context: Arguments of `Context`. Sizes are per actor.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        ClusterError: Ray is not installed, the cluster cannot be reached or has too few
            free resources for the actors, or its nodes have another version of llamaherd.
        ModelLoadError: The model cannot be loaded, locally or by an actor.
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
        n_gpu_layers: int | Literal["auto"] = 0,
        use_mmap: bool = True,
        use_mlock: bool = False,
        **context: Any,  # noqa: ANN401 - arguments of Context, which checks them
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
        checked_layers(n_gpu_layers)  # each actor resolves "auto" for its machine
        of_model = {
            "n_gpu_layers": n_gpu_layers,
            "use_mmap": checks.flag("use_mmap", use_mmap),
            "use_mlock": checks.flag("use_mlock", use_mlock),
        }
        self._members: list[Member] = []
        # Only the vocabulary is loaded, because the model may exceed this machine's
        # memory.
        if isinstance(model, Model):
            if lora is not None:
                raise ArgumentError(
                    "must be set when the model is loaded", argument="lora"
                )
            self.model = model
        else:
            self.model = Model(model, lora=lora, check_memory=False)
        self._problem = _why_it_cannot_generate(self.model)
        # This context never runs. It only checks the arguments and resolves their
        # defaults.
        self._like = (
            None
            if self._problem
            else Context(self.model, n_threads=n_threads or 1, **context)
        )
        files, n_files = files_of(self.model)
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
        """Loop that runs the requests."""
        return self._loop

    @property
    def actors(self) -> list[ActorInfo]:
        """Information about the actors, recorded at their last start."""
        return [member.info for member in self._members if member.info is not None]

    @property
    def numerics(self) -> dict[str, object]:
        """Values of the arguments that change results by more than rounding errors.

        Raises:
            ContextError: The model is a model for embeddings.
        """
        return self._context.numerics

    @property
    def options(self) -> dict[str, object]:
        """Constructor arguments of a context that is equivalent to the actors' contexts.

        Raises:
            ContextError: The model is a model for embeddings.
        """
        n_threads = max(info.n_threads for info in self.actors)
        return {**self._context.options, "n_threads": n_threads}

    @property
    def _context(self) -> Context:
        if self._like is None:
            raise ContextError(self._problem)
        return self._like

    def lent_embedder(self, spec: EmbedSpec) -> AbstractContextManager[Embedder]:
        """Lend an embedder that runs on the actors."""
        patience_s, silence_s = self._patience_s, self._silence_s
        return nullcontext(
            HerdEmbedder(self._members, spec, patience_s=patience_s, silence_s=silence_s)
        )

    def close(self) -> None:
        """End the actors; running calls raise `ContextClosedError`."""
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
            n_left = sum(m.state is ActorState.STARTING for m in self._members)
            if n_left == 0:
                self._check_some()
                return
            if monotonic() > end_s:
                there = self._ray.cluster_resources()
                raise ClusterError(
                    f"{n_left} of {len(self._members)} actors were not ready after "
                    f"{self._patience_s:.0f} s. Each takes {self._members[0].takes}, the "
                    f"cluster has {there.get('CPU', 0):g} CPUs in all: lower n_actors or "
                    "num_cpus",
                    code="not_ready",
                    remedy=", or raise start_timeout_s",
                )
            self._changed.wait(_SLICE_S)

    def _check_some(self) -> None:
        """Check that at least one actor is ready; warn of actors that failed to start."""
        if self.closed:
            raise ContextClosedError("the herd was closed while it was started")
        failed = [m for m in self._members if m.state is ActorState.FAILED]
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
    """Check that further arguments are arguments of a context."""
    of_context = inspect.signature(Context).parameters.keys() - {"model"}
    for name in context.keys() - of_context:
        known = [*inspect.signature(Herd).parameters, *of_context]
        raise ArgumentTypeError(
            f"Herd has no argument {name!r}{checks.meant(name, known)}",
            argument=name,
            code="unknown_argument",
            form="{problem}",
        )


def _why_it_cannot_generate(model: Model) -> str:
    try:
        model.check_generates()
    except ContextError as error:
        return str(error)
    return ""
