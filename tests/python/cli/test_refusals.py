"""Command lines that are refused, and the words of the refusals."""

from __future__ import annotations

import errno
import re
import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from llamaherd.calls.structured.subschemas import target_of
from llamaherd.cli.conventions import print_failure
from llamaherd.cli.run import run
from llamaherd.cli.serve_run import given_models
from llamaherd.cli.wording import terms_of_command
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ContextError
from llamaherd.engine.core.words import setting, spoken_in
from llamaherd.remote.server import KEY_VARIABLE
from llamaherd.server.access import Guard
from llamaherd.server.errors import ApiError
from llamaherd.server.settings import ServerSettings
from llamaherd.tables.spec_file import read_spec

if TYPE_CHECKING:
    from commands import Commands

START = 'input = "in.csv"\n\n[sampling]\n'
FILES = {
    "in.csv": b"id,text\n0,text number 0\n",
    "any.json": b"{}",
    "run.toml": b"input = 'in.csv'",
    "no-toml.toml": b"prompt: x",
    "wrong.toml": f"{START}seed = 1\ntopp = 1\n".encode(),
    "seed.toml": f"{START}seed = -1\n".encode(),
    "one.txt": b"yes\n",
    "bytes.txt": b"\xff\n",
}
RUN, SERVE = "run in.csv -m no.gguf", "serve no.gguf --port 0"
PAIRS = "pairs in.csv --question Which? -m no.gguf"
LABELS = "classify in.csv -m no.gguf --labels"
OPEN = "serve no.gguf --port 0 --host 0.0.0.0"
GPU = "recalibrate in.csv --gold g.csv -o o.csv"
# Status 2: nothing was computed.
REFUSED = [
    ("", "Usage: llamaherd"),
    ("serv", "Did you mean 'serve'?"),
    ("serve m.gguf --timeouts 3", "Did you mean '--timeout'?"),
    ("nonsense", "No such command 'nonsense'"),
    ("slurm run.toml --tasks 50 --submit", "`llamaherd slurm` was removed: "),
    ("slurm --help", "--shard I/N"),
    ("keep-journal a b", "`cp` copies a journal"),
    ("run", "Missing argument 'INPUT'"),
    ("run in.csv", "Missing option '-m'"),
    (f"{RUN} --shard 0/3", "'0/3' is not a part such as 1/50"),
    (f"{RUN} --shard 4/3", "'4/3' is not a part such as 1/50"),
    (f"{RUN} --shard 1/2", "--journal"),
    (f"{RUN} --max-tokens abc", "'abc' is not a whole number of at least 1."),
    (f"{RUN} --temperature -1", "llamaherd: --temperature must be between 0 and"),
    (f"{RUN} --set sampling.topp=1", "mean 'top_p'"),
    (f"{RUN} --set n_ctx", "not KEY=VALUE"),
    (f"{RUN} --set top_p=1", "did you mean 'sampling.top_p'?"),
    (f"{RUN} --set seed=3", "mean 'sampling.seed' or 'classify.seed' or"),
    (
        f"{RUN} --set model.n_gpu_layers=0.5",
        "--set model.n_gpu_layers must be an integer",
    ),
    (f"{RUN} --schema no.json", "llamaherd: --schema is neither JSON nor a file"),
    (f"{RUN} --labels A,B --schema any.json", "schema"),
    (f"{RUN} --labels A,A", "must be at least two different"),
    (f"{RUN} --labels no.txt", "there is no file 'no.txt'"),
    (f"{RUN} -o x.xlsx", "llamaherd: --out must end in"),
    (f"{RUN} -o in.csv", "is the input"),
    (f"{RUN} --column txt", "no column 'txt'"),
    (f"{RUN} --prompt '{{text'", "single '{'"),
    (f"{RUN} --prompt text", "llamaherd: --prompt names no column"),
    (f"{RUN} --system brief", "llamaherd: --system needs chat = true (--chat)"),
    (f"{RUN} --encoding utf-9", "llamaherd: --encoding is not known: 'utf-9'"),
    (f"{RUN} --thinking much", "'much' is neither a number nor on or off."),
    (f"{RUN} --thinking 8", "llamaherd: --thinking needs chat = true"),
    (f"{RUN} --var low", "'low' is not NAME=VALUE"),
    (f"""{RUN} --var 'a={{"b": 1, "b": 2}}'""", 'a: an object has the key "b" twice'),
    (f"{RUN} --chat --template no.jinja", "--template 'no.jinja' cannot be read"),
    (f"{RUN} --delimiter ab", "--delimiter must be one character, such as ';', not 'ab'"),
    (f"{RUN} --set limit=0", "llamaherd: --set limit must be at least 1, not 0"),
    (f"{RUN} --set sampling.top_p=7", "--set sampling.top_p must be between 0 and 1"),
    (
        "classify in.csv -m no.gguf --labels A,B --n-thoughts 2000",
        "llamaherd: --n-thoughts must be between 1 and 1000, not 2000",
    ),
    ("annotate in.csv -m no.gguf --codebook no.yaml", "--codebook 'no.yaml' cannot be"),
    ("run seed.toml -m no.gguf --delimiter ab", "line 4: [sampling] seed must be at"),
    ("run no.csv -m no.gguf", "No such file"),
    ("run no.toml -m no.gguf", "no.toml: No such file"),
    ("run wrong.toml -m no.gguf", "line 5: [sampling] has no key 'topp'"),
    ("run seed.toml -m no.gguf", "line 4: [sampling] seed must be at least 0, not -1"),
    ("run no-toml.toml -m no.gguf", "no-toml.toml: not TOML: "),
    ("classify in.csv -m m.gguf", "Missing option '--labels'"),
    (f"{LABELS} A,,B", "'--labels': label 2 of 'A,,B' is empty: remove the comma"),
    (f"{LABELS} A,", "label 2 of 'A,' is empty"),
    (f"""{LABELS} '"rivers, lakes",towns'""", "divide labels, also between quotation"),
    (f"{LABELS} no.txt", "there is no file 'no.txt'"),
    (f"{LABELS} one.txt", "must be at least two different labels, not only 'yes'"),
    (f"{LABELS} bytes.txt", "the file bytes.txt is not in UTF-8"),
    ("codebooks best bytes.txt", "'bytes.txt' is not in UTF-8: byte 0xff in line 1"),
    ("codebooks best no.json", "'no.json' cannot be used: No such file or directory; r"),
    ("chat no.gguf --continue bytes.txt", "'bytes.txt' is not in UTF-8: byte 0xff in l"),
    (f"{PAIRS} --layout bytes.txt", "layout: 'bytes.txt' is not in UTF-8: byte 0xff"),
    ("embed run.toml", "describes a run of task 'generate'"),
    ("embed in.csv --chat", "No such option"),
    ("merge --out x.csv", "Missing argument 'JOURNAL...'"),
    ("merge a", "Missing option '-o'"),
    ("bench no.gguf --n-gpu-layers 1.5", "'1.5' is not a whole number or 'auto'."),
    ("bench no.gguf --tensor-split 1,,2", "'1,,2' is not a list of numbers such as 3,1."),
    *((f"bench x --n-seq-max '{n}'", "such as 1,8,32") for n in ("", "0", "1,x", "9999")),
    (f"{GPU} --n-gpu-layers 1", "--n-gpu-layers is for the model of --embeddings"),
    (f"{GPU} --main-gpu 0", "--main-gpu is for the model of --embeddings"),
    ("serve", "Missing argument 'MODEL.gguf', or --model."),
    ("serve m.gguf --port 70000", "'70000' is not a whole number from 0 to 65535."),
    ("serve m.gguf --port -5", "'-5' is not a whole number from 0 to 65535."),
    ("serve m.gguf --queue -1", "'-1' is not a whole number of at least 0."),
    ("serve m.gguf --timeout 0", "'--timeout': '0' is not a positive number."),
    ("serve m.gguf --timeout nan", "'nan' is not a positive number."),
    ("serve m.gguf --n-ctx much", "'much' is not a whole number"),
    (f"{SERVE} --connections 0", "--connections"),
    (f"{SERVE} --ready-file none/x.json", "--ready-file 'none/x.json': there is no"),
    (f"{SERVE} --alias a --alias ' '", "'--alias': ' ' must not be empty."),
    *(
        (f"{SERVE} --allowed-host '{h}'", "--allowed-host")
        for h in ("", "http://a", "a:8")
    ),
    *(
        (f"{SERVE} --memory '{size}'", "is not a size, such as 16GB")
        for size in ("", "0", "much", "-1GB", "1GiB", "GB", "nan", "0.1")
    ),
    ("serve a b c --port 0", "add more with --model b --model c"),
    ("serve a.gguf --model b/a.gguf", "two models have the name 'a'"),
    ("serve --model =a.gguf", "neither FILE nor NAME=FILE"),
    ("serve --model a=", "neither FILE nor NAME=FILE"),
    ("serve a.gguf --lora x.gguf", "is not NAME=FILE"),
    ("serve a.gguf --lora a=x.gguf", "two models have the name 'a'"),
    ("serve a.gguf --lora x=x.gguf@b", "the models are a."),
    ("serve a.gguf --model b.gguf --alias c", "--model NAME=FILE"),
    ("serve a.gguf --lora b=b --template any.json", "--template is for one"),
    ("serve a --model b --embedding-model c", "another --model"),
    ("serve a.gguf --model-wait 0", "--model-wait"),
    (f"{SERVE} --set context.type_k", "is not KEY=VALUE"),
    (f"{SERVE} --set type_k=q8_0", "a key is model.NAME or context.NAME"),
    (f"{SERVE} --set sampling.top_p=1", "a key is model.NAME or context.NAME"),
    (f"{SERVE} --set model.path=x", "give it as MODEL or --model"),
    (f"{SERVE} --set model.lora=x", "give it as --lora"),
    (f"{SERVE} --set context.typ_k=q8_0", "did you mean 'type_k'?"),
    (f"{SERVE} --set model.interrupt=1", "[model] has no key 'interrupt'"),
    (f"{SERVE} --n-ctx 64 --set context.n_ctx=64", "--n-ctx already sets it"),
    (
        f"{SERVE} --deterministic --set context.deterministic=false",
        "--deterministic already sets it",
    ),
    (
        f"{SERVE} --n-gpu-layers 0 --set model.n_gpu_layers=1",
        "--n-gpu-layers already sets it",
    ),
    (
        f"{SERVE} --set context.n_batch=64 --set context.n_batch=64",
        "another --set already sets it",
    ),
    *((f"{OPEN} --api-key '{key}'", "must not be empty") for key in ("", "  ", "\n")),
    *(
        (f"{OPEN} --api-key '{key}'", "no spaces and no control")
        for key in ("a b", "a\tb")
    ),
    *(
        (f"{OPEN} --api-key '{key}'", "no control")
        for key in ("a\x07b", "a\nb", "a\ud800")
    ),
    (f"{OPEN} --api-key ключ", "--api-key must have only Latin-1"),
    (f"{RUN} --set sampling.max_tokens=2.0", "must be an integer"),
    (f"{RUN} --set context.n_ctx=true", "n_ctx must be"),
    (f"{RUN} --set context.deterministic=3", "deterministic must be true or false"),
    (f"{RUN} --set model.use_mmap=3", "use_mmap must be true or false"),
    (f"{RUN} --temperature x", "'x' is not a number."),
    (f"{LABELS} A,B --set classify.normalize=x", "normalize must be one of"),
    ("gold sample in.csv -n 5 -o s.csv", "-n must be at most 1, not 5"),
    ("gold sample in.csv -n 1 -o s.csv --coders a,a", "coders"),
    ("annotate in.csv -m m.gguf", "Missing option '--codebook'"),
]
# Status 1: a name of a model that is not there, named as in the help.
FAILED = [
    (RUN, '--model names no file: "no.gguf"'),
    ("bench no.gguf", 'MODEL names no file: "no.gguf"'),
    (SERVE, 'MODEL names no file: "no.gguf"'),
    ("models path no.gguf", 'SOURCE names no file: "no.gguf"'),
]


