"""Keyword arguments of the public calls.

Written by scripts/generate_options.py (make generated). Do not edit.
"""

from __future__ import annotations

# At run time, for typing.get_type_hints.
from collections.abc import Collection, Mapping, Sequence  # noqa: TC003
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import datetime as dt
    import os
    from typing import Any, Literal

    from llamaherd.calls.asks.annotate_options import (
        Calibrate,
        Embedder,
        Larger,
        Method,
        Split,
    )
    from llamaherd.calls.asks.options import OnError, Path, PoolingOption, Space
    from llamaherd.calls.asks.scores import Normalize
    from llamaherd.engine.core.sampling import SamplingParams
    from llamaherd.engine.core.thinking import ThinkingOption
    from llamaherd.engine.model.tokens import ParseSpecial


class _Sampling(TypedDict, total=False):
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    top_n_sigma: float
    repeat_last_n: int
    penalty_repeat: float
    penalty_freq: float
    penalty_present: float
    xtc_probability: float
    xtc_threshold: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_breakers: Sequence[str]
    dynatemp_range: float
    dynatemp_exponent: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]]
    ignore_eos: bool
    min_tokens: int
    stop_token_ids: Collection[int]
    max_tokens: int | None
    stop: str | Sequence[str] | None
    seed: int | None


class _Constraints(TypedDict, total=False):
    regex: str | None
    grammar: str | None
    choices: Collection[str] | None
    quote_from: str | None


class _Rendering(TypedDict, total=False):
    thinking: ThinkingOption
    variables: Mapping[str, object] | None
    template: str | None
    prefix: str | None
    merge_system: bool


class _Answers(TypedDict, total=False):
    strict: bool
    show_schema: bool
    logprobs: int | None


class _Prompts(TypedDict, total=False):
    chat: bool
    system: str | None


class _Call(TypedDict, total=False):
    parse_special: ParseSpecial
    on_error: OnError
    journal: Path | None


class SamplingSettings(_Sampling, _Constraints, total=False):
    """Keyword arguments of calls that generate, see `SamplingParams`."""

    schema: str | Mapping[str, object] | type[object] | None


class GenerateRest(_Sampling, _Rendering, _Answers, _Prompts, _Call, total=False):
    """Keyword arguments of `generate_parallel`, without the schema."""

    n: int
    params: SamplingParams | Sequence[SamplingParams] | None
    retries: int
    regex: str | Sequence[str | None] | None
    grammar: str | Sequence[str | None] | None
    choices: Collection[str] | Sequence[Collection[str] | None] | None
    quote_from: str | Sequence[str | None] | None


class GenerateSettings(GenerateRest, total=False):
    """Keyword arguments of `generate_parallel`, see `GenerateOptions`."""

    schema: (
        str
        | Mapping[str, object]
        | type[object]
        | Sequence[str | Mapping[str, object] | type[object] | None]
        | None
    )


class PromptRest(_Sampling, _Constraints, _Rendering, _Answers, _Prompts, total=False):
    """Keyword arguments of `generate`, without the schema."""

    parse_special: ParseSpecial
    params: SamplingParams | None
    retries: int


class PromptSettings(PromptRest, total=False):
    """Keyword arguments of `generate`, see `GenerateOptions`."""

    schema: str | Mapping[str, object] | type[object] | None


class SubmitSettings(
    _Sampling, _Constraints, _Rendering, _Answers, _Prompts, total=False
):
    """Keyword arguments of `Context.submit`, see `GenerateOptions`."""

    parse_special: ParseSpecial
    params: SamplingParams | None
    priority: int
    schema: str | Mapping[str, object] | type[object] | None


class ChatSettings(_Sampling, _Constraints, _Rendering, _Answers, total=False):
    """Keyword arguments of `chat` and of its questions, see `GenerateOptions`."""

    priority: int
    schema: str | Mapping[str, object] | type[object] | None


class ClassifySettings(_Rendering, _Prompts, _Call, total=False):
    """Keyword arguments of `classify_parallel`, see `ClassifyOptions`."""

    normalize: Normalize
    pmi_prompt: str
    space: Space
    n_thoughts: int
    seed: int


class PairSettings(_Rendering, _Prompts, total=False):
    """Keyword arguments of `compare_pairs`, see `ClassifyOptions`."""

    journal: Path | None
    n_thoughts: int
    seed: int


class ScoreSettings(_Rendering, _Prompts, _Call, total=False):
    """Keyword arguments of `score_parallel`, see `ScoreOptions`."""

    space: Space


class PerplexitySettings(_Call, total=False):
    """Keyword arguments of `perplexity`, see `PerplexityOptions`."""


class EmbedSettings(TypedDict, total=False):
    """Keyword arguments of `embed_parallel`, see `EmbedOptions`."""

    pooling: PoolingOption
    normalize: bool
    truncate: bool
    deterministic: bool
    n_threads: int | None


class CodingSettings(TypedDict, total=False):
    """Keyword arguments of `annotate`, see `AnnotateOptions`."""

    method: Method | Literal["auto"]
    columns: str | Mapping[str, str | None] | None
    calibrate: Calibrate | None
    normalize: Normalize
    chat: bool
    thinking: ThinkingOption
    n_thoughts: int
    variables: Mapping[str, object] | None
    template: str | None
    merge_system: bool
    date: dt.date | str | None
    distribution: bool
    split: Split | None
    part_tokens: int | None
    journal: bool | str | os.PathLike[str] | None
    evidence: bool | Mapping[str, Any]
    until: int | None
    embeddings: Embedder | None
    unsure: float
    larger: Larger | None
    on_error: OnError
    seed: int
    temperature: float
    max_tokens: int
    versions: Mapping[str, str] | None
