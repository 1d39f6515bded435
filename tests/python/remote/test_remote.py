"""Servers in separate processes, as engines in a context's place."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import llamaherd as lh
import psutil
import pytest
import tiny_loras
import tiny_models
from llamaherd import _r, remote
from llamaherd._r.hosts import StartWork
from llamaherd.cli import main, serve
from llamaherd.engine.core.files import take_lock
from llamaherd.engine.core.words import PYTHON, R, spoken_in, words
from llamaherd.remote import processes
from llamaherd.remote import server as process_start
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from llamaherd.engine.core.words import LanguageTerms

ONE = ("--n-threads", "1")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.write(tmp_path_factory.mktemp("remote") / "tiny.gguf", "llama")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of all servers, which are stopped at the end of the test."""
    monkeypatch.setenv("LLAMAHERD_SERVERS", str(tmp_path))
    yield tmp_path
    for server in remote.list_servers():
        remote.stop_server(server)


@pytest.mark.long(reason="servers are processes that load a model")
def test_a_server_is_an_engine_whose_journal_outlives_it(
    path: Path, folder: Path, tmp_path: Path
) -> None:
    server = remote.start_server(path, stay=True, options=ONE)
    assert remote.start_server(path) == server  # the server is already running
    with pytest.raises(lh.ArgumentError, match="a running server with"):
        remote.start_server("other.gguf")
    assert remote.start_server(path, options=ONE) == server
    with pytest.raises(lh.ArgumentError, match="with other settings"):
        remote.start_server(path, options=("--n-threads", "2"))
    settings: Any = {"max_tokens": 5, "journal": tmp_path / "out.journal"}
    with lh.connect(server) as engine:
        answers = lh.generate_parallel(engine, ["a", "b c"], **settings)
    with lh.Model(path) as model, lh.Context(model) as ctx:
        expected = lh.generate_parallel(ctx, ["a", "b c"], max_tokens=5)
    assert answers.texts == expected.texts
    log = (folder / "default" / "server.log").read_text(encoding="utf-8")
    assert server.key not in log + repr(server) + str(server)
    assert (folder / "default" / "server.json").stat().st_mode & 0o77 == 0

    assert remote.stop_server(server)
    assert not server.is_running
    assert not remote.stop_server(server)
    with pytest.raises(lh.ServerError, match="does not answer"):
        lh.connect(server)
    again = remote.start_server(path, options=ONE)
    with lh.connect(again) as engine:
        stored = lh.generate_parallel(engine, ["a", "b c"], **settings)
    assert stored.texts == answers.texts
    assert stored.stats.n_journal == 2


@pytest.mark.long(reason="servers are processes that load a model")
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("is_child", [True, False])
def test_a_server_that_does_not_answer_runs_until_it_is_stopped(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, is_child: bool
) -> None:
    server = remote.start_server(path, options=ONE)
    child = processes._CHILDREN[server.pid]
    if not is_child:
        monkeypatch.setattr(processes, "_CHILDREN", {})
    psutil.Process(server.pid).suspend()
    assert server.is_running
    assert remote.start_server(path) == server
    with pytest.raises(lh.ServerError, match="does not answer"):
        lh.connect(server, timeout_s=0.2)
    assert remote.stop_server(server)
    assert not server.is_running
    assert not remote.stop_server(server)
    assert server.pid not in processes._CHILDREN
    child.communicate()


@pytest.mark.long(reason="servers are processes that load a model")
@pytest.mark.usefixtures("folder")
def test_a_server_of_which_no_start_is_known_is_stopped(path: Path) -> None:
    server = remote.start_server(path, options=ONE)
    assert remote.stop_server(replace(server, started=""))
    assert not server.is_running


