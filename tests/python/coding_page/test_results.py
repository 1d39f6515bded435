"""Results of `code_texts` for different arguments; the command `llamaherd code`."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import llamaherd as lh
import pandas as pd
import pytest
from coding_pages import TEXTS, TOPICS
from llamaherd.cli.main import main
from llamaherd.coding_page.code_texts import path_for
from llamaherd.coding_page.desk import Desk
from llamaherd.coding_page.results import results_of, write_codes
from llamaherd.coding_page.serving import CodingPage
from llamaherd.coding_page.sheet import make_sheet
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FRAME = {
    "text": [*TEXTS, "=1+1", 'a\r\nb, "c"'],
    "label": ["Sports", "Money"] * 4,
}
SPANS = lh.Codebook("Who?", {"a": "", "b": ""}, type="spans")


def sample_of(**more: Any) -> lh.GoldSample:
    names = ["Sports", "Money", "War"]
    return lh.gold_sample(
        FRAME, 5, text="text", label="label", names=names, seed=1, **more
    )


def coded(path: Path, data: Any, codes: dict[str, list[Any]], book: Any = TOPICS) -> Any:
    """Return the results after coders coded the first texts."""
    sheet = make_sheet(data, book, list(codes), None)
    with closing(Desk(sheet, path)) as desk:
        for coder, values in codes.items():
            for i, value in enumerate(values):
                if value is not None:
                    desk.code(coder, i, value, "a note" if i == 0 else "")
        return results_of(desk, data)


def test_a_sample_gets_the_codes(tmp_path: Path) -> None:
    sample = sample_of().with_codes({"anna": ["Sports"] * 5})
    codes = {"anna": ["War", None, "Money"], "ben": ["War"]}
    gold = coded(tmp_path / "codes", sample, codes)
    assert gold.coders == ["anna", "ben"]
    assert gold.codes[0] == ["War", "Sports", "Money", "Sports", "Sports"]
    assert gold.codes[1] == ["War", None, None, None, None]
    assert gold.gold == ["War", "Sports", "Money", "Sports", "Sports"]


def test_data_frames_get_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame(FRAME)
    table = coded(tmp_path / "codes", frame, {"anna": ["War", None, "Money"]})
    assert list(table.columns) == ["text", "label", "anna"]
    assert table["anna"][0] == "War"
    assert table["anna"].isna().sum() == 6
    several = lh.Codebook("?", ["a", "b"], type="multiple")
    codes = {"anna": [["b", "a"], []]}
    table = coded(tmp_path / "several", FRAME, codes, several)
    assert table["anna"][:3] == ["a; b", "none", None]


@pytest.mark.filterwarnings("ignore:there is no code of ")
def test_exported_files_are_read_by_read_gold(tmp_path: Path) -> None:
    sample, path = sample_of(), tmp_path / "coded.csv"
    sheet = make_sheet(sample, None, ["anna", "ben"], None)
    assert sheet.codebook.names == sample.names
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        for i, value in enumerate(["War", "Money", "Sports"]):
            desk.code("anna", i, value, "Sports")  # a note, no code
        write_codes(desk, path)
        write_codes(desk, path)  # the same content
        desk.code("ben", 4, "War")
        with pytest.raises(ArgumentError, match="already exists") as caught:
            write_codes(desk, path)
        assert (caught.value.argument, caught.value.code) == ("path", "exists")
        write_codes(desk, path, overwrite=True)
        expected = results_of(desk, sample)
    gold = lh.read_gold(path)
    assert gold.coders == expected.coders == ["anna", "ben"]
    assert gold.codes == expected.codes
    assert gold.texts == sample.texts


def test_an_export_has_every_coder_of_the_store(tmp_path: Path) -> None:
    data = {"id": ["-1", "@b"], "text": ["'=a", "b"]}
    sheet = make_sheet(data, TOPICS, ["anna", "ben"], None)
    with closing(Desk(sheet, tmp_path / "s")) as desk:
        desk.code("anna", 0, "War")
        desk.code("ben", 1, "Money")
    out = tmp_path / "out.csv"

    def rows_of(coders: list[str] | None) -> list[list[str]]:
        sheet = make_sheet(data, TOPICS, coders, None)
        with closing(Desk(sheet, tmp_path / "s")) as desk:
            write_codes(desk, out, overwrite=True)
        with out.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.reader(file))

    whole = [
        ["id", "text", "anna", "ben"],
        ["-1", "'=a", "War", ""],
        ["@b", "b", "", "Money"],
    ]
    assert rows_of(None) == whole
    with pytest.raises(
        ValueError, match=r"'Anna', but .* of anna, ben; did you mean 'anna'"
    ):
        rows_of(["Anna", "ben"])
    with pytest.warns(UserWarning, match="no code of carl"):
        assert rows_of(["anna", "ben", "carl"])[0][2:] == ["anna", "ben", "carl"]
    with pytest.warns(UserWarning, match="the codes of ben in .* are left out"):
        assert rows_of(["anna"])[0][2:] == ["anna"]


@pytest.mark.filterwarnings("ignore:there is no code of ")
def test_exported_passages_are_read_by_read_spans(tmp_path: Path) -> None:
    text = "\U0001f600 Ann met Bob."
    path, span = tmp_path / "coded.jsonl", {"start": 2, "end": 5, "label": "a"}
    sheet = make_sheet({"text": [text, *TEXTS]}, SPANS, ["anna", "ben"], None)
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        desk.code("anna", 0, [span], "sure")
        desk.code("ben", 0, [])
        desk.code("ben", 1, [{"start": 0, "end": 4, "label": "b"}])
        write_codes(desk, path)
        spans = results_of(desk, None)
    read = lh.read_spans(path)
    assert read.rows() == spans.rows()
    assert read.coders == spans.coders
    assert read.rows()[0]["quote"] == "Ann"
    assert read.coders["ben"][text] == ()
    assert json.loads(path.read_text().split("\n")[0])["note"] == "sure"


# ---- arguments ----


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"coders": ["anna", "Anna"]}, "coders"),
        ({"coders": ["id"]}, "coders"),
        ({"coders": ["anna", "Anna note"]}, "coders"),
        ({"coders": ["anna note", "anna"]}, "coders"),
        ({"coders": [""]}, "coders"),
        ({"coders": ["a\nb"]}, "coders"),
        ({"coders": [f"c{i}" for i in range(51)]}, "coders"),
        ({"tie_coder": "cleo"}, "tie_coder"),
        ({"coders": ["a", "b"], "tie_coder": "b"}, "tie_coder"),
        ({"codebook": None}, "codebook"),
        ({"codebook": "topics.yaml"}, "codebook"),
        ({"text": "no"}, "text"),
        ({"id": "label"}, "data"),
        ({"seed": -1}, "seed"),
        ({"data": 3}, "data"),
        ({"data": {"text": []}}, "data"),
        ({"data": {"text": ["a", " "]}}, "data"),
        ({"data": {"text": ["a"], "id": [None]}}, "data"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], argument: str) -> None:
    arguments = {"data": FRAME, "codebook": TOPICS, "coders": None, "tie_coder": None}
    arguments |= options
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make_sheet(
            arguments.pop("data"),
            arguments.pop("codebook"),
            arguments.pop("coders"),
            arguments.pop("tie_coder"),
            **arguments,
        )
    assert caught.value.argument == argument


def test_codebook_and_sample_have_to_fit() -> None:
    other = lh.Codebook("?", ["Sports", "Weather"])
    with pytest.raises(
        ArgumentError, match=r"has the label .Weather., but the labels of the sample are"
    ):
        make_sheet(sample_of(), other, None, None)
    several = lh.Codebook("?", ["Sports", "Money", "War"], type="multiple")
    with pytest.raises(
        ArgumentError, match="has several labels per text, but the sample"
    ):
        make_sheet(sample_of(), several, None, None)
    without = lh.gold_sample({"label": ["a", "b"]}, 2, label="label")
    with pytest.raises(ArgumentError, match="has no texts"):
        make_sheet(without, None, None, None)


def test_the_file_of_codes_is_beside_the_sheet(tmp_path: Path) -> None:
    sheet = make_sheet(FRAME, TOPICS, None, None)
    assert path_for(tmp_path / "a.csv", sheet, None) == tmp_path / "a.codes.sqlite"
    assert path_for(FRAME, sheet, None).name == f"codes-{sheet.sha256[:8]}.sqlite"
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe")
    for wrong in (tmp_path, tmp_path / "no" / "file", tmp_path / "pipe"):
        with pytest.raises(ArgumentError, match="path must be a file in a folder"):
            path_for(FRAME, sheet, wrong)
    with pytest.raises(ArgumentTypeError, match="path must be a path"):
        path_for(FRAME, sheet, 3)


def test_code_texts_returns_what_was_coded_until_it_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The function returns after a browser has coded a text and ended the page."""
    links: list[str] = []

    def visit(link: str) -> None:
        links.append(link)
        threading.Thread(target=_code_and_end, args=(link,)).start()

    monkeypatch.setattr("webbrowser.open", visit)
    table = lh.code_texts(
        FRAME, TOPICS, coders=["anna", "ben"], path=tmp_path / "codes", port=0
    )
    assert "/owner#" in links[0]
    assert f"Codes are stored in {tmp_path / 'codes'}." in capsys.readouterr().out
    assert table["anna"].count("War") == 1


