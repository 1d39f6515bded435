# Types of the cffi extension: one line for each function of llamaherd.h.

from collections.abc import Callable
from typing import Any, TypeAlias

# A C pointer, struct or array. What cffi checks at run time, no type checker can.
CData: TypeAlias = Any

class FFI:
    NULL: CData
    def new(self, cdecl: str, init: object = ...) -> CData: ...
    def cast(self, cdecl: str, source: object) -> CData: ...
    def string(self, cdata: CData, maxlen: int = ...) -> bytes: ...
    def sizeof(self, cdecl: str) -> int: ...
    def unpack(self, cdata: CData, length: int) -> CData: ...
    def buffer(self, cdata: CData, size: int = ...) -> CData: ...
    def from_buffer(self, cdecl: str, python_buffer: object) -> CData: ...
    def gc(self, cdata: CData, destructor: Callable[[CData], object] | None) -> CData: ...

class Lib:
    LH_OK: int
    LH_INVALID_ARGUMENT: int
    LH_NOT_FOUND: int
    LH_MODEL_ERROR: int
    LH_CONTEXT_ERROR: int
    LH_NO_SPACE: int
    LH_DECODE_ERROR: int
    LH_ABORTED: int
    LH_SAMPLER_ERROR: int
    LH_INTERNAL: int
    LH_FORKED: int
    LH_STATE_HELD: int
    LH_FINISH_NONE: int
    LH_FINISH_EOG: int
    LH_FINISH_STOP: int
    LH_FINISH_LENGTH: int
    LH_FINISH_CANCELLED: int
    LH_FINISH_ERROR: int
    LH_CELL_BLOCK: int
    LH_UNIFORM_ROWS: int
    LH_AMX_ROWS: int
    LH_MAX_PREFIX_DEPTH: int
    LH_GRAMMAR_GBNF: int
    LH_GRAMMAR_JSON_SCHEMA: int
    LH_GRAMMAR_REGEX: int
    LH_GRAMMAR_LARK: int
    LH_POOLING_MEAN: int
    LH_POOLING_CLS: int
    LH_POOLING_LAST: int
    LH_MAX_LOGPROBS: int

    def lh_backend_init(self, chain: int) -> None: ...
    def lh_backend_free(self) -> None: ...
    def lh_log_drain(self, buffer: CData, size: int) -> int: ...
    def lh_abi_probe(self, out: CData) -> None: ...
    def lh_ggml_commit(self) -> CData: ...
    def lh_process_check(self, error: CData) -> int: ...
    def lh_own_threads(self) -> int: ...
    def lh_supports_gpu_offload(self) -> int: ...
    def lh_has_amx(self) -> int: ...
    def lh_derive_seed(self, seed: int, index: int) -> int: ...
    def lh_model_default_params(self, params: CData) -> None: ...
    def lh_gguf_check(self, path: bytes, out: CData, error: CData) -> int: ...
    def lh_model_load(
        self, path: bytes, params: CData, out: CData, error: CData
    ) -> int: ...
    def lh_model_borrow(
        self, model: CData, adapters: CData, out: CData, error: CData
    ) -> int: ...
    def lh_model_free(self, model: CData) -> None: ...
    def lh_model_get_info(self, model: CData, out: CData, error: CData) -> int: ...
    def lh_model_n_meta(self, model: CData) -> int: ...
    def lh_model_meta(
        self,
        model: CData,
        i: int,
        key: CData,
        value: CData,
        size: int,
        key_size: CData,
        value_size: CData,
        error: CData,
    ) -> int: ...
    def lh_model_chat_template(self, model: CData) -> CData: ...
    def lh_token_text(self, model: CData, token: int) -> CData: ...
    def lh_token_score(self, model: CData, token: int) -> float: ...
    def lh_token_attr(self, model: CData, token: int) -> int: ...
    def lh_token_is_eog(self, model: CData, token: int) -> int: ...
    def lh_token_is_control(self, model: CData, token: int) -> int: ...
    def lh_tokenize(
        self,
        model: CData,
        text: bytes,
        n_text: int,
        add_special: int,
        parse_special: int,
        tokens: CData,
        capacity: int,
        n_tokens: CData,
        error: CData,
    ) -> int: ...
    def lh_tokenize_inside(
        self,
        model: CData,
        text: bytes,
        n_text: int,
        tokens: CData,
        capacity: int,
        n_tokens: CData,
        error: CData,
    ) -> int: ...
    def lh_tokenize_prompt(
        self,
        model: CData,
        text: bytes,
        n_text: int,
        parse_special: int,
        tokens: CData,
        capacity: int,
        n_tokens: CData,
        error: CData,
    ) -> int: ...
    def lh_mark_literals(
        self,
        model: CData,
        text: bytes,
        n_text: int,
        out: CData,
        capacity: int,
        n_out: CData,
        error: CData,
    ) -> int: ...
    def lh_detokenize(
        self,
        model: CData,
        tokens: CData,
        n_tokens: int,
        remove_special: int,
        unparse_special: int,
        text: CData,
        capacity: int,
        n_text: CData,
        error: CData,
    ) -> int: ...
    def lh_model_quantize(
        self, path: bytes, out_path: bytes, ftype: int, n_threads: int, error: CData
    ) -> int: ...
    def lh_comparison_new(
        self, base: CData, other: CData, n_threads: int, out: CData, error: CData
    ) -> int: ...
    def lh_comparison_free(self, comparison: CData) -> None: ...
    def lh_comparison_add(
        self, comparison: CData, tokens: CData, n_tokens: int, error: CData
    ) -> int: ...
    def lh_comparison_abort(self, comparison: CData, abort: int) -> None: ...
    def lh_comparison_get(self, comparison: CData, out: CData, error: CData) -> int: ...
    def lh_embedder_new(
        self, model: CData, params: CData, out: CData, error: CData
    ) -> int: ...
    def lh_embedder_free(self, embedder: CData) -> None: ...
    def lh_embedder_run(
        self,
        embedder: CData,
        tokens: CData,
        offsets: CData,
        n_texts: int,
        out: CData,
        error: CData,
    ) -> int: ...
    def lh_embedder_abort(self, embedder: CData, abort: int) -> None: ...
    def lh_min_prefix_tokens(self, n_cells: int) -> int: ...
    def lh_prefix_tree(
        self,
        tokens: CData,
        offsets: CData,
        n_prompts: int,
        min_tokens: int,
        order: CData,
        node_of: CData,
        node_parent: CData,
        node_length: CData,
        node_prompt: CData,
        n_nodes: CData,
        error: CData,
    ) -> int: ...
    def lh_engine_default_params(self, params: CData) -> None: ...
    def lh_engine_new(
        self, model: CData, params: CData, out: CData, error: CData
    ) -> int: ...
    def lh_engine_free(self, engine: CData) -> None: ...
    def lh_engine_resize(self, engine: CData, params: CData, error: CData) -> int: ...
    def lh_engine_get_info(self, engine: CData, out: CData, error: CData) -> int: ...
    def lh_sampling_default_params(self, params: CData) -> None: ...
    def lh_sampling_check(self, model: CData, params: CData, error: CData) -> int: ...
    def lh_set_llguidance(self, functions: CData, error: CData) -> int: ...
    def lh_grammar_accepts(
        self,
        model: CData,
        grammar_kind: int,
        grammar: bytes,
        text: bytes,
        n_text: int,
        accepted: CData,
        error: CData,
    ) -> int: ...
    def lh_engine_submit(self, engine: CData, request: CData, error: CData) -> int: ...
    def lh_engine_run(
        self,
        engine: CData,
        params: CData,
        events: CData,
        capacity: int,
        result: CData,
        error: CData,
    ) -> int: ...
    def lh_engine_abort(self, engine: CData, abort: int) -> None: ...
    def lh_engine_wake(self, engine: CData) -> None: ...
    def lh_client_pause(self, engine: CData, of: int, error: CData) -> int: ...
    def lh_client_resume(self, engine: CData, of: int, error: CData) -> int: ...
    def lh_client_end(
        self, engine: CData, of: int, reason: int, message: bytes, error: CData
    ) -> int: ...
    def lh_client_get(self, engine: CData, of: int, out: CData, error: CData) -> int: ...
    def lh_client_read(
        self,
        engine: CData,
        of: int,
        n_bytes: int,
        n_tokens: int,
        out: CData,
        error: CData,
    ) -> int: ...
    def lh_client_release(self, engine: CData, of: int, error: CData) -> int: ...
    def lh_engine_reset(self, engine: CData, error: CData) -> int: ...
    def lh_engine_seq_pos_max(self, engine: CData, seq_id: int) -> int: ...
    def lh_engine_get_stats(
        self, engine: CData, call: int, out: CData, error: CData
    ) -> int: ...
    def lh_engine_forget_call(self, engine: CData, call: int, error: CData) -> int: ...

ffi: FFI
lib: Lib