@pytest.mark.long(reason="servers are processes that load a model")
def test_a_server_that_is_ending_is_not_the_one_that_runs(
    path: Path, folder: Path
) -> None:
    ending = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = process_start.start_of_process(ending.pid) or ""
    (folder / "default").mkdir()
    # Nobody listens on this port any more.
    server = replace(
        SERVER, name="default", url="http://127.0.0.1:1", pid=ending.pid, started=started
    )
    (folder / "default" / "server.json").write_text(json.dumps(asdict(server)))
    with pytest.raises(lh.ServerError, match=rf"process {ending.pid}, .* is ending"):
        remote.start_server(path, timeout_s=0.2)
    ending.communicate(b"\n")
    assert remote.start_server(path, options=ONE).pid != ending.pid


@pytest.mark.long(reason="servers are processes that load a model")
def test_the_process_of_another_start_is_not_the_server(path: Path, folder: Path) -> None:
    other = json.dumps({"url": "http://127.0.0.1:1", "pid": 1})

    def writes() -> bool:
        for name in ("ready.json", "ready-00000000.json"):
            (folder / "default" / name).write_text(other)
        return False

    server = remote.start_server(path, options=ONE, is_cancelled=writes)
    assert lh.connect(server).name == "tiny"


@pytest.mark.skipif(sys.platform != "linux", reason="others read no files for this")
def test_a_process_that_cannot_be_looked_at_is_not_taken_for_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        process_start.start_of_process(os.getpid())


@pytest.mark.long(reason="servers are processes that load a model")
@pytest.mark.usefixtures("folder")
def test_programs_that_start_a_server_at_the_same_time_get_the_same_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    at_start, run = threading.Barrier(2), processes._Start.run

    def counted(*args: Any, **options: Any) -> remote.RemoteServer:
        calls.append(args)
        return run(*args, **options)

    def start() -> remote.RemoteServer:
        at_start.wait(60)
        return remote.start_server(path, options=ONE)

    monkeypatch.setattr(processes._Start, "run", counted)
    with ThreadPoolExecutor(2) as pool:
        one, other = (pool.submit(start) for _ in range(2))
    assert one.result() == other.result()
    assert len(calls) == 1


def test_a_start_that_another_process_does_not_finish_is_not_waited_for_forever(
    path: Path, folder: Path
) -> None:
    (folder / "default").mkdir()
    lock = take_lock(folder / "default" / "start.lock")
    assert lock is not None
    with pytest.raises(lh.ServerError, match=rf"process {os.getpid()} is still starting"):
        remote.start_server(path, timeout_s=0.2)
    with pytest.raises(lh.ServerError, match="was cancelled"):
        remote.start_server(path, is_cancelled=lambda: True)
    lock.release()


def test_another_process_with_the_same_id_is_not_the_server() -> None:
    start = process_start.start_of_process(os.getpid())
    here = replace(SERVER, pid=os.getpid())
    assert start
    assert replace(here, started=start).is_running
    assert not replace(here, started=f"{start}0").is_running
    assert not remote.stop_server(here)  # otherwise this test would end
    ended = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    started = process_start.start_of_process(ended.pid)
    gone = replace(SERVER, pid=ended.pid, started=started or "")
    wait_until(lambda: not gone.is_running)  # although its exit status was not fetched
    ended.communicate()
    assert process_start.start_of_process(ended.pid) is None
    assert not gone.is_running


def test_starts_of_processes_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_start, "_IS_LINUX", False)
    assert process_start.start_of_process(os.getpid()) == repr(
        psutil.Process().create_time()
    )
    ended = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    wait_until(lambda: process_start.start_of_process(ended.pid) is None)
    ended.communicate()
    assert process_start.start_of_process(ended.pid) is None


