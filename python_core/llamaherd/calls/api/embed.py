"""The public calls for embeddings: `embed_parallel` and `start_embed`."""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING, Unpack

from llamaherd.calls.api.running import run_to_end, start
from llamaherd.calls.asks.keywords import EmbedSettings
from llamaherd.calls.asks.options import EmbedOptions, PoolingOption
from llamaherd.calls.asks.settings import takes
from llamaherd.calls.chat.conversations import Refused, prompts_or_refusals
from llamaherd.calls.run.embedders import EmbedSpec, lent_embedder, reads_at_once
from llamaherd.calls.run.embedding import (
    EmbedCall,
    Embeddings,
    EmbedJob,
    EmbedProgress,
    EmbedSizes,
    Text,
)
from llamaherd.calls.run.host import Elsewhere, Host
from llamaherd.engine.core.argument import Argument, Name
from llamaherd.engine.core.errors import (
    ArgumentTypeError,
    Failure,
    ModelLoadError,
    TokenizeError,
)
from llamaherd.engine.core.table import index_of
from llamaherd.engine.core.words import name_of, words
from llamaherd.engine.loop.threads import warn_of_foreign
from llamaherd.engine.memory import hardware
from llamaherd.engine.model.model import Model, model_of_llama
from llamaherd.engine.model.tokens import TOKENIZING, Prompt, prompt_tokens
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from llama_cpp import Llama

    from llamaherd.engine.native.embedder import Pooling

    # True shows a progress bar; a function is called with each EmbedProgress.
    EmbedProgressOption = bool | Callable[[EmbedProgress], object]

_MAX_TEXTS = 64  # maximum number of texts per run
# Number of tokens per batch. An encoder computes attention over the whole batch, and
# masks other texts only afterwards, see docs/decisions/0039.
_BATCH_ENCODER = 256
_BATCH_DECODER = 512
_ROW_BYTES = 128 << 20  # maximum memory in bytes that libllama reserves for logits
_OF_FILE: dict[str, Pooling] = {"1": "mean", "2": "cls", "3": "last"}
_RANK = "4"
# Assumed for the part that is tokenized first: some tokenizers of libllama take time
# quadratic in the length of a text.
_CHARS_PER_TOKEN = 8


@takes(EmbedOptions, EmbedSettings)
def embed_parallel(
    model: Model | Host | Llama,
    texts: Iterable[Prompt | None],
    *,
    progress: EmbedProgressOption = False,
    **settings: Unpack[EmbedSettings],
) -> Embeddings:
    """Compute an embedding of each text, with many texts at once.

    A text that fails has a reason in `errors` and a row of NaN; the other texts are not
    affected. Equal texts are computed once.

    Args:
        model: Model for embeddings (an encoder such as BERT), or any decoder. Instead
            of a model, its context or its `llama_cpp.Llama` can be given.
        texts: Any number of texts or sequences of token ids. Special tokens in texts
            are read as plain text. The special tokens that the model expects at the
            ends of a text are added.
        progress: True to show a progress bar, or a function that is called with an
            `EmbedProgress` repeatedly, on the calling thread.
        **settings: Options of embedding, see `EmbedOptions`.

    Returns:
        `vectors`, float32[n, n_embd], in the order of the texts, `errors` and `stats`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        Interrupted: Ctrl-C ended the call; `results` has the finished results.
        ModelLoadError: The model computes no embeddings of texts, because it ranks
            texts or has both an encoder and a decoder.
        ModelClosedError: The model was closed.
        ContextError: Memory is insufficient.

    Source: llama_encode, llama_decode and llama_get_embeddings_ith of llama.h; pooling as
        in sentence-transformers (arXiv 1908.10084).
    """
    return run_to_end(lambda: prepare_embed(model, texts, settings), progress)


@takes(EmbedOptions, EmbedSettings)
def start_embed(
    model: Model | Host | Llama,
    texts: Iterable[Prompt | None],
    **settings: Unpack[EmbedSettings],
) -> EmbedJob:
    """Start `embed_parallel` in the background and return at once.

    Invalid arguments raise an error here, before anything runs.
    """
    return start(lambda: prepare_embed(model, texts, settings), EmbedJob)


def prepare_embed(
    model: Model | Host | Llama, texts: Iterable[Prompt | None], settings: EmbedSettings
) -> EmbedCall:
    """Check the arguments and create the call of `start_embed`."""
    options = EmbedOptions.of(EmbedSettings, settings)
    if isinstance(model, Elsewhere):
        model.check_open()
        return model.embedding(texts, options)
    host, model = model if isinstance(model, Host) else None, model_of(model)
    chosen = _pooling(model, options.pooling)
    prepared = make_texts(model, texts, truncate=options.truncate)
    warn_of_foreign(options.n_threads or hardware.n_cores())
    longest = max((len(text.tokens) for text in prepared), default=0)
    sizes = _sizes(model, longest, is_alone=options.deterministic)
    spec = EmbedSpec(
        pooling=chosen,
        normalize=options.normalize,
        sizes=sizes,
        n_threads=options.n_threads,
    )
    lend = partial(lent_embedder, model) if host is None else host.lent_embedder
    n_embd = model.info.n_embd_out
    return EmbedCall(
        prepared,
        partial(lend, spec),
        sizes,
        pooling=chosen,
        n_embd=lambda: n_embd,
        model=model,
        index=index_of(texts),
    )


