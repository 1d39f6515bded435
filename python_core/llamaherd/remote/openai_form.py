"""Form of OpenAI's API, as llama-server, vLLM, Ollama and hosted models offer it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.calls.asks.options import (
    ClassifyOptions,
    EmbedOptions,
    GenerateOptions,
    PromptOptions,
)
from llamaherd.calls.chat.messages import user_messages
from llamaherd.calls.structured.shape import Shape
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.checks import OTHER_NAMES
from llamaherd.engine.core.errors import ArgumentTypeError, Failure
from llamaherd.engine.core.outcome import Finish, Output
from llamaherd.engine.core.sampling import OF_REQUEST, PER_PROMPT, SamplingParams
from llamaherd.engine.core.thinking import Thinking
from llamaherd.remote.label_probs import AnswerToken, label_scores
from llamaherd.remote.request import (
    ApiForm,
    SentRequest,
    WrongAnswerError,
    count_of_tokens,
    failed_output,
    read_vectors,
    refuse,
    refuse_others,
    sent_value,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_CHAT, _COMPLETION = "/chat/completions", "/completions"
_N_ALTERNATIVES = 20  # as many as OpenAI's API and vLLM return
_N_OF_LLAMA_CPP = 200
_ANSWER = "answer"  # property of an object with a choice
_MOST_LABEL_TOKENS = 256
# Fields of sampling settings, in the words of each API; `OTHER_NAMES` knows ours.
_OPENAI = "temperature top_p frequency_penalty presence_penalty logit_bias"
_OF_LLAMA_CPP = (
    f"{_OPENAI} top_k min_p typical_p top_n_sigma repeat_last_n repeat_penalty "
    "xtc_probability xtc_threshold dry_multiplier dry_base dry_allowed_length "
    "dry_penalty_last_n dry_sequence_breakers dynatemp_range dynatemp_exponent mirostat "
    "mirostat_tau mirostat_eta ignore_eos"
)
_OF_VLLM = (
    f"{_OPENAI} top_k min_p repetition_penalty ignore_eos min_tokens stop_token_ids"
)
# Options of prompts that the form converts, and options that this process follows.
_TAKEN = {"chat", "system", "thinking", "variables"} | {
    *("n", "params", "retries", "strict", "show_schema", "journal", "on_error"),
    *("progress", "labels", "sampling", "seed"),
}


@dataclass(frozen=True)
class OpenAIForm(ApiForm):
    """Form of OpenAI's API. Paths follow its address, which mostly ends in `/v1`."""

    n_seeds: ClassVar[int] = 2**31  # some servers read an int32
    name: str  # name of the server in messages
    fields: str = _OPENAI  # fields of the sampling settings that the server knows
    # Settings whose defaults the server does not share with llamaherd; they are sent with
    # each request that draws tokens.
    filters: tuple[str, ...] = ()
    grammar: str = ""  # field of a GBNF grammar; "" if the server takes none
    # Field for a regular expression or choices, as vLLM has it; "" if the server has
    # none.
    structured: str = ""
    has_variables: bool = False  # whether the server takes variables of the chat template
    limit: str = ApiForm.limit
    # Number of the most likely tokens that the server lists.
    n_alternatives: int = _N_ALTERNATIVES

    def check(self, options: GenerateOptions, params: Sequence[SamplingParams]) -> None:
        self._check_options(options)
        for sampling in params:
            for name in sampling.changed():
                if name not in {*self.settings, *PER_PROMPT, *OF_REQUEST}:
                    raise refuse(name, self.name)
            if sampling.regex is not None and not self.structured:
                raise refuse("regex", self.name, "give a schema or choices")
            if sampling.grammar is not None and not self.grammar:
                raise refuse("grammar", self.name, "give a schema or choices")
            is_forced = sampling.schema is not None or sampling.choices is not None
            if is_forced and not (options.chat or self.grammar or self.structured):
                name = "schema" if sampling.choices is None else "choices"
                raise refuse(name, self.name, "without chat, answers have no form there")

    def _check_options(self, options: PromptOptions) -> None:
        refuse_others(options, _TAKEN, self.name)
        if isinstance(options.thinking, Thinking):
            raise refuse("thinking", self.name, "the server decides how models think")
        for name in ("variables", "thinking"):
            if getattr(options, name) is not None and not self.has_variables:
                raise refuse(name, self.name)
        if not options.chat:
            for name in ("system", "variables", "thinking"):
                if getattr(options, name) is not None:
                    raise refuse(name, "a prompt without chat", "it has no messages")

    def prompt(
        self, i: int, prompt: object, options: PromptOptions
    ) -> tuple[str, dict[str, Any]]:
        if not options.chat:
            if isinstance(prompt, str):
                return _COMPLETION, {"prompt": prompt}
            raise ArgumentTypeError(
                f"must be text, because {self.name} has other token ids",
                argument=Argument("prompts", (i,)),
            )
        messages = user_messages(Argument("prompts", (i,)), prompt)
        if options.system is not None:
            messages = [{"role": "system", "content": options.system}, *messages]
        content: dict[str, Any] = {"messages": messages}
        variables = dict(options.variables or {})
        if options.thinking is False:
            variables["enable_thinking"] = False
        if variables:
            content["chat_template_kwargs"] = variables
        return _CHAT, content

    @cached_property
    def settings(self) -> dict[str, str]:
        """Field of each sampling setting that the server knows."""
        return {OTHER_NAMES.get(name, name): name for name in self.fields.split()}

    def settings_of(self, request: SentRequest) -> dict[str, Any]:
        sampling = request.sampling
        sent = {"temperature", *request.changed}
        if not sampling.is_greedy:
            sent |= set(self.filters)
        content = {
            field: sent_value(name, getattr(sampling, name), -100.0)
            for name, field in self.settings.items()
            if name in sent
        }
        return {**content, **self._constraint(request)}

    def _constraint(self, request: SentRequest) -> dict[str, Any]:
        """Return the fields that force the form of an answer."""
        sampling = request.sampling
        if sampling.choices is not None:
            return self._choice(_choices(request))
        if sampling.regex is not None:
            return {self.structured: {"regex": sampling.regex}}
        if sampling.grammar is not None:
            return {self.grammar: sampling.grammar}
        if not isinstance(sampling.schema, str):
            return {}
        shape = request.shape
        is_json = isinstance(shape, Shape) and not shape.is_lark
        schema = json.loads(shape.enforced if is_json and shape else sampling.schema)
        if request.path == _CHAT:
            return _schema_field(schema)
        # Completions of llama-server and vLLM have fields of their own.
        of_vllm = {self.structured: {"json": schema}}
        return of_vllm if self.structured else {"json_schema": schema}

    def _choice(self, choices: Sequence[str]) -> dict[str, Any]:
        """Return the fields that force one of some texts."""
        if self.grammar:
            texts = (json.dumps(text, ensure_ascii=False) for text in choices)
            return {self.grammar: f"root ::= {' | '.join(texts)}"}
        if self.structured:
            return {self.structured: {"choice": choices}}
        return _schema_field(
            {
                "type": "object",
                "properties": {_ANSWER: {"type": "string", "enum": choices}},
                "required": [_ANSWER],
                "additionalProperties": False,
            }
        )

    def output(self, request: SentRequest, answer: Mapping[str, Any]) -> Output:
        if request.n_inputs:
            return read_vectors(answer, request.n_inputs)
        choice = _first_choice(answer)
        message = choice.get("message") if request.path == _CHAT else choice
        if not isinstance(message, dict):
            raise WrongAnswerError("has no message")
        reason = choice.get("finish_reason")
        if message.get("refusal"):
            return failed_output(Failure(f"refused: {text_of(message['refusal'])}"))
        if reason == "content_filter":
            return failed_output(Failure("the server's filter held the answer back"))
        text = message.get("content" if request.path == _CHAT else "text")
        thinking = message.get("reasoning_content") or message.get("reasoning")
        if text is None and (reason == "length" or thinking):
            text = ""  # the thought took all tokens
        more: dict[str, Any] = {
            "n_prompt": count_of_tokens(answer, "prompt_tokens", "total_tokens"),
            "n_generated": count_of_tokens(answer, "completion_tokens"),
            "thinking": None if not thinking else text_of(thinking),
        }
        written = text_of(text)
        if request.sampling.choices is not None:
            return self._output_of_choice(request, choice, written, more)
        if reason == "length":
            return Output(finish=Finish.LENGTH, text=written, **more)
        return Output(finish=Finish.EOG, text=written, complete=True, **more)

    def _output_of_choice(
        self,
        request: SentRequest,
        choice: Mapping[str, Any],
        written: str,
        more: dict[str, Any],
    ) -> Output:
        """Return the output of a choice; the scores of a label are `label_scores`."""
        names = _choices(request)
        label = _choice_of(written, names)
        if label is None:
            raise WrongAnswerError(f"is none of the choices: {written[:60]!r}")
        if request.tree is not None:
            pieces = _pieces(choice.get("logprobs"))
            more["scores"] = label_scores(written, names, label, pieces)
        return Output(finish=Finish.EOG, text=label, complete=True, **more)

    def check_labels(self, options: ClassifyOptions) -> None:
        refuse_others(options, _TAKEN | {"normalize", "pmi_prompt"}, self.name)
        if options.normalize != "sum":
            raise refuse("normalize", self.name, 'only "sum" needs no tokens of labels')
        plain = {
            name: getattr(options, name)
            for name in options.changed()
            if name not in {"normalize", "pmi_prompt"}
        }
        self._check_options(ClassifyOptions(**plain))
        if not (options.chat or self.grammar or self.structured):
            why = "without chat, answers have no form there"
            raise refuse("labels", self.name, why)

    def label_prompt(
        self, i: int, prompt: object, options: ClassifyOptions
    ) -> tuple[str, dict[str, Any]]:
        path, content = self.prompt(i, prompt, options)
        if path == _CHAT:
            fields = {"logprobs": True, "top_logprobs": self.n_alternatives}
            return path, {**content, **fields}
        return path, {**content, "logprobs": self.n_alternatives}

    def embedding(self, options: EmbedOptions) -> dict[str, Any]:
        refuse_others(options, {"normalize", "progress"}, self.name)
        return {}  # this process scales vectors