@pytest.mark.long(reason="servers are processes that load a model")
@pytest.mark.usefixtures("folder")
def test_a_server_ends_with_its_program_or_stays(path: Path) -> None:
    program = (
        "import sys; from llamaherd import remote\n"
        "for name, stay in (('ends', False), ('stays', True)):\n"
        "    remote.start_server(sys.argv[1], name=name, stay=stay,\n"
        "                        options=['--n-threads', '1'])\n"
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert [running.name for running in remote.list_servers()] == ["ends", "stays"]
    wait_until(lambda: not remote.server_named("ends").is_running)
    stays = remote.server_named("stays")
    assert stays.is_running
    assert lh.connect(stays).name == "tiny"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("how", ["cancelled", "Ctrl-C"])
def test_a_start_that_is_ended_leaves_no_process(path: Path, how: str) -> None:
    pids: list[int] = []

    def end() -> bool:
        pids.extend(processes._CHILDREN)
        if how == "Ctrl-C":
            raise KeyboardInterrupt
        return True

    before = set(processes._CHILDREN)
    with pytest.raises((lh.ServerError, KeyboardInterrupt)):
        remote.start_server(path, stay=True, options=ONE, is_cancelled=end)
    (pid,) = set(pids) - before
    assert not psutil.pid_exists(pid)
    assert set(processes._CHILDREN) == before
    assert remote.list_servers() == []


def test_r_waits_for_a_start_in_a_job_that_it_can_cancel() -> None:
    cancelled: list[bool] = []

    def start(*, is_cancelled: Callable[[], bool]) -> NoReturn:
        wait_until(is_cancelled)
        cancelled.append(True)
        raise lh.ServerError("the start was cancelled")

    job = lh.Job(StartWork(start))
    assert not job.wait(0)
    assert job.progress.n_total == 0
    job.cancel()
    assert _r.job_result(job) == {
        "ok": True,
        "value": None,
        "warnings": [],
        "notices": [],
    }
    assert cancelled == [True]


@pytest.mark.long(reason="servers are processes that load a model")
def test_a_server_that_does_not_start_says_why(folder: Path) -> None:
    with pytest.raises(lh.ServerError, match=r"did not start: .*nowhere\.gguf"):
        remote.start_server(str(folder / "nowhere.gguf"))
    assert remote.list_servers() == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["", "../x", "a/b", "a" * 41, ".", "a b", "\0", "none"])
def test_names_of_servers(name: str) -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        remote.server_named(name)
    assert caught.value.argument == "name"


@pytest.mark.long(reason="servers are processes that load a model")
@pytest.mark.usefixtures("folder")
def test_engines_of_several_models(path: Path, tmp_path: Path) -> None:
    other = tiny_models.write(tmp_path / "other.gguf", "llama", 2)
    shapes = {"blk.0.attn_q.weight": (tiny_models.N_EMBD, tiny_models.N_EMBD)}
    style = tiny_loras.write(tmp_path / "style.gguf", shapes, size=1.0)
    models = {"one": path, "two": other}
    lora = {"style": f"{style}@two"}
    server = remote.start_server(models, lora=lora, options=(*ONE, "--memory", "1GB"))
    assert remote.start_server(models, lora=lora) == server
    assert server.model == f"one={path}, two={other}, style={style}@two"
    for changed in (models, [path, other], path):
        with pytest.raises(lh.ArgumentError, match="a running server with"):
            remote.start_server(changed)
    texts = []
    for name in (None, "two", "style"):
        with lh.connect(server, name) as engine:
            texts.append(lh.generate(engine, "yes, the", max_tokens=6).text)
    expected = []
    for file, adapter in ((path, None), (other, None), (other, style)):
        with lh.Model(file, lora=adapter) as model, lh.Context(model) as ctx:
            expected.append(lh.generate(ctx, "yes, the", max_tokens=6).text)
    assert texts == expected
    with pytest.raises(lh.ArgumentError, match="three"):
        lh.connect(server, "three")


@pytest.mark.long(reason="servers are processes that load a model")
@pytest.mark.usefixtures("folder")
def test_a_server_with_too_little_memory_does_not_start(path: Path) -> None:
    with pytest.raises(lh.ServerError, match=r"--memory is 0\.0 MB, but .* for 'tiny'"):
        remote.start_server(path, options=(*ONE, "--memory", "1kB"))
    assert remote.list_servers() == []


