"""Conversion between texts, tokens and prompts, as in vLLM and llama-server."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.rendering import rendered_prompts, with_schemas
from llamaherd.calls.asks.requests import parsing
from llamaherd.calls.asks.settings import is_constrained
from llamaherd.calls.structured.shape import schema_text
from llamaherd.engine.core import checks
from llamaherd.engine.model.tokens import detokenize, prompt_tokens, token_bytes, tokenize
from llamaherd.engine.native.vocabulary import token_text
from llamaherd.server import schemas
from llamaherd.server.anthropic import Messages
from llamaherd.server.errors import bad_field, renaming_fields
from llamaherd.server.formats import AnswerFormat, PathFormat, WorkFormat, only_one
from llamaherd.server.limits import check_strings
from llamaherd.server.openai import ChatCompletions, RewrittenChat
from llamaherd.server.responses import Responses
from llamaherd.server.schemas import Schema, either, list_schema, or_null, record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.engine.model.model import Model
    from llamaherd.server.running import ParsedRequest

# Fields of `/tokenize` for a text: the name in vLLM, then in llama-server.
_OF_TEXTS: dict[str, Schema] = {
    "model": schemas.TEXT,
    "prompt": schemas.TEXT,
    "content": schemas.TEXT,
    "parse_special": schemas.FLAG,
    **dict.fromkeys(
        ("add_special_tokens", "return_token_strs", "add_special", "with_pieces"),
        schemas.FLAG,
    ),
}
# Fields with the length of an answer, and their minimum.
_OF_LENGTH = {
    "max_tokens": 1,
    "max_completion_tokens": 1,
    "max_output_tokens": 1,
    "min_tokens": 0,
}
_OF_ONE_KIND = frozenset(
    {"add_special_tokens", "return_token_strs", "add_special", "with_pieces"}
)


class _OfModel(WorkFormat):
    """Format of a route whose answer needs the model's vocabulary or chat template."""

    has_v1 = False
    needs_text = False

    def _parse_prompt(
        self, form: type[AnswerFormat], fields: Mapping[str, object]
    ) -> ParsedRequest:
        """Parse a request for its prompt; the length of its answer has no effect."""
        least = {name: n for name, n in _OF_LENGTH.items() if name in form.fields}
        for name, n in least.items():
            if fields.get(name) is not None:
                checks.integer(name, fields[name], n)
        prompt_fields = {
            name: value for name, value in fields.items() if name not in least
        }
        # The shortest answer fits, and its length is not computed from the prompt.
        length = form.length if issubclass(form, RewrittenChat) else ""
        prompt_fields[length or "max_completion_tokens"] = 1
        return form(self.served).understand(prompt_fields)


class _TextFields(PathFormat):
    """Fields of `/tokenize` for a text."""

    field_schemas = _OF_TEXTS


class TokenizeApi(_OfModel):
    """Format of `/tokenize`: a text, or a conversation as in chats."""

    path = "/tokenize"
    summary = "Convert a text or a conversation to tokens."
    field_schemas: ClassVar = {**_OF_TEXTS, **ChatCompletions.properties()}
    answers = record(
        count=schemas.COUNT,
        max_model_len=schemas.COUNT,
        tokens=list_schema(
            either(
                schemas.COUNT,
                record(id=schemas.COUNT, piece={"type": ["string", "array"]}),
            )
        ),
        token_strs=either({"type": "null"}, list_schema(schemas.TEXT)),
    )

    @classmethod
    def request_schema(cls) -> Schema:
        """Return the schemas of a text, and of a conversation."""
        texts, chat = _TextFields.request_schema(), ChatCompletions.request_schema()
        chat["properties"]["return_token_strs"] = or_null(schemas.FLAG)
        return either(texts, chat)

    def prepare(self, fields: dict[str, object]) -> dict[str, object]:
        if fields.get("messages") is not None:
            name = "return_token_strs"
            wants_texts = fields.get(name) is not None and checks.flag(name, fields[name])
            chat = {n: v for n, v in fields.items() if n != name}
            parsed = self._parse_prompt(ChatCompletions, chat)
            tokens = _tokens_of(self._model, "messages", parsed)
            return self._answer(tokens, name if wants_texts else "")
        request = _TextFields.effective_fields(fields)
        name = only_one(request, "prompt", "content", "messages")
        is_vllms = name == "prompt"
        special = "add_special_tokens" if is_vllms else "add_special"
        strings = "return_token_strs" if is_vllms else "with_pieces"
        for other in _OF_ONE_KIND & request.keys() - {special, strings}:
            raise bad_field(other, f"{other} cannot be combined with {name}")
        tokens = tokenize(
            self._model,
            request[name],
            add_special=request.get(special, is_vllms),
            parse_special=request.get("parse_special", True),
        )
        wants_texts = request.get(strings, False)
        answer = self._answer(tokens, strings if wants_texts else "")
        if wants_texts and not is_vllms:
            answer["tokens"] = self._with_pieces(tokens)
        return answer

    def _with_pieces(self, tokens: list[int]) -> list[dict[str, object]]:
        """Return tokens in llama-server's format: bytes for a part of a character."""
        return [
            {"id": token, "piece": _text_or_bytes(piece)}
            for token, piece in zip(tokens, token_bytes(self._model, tokens), strict=True)
        ]

    def _answer(self, tokens: list[int], strings: str) -> dict[str, object]:
        """Return an answer, with the texts of its tokens if a field asks for them."""
        texts = None
        if strings:
            check_strings(strings, tokens)
            # As in vLLM, the spelling of the vocabulary, such as "Ġis".
            with self._model.using() as handle:
                spellings = {
                    token: token_text(handle, token) or "" for token in set(tokens)
                }
            texts = [spellings[token] for token in tokens]
        return {
            "count": len(tokens),
            "max_model_len": self._settings.n_ctx_of(self._model),
            "tokens": tokens,
            "token_strs": texts,
        }


