"""Record of one request, for the log and the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.server.wording import JSON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.embeddings import EmbedStats
    from llamaherd.core.results import Result
    from llamaherd.core.stats import Stats
    from llamaherd.core.words import LanguageTerms

CLIENT_GONE = 499  # status in logs only, as in nginx


class RequestRecord:
    """Record of a request, filled in while it is answered.

    Args:
        is_background: Whether the request is part of a batch and yields to requests of
            clients.
        terms: Language of messages and notes.

    Attributes:
        is_background: See the argument.
        terms: See the argument.
        results: Answers of the request; none if no prompt ran.
        stats: Statistics of the embeddings, scores, labels or codes of the request; None
            for other requests.
        status: HTTP status; 0 before the response.
        is_gone: Whether the client disconnected first.
        model: Name of the requested model on a server with several models; otherwise "".
    """

    __slots__ = (
        *("is_background", "is_gone", "model", "results", "stats", "status"),
        "terms",
    )

    def __init__(
        self, *, is_background: bool = False, terms: LanguageTerms = JSON
    ) -> None:
        self.is_background = is_background
        self.terms = terms
        self.results: Sequence[Result] = ()
        self.stats: Stats | EmbedStats | None = None
        self.status = 0
        self.is_gone = False
        self.model = ""

    @property
    def outcome(self) -> int:
        """HTTP status for the log and the metrics."""
        return CLIENT_GONE if self.is_gone else self.status