@pytest.mark.parametrize("terms", [R, PYTHON])
def test_a_server_reports_problems_of_its_start_in_the_language_of_the_caller(
    path: Path, monkeypatch: pytest.MonkeyPatch, terms: LanguageTerms
) -> None:
    """R shows the end of the log if a server does not start."""
    seen: list[str] = []

    def note(*_: object) -> int:
        seen.append(words().language)
        return 0

    with spoken_in(terms):
        language = processes._environment()[processes.LANGUAGE_VARIABLE]
    monkeypatch.setenv(processes.LANGUAGE_VARIABLE, language)
    monkeypatch.setattr(serve, "serve_on", note)
    assert main(["serve", str(path), "--port", "0"]) == 0
    assert seen == [terms.language]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("model", "lora", "argument"),
    [
        (1, None, "model"),
        ([], None, "model"),
        ({}, None, "model"),
        (["a.gguf", 1], None, "model"),
        ({"a=b": "a.gguf"}, None, "model"),
        ({" ": "a.gguf"}, None, "model"),
        ({1: "a.gguf"}, None, "model"),
        ({"a": None}, None, "model"),
        ("a.gguf", ["b.gguf"], "lora"),
        ("a.gguf", {"": "b.gguf"}, "lora"),
    ],
)
def test_models_of_servers(model: Any, lora: Any, argument: str) -> None:
    with pytest.raises((lh.ArgumentError, lh.ArgumentTypeError)) as caught:
        remote.start_server(model, lora=lora)
    assert caught.value.argument == argument


SERVER = remote.RemoteServer("s", "http://127.0.0.1:1", "key", 1, "m", "f", False)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("function", "arguments", "argument"),
    [
        (remote.stop_server, {"server": "s"}, "server"),
        (remote.stop_server, {"server": None}, "server"),
        (remote.stop_server, {"server": SERVER, "timeout_s": "s"}, "timeout_s"),
        (remote.start_server, {"model": "m", "options": 1}, "options"),
        (remote.start_server, {"model": "m", "timeout_s": None}, "timeout_s"),
        (lh.connect, {"url": 1}, "url"),
    ],
)
def test_wrong_types_of_servers_are_named(
    function: Callable[..., object], arguments: dict[str, Any], argument: str
) -> None:
    with pytest.raises(lh.ArgumentTypeError) as caught:
        function(**arguments)
    assert caught.value.argument == argument


@pytest.mark.usefixtures("folder")
def test_a_missing_server_is_reported_with_the_function_that_starts_one() -> None:
    with pytest.raises(lh.ArgumentError, match="no server was started yet") as caught:
        remote.server_named("news")
    assert "start_server()" in str(caught.value)


@pytest.mark.parametrize("name", ["submit_job", "job_status", "job_results"])
def test_functions_of_jobs_say_what_takes_their_place(name: str) -> None:
    with pytest.raises(AttributeError, match=r"connect\(server\)"):
        getattr(remote, name)


def test_sizes_and_settings_of_r_are_options_of_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[str, list[str]]] = []

    def start_server(model: str, *, options: list[str], **_: object) -> None:
        calls.append((model, options))

    monkeypatch.setattr(remote, "start_server", start_server)
    arguments = {"lora": None, "name": "x", "port": 0, "stay": False}
    status = _r.remote_start(
        model=["m.gguf"],
        sizes={"n_ctx": 64, "n_threads": "auto", "memory": None},
        settings={"context.deterministic": True, "model.tensor_split": 1},
        **arguments,
    )
    status["value"]["job"].results()
    settings = ["context.deterministic=true", "model.tensor_split=[1]"]
    flags = [part for setting in settings for part in ("--set", setting)]
    assert calls == [("m.gguf", ["--n-ctx", "64", *flags])]
    refused = _r.remote_start(
        model="m.gguf", sizes={"n_ctx": 0}, settings=[], **arguments
    )
    assert refused["argument"] == "n_ctx"
