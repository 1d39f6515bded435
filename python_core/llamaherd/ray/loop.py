"""Loop of a cluster: one thread gives pieces of calls to Ray's actors.

Ray starts an actor that died again, and repeats its piece once. A piece that was lost
twice is divided, so that a prompt that kills its process fails alone.
"""

from __future__ import annotations

import warnings
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from llamaherd.engine.core.errors import ArgumentError, ContextError
from llamaherd.engine.core.outcome import Counts, Finish, Output
from llamaherd.engine.core.stats import ActorStats, Load, RequestStats
from llamaherd.engine.loop.threaded import SendingLoop
from llamaherd.engine.memory.plan import AUTO_SLOTS, Plan
from llamaherd.engine.schedule.shards import DepthFirst, Pieces
from llamaherd.ray.connect import check_connected
from llamaherd.ray.worker import ActorInfo, Change, PieceAnswers, for_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.engine.loop.group import Group

_LOOK_S = 0.1  # maximum delay until a cancelled call is noticed
_CANCEL_S = 5.0  # maximum wait for the answers of a cancelled call
_BACKUP_S = 60.0  # after this time a piece also runs on an actor that has no other work
_MOST_LOSSES = 20  # maximum number of pieces lost one after the other
_AT_ONCE = 2  # pieces of a call on an actor, so that its slots stay busy


@dataclass(slots=True, eq=False)
class SentPiece:
    """Requests that an actor runs; alone, if they were on actors that died."""

    actor: int
    indices: list[int]
    is_alone: bool = False
    has_backup: bool = False
    sent_s: float = field(default_factory=perf_counter)


