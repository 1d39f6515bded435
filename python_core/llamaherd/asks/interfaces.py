"""Interfaces of declared options: omitted options, and defaults that differ.

Each omitted option and each different default has a reason. A test compares every
interface with the declaration, so that a new option must be added to each interface or
listed here as omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from llamaherd.asks.annotate_options import AnnotateOptions
from llamaherd.asks.options import (
    ClassifyOptions,
    EmbedOptions,
    GenerateOptions,
    PerplexityOptions,
    ScoreOptions,
)
from llamaherd.core.declared import defaults_of
from llamaherd.core.sampling import (
    CONSTRAINTS,
    DEFAULT_MAX_TOKENS,
    DEFAULT_SEED,
    MAX_TOKENS_OF_CHAT,
    SamplingParams,
)

# Defaults of max_tokens that differ from the default of a call.
MAX_TOKENS_OF_COMPLETION = 16  # OpenAI's API has this default
MAX_TOKENS_OF_QUICK_LLAMA = DEFAULT_MAX_TOKENS  # an integer, as in localLLM
# Defaults of `chat`; by its priority, a question starts before prompts of other calls.
CHAT_DEFAULTS = {"max_tokens": MAX_TOKENS_OF_CHAT, "priority": 1}
REQUIRED = object()  # marks an option without a default

Reasons = Mapping[str, str]


def declared_defaults(kind: type) -> dict[str, Any]:
    """Return the default of each option of a class, including sampling."""
    found = {
        each.name: REQUIRED
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    }
    found |= defaults_of(kind)
    if "sampling" in found:
        del found["sampling"]
        found |= {**defaults_of(SamplingParams), "seed": DEFAULT_SEED}
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An interface that accepts options.

    Attributes:
        options: Class that declares the options.
        lacks: Options that the interface does not accept, each with the reason.
        defaults: Defaults that differ from the declared defaults, each with the reason.
        names: Names of options that differ from the declared names.
    """

    options: type
    lacks: Reasons = field(default_factory=dict)
    defaults: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def expected(self) -> dict[str, Any]:
        """Return the default of each option, by its name in the interface."""
        found = {
            name: default
            for name, default in declared_defaults(self.options).items()
            if name not in self.lacks
        }
        found |= {name: default for name, (default, _) in self.defaults.items()}
        return {self.names.get(name, name): default for name, default in found.items()}


def _for(reason: str, *names: str) -> dict[str, str]:
    """Map several options to the same reason."""
    return dict.fromkeys(names, reason)


_FILTERS = (
    *("top_k", "min_p", "typical_p", "top_n_sigma", "repeat_last_n", "penalty_repeat"),
    *("penalty_freq", "penalty_present", "xtc_probability", "xtc_threshold"),
    *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
    *("dry_breakers", "mirostat", "mirostat_tau", "mirostat_eta"),
)
_JOB = _for("a job reports its progress on request", "progress")
_SINGLE = {
    **_for("a single prompt has one answer", "n"),
    **_for("the failure of a single prompt is an error", "on_error"),
    **_for("the answer to a single prompt is not stored", "journal"),
    **_for("the progress of a single prompt is unknown", "progress"),
}
_TOGETHER = {
    **_for("all answers come together", "stream"),
    **_for("all prompts of a call have the same priority", "priority"),
}
_ROWS = {
    **_for("a row has one answer", "n"),
    **_for("a run has single settings", "params"),
    **_for("prompts of rows are texts or chats, which the default fits", "parse_special"),
    **_for("a failed row has an error, the others continue", "on_error"),
    **_for("--quiet sets it for each run", "progress"),
    **_for("there are no columns for them", "logprobs"),
    **_for("a row quotes its prompt; annotate quotes its text", "quote_from"),
}
_IN_R = _for("settings are separate arguments", "params")
# Options that apply only if a chat template renders the prompt.
_CHAT = ("variables", "template", "prefix", "merge_system", "show_schema")
_INTERACTIVE = {"progress": ("interactive()", "scripts show no bar")}

