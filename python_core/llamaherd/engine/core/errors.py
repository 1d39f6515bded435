"""Exceptions of llamaherd, and reasons why a prompt has no result.

The failure of a prompt raises no exception; it is stored in `Result.error`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from llamaherd.engine.core.argument import Argument, Name, Place, argument_of
from llamaherd.engine.core.process import end_if_uncaught

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


NO_CODE = "failed"  # for a reason without a code, from the engine or a library


class Failure(str):
    """Reason of a failure, as in `Result.error` and the `errors` of other results.

    A failure is a str, so tables and journals store it like any other text.

    Attributes:
        code: "cancelled", "missing", "empty", "too_long", "not_tokenized",
            "chat_template", "constraint", "schema_not_followed", "cut_off",
            "not_finite" or "failed".
        argument: Argument at fault, such as "schema"; "" if it is the prompt, or unknown.
    """

    __slots__ = ("argument", "code")
    code: str
    argument: str

    def __new__(cls, text: str, code: str = NO_CODE, argument: str = "") -> Self:
        """Create a reason from its text, code and argument."""
        self = super().__new__(cls, text)
        self.code = code
        self.argument = argument
        return self

    def __reduce__(self) -> tuple[type[Failure], tuple[str, str, str]]:
        return Failure, (str(self), self.code, self.argument)


CANCELLED = Failure("not computed: the call ended before", "cancelled")


def stored_error(error: str | None) -> str | None:
    """Return the text that tables and reports store; that of CANCELLED never changes."""
    return CANCELLED if error == CANCELLED else error


def code_of(reason: object) -> str | None:
    """Return the code of a `Failure` or its stored text; None if there is no reason."""
    if reason is None:
        return None
    return reason.code if isinstance(reason, Failure) else NO_CODE


def codes_of(reasons: Iterable[object]) -> list[str | None]:
    """Return the code of each reason."""
    return [code_of(reason) for reason in reasons]


def is_cancelled(reason: object) -> bool:
    """Test whether a result is missing because the call ended early."""
    return code_of(reason) == CANCELLED.code


KEPT = (
    "finished results are in the exception's `results` (at Python's prompt and in "
    "notebooks: sys.last_value.results)"
)


class LlamaHerdError(Exception):
    """Base class of all errors of llamaherd."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_args, (type(self), self.args), vars(self)


def _with_args(cls: type[LlamaHerdError], args: tuple[object, ...]) -> LlamaHerdError:
    """Create an error whose attributes pickle then sets, without calling `__init__`."""
    error = cls.__new__(cls, *args)
    error.args = args
    return error