class DetokenizeApi(_OfModel):
    """Format of `/detokenize`."""

    path = "/detokenize"
    summary = "Convert tokens to a text."
    field_schemas: ClassVar = {"model": schemas.TEXT, "tokens": schemas.TOKENS}
    needed = ("tokens",)
    answers = record(prompt=schemas.TEXT, content=schemas.TEXT)

    def prepare(self, fields: dict[str, object]) -> dict[str, object]:
        request = self.effective_fields(fields)
        tokens = request["tokens"]
        for i, token in enumerate(tokens):
            if token >= self._model.n_vocab:
                text = f"tokens[{i}] is {token}, which is not a token id of the model"
                raise bad_field("tokens", text)
        text = detokenize(self._model, tokens, unparse_special=True)
        return {"prompt": text, "content": text}


class TemplateApi(_OfModel):
    """Format of `/apply-template`: the prompt of a chat, without its answer."""

    path = "/apply-template"
    summary = "Return the prompt of a conversation."
    field_schemas = ChatCompletions.properties()
    needed = ChatCompletions.needed
    unused = ChatCompletions.unused
    answers = record(prompt=schemas.TEXT)

    def prepare(self, fields: dict[str, object]) -> dict[str, object]:
        parsed = self._parse_prompt(ChatCompletions, fields)
        return {"prompt": _render_chat(self._model, parsed)}


class _Counting(_OfModel):
    """Format of a path that returns the number of tokens of a conversation."""

    counted: ClassVar[type[AnswerFormat]] = ChatCompletions
    has_v1 = True
    needs_text = True
    answers = record(
        object={"const": "response.input_tokens"}, input_tokens=schemas.COUNT
    )

    def __init_subclass__(cls) -> None:
        """Take the fields of the counted format; none but the conversation is needed."""
        cls.field_schemas, cls.unused = cls.counted.properties(), cls.counted.unused
        cls.needed = cls.counted.needed[:1]
        super().__init_subclass__()

    def prepare(self, fields: dict[str, object]) -> dict[str, object]:
        parsed = self._parse_prompt(self.counted, fields)
        tokens = _tokens_of(self._model, self.needed[0], parsed)
        return {"object": "response.input_tokens", "input_tokens": len(tokens)}


class ChatTokensApi(_Counting):
    """Format of `/v1/chat/completions/input_tokens`, as in llama-server."""

    path = "/chat/completions/input_tokens"
    summary = "Count the tokens of a chat."
    counted = ChatCompletions


class InputTokensApi(_Counting):
    """Format of `/v1/responses/input_tokens`."""

    path = "/responses/input_tokens"
    summary = "Count the tokens of a conversation."
    counted = Responses


class CountTokensApi(_Counting):
    """Format of `/v1/messages/count_tokens` of Anthropic's API."""

    path = "/messages/count_tokens"
    summary = "Count the tokens of a conversation of Anthropic's API."
    counted = Messages


def _tokens_of(model: Model, name: str, parsed: ParsedRequest) -> list[int]:
    """Return the tokens of the prompt of a chat."""
    prompt = _render_chat(model, parsed)
    special = parsing("auto", chat=True)
    return prompt_tokens(model, name, prompt, special).tolist()


def _render_chat(model: Model, parsed: ParsedRequest) -> str:
    """Return the prompt that the model reads for the request of a chat."""
    options = GenerateOptions(**parsed.options)
    prompts, schema = parsed.prompts, parsed.params.schema
    with renaming_fields(parsed.names):
        if options.show_schema and schema is not None:
            prompts = with_schemas(prompts, [schema_text(schema)[0]])
        (rendered,) = rendered_prompts(
            model,
            prompts,
            options,
            is_constrained=is_constrained(parsed.params),
            is_silent=True,
        )
    return rendered.text


def tokenizer_info(model: Model) -> dict[str, object]:
    """Return the special tokens and the chat template, as vLLM does."""
    info = model.info

    def text(*tokens: int) -> str | None:
        token = next((candidate for candidate in tokens if candidate >= 0), None)
        if token is None:
            return None
        return token_bytes(model, [token])[0].decode(errors="replace")

    return {
        "tokenizer_class": model.metadata.get("tokenizer.ggml.model"),
        "bos_token": text(info.bos) if info.add_bos else None,
        "eos_token": text(info.eos, info.eot),
        "pad_token": text(info.pad),
        "add_bos_token": bool(info.add_bos),
        "add_eos_token": bool(info.add_eos),
        "model_max_length": model.n_ctx_train,
        "chat_template": model.chat_template,
    }


def _text_or_bytes(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)
