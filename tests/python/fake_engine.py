"""A fake engine without a model: counts KV cells exactly and computes known answers."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.errors import NoSpaceError
from llamaherd.engine.core.outcome import (
    NO_KV_SLOT,
    Cost,
    Counts,
    Finish,
    Kept,
    Output,
    Piece,
    RunOutcome,
    Status,
)
from llamaherd.engine.loop.loop import Loop
from llamaherd.engine.memory.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.request import Request

N_VOCAB = 1000
BAD_GRAMMAR = "no grammar"


def answer(request: Request) -> tuple[list[int], Finish]:
    """Return the answer to a request, which does not depend on other requests."""
    seed = 0 if request.sampling.is_greedy else request.seed
    digest = blake2b(request.tokens.tobytes() + seed.to_bytes(4, "little")).digest()
    length = 1 + digest[0]
    tokens = [
        blake2b(digest + i.to_bytes(4, "little"), digest_size=1).digest()[0]
        for i in range(min(length, request.max_tokens))
    ]
    return tokens, Finish.LENGTH if length >= request.max_tokens else Finish.EOG


def logprobs_of(
    request: Request, tokens: Sequence[int]
) -> tuple[list[float], list[dict[int, float]]] | None:
    """Return log-probabilities and alternatives of tokens; None if not requested."""
    if request.logprobs is None:
        return None
    values = [-1.0 - token for token in tokens]
    return values, [{token: -1.0 - token} for token in tokens]


def text_of(tokens: Sequence[int]) -> str:
    return " ".join(map(str, tokens))


def thought_of(request: Request) -> tuple[str, bool]:
    """Return the thought before an answer, and whether its budget was sufficient."""
    assert request.thought is not None
    seed = request.thought.seed
    text = f"\n Let me see {request.tokens[-1]}, é {seed}.\n"
    return text, request.thought.budget >= len(text.split())


@dataclass
class _Slot:
    request: Request
    sequence: int
    order: int
    answer: list[int]
    call: int = 0
    is_watched: bool = False
    keeps: bool = False
    numbers: Counter[str] = field(default_factory=Counter)
    of_call: Counter[str] = field(default_factory=Counter)  # shared by its slots
    cells: list[int] = field(default_factory=list)
    generated: list[int] = field(default_factory=list)
    n_reused: int = 0
    n_saved: int | None = None  # while paused
    is_held: bool = False
    finish: Finish = Finish.NONE
    message: str = ""

    @property
    def is_prefix(self) -> bool:
        return self.request.max_tokens == 0

    @property
    def is_active(self) -> bool:
        return self.finish is Finish.NONE and self.n_saved is None and not self.is_held

    def pending(self) -> list[int]:
        return [*self.request.tokens, *self.generated][len(self.cells) :]


class FakeEngine:
    """An `Engine` without a model; raises AssertionError when misused."""

    def __init__(
        self, n_cells: int, n_sequences: int, *, n_batch: int = 64, pooled: bool = True
    ) -> None:
        self.n_cells = n_cells
        self.n_sequences = n_sequences
        self.n_batch = n_batch
        self.pooled = pooled
        self.slots: dict[int, _Slot] = {}
        self.used: Counter[int] = Counter()  # sequences by cell
        self.n_made = 0
        self.n_submitted = 0
        self.numbers: Counter[str] = Counter()
        self.numbers_of: dict[int, Counter[str]] = {}  # by call
        self.sizes: list[tuple[int, int]] = []  # that it was given later
        self.closed = False
        self.woken = False
        self.aborted = False
        self.resumable = True  # False simulates a fragmented cache
        self.can_cut = True  # False simulates recurrent states

    # ---- Engine ----

    @property
    def n_ctx(self) -> int:
        return self.n_cells

    @property
    def n_ctx_seq(self) -> int:
        return self.n_cells if self.pooled else self.n_cells // self.n_sequences

    def submit(
        self,
        id_: int,
        request: Request,
        fork_from: int | None,
        *,
        n_fork: int = 0,
        keep: bool = False,
        call: int = 0,
        may_draft: bool = False,  # noqa: ARG002 - drafts nothing
        is_watched: bool = False,
    ) -> None:
        assert id_ not in self.slots
        if request.sampling.grammar == BAD_GRAMMAR:
            raise ValueError("grammar cannot be parsed")
        tokens, _ = answer(request)
        slot = _Slot(request, -1, self.n_submitted, tokens, call, is_watched, keep)
        slot.of_call = self.numbers_of.setdefault(call, slot.of_call)
        self.n_submitted += 1
        if n_fork and fork_from is not None:
            self._take_over(slot, fork_from, n_fork)
            self.slots[id_] = slot
            return
        slot.sequence = self._sequence()
        prefix = None if fork_from is None else self.slots[fork_from]
        assert prefix is None or prefix.is_held
        if prefix is not None and prefix.cells:  # otherwise its state was lost
            n = len(prefix.request.tokens)
            assert n < len(request.tokens) + (
                prefix.request.is_whole and not slot.is_prefix
            )
            assert prefix.request.tokens == request.tokens[:n]
            cells = prefix.cells if self.pooled else [self._new_cell() for _ in range(n)]
            for cell in cells if self.pooled else ():
                self.used[cell] += 1
            slot.cells = list(cells)
            slot.n_reused = n
        self.slots[id_] = slot

    def run(
        self,
        ids: Sequence[int] | None = None,
        *,
        max_steps: int = 0,
        max_time_ms: int = 0,  # noqa: ARG002 - has no clock
    ) -> RunOutcome:
        n_steps = 0
        while not self.aborted:
            chosen = self.slots.values() if ids is None else [self.slots[i] for i in ids]
            active = sorted(
                (s for s in chosen if s.is_active),
                key=lambda s: (-s.request.priority, s.order),
            )
            events = self._sample_first(active)
            if events:
                return RunOutcome(status=Status.OK, events=events, n_active=1)
            batch = self._batch(active)
            if not batch or n_steps == (max_steps or 3):
                return RunOutcome(status=Status.OK, n_steps=n_steps, n_active=len(active))
            refusal = self._refusal(batch)
            if refusal is not None:
                return refusal
            n_steps += 1
            events = self._decode(batch)
            if events or self.woken:
                self.woken = False
                return RunOutcome(
                    status=Status.OK, events=events, n_steps=n_steps, n_active=1
                )
        return RunOutcome(status=Status.ABORTED, n_steps=n_steps)

    def pause(self, id_: int) -> int:
        slot = self.slots[id_]
        assert slot.is_active
        slot.n_saved = len(slot.cells)
        self._give_back(slot)
        self._count(slot, "n_pauses")
        return slot.n_saved

    def resume(self, id_: int) -> None:
        slot = self.slots[id_]
        assert slot.n_saved is not None
        if slot.n_saved > self._n_free() or not self.resumable:
            raise NoSpaceError("no room", 5)
        slot.sequence = self._sequence()
        slot.cells = [self._new_cell() for _ in range(slot.n_saved)]
        slot.n_saved = None

    def set_priority(self, id_: int, priority: int) -> None:
        slot = self.slots[id_]
        assert slot.is_active or slot.n_saved is not None
        slot.request = replace(slot.request, priority=priority)

    def end(self, id_: int, finish: Finish, message: str) -> None:
        slot = self.slots[id_]
        if slot.finish is Finish.NONE:
            self._finish(slot, finish)
            slot.message = message

    def get(self, id_: int) -> Output:
        slot = self.slots[id_]
        thought: dict[str, Any] = {}
        if slot.request.thought is not None and slot.generated:
            text, is_complete = thought_of(slot.request)
            thought["thinking"] = text
            thought["n_thinking_tokens"] = len(text.split())
            thought["thinking_complete"] = is_complete
        logprobs = logprobs_of(slot.request, slot.generated)
        return Output(
            **thought,
            finish=slot.finish,
            logprobs=None if logprobs is None else logprobs[0],
            top_logprobs=None if logprobs is None else logprobs[1],
            text=text_of(slot.generated),
            tokens=list(slot.generated),
            n_reused=slot.n_reused,
            seed=slot.request.seed,
            message=slot.message,
            complete=slot.finish is Finish.EOG,
            cost=Cost(
                n_prefill=slot.numbers["n_prefill"],
                n_decode=slot.numbers["n_decode"],
                n_pauses=slot.numbers["n_pauses"],
            ),
        )

    def kept(self, id_: int) -> Kept | None:
        slot = self.slots[id_]
        if slot.finish is Finish.NONE or slot.sequence < 0 or not slot.cells:
            return None
        n = len(slot.cells)
        n_shared = sum(self.used[cell] > 1 for cell in slot.cells)
        tokens = array("i", [*slot.request.tokens, *slot.generated][:n])
        return Kept(tokens=tokens, least=max(1, n_shared) if self.can_cut else n)

    def read(self, id_: int, n_bytes: int, n_tokens: int) -> Piece:
        tokens = self.slots[id_].generated
        text = text_of(tokens)
        return Piece(
            text=text[n_bytes:],
            tokens=tokens[n_tokens:],
            n_bytes=len(text),
            n_tokens=len(tokens),
        )

    def read_logprobs(
        self, id_: int, n_tokens: int
    ) -> tuple[list[float], list[dict[int, float]]]:
        slot = self.slots[id_]
        return logprobs_of(slot.request, slot.generated[n_tokens:]) or ([], [])

    def read_thought(self, id_: int, n_bytes: int) -> Piece:
        slot = self.slots[id_]
        text = thought_of(slot.request)[0].encode() if slot.generated else b""
        new = text[n_bytes:].decode()
        return Piece(text=new, tokens=[], n_bytes=len(text), n_tokens=0, kind="thinking")

    def lose_states(self) -> None:
        """Lose all cells, as recurrent states are lost when a batch fails."""
        self.numbers["n_lost"] += 1
        for slot in self.slots.values():
            sequence = slot.sequence
            self._give_back(slot)
            slot.sequence = sequence

    def release(self, id_: int) -> None:
        self._give_back(self.slots.pop(id_))

    def reset(self) -> None:
        for id_ in list(self.slots):
            self.release(id_)
        assert not self.used
        assert not self._sequences()

    def abort(self, *, on: bool) -> None:
        self.aborted = on

    def wake(self) -> None:
        self.woken = True

    def resize(self, n_ctx: int, n_seq_max: int, kv_layout: str) -> None:
        assert not any(slot.is_active for slot in self.slots.values())
        is_pool = kv_layout == "unified"
        is_other = is_pool != self.pooled or (
            not is_pool and n_seq_max != self.n_sequences
        )
        if is_other:
            for slot in self.slots.values():  # such a cache cannot read the saved state
                slot.n_saved = None if slot.n_saved is None else 0
        moved = {
            slot_id: len(slot.cells)
            for slot_id, slot in self.slots.items()
            if slot.sequence >= 0
        }
        for slot_id in moved:
            self._give_back(self.slots[slot_id])
        assert not self.used
        self.n_cells, self.n_sequences = n_ctx, n_seq_max
        self.pooled = is_pool
        self.sizes.append((n_ctx, n_seq_max))
        for slot_id, n in moved.items():
            slot = self.slots[slot_id]
            if 0 < n <= self._n_free() and not is_other:
                slot.sequence = self._sequence()
                slot.cells = [self._new_cell() for _ in range(n)]
            elif slot.is_held:
                slot.is_held, slot.finish = False, Finish.ERROR

    def close(self) -> None:
        self.closed = True

    def n_cells_taken(self) -> int:
        pending = sum(len(s.pending()) for s in self.slots.values() if s.is_active)
        return len(self.used) + pending

    def times(self, id_: int) -> tuple[float, float]:
        """Decoded tokens, as if each took a second."""
        numbers = self.slots[id_].numbers
        return float(numbers["n_prefill"]), float(numbers["n_decode"])

    def counts(self, call: int | None = None) -> Counts:
        numbers = self.numbers if call is None else self.numbers_of.get(call, {})
        return Counts(**numbers)

    def forget(self, call: int) -> None:
        self.numbers_of.pop(call, None)

    @property
    def is_idle(self) -> bool:
        """Whether only held prefixes and kept cells of ended prompts are left."""
        slots = self.slots.values()
        return all(s.is_held or (s.finish and s.sequence >= 0) for s in slots)

    # ---- inside ----

    def _count(self, slot: _Slot, kind: str, n: int = 1) -> None:
        slot.numbers[kind] += n
        self.numbers[kind] += n
        slot.of_call[kind] += n

    def _sequences(self) -> set[int]:
        return {slot.sequence for slot in self.slots.values()} - {-1}

    def _sequence(self) -> int:
        free = set(range(self.n_sequences)) - self._sequences()
        if not free:
            raise NoSpaceError("all sequence ids are in use", 5)
        return min(free)

    def _new_cell(self) -> int:
        self.n_made += 1
        self.used[self.n_made] += 1
        return self.n_made

    def _n_free(self) -> int:
        return self.n_cells - len(self.used)

    def _free(self, cells: Sequence[int]) -> None:
        for cell in cells:
            self.used[cell] -= 1
            if self.used[cell] == 0:
                del self.used[cell]

    def _give_back(self, slot: _Slot) -> None:
        self._free(slot.cells)
        slot.cells = []
        slot.sequence = -1

    def _take_over(self, slot: _Slot, fork_from: int, n_fork: int) -> None:
        """Let a request continue the first cells of a request that has ended."""
        kept = self.kept(fork_from)
        assert kept is not None
        assert kept.least <= n_fork <= len(kept.tokens)
        assert kept.tokens[:n_fork] == slot.request.tokens[:n_fork]
        assert n_fork < len(slot.request.tokens)
        ended = self.slots[fork_from]
        slot.n_reused = n_fork
        if slot.is_prefix and not self.pooled:
            slot.sequence = self._sequence()
            slot.cells = [self._new_cell() for _ in range(n_fork)]
            return
        self._free(ended.cells[n_fork:])
        slot.sequence, ended.sequence = ended.sequence, -1
        slot.cells, ended.cells = ended.cells[:n_fork], []

    def _finish(self, slot: _Slot, finish: Finish) -> None:
        if not slot.keeps or finish in (Finish.CANCELLED, Finish.ERROR):
            self._give_back(slot)
        slot.n_saved = None
        slot.finish = finish

    def _batch(self, active: list[_Slot]) -> list[tuple[_Slot, list[int]]]:
        room = self.n_batch
        batch = []
        for slot in sorted(active, key=lambda s: not s.generated):
            tokens = slot.pending()[:room]
            if tokens:
                batch.append((slot, tokens))
                room -= len(tokens)
        return batch

    def _refusal(self, batch: list[tuple[_Slot, list[int]]]) -> RunOutcome | None:
        tokens = [token for _, part in batch for token in part]
        code = 0
        if any(not 0 <= token < N_VOCAB for token in tokens):
            code = -1
        elif self.pooled and len(tokens) > self._n_free():
            code = NO_KV_SLOT
        if code == 0:
            return None
        self.numbers["n_failed_decodes"] += 1
        return RunOutcome(
            status=Status.REFUSED, decode_code=code, message=f"llama_decode: {code}"
        )

    def _decode(self, batch: list[tuple[_Slot, list[int]]]) -> tuple[int, ...]:
        ids = {id(slot): id_ for id_, slot in self.slots.items()}
        for slot, tokens in batch:
            slot.cells += [self._new_cell() for _ in tokens]
            kind = "n_decode" if slot.generated else "n_prefill"
            self._count(slot, kind, len(tokens))
        calls = Counter(slot.call for slot, _ in batch)
        of_calls = {slot.call: slot.of_call for slot, _ in batch}
        for numbers, n_clients in [
            (self.numbers, len(batch)),
            *((of_calls[call], n) for call, n in calls.items()),
        ]:
            numbers["n_batches"] += 1
            numbers["n_clients"] += n_clients
            numbers["n_cells_max"] = max(numbers["n_cells_max"], len(self.used))
        return tuple(ids[id(slot)] for slot, _ in batch if self._sample(slot))

    def _sample_first(self, active: list[_Slot]) -> tuple[int, ...]:
        ids = {id(slot): id_ for id_, slot in self.slots.items()}
        forked = [s for s in active if not s.pending()]
        return tuple(ids[id(slot)] for slot in forked if self._sample(slot))

    def _sample(self, slot: _Slot) -> bool:
        """Draw a token if there are logits; return whether an event happened."""
        if slot.pending():
            return False
        if slot.is_prefix:
            slot.is_held = True
            return True
        if len(slot.generated) == len(slot.answer):
            self._finish(slot, Finish.EOG)
            return True
        slot.generated.append(slot.answer[len(slot.generated)])
        self._count(slot, "n_generated")
        if len(slot.generated) < slot.request.max_tokens:
            return slot.is_watched and len(slot.generated) == 1
        self._finish(slot, Finish.LENGTH)
        return True


class FakeSizing:
    """Sizing that always returns the same plan and the same engine."""

    def __init__(self, plan: Plan, engine: FakeEngine) -> None:
        self.sizes = plan
        self.engine = engine
        self.n_sharing = 1
        self.keeps_prefixes = True

    def plan(self, _work: object, _layout: object = None) -> Plan:
        return self.sizes

    def check_memory(self, _plan: Plan, _n_bytes_freed: int = 0) -> None:
        pass

    def make(self, _plan: Plan) -> FakeEngine:
        return self.engine


def make_loop(
    plan: Plan | None = None, engine: FakeEngine | None = None, n_cells: int = 4096
) -> Loop:
    """Create a loop on a fake engine, by default with 20 sequences that share a pool."""
    if plan is None:
        plan = Plan(
            n_ctx=n_cells,
            n_seq_max=12,
            n_hold=8,
            kv_layout="unified",
            n_ctx_seq=n_cells,
            capacity=n_cells,
            memory_bytes=0,
        )
    if engine is None:
        pooled = plan.kv_layout == "unified"
        engine = FakeEngine(plan.n_ctx, plan.n_sequences, pooled=pooled)
    return Loop(FakeSizing(plan, engine))