def form_of(owner: object, host: str) -> OpenAIForm:
    """Return the form for a server, by the owner that it names for its models."""
    if owner == "llamacpp":
        return OpenAIForm(
            "a server of llama.cpp",
            _OF_LLAMA_CPP,
            filters=("top_k", "top_p", "min_p"),
            grammar="grammar",
            has_variables=True,
            n_alternatives=_N_OF_LLAMA_CPP,
        )
    if owner == "vllm":
        return OpenAIForm(
            "a server of vLLM",
            _OF_VLLM,
            filters=("top_k", "top_p", "min_p"),
            structured="structured_outputs",
            has_variables=True,
        )
    if host == "api.openai.com":
        return OpenAIForm("OpenAI's API", limit="max_completion_tokens")
    return OpenAIForm("a server with OpenAI's API")


def label_settings(labels: Sequence[str]) -> tuple[SamplingParams, int]:
    """Return the settings of a forced label, and its maximum number of tokens."""
    longest = max(len(json.dumps(text)) for text in labels)
    limit = min(_MOST_LABEL_TOKENS, longest + len(_ANSWER) + 16)
    return SamplingParams(choices=tuple(labels)), limit


def _schema_field(schema: object) -> dict[str, Any]:
    named = {"name": _ANSWER, "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _choices(request: SentRequest) -> list[str]:
    """Return the texts of which an answer is one; labels in the order of the scores."""
    return list(request.labels or request.sampling.choices or ())


def _first_choice(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the only choice of an answer."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise WrongAnswerError("has no choices")
    choice: dict[str, Any] = choices[0]
    return choice


def _choice_of(written: str, choices: Sequence[str]) -> str | None:
    """Return the choice that an answer is: alone, or as the property of an object."""
    text: object = written
    if written.lstrip().startswith("{"):
        try:
            read = json.loads(written)
        except ValueError:
            return None
        text = read.get(_ANSWER) if isinstance(read, dict) else None
    if not isinstance(text, str):
        return None
    exact = text if text in choices else None
    return exact or next((choice for choice in choices if choice == text.strip()), None)


def _pieces(logprobs: object) -> list[AnswerToken]:
    """Read log-probabilities in the form of chats or of completions; [] without any."""
    if not isinstance(logprobs, dict):
        return []
    try:
        content = logprobs.get("content")
        if content is not None:
            return [
                AnswerToken(
                    str(one["token"]),
                    _number(one.get("logprob")),
                    [
                        (str(top["token"]), _number(top.get("logprob")))
                        for top in one.get("top_logprobs") or ()
                    ],
                )
                for one in content
            ]
        return [
            AnswerToken(str(token), _number(number), list((top or {}).items()))
            for token, number, top in zip(
                logprobs["tokens"],
                logprobs["token_logprobs"],
                logprobs.get("top_logprobs") or [{}] * len(logprobs["tokens"]),
                strict=True,
            )
        ]
    except (KeyError, TypeError, ValueError, AttributeError, WrongAnswerError):
        return []


def _number(value: object) -> float:
    """Return a log-probability; 0 for a token that was forced, which some leave out."""
    if value is None:
        return 0.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return min(0.0, float(value))
    raise WrongAnswerError("has a log-probability that is not a number")