# Notation of Python. A setting of a TOML file, as in `--set`, is none.
PYTHON = re.compile(
    r"\((str|int|float|bool|dict|list)\)|\b(True|False|None)\b|\w+=(True|False|\d)|\w\(.*=\)"
)
SETTING = re.compile(r"such as [\w.]+=\w+")


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [*((line, 2, message) for line, message in REFUSED),
     *((line, 1, f"llamaherd: {message}") for line, message in FAILED)],
)  # fmt: skip
def test_a_command_line_is_refused(
    cli: Commands, line: str, status: int, message: str
) -> None:
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    printed = cli(line, status=status)
    assert message in " ".join((printed.err or printed.out).split())
    assert "Traceback" not in printed.err
    assert not PYTHON.search(SETTING.sub("", printed.err)), printed.err


@pytest.mark.parametrize("key", ["  ", "a b", "a\x07b", "ключ"])
def test_a_key_of_the_environment_is_checked_too(
    key: str, cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    cli(OPEN, status=2, err=f"{KEY_VARIABLE} must")


@pytest.mark.parametrize(
    ("book", "message"),
    [
        ("examples: [5]\nlabels: [a, b]", "the fields text, label and perhaps reason"),
        ("type: scale", "needs a scale: {from: 0, to: 10}"),
        ("type: scale\nscale: 5", "as {from: 0, to: 10} does"),
        ("type: spans\nlabels: [a]\nquote: true", "{type: string, quote: {most: 20}}"),
    ],
)
def test_codebooks_of_commands_are_described_as_files(
    book: str, message: str, cli: Commands
) -> None:
    Path("in.csv").write_bytes(FILES["in.csv"])
    Path("book.yaml").write_text(f"question: Which?\n{book}\n", encoding="utf-8")
    line = "annotate in.csv -m nofile.gguf --codebook book.yaml"
    error = cli(line, status=2, err=message).err
    assert not PYTHON.search(error), error


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("serve --port 0 MODEL", "context.kv_layout=unified"),
        ("serve --port 0 MODEL", "context.n_ubatch=100"),
        ("run in.csv -q -m MODEL", "context.flash_attn=false"),
    ],
)
def test_messages_name_the_options_of_the_command(
    line: str, setting: str, cli: Commands
) -> None:
    Path("in.csv").write_bytes(FILES["in.csv"])
    message = f"--deterministic cannot be combined with --set {setting}"
    cli(f"{line} --deterministic --set {setting}", status=2, err=message)