PYTHON = {
    "generate_parallel": Interface(options=GenerateOptions, lacks=_TOGETHER),
    "start_parallel": Interface(options=GenerateOptions, lacks={**_TOGETHER, **_JOB}),
    "generate": Interface(
        options=GenerateOptions,
        lacks={**_SINGLE, **_for("no other prompt runs at the same time", "priority")},
    ),
    "submit": Interface(
        options=GenerateOptions,
        lacks={**_SINGLE, **_for("pieces may have been read already", "retries")},
    ),
    "chat": Interface(
        options=GenerateOptions,
        lacks={
            **_SINGLE,
            **_for("every question is rendered as a chat", "chat", "parse_special"),
            **_for("settings are separate arguments", "params"),
            **_for("ask() gives a whole answer, stream() its pieces", "stream"),
            **_for("pieces may have been read already", "retries"),
        },
        defaults={
            "max_tokens": (
                CHAT_DEFAULTS["max_tokens"],
                "a person expects a whole answer",
            ),
            "priority": (CHAT_DEFAULTS["priority"], "a person waits for the answer"),
        },
    ),
    "classify_parallel": Interface(options=ClassifyOptions),
    "start_classify": Interface(options=ClassifyOptions, lacks=_JOB),
    "classify_calibrated": Interface(options=ClassifyOptions),
    "score_parallel": Interface(options=ScoreOptions),
    "start_score": Interface(options=ScoreOptions, lacks=_JOB),
    "perplexity": Interface(options=PerplexityOptions),
    "start_perplexity": Interface(options=PerplexityOptions, lacks=_JOB),
    "embed_parallel": Interface(options=EmbedOptions),
    "start_embed": Interface(options=EmbedOptions, lacks=_JOB),
    "annotate": Interface(options=AnnotateOptions),
    "start_annotate": Interface(options=AnnotateOptions, lacks=_JOB),
}
R = {
    "generate_parallel": Interface(
        options=GenerateOptions,
        lacks={**_TOGETHER, **_IN_R},
        defaults=_INTERACTIVE,
    ),
    "generate": Interface(
        options=GenerateOptions,
        lacks={
            **_SINGLE,
            **_IN_R,
            **_for("R does not stream answers", "stream"),
            **_for("no other prompt runs at the same time", "priority"),
        },
    ),
    "quick_llama": Interface(
        options=GenerateOptions,
        lacks={**_TOGETHER, **_IN_R},
        defaults={
            **_INTERACTIVE,
            "max_tokens": (MAX_TOKENS_OF_QUICK_LLAMA, "localLLM has a number"),
        },
    ),
    "classify_parallel": Interface(options=ClassifyOptions, defaults=_INTERACTIVE),
    "score_parallel": Interface(options=ScoreOptions, defaults=_INTERACTIVE),
    "perplexity": Interface(options=PerplexityOptions, defaults=_INTERACTIVE),
    "embed_parallel": Interface(options=EmbedOptions, defaults=_INTERACTIVE),
    "annotate_texts": Interface(
        options=AnnotateOptions,
        lacks=_for("R adds its own", "versions"),
        defaults=_INTERACTIVE,
    ),
}
# Names of options in run files, where `prefix` and `template` have other meanings.
CHAT_NAMES = {"template": "chat_template", "prefix": "answer_prefix"}
# Keys of a run file, in the table of the task or at the top level.
RUN_FILE = {
    "sampling": Interface(
        options=GenerateOptions, lacks={**_ROWS, **_TOGETHER}, names=CHAT_NAMES
    ),
    "classify": Interface(
        options=ClassifyOptions,
        lacks={
            **{name: _ROWS[name] for name in ("parse_special", "on_error", "progress")},
        },
        defaults={"labels": (None, "the check of the whole file requires them")},
        names=CHAT_NAMES,
    ),
    "annotate": Interface(
        options=AnnotateOptions,
        lacks={
            **{name: _ROWS[name] for name in ("on_error", "progress")},
            **_for("`prefix` names them", "columns"),
            **_for("the record of the run contains them", "versions"),
        },
        names=CHAT_NAMES,
    ),
    "embed": Interface(options=EmbedOptions, lacks={"progress": _ROWS["progress"]}),
}
# Settings under the names that OpenAI's API and vLLM give them.
OPENAI_NAMES = {
    "penalty_present": "presence_penalty",
    "penalty_freq": "frequency_penalty",
    "penalty_repeat": "repetition_penalty",
}
_HTTP = {
    **_SINGLE,
    **_for("a request has single settings", "params"),
    **_for("pieces may have been sent already", "retries"),
    **_for("the answer says whether it is complete", "strict"),
    **_for("it is a program: the server's owner sets it (--template)", "template"),
}
_OPENAI = {
    **_HTTP,
    **_for("response_format and fields of other servers have them", *CONSTRAINTS),
    **_for("the last message of the user is quoted", "quote_from"),
    **_for("OpenAI's API has no such field", "parse_special", "chat", "system"),
    **_for("all clients are equal", "priority"),
}
_WITHOUT_CHAT = _for("no chat template is applied", "thinking", *_CHAT)
_CHAT_FIELDS = {
    **_for("it is the last message if the assistant wrote it", "prefix"),
    **_for("the server's owner sets it (--merge-system)", "merge_system"),
}
_OPENAI_DEFAULTS = {
    "temperature": (1.0, "OpenAI's API has this default"),
    "seed": (-1, "OpenAI's API draws anew each time"),
}
_WHOLE = _for("an answer is sent when it is complete", "progress")
_SCORED = {
    **_WHOLE,
    **_for("the server's owner sets it (--template)", "template"),
    **_for("each row has its own error", "on_error"),
    **_for("the server stores no answers", "journal"),
}
SERVER = {
    "/generate": Interface(
        options=GenerateOptions,
        lacks={**_HTTP, **_for("the answer has no field for them", "logprobs")},
    ),
    "/v1/completions": Interface(
        options=GenerateOptions,
        lacks={**_OPENAI, **_WITHOUT_CHAT},
        names=OPENAI_NAMES,
        defaults={
            **_OPENAI_DEFAULTS,
            "max_tokens": (MAX_TOKENS_OF_COMPLETION, "OpenAI's API has this default"),
        },
    ),
    "/v1/chat/completions": Interface(
        options=GenerateOptions,
        lacks={**_OPENAI, **_CHAT_FIELDS},
        names={**OPENAI_NAMES, "variables": "chat_template_kwargs"},
        defaults={
            **_OPENAI_DEFAULTS,
            "max_tokens": (MAX_TOKENS_OF_CHAT, "clients expect a whole answer"),
        },
    ),
    "/v1/embeddings": Interface(
        options=EmbedOptions,
        lacks={**_WHOLE, **_for("the server's owner sets it (--n-threads)", "n_threads")},
    ),
    "/v1/score": Interface(options=ScoreOptions, lacks=_SCORED),
    "/v1/classify": Interface(options=ClassifyOptions, lacks=_SCORED),
    "/v1/annotate": Interface(
        options=AnnotateOptions,
        lacks={
            **_SCORED,
            **_for("the answer has a row for each text", "columns"),
            **_for("GET /version returns them", "versions"),
            **_for("a request loads no model", "until", "embeddings", "unsure", "larger"),
        },
    ),
}
_OF_CALLER = {
    **_for("the request has one answer", "n"),
    **_for("they become single settings", "params"),
    **_for("they are in the tokens of the prompt", "parse_special", "chat", "system"),
    **_for("they are in the tokens of the prompt", *_CHAT),
    **_for("they change what the caller does, not an answer", "on_error", "journal"),
    **_for("they change what the caller does, not an answer", "progress", "strict"),
    **_for("each attempt is a separate request", "retries"),
}
# Parts of the key of a stored result.
JOURNAL = Interface(
    options=GenerateOptions,
    lacks={
        **_OF_CALLER,
        **_for("they change when an answer comes, not its text", "stream", "priority"),
    },
    names={"thinking": "thought"},
)
# Members of `lh_request` and `lh_sampling_params` in C.
C_REQUEST = Interface(
    options=GenerateOptions,
    lacks={
        **_OF_CALLER,
        **_for("`grammar` has the text, `grammar_kind` its kind", "schema", "regex"),
        **_for("`grammar` has the text", "quote_from"),
    },
    names={"stream": "watch", "logit_bias": "logit_bias_token"},
)
_LOCAL_LLM = {"top_k", "repeat_last_n", "penalty_repeat"}
C_NEWRLLAMA = Interface(
    options=GenerateOptions,
    lacks={
        **_OF_CALLER,
        **_TOGETHER,
        **_for(
            "localLLM's struct is fixed",
            *(name for name in _FILTERS if name not in _LOCAL_LLM),
            *(*CONSTRAINTS, "logit_bias", "ignore_eos", "stop", "logprobs", "thinking"),
            *("quote_from", "min_tokens", "stop_token_ids"),
        ),
    },
)