def made_page(path: Path) -> tuple[Desk, CodingPage]:
    desk = Desk(make_sheet(FRAME, TOPICS, ["anna"], None), path)
    return desk, CodingPage(desk, FRAME)


def test_r_gets_the_error_that_ended_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R reads the progress of a job also after an error, when the store is closed."""
    _, page = made_page(tmp_path / "codes")

    def fails(_: object) -> None:
        raise OSError("a broken page")

    monkeypatch.setattr(page._server, "run", fails)
    job = lh.Job(page)
    with pytest.raises(OSError, match="a broken page"):
        job.results()
    assert job.progress.n_total == len(FRAME["text"])


def test_progress_may_be_read_while_the_page_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's thread closes the store at any moment while R reads the progress."""
    desk, page = made_page(tmp_path / "codes")
    desk.code("anna", 0, "War")
    texts_of = desk.texts_of

    def closes(coder: str) -> list[int]:
        desk.close()
        return texts_of(coder)

    monkeypatch.setattr(desk, "texts_of", closes)
    progress = page.progress
    assert (progress.n_done, progress.n_total) == (1, len(FRAME["text"]))
    page._socket.close()


def _code_and_end(link: str) -> None:
    where = urlsplit(link)
    for path, headers, body in (
        ("/api/code", {"X-Coder": "anna"}, {"i": 2, "value": "War"}),
        ("/api/stop", {"Authorization": f"Bearer {where.fragment}"}, {}),
    ):
        http = HTTPConnection(where.netloc, timeout=120)
        http.request(
            "POST",
            path,
            json.dumps(body),
            {"content-type": "application/json", **headers},
        )
        assert http.getresponse().status == 200
        http.close()