def test_terms_name_the_option_of_an_argument_on_every_thread() -> None:
    terms = terms_of_command(run)
    with spoken_in(terms), ThreadPoolExecutor(1) as pool:
        job = copy_context().run
        assert pool.submit(job, setting, "chat", True).result() == "--chat"
        assert setting("chat", False) == "chat = false"
        assert setting("n_seq_max", 4) == "--n-seq-max 4"
        assert setting("thinking", False) == "--thinking off"
        assert setting("journal", None) == "no journal"
        assert setting("kv_layout", "unified") == "--set context.kv_layout=unified"
        assert setting("method", "generate") == 'method = "generate"'


def test_a_range_of_one_number_is_this_number() -> None:
    with pytest.raises(ArgumentError, match="n must be 1, not 5"):
        checks.integer("n", 5, 1, 1)


MANY = "1" * 5000


@pytest.mark.parametrize("text", ["", MANY, "-1", "1.0", "\u0663", "\u00b2", "1_0", " 1"])
def test_other_texts_than_digits_are_no_number(text: str) -> None:
    assert checks.digits(text) is None
    assert checks.digits("007") == 7
    assert target_of(f"#/a/{text}/b", {"a": [1]}) is None


def test_a_byte_order_mark_is_no_part_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("\ufeffinput = 'a.csv'\noutput = 'b.csv'\nprompt = '{a}'\n", "utf-8")
    assert read_spec(path).input == str(tmp_path / "a.csv")