def model_of(value: object) -> Model:
    """Return a model, or the model of a context or of a Llama."""
    if isinstance(value, Model):
        return value
    if isinstance(value, Host):
        return value.model
    try:
        return model_of_llama(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(
            "must be a llamaherd.Model, a llamaherd.Context or a llama_cpp.Llama, "
            f"not {type(value).__name__}",
            argument="model",
        ) from None


def _pooling(model: Model, pooling: PoolingOption) -> Pooling:
    """Return the requested pooling; for "auto", the pooling named in the model file."""
    kind = model.metadata.get("general.architecture", "")
    of_file = model.metadata.get(f"{kind}.pooling_type", "")
    if of_file == _RANK:
        raise ModelLoadError(
            f"{words().model(model)} ranks texts (its {kind}.pooling_type is "
            f"{of_file}); it has no vectors of texts"
        )
    return _OF_FILE.get(of_file, "mean") if pooling == "auto" else pooling


def _sizes(model: Model, longest: int, *, is_alone: bool) -> EmbedSizes:
    """Return the batch sizes for texts of up to `longest` tokens."""
    most = max(32, _ROW_BYTES // (4 * model.n_vocab))
    n_texts = 1 if is_alone else _MAX_TEXTS
    if reads_at_once(model):
        n = max(longest, min(_BATCH_ENCODER, most))
        return EmbedSizes(n_batch=n, n_ctx=n, n_texts=n_texts)
    if model.info.is_recurrent or model.info.is_hybrid:
        n_texts = min(n_texts, 16)
    n_ctx = max(longest, _BATCH_DECODER)
    return EmbedSizes(
        n_batch=min(_BATCH_DECODER, most, n_ctx), n_ctx=n_ctx, n_texts=n_texts
    )


def make_texts(model: Model, value: object, *, truncate: bool) -> list[Text]:
    """Check and tokenize texts; set `problem` for a text that cannot be computed."""
    texts = prompts_or_refusals(value, "texts", "")
    empty = len(_tokens(model, ""))
    return [
        _make_text(model, Argument("texts", (i,)), text, empty, truncate=truncate)
        for i, text in enumerate(texts)
    ]


def _make_text(
    model: Model, name: Name, text: object, n_empty: int, *, truncate: bool
) -> Text:
    if isinstance(text, Refused):
        return Text(tokens=array("i"), problem=text.failure)
    most = model.n_ctx_train
    is_all = True
    try:
        if isinstance(text, str):
            tokens, is_all = _first_tokens(model, text, most)
        else:
            n_empty = 0
            tokens = prompt_tokens(model, name, text)
    except TokenizeError as error:
        return Text(tokens=array("i"), problem=Failure(str(error), "not_tokenized"))
    problem = ""
    if len(tokens) <= n_empty:
        problem = Failure("the text is empty", "empty")
    elif len(tokens) <= most:
        return Text(tokens=tokens)
    elif truncate:
        return Text(tokens=_leading_tokens(model, text, tokens, most), is_cut=True)
    else:
        problem = Failure(
            f"the text has {'' if is_all else 'more than '}{len(tokens)} tokens, more "
            f"than the {most} that the model was trained for: shorten it, or set "
            f"{name_of('truncate')}",
            "too_long",
        )
    return Text(tokens=array("i"), problem=problem)


def _first_tokens(model: Model, text: str, most: int) -> tuple[array[int], bool]:
    """Return the tokens of a text, or of a part with more than `most`; True for all."""
    n_chars = _CHARS_PER_TOKEN * (most + 1)
    while n_chars < len(text):
        tokens = _tokens(model, text[:n_chars])
        if len(tokens) > 1.25 * most:  # a cut may add some tokens
            return tokens, False
        n_chars *= 2
    return _tokens(model, text), True


def _leading_tokens(
    model: Model, text: object, tokens: array[int], most: int
) -> array[int]:
    """Return the first tokens, followed by the special tokens that end a text."""
    if not isinstance(text, str):
        return tokens[:most]
    ends = _tokens(model, "")
    # The tokens of an empty text are the special tokens of the start and the end.
    n_end = 0
    while n_end < len(ends) and ends[-1 - n_end] == tokens[-1 - n_end]:
        n_end += 1
    return tokens[: most - n_end] + tokens[len(tokens) - n_end :]


def _tokens(model: Model, text: str) -> array[int]:
    with TOKENIZING, model.using() as handle:
        return vocabulary.tokenize(handle, text, add_special=True, parse_special=False)