@pytest.mark.filterwarnings("ignore:there is no code of ")
def test_coders_are_those_of_the_sheet(tmp_path: Path) -> None:
    sample, path = sample_of(), tmp_path / "sheet.csv"
    sample.write(path, coders=["anna", "ben"])
    sheet = make_sheet(path, TOPICS, None, None)
    assert sheet.coders == ("anna", "ben")
    assert make_sheet(sample, TOPICS, None, None).coders == ("code",)
    begun = sample.with_codes({"cleo": ["War"] * 5})
    assert make_sheet(begun, TOPICS, None, None).coders == ("cleo",)
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        desk.code("anna", 0, "War", "a note")
        write_codes(desk, tmp_path / "coded.csv")
    again = make_sheet(tmp_path / "coded.csv", TOPICS, None, None)
    assert again.coders == ("anna", "ben")


def test_the_coder_of_ties_decides_where_all_codes_differ(tmp_path: Path) -> None:
    sheet = make_sheet(sample_of(), TOPICS, ["anna", "ben"], "cleo")
    codes = {"anna": ["War", "War"], "ben": ["Money", "Money"], "cleo": ["Sports", "War"]}
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        for coder, values in codes.items():
            for i, value in enumerate(values):
                desk.code(coder, i, value)
        assert results_of(desk, None).gold[:2] == ["Sports", "War"]
        write_codes(desk, tmp_path / "coded.csv")
    table = pd.read_csv(tmp_path / "coded.csv")
    assert lh.read_gold(table, sample_of()).gold[:2] == ["Sports", "War"]


def test_codes_of_the_sheet_are_kept(tmp_path: Path) -> None:
    sample, path = sample_of(), tmp_path / "sheet.csv"
    sample.write(path, coders=["anna"], shuffle=False)
    lines = path.read_bytes().split(b"\r\n")
    for i in (1, 2):
        lines[i] = lines[i].removesuffix(b'""') + b'"War"'
    path.write_bytes(b"\r\n".join(lines))
    sheet = make_sheet(path, TOPICS, None, None)
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        assert desk.values("anna") == [None] * 5
        desk.code("anna", 1, "Money")
        assert results_of(desk, path).codes == [["War", "Money", None, None, None]]