@pytest.mark.parametrize("names", ["a=x a.gguf=y", "a.gguf=x a=y", "a=x x/a.gguf"])
def test_names_that_requests_cannot_tell_apart_are_refused(names: str) -> None:
    with pytest.raises(click.UsageError, match="two models have the name"):
        given_models([], names.split())


@pytest.mark.parametrize(
    ("host", "origin", "is_own"),
    [
        ("localhost:80", "http://localhost:80", True),
        ("localhost:80", "https://localhost:80", False),  # the server has no TLS
        ("llm.example", "https://llm.example", True),  # a proxy with TLS
        ("localhost:80", "ftp://localhost:80", False),
        ("localhost:80", "localhost:80", False),
        ("localhost:80", "https://", False),
        ("", "https://", False),
        ("", "://", False),
    ],
)
def test_pages_of_this_server_only(host: str, origin: str, is_own: bool) -> None:
    settings = ServerSettings(model_name="m")
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    scope = {"headers": headers, "server": ("127.0.0.1", 80)}
    if is_own:
        Guard(settings).check(scope, is_open=False)
        return
    with pytest.raises(ApiError, match="other origins"):
        Guard(settings).check(scope, is_open=False)


def test_a_deleted_working_directory_has_a_name(
    cli: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    cli("run run.toml", status=2, err="the working directory was deleted")
    monkeypatch.chdir(tmp_path)


def _full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (_full(), 1),
        (OSError(errno.EIO, "Input/output error"), 1),
        (OSError(errno.EROFS, "Read-only file system"), 2),
    ],
)
def test_a_failing_machine_is_no_wrong_input(
    cli: Commands, monkeypatch: pytest.MonkeyPatch, problem: Exception, status: int
) -> None:
    def fail(*_: object) -> None:
        raise problem

    Path("texts.csv").write_text("text\na\n")
    line = "run texts.csv -m MODEL --prompt {text} -o out.csv"
    monkeypatch.setattr("llamaherd.calls.journal.file.connect", fail)
    cli(line, status=status, err=f"cannot be used: {problem.args[-1]}")
    if isinstance(problem, OSError):
        monkeypatch.setattr("llamaherd.engine.core.files._replace_whole", fail)
        cli("codebooks ready sentiment -o new.yaml", status=status, err="new.yaml")
        cli(f"{line} --journal '' --save new.toml", status=status, err="new.toml")
        assert not Path("new.toml").exists()
    if Path("/dev/full").exists():
        full = f"{line} --journal '' --save /dev/full"
        cli(full, status=1, err="No space left")


def test_a_lack_of_threads_is_told(
    cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: object) -> None:
        raise RuntimeError("can't start new thread")

    module = sys.modules["llamaherd.cli.main"]
    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(
        module._group, "main", lambda *_, **__: threading.Thread().start()
    )
    cli("doctor", status=1, err="can't start new thread: end other programs")


def test_advice_on_threads_is_given_for_a_lack_of_threads_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_failure(ContextError("there is not enough memory: lower n_ctx"))
    assert capsys.readouterr().err == (
        "llamaherd: there is not enough memory: lower n_ctx\n"
    )
