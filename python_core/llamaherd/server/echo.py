"""Prompts returned with their answers, with log-probabilities of prompt tokens."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from llamaherd.calls.api.generate import prepare_generate
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.rendering import rendered_prompts
from llamaherd.calls.asks.requests import parsing
from llamaherd.calls.asks.scoring import PromptScores, ScoredPrompts
from llamaherd.calls.asks.settings import idle_settings, is_constrained
from llamaherd.calls.chat.conversations import Refused
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.hosted import HostedCall, Steps
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import Failure, PromptError
from llamaherd.engine.core.results import Result, Results
from llamaherd.engine.core.stats import Stats
from llamaherd.engine.model.tokens import prompt_tokens, token_bytes
from llamaherd.engine.native.vocabulary import ends_answer
from llamaherd.server.limits import check_kept
from llamaherd.server.threads import AwaitedJob

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.calls.run.host import Host
    from llamaherd.engine.core.sampling import SamplingParams
    from llamaherd.engine.model.model import Model
    from llamaherd.server.running import ParsedRequest
    from llamaherd.server.threads import Submit


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoedResult(Result):
    """Answer with its prompt."""

    # Text of the prompt, with which the answer begins; None to leave the text out.
    echo: str | None
    # Tokens of the prompt with their log-probabilities; None without log-probabilities.
    scores_of_prompt: PromptScores | None = None


def start_echo(ctx: Host, parsed: ParsedRequest, submit: Submit) -> AwaitedJob[Results]:
    """Start a call for answers that contain their prompts."""
    return AwaitedJob(_EchoCall(ctx, parsed), submit)


class _EchoCall:
    """Call that computes prompts with their log-probabilities, then their answers.

    If log-probabilities are requested and the answer is one greedy token, that token is
    read from the logits after the prompt, so that the prompt is computed only once. For
    all other answers, the prompt is computed a second time.
    """

    def __init__(self, ctx: Host, parsed: ParsedRequest) -> None:
        ctx.check_open()
        self._model = ctx.model
        self._n = parsed.n
        counts = [parsed.options.get("logprobs")] if parsed.echo else []
        n_top = max(
            (n for n in (*counts, parsed.prompt_logprobs) if n is not None), default=None
        )
        options = GenerateOptions(
            **parsed.options, params=parsed.params, n=parsed.n, on_error="return"
        )
        tokens = _tokens(ctx.model, parsed.prompts, parsed.params, options)
        self._echoes = [
            self._echo(prompt) if parsed.echo else None for prompt in parsed.prompts
        ]
        self._tokens = tokens
        self._scored: ScoredPrompts | None = None
        self._scoring: HostedCall[Results] | None = None
        if n_top is not None:
            name = "logprobs" if parsed.prompt_logprobs is None else "prompt_logprobs"
            check_kept(name, sum(map(len, tokens)), n_top)
            self._scored = ScoredPrompts(
                ctx.model, tokens, max(1, n_top), ctx.options["n_ctx"]
            )
            call = Call(self._scored.requests, seed=0, on_error="return")
            self._scoring = HostedCall(ctx, call)
        self._is_read = (
            self._scored is not None
            and not parsed.is_empty
            and not options.chat
            and _is_plain(parsed)
        )
        self._answering: HostedCall[Results] | None = None
        if not self._is_read and not parsed.is_empty:
            self._answering = prepare_generate(ctx, parsed.prompts, options)

    def cancel(self) -> None:
        """Cancel both calls; each ends soon afterwards."""
        for call in (self._scoring, self._answering):
            if call is not None:
                call.cancel()

    def steps(self) -> Steps[Results]:
        """Compute the answers in steps."""
        scores: Sequence[PromptScores | Result | None] = [None] * len(self._tokens)
        if self._scored is not None and self._scoring is not None:
            scores = self._scored.of_results((yield from self._scoring.steps()))
        answers: Sequence[Sequence[Result]] | None = None
        if self._answering is not None:
            answers = (yield from self._answering.steps()).samples
        results = [
            result
            for i, prompt_scores in enumerate(scores)
            for result in self._of_prompt(
                i, prompt_scores, None if answers is None else answers[i]
            )
        ]
        return Results(results, Stats(n_prompts=len(self._tokens)), self._n)

    def _of_prompt(
        self,
        i: int,
        scores: PromptScores | Result | None,
        answers: Sequence[Result] | None,
    ) -> Sequence[Result]:
        if isinstance(scores, Result):  # the prompt failed
            return [scores] * self._n
        if answers is None:
            answers = [self._read_scores(i, scores)] * self._n
        return [
            EchoedResult(
                **{field.name: getattr(answer, field.name) for field in fields(Result)},
                echo=self._echoes[i],
                scores_of_prompt=scores,
            )
            for answer in answers
        ]

    def _read_scores(self, i: int, scores: PromptScores | None) -> Result:
        """Return an answer of no token, or of the most likely token after the prompt."""
        is_read = self._is_read and scores is not None
        following = scores.following if scores is not None and is_read else {}
        tokens = list(following)[:1]
        with self._model.using() as handle:
            is_end = bool(tokens) and ends_answer(handle, tokens[0])
        return Result(
            index=i,
            text="" if is_end else self._text(tokens),
            tokens=tokens,
            finish_reason="stop" if is_end else "length",
            complete=is_end,
            error=None,
            n_prompt_tokens=len(self._tokens[i]),
            n_reused_tokens=0 if scores is None else scores.n_reused,
            seed=0,
            logprobs=[following[token] for token in tokens],
            top_logprobs=[following] if tokens else [],
        )

    def _echo(self, prompt: str | Sequence[int]) -> str:
        return prompt if isinstance(prompt, str) else self._text(prompt)

    def _text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, including special tokens."""
        return b"".join(token_bytes(self._model, tokens)).decode(errors="replace")


def _tokens(
    model: Model,
    prompts: Sequence[object],
    params: SamplingParams,
    options: GenerateOptions,
) -> list[array[int]]:
    """Return the tokens of each prompt; for a chat, of the rendered messages."""
    name = "messages" if options.chat else "prompt"
    # No warnings here: the later call for the answers gives them.
    all_rendered = rendered_prompts(
        model,
        prompts,
        options,
        is_constrained=is_constrained(params),
        is_silent=True,
    )
    special = parsing(options.parse_special, chat=options.chat)
    token_lists = []
    for i, rendered in enumerate(all_rendered):
        if isinstance(rendered.prompt, Refused):
            raise _prompt_error(Failure(rendered.prompt.reason, "chat_template"))
        tokens = prompt_tokens(model, Argument(name, (i,)), rendered.prompt, special)
        if not tokens:
            raise _prompt_error(Failure("the prompt is empty: it has no tokens", "empty"))
        token_lists.append(tokens)
    return token_lists


def _is_plain(parsed: ParsedRequest) -> bool:
    """Whether the request asks only for the most likely token after the prompt."""
    params = parsed.params
    effective = (
        set(params.changed()) - idle_settings(params).keys() - {"temperature", "seed"}
    )
    effective -= {"stop"} if params.stop == () else set()
    is_plain = params.is_greedy and params.max_tokens == 1 and effective == {"max_tokens"}
    return parsed.n == 1 and is_plain


def _prompt_error(reason: Failure) -> PromptError:
    result = Result(
        index=0,
        text=None,
        tokens=[],
        finish_reason="error",
        complete=False,
        error=reason,
        n_prompt_tokens=0,
        n_reused_tokens=0,
        seed=0,
    )
    return PromptError(f"the prompt failed: {reason}", Results([result], Stats()))
