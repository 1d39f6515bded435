"""A model's files on other machines are found by their content, or sent."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.core.errors import ClusterError, ModelLoadError
from llamaherd.ray import cores
from llamaherd.ray.cores import Claim
from llamaherd.ray.files import Files, SourceFile, files_of, hashed, parts
from llamaherd.ray.member import Payload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def elsewhere(wanted: list[SourceFile], path: Path | None = None) -> list[SourceFile]:
    """Return the same files with the paths of a caller on another machine."""
    return [
        replace(file, identity=("other",), path=str(path) if path else file.path)
        for file in wanted
    ]


def payload(wanted: list[SourceFile], *, may_send: bool = True) -> Payload:
    return Payload(
        wanted,
        len(wanted),
        scales=[],
        model={},
        context=None,
        n_threads=1,
        may_send=may_send,
    )


def asks(files: Files, calls: list[str]) -> Callable[..., Any]:
    def ask(method: str, *args: object, **named: object) -> object:
        calls.append(method)
        return getattr(files, method)(*args, **named)

    return ask


def test_the_same_file_is_not_read(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, n_model = files_of(lh.Model(tiny_path("llama")))
    assert n_model == 1
    monkeypatch.setattr("llamaherd.ray.files.sha256_of", lambda _: 1 / 0)
    files, calls = Files(), []
    payload(wanted).bring(asks(files, calls), "here")
    assert calls == ["missing"]
    assert files.path(wanted[0]) == tiny_path("llama")


def test_a_file_at_the_same_path_with_the_same_content_is_used(
    tiny_path: Callable[[str], Path],
) -> None:
    wanted, _ = files_of(lh.Model(tiny_path("llama")))
    files, calls = Files(), []
    payload(elsewhere(wanted)).bring(asks(files, calls), "there")
    assert calls == ["missing", "missing"]  # then found by its hash
    assert files.path(wanted[0]) == tiny_path("llama")


def test_a_file_that_differs_is_sent_once(
    tiny_path: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMAHERD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("llamaherd.ray.files.PART_BYTES", 10_000)
    path = tmp_path / "model.gguf"
    content = tiny_path("llama").read_bytes()
    path.write_bytes(content)
    wanted = elsewhere(files_of(lh.Model(path))[0])
    there = payload(wanted)
    there.files = hashed(wanted, 1)
    sent = list(parts(there.files[0]))
    assert b"".join(data for data, _ in sent) == content
    assert [is_last for _, is_last in sent] == [False] * (len(sent) - 1) + [True]

    class Other(Files):
        """Actor on a machine where another file has that path."""

        def missing(self, wanted: list[SourceFile]) -> list[int]:  # type: ignore[override]
            return super().missing(
                [replace(file, path=f"{file.path}.other") for file in wanted]
            )

    files, calls = Other(), []
    with pytest.raises(KeyError):
        files.path(wanted[0])
    monkeypatch.setattr("llamaherd.ray.files._kept", lambda f: tmp_path / f.sha256)
    there.bring(asks(files, calls), "there")
    assert calls == ["missing", "missing", *["receive"] * len(sent)]
    assert (tmp_path / there.files[0].sha256).read_bytes() == content
    again: list[str] = []
    there.bring(asks(Other(), again), "there")
    assert again == ["missing"]


def test_what_was_received_by_a_process_that_died_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llamaherd.ray.files.model_cache_dir", lambda: tmp_path / "here")
    path = tmp_path / "a[1].gguf"
    path.write_bytes(b"some bytes")
    stat = path.stat()
    file = hashed(
        [SourceFile(path=str(path), n_bytes=stat.st_size, identity=("", 0))], 1
    )[0]
    folder = tmp_path / "here" / "received" / file.folder
    folder.mkdir(parents=True)
    old, young = (folder / f"a[1].gguf.{pid}.part" for pid in (1, 2))
    for partial in (old, young):
        partial.write_bytes(b"some")
    os.utime(old, (0, 0))
    files = Files()
    for data, is_last in parts(file):
        files.receive(file, data, is_last=is_last)
    assert not old.exists()
    assert young.exists()  # another process may still receive it
    assert files.path(file).read_bytes() == b"some bytes"


def test_what_came_is_checked(
    tiny_path: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMAHERD_CACHE_DIR", str(tmp_path))
    wanted = hashed(files_of(lh.Model(tiny_path("llama")))[0], 1)[0]
    wrong = b"x" * wanted.n_bytes
    with pytest.raises(ModelLoadError, match="has changed while it was sent"):
        Files().receive(wanted, wrong, is_last=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_node_without_the_file_is_named_where_none_is_to_be_sent(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    wanted = files_of(lh.Model(tiny_path("llama")))[0]
    there = payload(elsewhere(wanted), may_send=False)
    there.files = elsewhere(hashed(wanted, 1), tmp_path / "none.gguf")
    with pytest.raises(ClusterError, match=r"node of actor 3 has no file .*send_model"):
        there.bring(asks(Files(), []), "of actor 3")


def test_a_model_that_is_gone_is_told(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_path("llama").read_bytes())
    model = lh.Model(path)
    wanted, _ = files_of(model)
    path.unlink()
    with pytest.raises(ModelLoadError, match="is gone"):
        files_of(model)
    with pytest.raises(ModelLoadError, match="is gone"):
        hashed(wanted, 1)


def test_claimed_processors_belong_to_one_memory_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The machine of this test has two nodes with two processors each."""
    if not cores._CPUS.is_dir():
        pytest.skip("no Linux")
    for node, listed in (("node0", "0-1"), ("node1", "2-3")):
        (tmp_path / node).mkdir()
        (tmp_path / node / "cpulist").write_text(f"{listed}\n")
    monkeypatch.setattr(cores, "_NODES", tmp_path)
    monkeypatch.setattr(cores, "_CPUS", tmp_path)
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(cores.os, "getuid", lambda: 987_654_322)
    assert cores.numa_nodes() == [[0, 1], [2, 3]]
    claims = [Claim(1), Claim(2), Claim(2)]
    assert [claim.cores for claim in claims] == [(0,), (2, 3), ()]
    claims[0].close()
    claims.append(Claim(2))
    assert claims[-1].cores == (0, 1)
    for claim in claims:
        claim.close()


def test_processors_are_claimed_once_and_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not cores._CPUS.is_dir():
        pytest.skip("no Linux")
    # As another user, because actors of other tests may have claimed this user's
    # processors.
    monkeypatch.setattr(cores.os, "getuid", lambda: 987_654_321)
    first = Claim(1)
    assert len(first.cores) == 1
    second = Claim(1)
    assert second.cores != first.cores  # another file, or no file
    own = first.cores
    first.close()
    second.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mine:
        mine.bind(f"\0llamaherd-core-{cores.os.getuid()}-{own[0]}")


def test_more_processors_than_there_are_are_not_claimed() -> None:
    claim = Claim(100_000)
    assert claim.cores == ()
    claim.pin()  # does nothing
    assert cores.n_own_threads(0.1) == 1
    assert cores.n_numa_nodes() >= 1
