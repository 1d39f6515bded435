"""Every exception of llamaherd. A prompt that fails is data, see `Result.error`."""

from __future__ import annotations

from typing import Any


class LlamaHerdError(Exception):
    """Base of the library's errors. Wrong arguments are plain ValueError or TypeError."""


class AbiMismatchError(LlamaHerdError, ImportError):
    """The installed libllama is not the one that the shim was compiled against."""


class ModelLoadError(LlamaHerdError, OSError):
    """The model file is missing, is no GGUF file or cannot be loaded."""


class DownloadError(ModelLoadError):
    """A model could not be downloaded, or what came is not what it should be."""


class QuantizeError(LlamaHerdError, OSError):
    """A model could not be requantized: no room, no right to write, or not that type."""


class ModelClosedError(LlamaHerdError, ValueError):
    """The model was closed."""


class ContextError(LlamaHerdError, RuntimeError):
    """libllama could not make a context, mostly for want of memory."""


class ContextClosedError(ContextError, ValueError):
    """The context was closed, perhaps by another thread while it generated."""


class ClusterError(ContextError, ConnectionError):
    """There is no Ray, no cluster at that address, or no room in it for an actor."""


class ChatTemplateError(LlamaHerdError, ValueError):
    """The model has no chat template, or the template refuses the messages."""


class TokenizeError(LlamaHerdError, ValueError):
    """A text cannot be tokenized. In a call this fails the prompt alone."""


class JournalError(LlamaHerdError, ValueError):
    """A journal cannot be used: it is none, is damaged, or cannot be written."""


class JournalWarning(RuntimeWarning):
    """A call's journal misses some of its results, or was removed or moved meanwhile.

    The call itself has them all.
    """


class ForkError(LlamaHerdError, RuntimeError):
    """This process was forked after a model was loaded: it has no threads to compute."""


class NativeError(LlamaHerdError, RuntimeError):
    """The shim reported a failure.

    Attributes:
        code: An `lh_status` of llamaherd.h.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (str(self), self.code)


class NoSpaceError(NativeError):
    """No free sequence id or KV cells at the moment."""


class SamplerError(NativeError, ValueError):
    """A sampler cannot be made, for example from a grammar that does not parse."""


class GenerationError(LlamaHerdError, RuntimeError):
    """A prompt failed, and the caller wanted that to stop the call.

    Attributes:
        results: What there was when the call stopped, one result per prompt.
    """

    def __init__(self, message: str, results: Any) -> None:  # noqa: ANN401 - of any call
        super().__init__(message)
        self.results = results

    def __reduce__(self) -> tuple[type, tuple[str, Any]]:
        return type(self), (str(self), self.results)


class PromptError(GenerationError):
    """A prompt could not be run at all: it is empty, or too long."""


class AnswerError(GenerationError):
    """An answer came to its end and does not follow its schema all the same."""


class CutOffError(GenerationError):
    """`max_tokens` cut an answer off before it followed its schema to its end.

    The text so far is `results[0].partial`.
    """


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended the call.

    Attributes:
        results: `Results` with the finished ones; the others have the finish reason
            "cancelled". Of `embed_parallel` `Embeddings`, in which the others have an
            error that says so.
    """

    def __init__(self, results: Any) -> None:  # noqa: ANN401 - as the call returns it
        super().__init__("interrupted; the exception's `results` has what was finished")
        self.results = results

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return type(self), (self.results,)