class BadArgumentError(LlamaHerdError):
    """Base class of `ArgumentError` and `ArgumentTypeError`.

    `str()` is the message. Programs should read the fields, not the message.

    Args:
        problem: Problem, worded to follow the name of the argument, such as "must be a
            bool".
        argument: Argument or one of its elements; "" for an error about several
            arguments.
        place: Steps from `argument` to the element at fault: indices and names.
        form: Template of the message, with {name}, {problem}, and {whole}, the name
            without its place.

    Attributes:
        argument: Name of the argument.
        place: Steps from the argument to the element at fault: indices from 0 and names;
            see `core.argument`.
        code: Kind of the problem, a short text that does not change between versions.
        problem: Problem, without the name of the argument.
        value: Value of the argument as given; None if it is not known.
        file: File that contains the argument; None without a file.
        line: Line in that file, from 1; None if unknown.
    """

    def __init__(
        self,
        problem: str,
        *,
        argument: Name = "",
        place: Place = (),
        code: str = "invalid_value",
        form: str = "{name} {problem}",
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        self._where = argument_of(argument, place)
        self._form = form
        self.argument = self._where.name
        self.place = self._where.place
        self.code = code
        self.problem = problem
        self.value: object = None
        self.file = file
        self.line = line
        super().__init__(self.rendered())

    @property
    def message(self) -> str:
        """Message, equal to `str()`."""
        return self.rendered()

    def rendered(self, spell: Callable[[Argument], str] = Argument.spelled) -> str:
        """Return the message with the name of the argument in another notation.

        Args:
            spell: Function that returns the name of an argument.
        """
        text = self.problem
        if self.argument:
            whole = spell(Argument(self.argument))
            text = self._form.format(
                name=spell(self._where), whole=whole, problem=self.problem
            )
        if self.file is None:
            return text
        return f"{self.file}{'' if self.line is None else f', line {self.line}'}: {text}"

    def moved(self, **fields: Any) -> Self:
        """Return a copy with another `argument`, `place`, `file` or `line`."""
        return type(self).like(self, **fields)

    @classmethod
    def like(cls, error: BadArgumentError, **fields: Any) -> Self:
        """Return an error of this class with the fields of another error."""
        copy = cls(error.problem, **{**error._fields(), **fields})
        copy.value = error.value
        return copy

    def _fields(self) -> dict[str, Any]:
        return {
            "argument": self.argument,
            "place": self.place,
            "code": self.code,
            "form": self._form,
            "file": self.file,
            "line": self.line,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        make, args, state = super().__reduce__()
        return make, args, {**state, "value": None}  # it may not be picklable


class ArgumentError(BadArgumentError, ValueError):
    """An argument has a value that cannot be used."""


class ArgumentTypeError(BadArgumentError, TypeError):
    """An argument has the wrong type or an unknown name."""

    def __init__(self, problem: str, *, code: str = "wrong_type", **fields: Any) -> None:
        super().__init__(problem, code=code, **fields)


@contextmanager
def renamed(**names: str) -> Iterator[None]:
    """Give the arguments of errors within the block the names that the caller knows."""
    try:
        yield
    except BadArgumentError as error:
        if error.argument in names:
            raise error.moved(argument=names[error.argument]) from error
        raise


class AbiMismatchError(LlamaHerdError, ImportError):
    """The shim was compiled against another libllama than the installed libllama."""


class ModelLoadError(LlamaHerdError, OSError):
    """The model file is missing, is not GGUF or cannot be loaded."""


class DownloadError(ModelLoadError):
    """A model could not be downloaded, or the downloaded file is not the expected one."""


class ServerError(LlamaHerdError, RuntimeError):
    """A server in another process does not start or answer, or refuses a request."""


class QuantizeError(LlamaHerdError, OSError):
    """A model could not be requantized: no disk space, no permission, unknown type."""


class ModelClosedError(LlamaHerdError, ValueError):
    """The model was closed."""


class ContextError(LlamaHerdError, RuntimeError):
    """libllama could not create a context, mostly for lack of memory."""


class ContextClosedError(ContextError, ValueError):
    """The context was closed, perhaps by another thread during generation."""


class ClusterError(ContextError, ConnectionError):
    """Ray is not installed, or the cluster is unreachable or too busy for an actor.

    Attributes:
        problem: Problem, without the argument and the remedy.
        code: "no_ray", "no_cluster", "unreachable", "not_ready" or "failed".
        argument: Name of the argument at fault; "" without an argument.
        remedy: Advice at the end of the message, in Python's terms; "" if `problem`
            contains the advice.
    """

    if not TYPE_CHECKING:
        __new__ = OSError.__new__  # RuntimeError's cannot make an OSError

    def __init__(
        self, problem: str, *, code: str = "failed", argument: str = "", remedy: str = ""
    ) -> None:
        start = f"{argument}: " if argument else ""
        super().__init__(f"{start}{problem}{remedy}")
        self.problem = problem
        self.code = code
        self.argument = argument
        self.remedy = remedy


class ChatTemplateError(LlamaHerdError, ValueError):
    """The model has no chat template, or the template refuses the messages."""


class TokenizeError(LlamaHerdError, ValueError):
    """A text cannot be tokenized. In a call, only its prompt fails."""


class JournalError(LlamaHerdError, ValueError):
    """A journal cannot be used: not a journal, damaged, or not writable."""


class JournalWarning(RuntimeWarning):
    """A journal lacks some results of its call, or was removed or moved during the call.

    The call returns all results.

    Attributes:
        problem: Description of the problem.
        argument: Argument that names the journal.
    """

    def __init__(self, problem: str, argument: str = "journal") -> None:
        super().__init__(problem, argument)
        self.problem, self.argument = problem, argument

    def __str__(self) -> str:
        return f"{self.argument}: {self.problem}"


class ThinkingWarning(UserWarning):
    """Labels or constraints turned thinking off for a model that thinks by default."""


class CutOffWarning(UserWarning):
    """`max_tokens` ended answers before the model did; issued once per call."""


class ForkError(LlamaHerdError, RuntimeError):
    """This process was forked after a model was loaded and has no compute threads."""


class NativeError(LlamaHerdError, RuntimeError):
    """The native library reported a failure.

    Attributes:
        code: Value of `lh_status` in llamaherd.h.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class NoSpaceError(NativeError):
    """No free sequence id or KV cells at the moment."""


class SamplerError(NativeError, ValueError):
    """A sampler cannot be created, for example from an invalid grammar.

    Attributes:
        argument: Name of the argument at fault; "" if unknown.
    """

    def __init__(self, message: str, code: int, argument: str = "") -> None:
        super().__init__(message, code)
        self.argument = argument


class GenerationError(LlamaHerdError, RuntimeError):
    """A prompt failed in a call with `on_error="stop"`.

    Attributes:
        results: Results when the call stopped, one per prompt.
    """

    def __init__(self, message: str, results: Any) -> None:
        super().__init__(message)
        self.results = results

    @property
    def code(self) -> str:
        """Code of the first failure, as in `Result.error_code`."""
        codes = getattr(self.results, "error_codes", ())
        # The first failure cancels all other prompts of the call.
        failed = (code for code in codes if code not in (None, CANCELLED.code))
        return next(failed, NO_CODE)


class PromptError(GenerationError):
    """A prompt cannot be run, for example because it is empty or too long."""


class ChatFullError(PromptError):
    """A conversation fills its context, so an answer has no cells.

    The conversation is not changed.

    Attributes:
        n_tokens: Number of tokens of the conversation with the new question; 0 if it was
            too long to be counted.
        capacity: Maximum number of tokens of the conversation with the answer.
        n_forget: Number of oldest questions to drop with `Chat.forget`, so that the
            question fits; 0 if dropping questions does not help.
    """

    def __init__(
        self,
        message: str,
        results: Any,  # as in GenerationError
        *,
        n_tokens: int = 0,
        capacity: int = 0,
        n_forget: int = 0,
    ) -> None:
        super().__init__(message, results)
        self.n_tokens = n_tokens
        self.capacity = capacity
        self.n_forget = n_forget


class AnswerError(GenerationError):
    """A complete answer violates its schema."""


class CutOffError(GenerationError):
    """`max_tokens` cut an answer off before it was complete under its schema.

    The text so far is `results[0].partial`.
    """


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended the call. A script that does not catch it ends by SIGINT.

    Attributes:
        results: `Results` with the finished results; unfinished prompts have the finish
            reason "cancelled". After `embed_parallel`, `Embeddings`, in which unfinished
            texts have an error. After other calls, the object that the call returns.
        inner_results: Results of a call inside of this call, if Ctrl-C ended it, too.
    """

    def __init__(self, results: Any) -> None:  # as the call returns it
        end_if_uncaught(Interrupted)
        super().__init__(f"interrupted; {KEPT}")
        self.results = results


# Tracebacks name the public classes as programs import them.
for _class in [*vars().values()]:
    is_own = isinstance(_class, type) and _class.__module__ == __name__
    if is_own and _class not in {Failure, TokenizeError}:
        _class.__module__ = "llamaherd"