# ---- the command ----


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "sample.csv"
    sample_of().write(path)
    lh.write_codebook(TOPICS, tmp_path / "topics.yaml")
    return path


@pytest.fixture
def command(sheet: Path) -> Iterator[Callable[..., Any]]:
    """Return a function that starts `llamaherd code`, with its process and lines."""
    started = []

    def start(*more: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
        program = [sys.executable, "-m", "llamaherd.cli", "code", str(sheet)]
        options = ["--codebook", str(sheet.with_name("topics.yaml")), "--port", "0"]
        process = subprocess.Popen(
            [*program, *options, "--coders", "anna,ben", "--no-browser", *more],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        lines = [process.stdout.readline().rsplit(maxsplit=1) for _ in range(3)]
        return process, {name.strip(): link for name, link in lines}

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_kill_9_loses_no_code(sheet: Path, command: Callable[..., Any]) -> None:
    process, links = command()
    answered = []
    for n in range(40):
        http = HTTPConnection(urlsplit(links["anna"]).netloc, timeout=120)
        value = TOPICS.names[n % 3]
        body = json.dumps({"i": n % 5, "value": value, "note": str(n)})
        head = {"X-Coder": "anna", "content-type": "application/json"}
        http.request("POST", "/api/code", body, head)
        if n == 39:
            process.send_signal(signal.SIGKILL)  # in the middle of a request
            http.close()
            break
        assert http.getresponse().status == 200
        http.close()
        answered.append(str(n))
    process.wait()
    loaded = make_sheet(sheet, TOPICS, ["anna", "ben"], None)
    with closing(Desk(loaded, sheet.with_suffix(".codes.sqlite"))) as desk:
        notes = [entry.act.note for entry in desk.store.entries()]
        assert notes[:39] == answered
        assert desk.values("anna")[3] in TOPICS.names
    out = sheet.with_name("coded.csv")
    book = str(sheet.with_name("topics.yaml"))
    export = ["--coders", "anna,ben", "--codebook", book, "--export", str(out)]
    assert main(["code", str(sheet), *export]) == 0
    gold = lh.read_gold(out)
    assert all(code is not None for code in gold.codes[0])


def test_the_command_goes_on_with_the_same_links_and_ends_by_a_signal(
    command: Callable[..., Any],
) -> None:
    process, links = command()
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    process, again = command()
    assert {name: urlsplit(link).fragment for name, link in again.items()} == {
        name: urlsplit(link).fragment for name, link in links.items()
    }
    assert set(links) == {"agreement and export", "anna", "ben"}


def test_wrong_use_of_the_command(
    sheet: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["code", str(tmp_path / "no.csv")]) == 2
    assert main(["code", str(sheet), "--coders", "anna,,ben"]) == 2
    assert "must be different names" in capsys.readouterr().err
    odd = tmp_path / "odd.csv"
    odd.write_text("id,text\n1,a\n2\n")
    assert main(["code", str(odd), "--codebook", str(tmp_path / "topics.yaml")]) == 2
    assert "has 1 cells, but there are 2 columns" in capsys.readouterr().err
    book = ["--codebook", str(tmp_path / "topics.yaml")]
    for content, message in (
        ("id,text\n1,a\n1,b\n", "odd.csv, row 2 below the names of the columns: it must"),
        (
            "id,text\n1,a\n2,\n",
            "row 2 below the names of the columns: it must have a text",
        ),
        ("id,text\n", "odd.csv has no texts"),
        ("number,speech\n1,a\n", "odd.csv has the columns 'number', 'speech'"),
    ):
        odd.write_text(content)
        assert main(["code", str(odd), *book]) == 2
        assert message in capsys.readouterr().err


def test_a_used_port_is_an_error(tmp_path: Path) -> None:
    sheet = make_sheet(FRAME, TOPICS, None, None)
    with (
        closing(Desk(sheet, tmp_path / "codes")) as desk,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        port = other.getsockname()[1]
        with pytest.raises(ArgumentError, match="host cannot be listened") as caught:
            CodingPage(desk, port=port)
    assert (caught.value.argument, caught.value.code) == ("host", "unusable")
