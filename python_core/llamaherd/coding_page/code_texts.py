"""Public function for coding of texts by people in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.calls.run.job import Job
from llamaherd.coding_page.desk import Desk
from llamaherd.coding_page.sheet import Sheet, make_sheet
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.files import is_special
from llamaherd.engine.core.phrases import install_command
from llamaherd.engine.core.progress import say
from llamaherd.engine.core.words import call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding_page.results import CodingResult

DEFAULT_PORT = 8090
_LOOK_S = 0.02  # interval of checks whether the page has started


def code_texts(
    data: Any,  # GoldSample, a path or a data frame
    codebook: Codebook | None = None,
    *,
    coders: str | Sequence[str] | None = None,
    tie_coder: str | None = None,
    path: str | os.PathLike[str] | None = None,
    text: str = "text",
    id: str | None = None,  # noqa: A002 - name of the column
    seed: int = 1,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    allowed_hosts: Sequence[str] = (),
    keys: bool = False,
    browser: bool = True,
) -> Any:  # of the kind of the data
    """Let people code texts in a browser, and return their codes.

    The function serves a page until you press Ctrl-C, or the button "End" on the page
    with agreement. If you call it again with the same texts, the coding continues. No
    model is needed, and coders do not see labels of a model.

    Args:
        data: A `GoldSample`; path of a CSV file that `GoldSample.write` wrote, or of any
            CSV file with a column of texts; or a data frame of any kind.
        codebook: Codebook of any type. None uses the labels of the sample, without
            definitions.
        coders: Name or names of the coders who code all texts. None uses the coders of
            the sample or the columns for codes of its CSV file; if there are none, one
            coder "code". Each coder gets the texts in a different order.
        tie_coder: Name of an additional coder, who codes only texts on which the others
            disagree; None without such a coder.
        path: SQLite file that stores every code immediately. For a CSV file, None uses a
            file next to it ("sample.codes.sqlite" for "sample.csv"); for other data, None
            uses a file in the working folder with a name that depends on the texts.
        text: Column of texts, if `data` is not a sample.
        id: Column of identifiers. None uses the column "id" or, if there is no such
            column, row numbers from 1.
        seed: Seed of the orders.
        host: Address to listen on. Other machines cannot reach the default address. With
            other addresses, every coder needs the key in the printed link.
        port: Port; 0 for any free port.
        allowed_hosts: Further host names by which browsers may call the server.
        keys: Whether coders need their key also on this machine.
        browser: Whether to open a browser.

    Returns:
        The sample with the codes, or the data frame with a column for each coder; for
        passages, a `SpanCodes`. For a codebook with fields, a dict of samples by field,
        or the data frame with a column for each field and coder, such as "topic.anna".

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Texts, codebook or names of coders do not match; or the file at `path`
            has codes of other texts.
        ImportError: The extra "server" is not installed.
    """
    checks.flag("browser", browser)
    started = start_coding(
        data,
        codebook,
        coders,
        tie_coder,
        path=path,
        text=text,
        id=id,
        seed=seed,
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        keys=keys,
    )
    return started.codes(lambda text: say(text, sys.stdout), browser=browser)


class StartedCoding(NamedTuple):
    """Page that is being served, with a job for the codes and links for coders."""

    job: Job[CodingResult]
    lines: list[str]
    link: str

    def codes(self, tell: Callable[[str], object], *, browser: bool) -> Any:
        """Tell the links, and return the codes when the page ends, also by Ctrl-C."""
        try:
            tell("\n".join(self.lines))
            if browser:
                webbrowser.open(self.link)
            self.job.wait()
        except KeyboardInterrupt:
            self.job.cancel()
        return self.job.results().codes


def start_coding(
    data: Any,  # see code_texts
    codebook: Codebook | None,
    coders: str | Sequence[str] | None,
    tie_coder: str | None,
    *,
    path: object,
    text: str,
    id: str | None,  # noqa: A002 - name of the column
    seed: int,
    **of_page: Any,  # see CodingPage
) -> StartedCoding:
    """Serve a coding page; arguments as in `code_texts`."""
    try:
        from llamaherd.coding_page.serving import CodingPage  # an extra
    except ImportError as error:
        raise ImportError(
            f"{call('code_texts')} needs packages that are missing: "
            f"{install_command('server')}"
        ) from error
    sheet = make_sheet(data, codebook, coders, tie_coder, text=text, id=id, seed=seed)
    desk = Desk(sheet, path_for(data, sheet, path))
    try:
        page = CodingPage(desk, data, **of_page)
        job = Job(page)
    except BaseException:
        desk.close()
        raise
    while not page.is_ready and not job.wait(_LOOK_S):
        pass
    return StartedCoding(job, page.lines(), page.link)


def path_for(data: object, sheet: Sheet, path: object) -> Path:
    """Return the path of the file of codes; see `code_texts`."""
    if path is None:
        if isinstance(data, (str, os.PathLike)):
            return Path(data).with_suffix(".codes.sqlite")
        return Path(f"codes-{sheet.sha256[:8]}.sqlite")
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"must be a path, not {checks.brief(path)}", argument="path"
        )
    file = Path(os.fsdecode(path))
    if is_special(file) or not file.parent.is_dir():
        raise ArgumentError(
            f"must be a file in a folder that exists, not {checks.brief(str(file))}",
            argument="path",
            code="not_found",
        )
    return file