class Dispatch:
    """Requests of a group on their way: pieces by Ray's references to their answers.

    `refusals` are actors that cannot run them; `told_s` when actors were told to end.
    """

    def __init__(self, group: Group, name: str, pids: Sequence[int]) -> None:
        requests, n_actors = group.requests, len(pids)
        tokens, n_behind = zip(*((r.tokens, r.n_behind) for r in requests), strict=True)
        order = None if group.tree is None else group.tree.order
        self.group, self.name = group, name
        self.running: dict[Any, SentPiece] = {}
        self.told_s: dict[Change, float] = {}
        self.refusals: set[int] = set()
        self._pieces = Pieces(DepthFirst(tokens, n_behind, order=order), n_actors)
        self._n_pieces = 2 * n_actors
        self._again: deque[list[int]] = deque()  # pieces that were lost twice
        self._counts: list[Counts] = []
        self._rows: dict[int, ActorStats] = {}
        self._pids = [{pid} for pid in pids]  # processes of each actor
        self._batches: dict[
            tuple[int, int], tuple[float, int]
        ] = {}  # by actor and process

    @property
    def is_over(self) -> bool:
        """Whether nothing of the group waits or runs."""
        if (
            not self.group.open
            or monotonic() - self.told_s.get("give_up", inf) > _CANCEL_S
        ):
            return True
        waits = (self._pieces.n_left or self._again) and not self.told_s
        return not self.running and not waits

    def next(self, i: int, n_slots: int) -> SentPiece | None:
        """Return the next piece for an actor; None if it has enough, or none is left."""
        here = [piece for piece in self.running.values() if piece.actor == i]
        if len(here) < _AT_ONCE and self._pieces.n_left and not self._is_alone(here):
            # Pieces get smaller near the end, so that all actors finish together.
            n = min(n_slots, -(-self._pieces.n_left // self._n_pieces))
            return SentPiece(i, self._pieces.take(i, n))
        if here or self._pieces.n_left:
            return None
        if self._again:
            return SentPiece(i, self._again.popleft(), is_alone=True)
        for piece in self.running.values():
            if perf_counter() - piece.sent_s > _BACKUP_S and not piece.has_backup:
                piece.has_backup = True
                return SentPiece(i, self._open(piece), has_backup=True)
        return None

    def take(self, piece: SentPiece, answers: PieceAnswers, node: str) -> None:
        """Deliver the answers to a piece, and add up statistics."""
        i, before_s = piece.actor, piece.sent_s - self.group.came_s
        row = replace(self._rows.get(i) or ActorStats(actor=i, node=node), node=node)
        for place, output, answer_stats in answers.outputs:
            if (k := piece.indices[place]) not in self.group.open:
                continue  # another actor was faster
            first_s = answer_stats.first_token_s
            stats = replace(
                answer_stats,
                queue_s=before_s + answer_stats.queue_s,
                first_token_s=None if first_s is None else before_s + first_s,
                wall_s=before_s + answer_stats.wall_s,
            )
            row = replace(
                row,
                n_done=row.n_done + (output.finish is not Finish.CANCELLED),
                n_prefill_tokens=row.n_prefill_tokens + stats.n_prefill_tokens,
                n_decode_tokens=row.n_decode_tokens + stats.n_decode_tokens,
            )
            self.group.deliver(k, output, stats)
        process, (first, last) = (i, answers.pid), answers.batches
        least, most = self._batches.get(process, (inf, 0))
        self._batches[process] = min(least, first), max(most, last)
        self._pids[i].add(answers.pid)
        spans = [span for (actor, _), span in self._batches.items() if actor == i]
        self._rows[i] = replace(
            row,
            n_batches=int(sum(most - least for least, most in spans)),
            n_slots=0 if answers.plan is None else answers.plan.n_seq_max,
            n_deaths=len(self._pids[i]) - 1,
        )
        self.group.n_fallbacks += answers.n_fallbacks
        self._counts.append(answers.counts)
        self._count()

    def again(self, piece: SentPiece) -> None:
        """Let the requests of a piece run again."""
        self._again.extend(filter(None, [self._open(piece)]))

    def lost(self, piece: SentPiece, error: Exception) -> None:
        """Let the requests of a piece run again in halves; fail one that ran alone."""
        left = self._open(piece)
        if len(left) == 1 and piece.is_alone:
            message = f"the processes that computed only this prompt died: {error}"
            output = Output(finish=Finish.ERROR, message=message)
            self.group.deliver(left[0], output, RequestStats())
        elif left:
            half = len(left) // 2
            self._again.extend(filter(None, (left[:half], left[half:])))

    def _count(self) -> None:
        names = [name for name in Counts.__dataclass_fields__ if name != "n_cells_max"]
        total = {name: sum(getattr(c, name) for c in self._counts) for name in names}
        total["n_batches"] = sum(row.n_batches for row in self._rows.values())
        most = max(counts.n_cells_max for counts in self._counts)
        self._counts = [Counts(**total, n_cells_max=most)]
        self.group.counts = self._counts[0]
        self.group.actors = tuple(self._rows[i] for i in sorted(self._rows))

    def _open(self, piece: SentPiece) -> list[int]:
        return [k for k in piece.indices if k in self.group.open]

    @staticmethod
    def _is_alone(pieces: Sequence[SentPiece]) -> bool:
        return any(piece.is_alone for piece in pieces)


class ClusterLoop(SendingLoop[Dispatch]):
    """Runs groups of requests on actors."""

    def __init__(
        self,
        ray: Any,  # types of Ray
        actors: Sequence[Any],
        infos: Sequence[ActorInfo],
        problem: str,
        on_close: Callable[[], None],
    ) -> None:
        super().__init__("cluster", on_close)
        self._ray, self._actors = ray, actors
        self._nodes = [info.node for info in infos]
        self._pids = [info.pid for info in infos]  # of the last answers
        self._problem = problem
        self._call_prefix, self._numbers = uuid4().hex, count()
        self._plans: dict[int, Plan] = {}  # sizes of the actors' KV caches
        self._n_lost = 0  # pieces lost since the last answer

    @property
    def plan(self) -> Plan | None:
        """Sum of the sizes of all actors' KV caches."""
        plans = list(self._plans.values())
        sums = {
            name: sum(getattr(plan, name) for plan in plans)
            for name in ("n_ctx", "n_seq_max", "n_hold", "memory_bytes")
        }
        return replace(plans[0], **sums) if plans else None

    @property
    def load(self) -> Load:
        """Return the number of running and waiting requests."""
        plan = self.plan
        n_slots = 0 if plan is None else plan.n_seq_max
        n_open = sum(len(group.open) for group in self._every())
        return Load(
            n_running=min(n_slots, n_open),
            n_waiting=max(0, n_open - n_slots),
            n_slots=n_slots,
            n_ctx=0 if plan is None else plan.n_ctx,
        )

    def _make_work(self, group: Group) -> Dispatch:
        if self._problem:
            raise ContextError(self._problem)
        if group.is_watched:
            raise ArgumentError(
                "cannot be used with a cluster, which runs whole calls: use a Context, "
                "or HTTP replicas (lh.ray.serve_app)",
                argument="stream",
                code="conflict",
            )
        name = f"{self._call_prefix}-{next(self._numbers)}"
        return Dispatch(group, name, self._pids)

    def _stir(self) -> None:
        """Do nothing: the thread looks at the groups ten times a second."""

    def _turn(self) -> None:
        check_connected(self._ray)
        works = list(self._works.values())
        for work in works:
            if self._is_closed:
                self._end(work.group, self._closed_error())
            else:
                self._hand_out(work)
        owners = {ref: work for work in works for ref in work.running}
        if owners:
            waited, _ = self._ray.wait(list(owners), timeout=_LOOK_S)
            for ref in waited:
                self._receive(owners[ref], ref)
        for work in works:
            if work.is_over:
                self._end(work.group, None)
        if not owners:
            sleep(0)

    def _hand_out(self, work: Dispatch) -> None:
        if work.group.is_cancelled or work.group.is_stopping:
            self._tell(work, "give_up" if work.group.is_cancelled else "stop")
            return
        for i, actor in enumerate(self._actors):
            if i in work.refusals:
                continue
            plan = self._plans.get(i)
            n_slots = AUTO_SLOTS if plan is None else plan.n_seq_max
            while piece := work.next(i, n_slots):
                requests = [for_wire(work.group.requests[k]) for k in piece.indices]
                work.running[actor.run.remote(work.name, requests)] = piece

    def _receive(self, work: Dispatch, ref: Any) -> None:  # types of Ray
        piece = work.running.pop(ref)
        try:
            answers: PieceAnswers = self._ray.get(ref)
        except Exception as error:  # noqa: BLE001 - of Ray, or of the actor
            self._n_lost += 1
            if not is_loss(error):
                self._give_to_others(work, piece, cause_of(error))
            elif self._n_lost < _MOST_LOSSES:
                work.lost(piece, error)
            else:
                text = f"{self._n_lost} pieces of the call were lost with their processes"
                self._end(work.group, ContextError(f"{text}: {error}"))
            return
        self._n_lost = 0
        self._pids[piece.actor] = answers.pid
        if answers.plan is not None:
            self._plans[piece.actor] = answers.plan
        work.take(piece, answers, self._nodes[piece.actor])

    def _give_to_others(self, work: Dispatch, piece: SentPiece, error: Exception) -> None:
        """Give a piece to others: its actor has no memory, or is gone for good."""
        i, is_new = piece.actor, piece.actor not in work.refusals
        work.refusals.add(i)
        work.again(piece)
        if len(work.refusals) == len(self._actors):
            self._end(work.group, error)
        elif is_new:
            with suppress(Exception):  # warnings may be errors
                text = f"actor {i} on {self._nodes[i]} answers no more of these prompts"
                warnings.warn(f"{text}; others continue: {error}", stacklevel=2)

    def _tell(self, work: Dispatch, kind: Change) -> None:
        """Tell the actors of a call, once, that it ends."""
        if kind not in work.told_s:
            work.told_s[kind] = monotonic()
            for i in {piece.actor for piece in work.running.values()}:
                self._actors[i].change.remote(work.name, kind)

    def _end(self, group: Group, error: BaseException | None) -> None:
        work = self._works.get(group)
        if work is not None:
            with suppress(Exception):  # Ray itself may be gone
                self._tell(work, "give_up")  # answers that nobody waits for any more
        super()._end(group, error)


def is_loss(error: Exception) -> bool:
    """Return whether an actor died or could not be reached, and Ray starts it again."""
    from ray import exceptions  # Ray is loaded by now

    losses = (exceptions.ActorUnavailableError, exceptions.OutOfMemoryError)
    return isinstance(error, losses) and not isinstance(error, exceptions.RayTaskError)


def cause_of(error: Exception) -> Exception:
    """Return the error that an actor raised, which Ray wraps; ContextError without it."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else ContextError(str(error))
