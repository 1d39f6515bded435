"""Native engine: implements `engine.Engine` with llamaherd.h."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, TypedDict

from llamaherd.engine.core.errors import Failure
from llamaherd.engine.core.outcome import (
    Cost,
    Counts,
    Finish,
    Kept,
    Output,
    Piece,
    RunOutcome,
    Status,
)
from llamaherd.engine.native.request import (
    native_paths,
    native_sampling,
    native_score,
    native_thinking,
)
from llamaherd.engine.native.shim import (
    check,
    create_object,
    decode_text,
    ffi,
    free_early,
    keep_alive,
    lib,
    new_struct,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.request import AnswerShape, Request
    from llamaherd.engine.core.sampling import SamplingParams
    from llamaherd.engine.native._shim import CData

_MAX_SETTINGS = 1024  # number of settings cached in native form; grammars can be large
# For tests and benchmarks: True computes one forced token per step.
STEP_FORCED = False
_MAX_EVENTS = 512  # more than the number of sequences that libllama allows


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParams:
    """Fields of `lh_engine_params`, with the same names and meaning."""

    n_ctx: int
    n_seq_max: int
    n_batch: int
    n_ubatch: int
    n_threads: int
    n_threads_batch: int
    kv_unified: bool
    flash_attn: int
    offload_kqv: bool
    swa_full: bool
    type_k: int
    type_v: int
    deterministic: bool
    rope_scaling_type: int
    rope_freq_base: float
    rope_freq_scale: float
    yarn_ext_factor: float
    yarn_attn_factor: float
    yarn_beta_fast: float
    yarn_beta_slow: float
    yarn_orig_ctx: int


class NativeEngine:
    """A llama_context with its requests; it keeps its model alive. See `Engine`."""

    def __init__(self, model: CData, params: EngineParams) -> None:
        self._params = params
        native = create_object(
            "lh_engine", lib.lh_engine_new, model, _native_params(params)
        )
        # This lock protects `abort`, `wake` and `close`, which any thread may call.
        self._lock = RLock()
        self._engine = keep_alive(self, "lh_engine", native, model)
        self._error = ffi.new("lh_error *")
        self._settings: dict[SamplingParams, tuple[CData, list[CData]]] = {}
        self._info = ffi.new("lh_engine_info *")
        self._client = ffi.new("lh_client_info *")
        self._piece = ffi.new("lh_piece *")
        self._stats = ffi.new("lh_stats *")
        self._outcome = ffi.new("lh_run_result *")
        self._events = ffi.new("int64_t[]", _MAX_EVENTS)

    def close(self) -> None:
        """Free the context. From then on, only `abort` and `wake` may be called."""
        with self._lock:
            self._engine = ffi.NULL
            self._settings.clear()
            free_early(self)

    @property
    def n_ctx(self) -> int:
        """Total number of KV cells, as rounded by libllama."""
        return int(self._engine_info().n_ctx)

    @property
    def n_ctx_seq(self) -> int:
        """Maximum number of KV cells of one sequence."""
        return int(self._engine_info().n_ctx_seq)

    def n_cells_taken(self) -> int:
        info = self._engine_info()
        return int(info.n_cells_used + info.n_cells_pending)

    def submit(
        self,
        id_: int,
        request: Request,
        fork_from: int | None,
        *,
        n_fork: int = 0,
        keep: bool = False,
        call: int = 0,
        may_draft: bool = False,
        is_watched: bool = False,
    ) -> None:
        native = new_struct("lh_request")
        native.id = id_
        tokens = ffi.from_buffer("int32_t[]", request.tokens)
        native.tokens = tokens
        native.n_tokens = len(request.tokens)
        native.max_tokens = request.max_tokens
        native.fork_from = -1 if fork_from is None else fork_from
        native.n_fork = n_fork
        native.keep = keep
        stop = [ffi.new("char[]", text.encode()) for text in request.stop]
        stops = ffi.new("char *[]", stop)
        sizes = ffi.new("int32_t[]", [len(text) - 1 for text in stop])
        native.stop = stops
        native.stop_size = sizes
        native.n_stop = len(stop)
        native.call = call
        native.priority = request.priority
        native.draft = may_draft
        native.watch = is_watched
        native.whole = request.is_whole
        if request.logprobs is not None:
            native.logprobs = 1 + request.logprobs
        # This reference keeps alive the memory that `native` points to: creating the
        # settings of the thought may empty the cache of settings.
        kept: list[object] = []
        if request.tree is not None:
            native.score, of_score = native_score(request.tree)
            kept.append(of_score)
        elif request.max_tokens > 0:
            settings = self._sampling(request.sampling, request.shape)
            native.sampling = settings[0]
            kept.append(settings)
            native.step_forced = STEP_FORCED
            native.sampling.seed = request.seed
            if request.paths is not None:
                native.paths, of_paths = native_paths(request.paths)
                kept.append(of_paths)
        if request.thought is not None:
            settings = self._sampling(request.thought.sampling, None)
            native.thinking, of_thought = native_thinking(request.thought, settings[0])
            kept += [settings, of_thought]
        check(lib.lh_engine_submit(self._engine, native, self._error), self._error)
        del kept

    def run(
        self,
        ids: Sequence[int] | None = None,
        *,
        max_steps: int = 0,
        max_time_ms: int = 0,
    ) -> RunOutcome:
        params = new_struct("lh_run_params")
        chosen = ffi.NULL if ids is None else ffi.new("int64_t[]", list(ids))
        params.ids = chosen
        params.n_ids = 0 if ids is None else len(ids)
        params.max_steps = max_steps
        params.max_time_ms = max_time_ms
        result = self._outcome
        status = lib.lh_engine_run(
            self._engine, params, self._events, _MAX_EVENTS, result, self._error
        )
        if status not in _STATUS:
            check(status, self._error)
        message = ffi.string(self._error.message) if status != lib.LH_OK else b""
        return RunOutcome(
            status=_STATUS[status],
            events=tuple(ffi.unpack(self._events, result.n_events)),
            n_steps=result.n_steps,
            n_active=result.n_active,
            decode_code=result.decode_code,
            message=decode_text(message),
        )

    def pause(self, id_: int) -> int:
        check(lib.lh_client_pause(self._engine, id_, self._error), self._error)
        return int(self._client_info(id_).n_cells)

    def resume(self, id_: int) -> None:
        check(lib.lh_client_resume(self._engine, id_, self._error), self._error)

    def set_priority(self, id_: int, priority: int) -> None:
        status = lib.lh_client_set_priority(self._engine, id_, priority, self._error)
        check(status, self._error)

    def end(self, id_: int, finish: Finish, message: str) -> None:
        status = lib.lh_client_end(
            self._engine, id_, finish, message.encode(), self._error
        )
        check(status, self._error)

    def get(self, id_: int) -> Output:
        info = self._client_info(id_)
        return Output(
            finish=Finish(info.finish),
            text=ffi.buffer(info.text, info.n_text)[:].decode(errors="replace"),
            tokens=ffi.unpack(info.tokens, info.n_generated) if info.n_generated else [],
            n_reused=info.n_reused,
            seed=info.seed,
            message=_message(info),
            complete=bool(info.complete),
            cost=Cost(
                n_prefill=info.n_prefill,
                n_decode=info.n_decode,
                n_draft=info.n_draft,
                n_pauses=info.n_pauses,
                prefill_s=info.t_prefill_s,
                decode_s=info.t_decode_s,
            ),
            first_token_s=info.t_first_s,
            **logprob_fields(info),
            **thought_fields(info),
        )

    def kept(self, id_: int) -> Kept | None:
        info = self._client_info(id_)
        if info.n_kept == 0:
            return None
        tokens = array("i", ffi.buffer(info.kept, 4 * info.n_kept)[:])
        return Kept(tokens=tokens, least=info.least_kept)

    def read(self, id_: int, n_bytes: int, n_tokens: int) -> Piece:
        new = self._piece
        status = lib.lh_client_read(
            self._engine, id_, n_bytes, n_tokens, new, self._error
        )
        check(status, self._error)
        return Piece(
            text=ffi.buffer(new.text, new.n_text)[:].decode(errors="replace"),
            tokens=ffi.unpack(new.tokens, new.n_tokens) if new.n_tokens else [],
            n_bytes=new.n_bytes_now,
            n_tokens=new.n_tokens_now,
        )

    def read_logprobs(
        self, id_: int, n_tokens: int
    ) -> tuple[list[float], list[dict[int, float]]]:
        info = self._client_info(id_)
        if info.n_logprobs <= n_tokens:
            return [], []
        n_new = info.n_logprobs - n_tokens
        return ffi.unpack(info.logprobs + n_tokens, n_new), alternatives(info, n_tokens)

    def read_thought(self, id_: int, n_bytes: int) -> Piece:
        info = self._client_info(id_)
        n_now = max(n_bytes, info.n_thinking)
        new = (
            ffi.buffer(info.thinking + n_bytes, n_now - n_bytes)[:]
            if info.thinking
            else b""
        )
        return Piece(
            text=new.decode(errors="replace"),
            tokens=[],
            n_bytes=n_now,
            n_tokens=0,
            kind="thinking",
        )

    def release(self, id_: int) -> None:
        check(lib.lh_client_release(self._engine, id_, self._error), self._error)

    def reset(self) -> None:
        check(lib.lh_engine_reset(self._engine, self._error), self._error)

    def abort(self, *, on: bool) -> None:
        with self._lock:
            if self._engine != ffi.NULL:
                lib.lh_engine_abort(self._engine, on)

    def wake(self) -> None:
        with self._lock:
            if self._engine != ffi.NULL:
                lib.lh_engine_wake(self._engine)

    def resize(self, n_ctx: int, n_seq_max: int, kv_layout: str) -> None:
        params = replace(
            self._params,
            n_ctx=n_ctx,
            n_seq_max=n_seq_max,
            kv_unified=kv_layout == "unified",
        )
        native = _native_params(params)
        check(lib.lh_engine_resize(self._engine, native, self._error), self._error)

    def times(self, id_: int) -> tuple[float, float]:
        info = self._client_info(id_)
        return info.t_prefill_s, info.t_decode_s

    def counts(self, call: int | None = None) -> Counts:
        number = -1 if call is None else call
        status = lib.lh_engine_get_stats(self._engine, number, self._stats, self._error)
        check(status, self._error)
        return Counts(**dict(zip(_COUNTS, _counts_of(self._stats), strict=True)))

    def forget(self, call: int) -> None:
        check(lib.lh_engine_forget_call(self._engine, call, self._error), self._error)

    def _engine_info(self) -> CData:
        check(lib.lh_engine_get_info(self._engine, self._info, self._error), self._error)
        return self._info

    def _client_info(self, id_: int) -> CData:
        status = lib.lh_client_get(self._engine, id_, self._client, self._error)
        check(status, self._error)
        return self._client

    def _sampling(
        self, params: SamplingParams, shape: AnswerShape | None
    ) -> tuple[CData, list[CData]]:
        """Return the cached `lh_sampling_params`, and the memory it points to."""
        if params not in self._settings:
            if len(self._settings) == _MAX_SETTINGS:
                self._settings.clear()
            self._settings[params] = native_sampling(params, shape)
        return self._settings[params]


_COUNTS = tuple(field.name for field in fields(Counts))
_counts_of = attrgetter(*_COUNTS)
_STATUS = {
    lib.LH_OK: Status.OK,
    lib.LH_DECODE_ERROR: Status.REFUSED,
    lib.LH_ABORTED: Status.ABORTED,
}


def _message(info: CData) -> str:
    text = decode_text(ffi.string(info.message))
    is_constraint = info.code == lib.LH_SAMPLER_ERROR
    return Failure(text, "constraint") if is_constraint else text


def _native_params(params: EngineParams) -> CData:
    native = new_struct("lh_engine_params")
    for field in fields(EngineParams):
        setattr(native, field.name, getattr(params, field.name))
    return native


class _Logprobs(TypedDict, total=False):
    scores: array[float]
    logprobs: list[float]
    top_logprobs: list[dict[int, float]]
    ranks: list[int]


def logprob_fields(info: CData) -> _Logprobs:
    """Return the fields of an `Output` that contain log-probabilities."""
    out: _Logprobs = {}
    if info.n_scores > 0:
        out["scores"] = array("d", ffi.buffer(info.scores, 8 * info.n_scores)[:])
    if info.n_logprobs >= 0:
        n = info.n_logprobs
        out["logprobs"] = ffi.unpack(info.logprobs, n) if n else []
        out["top_logprobs"] = alternatives(info, 0)
        if info.ranks != ffi.NULL:
            out["ranks"] = ffi.unpack(info.ranks, n) if n else []
    return out


def alternatives(info: CData, start: int) -> list[dict[int, float]]:
    """Return the alternatives to each token from the token `start` on."""
    k, n = info.n_top, info.n_logprobs - start
    tokens = ffi.unpack(info.top_tokens + k * start, n * k) if n * k else []
    values = ffi.unpack(info.top_logprobs + k * start, n * k) if n * k else []
    return [
        {
            token: value
            for token, value in zip(
                tokens[k * i : k * (i + 1)], values[k * i : k * (i + 1)], strict=True
            )
            if token >= 0
        }
        for i in range(n)
    ]


class _ThoughtFields(TypedDict, total=False):
    """Fields of an `Output` that describe its thought."""

    thinking: str | None
    n_thinking_tokens: int
    thinking_complete: bool | None


def thought_fields(info: CData) -> _ThoughtFields:
    """Return the fields of an `lh_client_info` that describe its thought."""
    if info.thinking == ffi.NULL:
        return {}
    closed = info.thinking_closed
    text = ffi.buffer(info.thinking, info.n_thinking)[:]
    return {
        "thinking": text.decode(errors="replace"),
        "n_thinking_tokens": info.n_thinking_tokens,
        "thinking_complete": (
            None if closed == lib.LH_THINKING_OPEN else closed == lib.LH_THINKING_BY_MODEL
        ),
    }
