"""Files of the hub and of the web, from a test server that can also misbehave."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import llamaherd as lh
import pytest
from hub_server import COMMIT, Hub, serving, sha256
from llamaherd.engine.hub import download, fetch
from llamaherd.engine.hub.progress import Cancelled, FetchMeter, FetchOptions
from llamaherd.engine.memory import hardware

if TYPE_CHECKING:
    from collections.abc import Callable

REPO = "owner/tiny-GGUF"
SOURCE = f"hf:{REPO}"
Q4 = b"GGUF" + os.urandom(3_000_000)
Q8 = b"GGUF" + os.urandom(5_000_000)
FILES = {"tiny-Q4_K_M.gguf": Q4, "tiny-Q8_0.gguf": Q8, "README.md": b"# tiny"}


@pytest.fixture(autouse=True)
def _files(hub: Hub) -> None:
    hub.repos[REPO] = dict(FILES)


def get(source: str, **options: object) -> Path:
    return lh.download_model(source, progress=False, **options)


def parts(cache: Path) -> list[str]:
    return sorted(p.name for p in cache.rglob("*") if p.name.startswith("."))


# ---- what is fetched ------------------------------------------------------------------


def test_the_file_comes_once_and_is_what_the_hub_has(hub: Hub, cache: Path) -> None:
    path = get(f"{SOURCE}/tiny-Q4_K_M.gguf")
    assert path == cache / "owner--tiny-GGUF" / "tiny-Q4_K_M.gguf"
    assert path.read_bytes() == Q4
    n_requests = len(hub.requests)
    assert get(f"{SOURCE}/tiny-Q4_K_M.gguf") == path
    assert get(f"{SOURCE}:q4_k_m") == path
    assert get(SOURCE) == path
    assert get("tiny-q4") == path
    assert len(hub.requests) == n_requests
    assert parts(cache) == []
    note = json.loads(path.with_name(f"{path.name}.json").read_text())
    assert note["sha256"] == hashlib.sha256(Q4).hexdigest()
    assert note["commit"] == COMMIT
    assert note["source"] == f"{SOURCE}/tiny-Q4_K_M.gguf"


def test_force_gets_the_current_one(hub: Hub) -> None:
    path = get(f"{SOURCE}:Q4_K_M")
    hub.repos[REPO]["tiny-Q4_K_M.gguf"] = Q8
    assert get(f"{SOURCE}:Q4_K_M").read_bytes() == Q4
    assert get(f"{SOURCE}:Q4_K_M", force=True).read_bytes() == Q8
    assert get(f"{SOURCE}:Q4_K_M") == path


def test_a_model_is_made_of_a_source(
    hub: Hub, tiny_path: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    hub.repos[REPO] = {"tiny-F16.gguf": tiny_path("llama").read_bytes()}
    with lh.Model(SOURCE) as model:
        assert model.path.name == "tiny-F16.gguf"
    assert f"{SOURCE}: taking F16" in capsys.readouterr().err
    with lh.Model("tiny-f16") as model:
        assert model.n_vocab > 0


def test_a_model_in_parts_comes_whole(hub: Hub) -> None:
    pieces = {f"big-Q4_0-0000{i}-of-00003.gguf": b"GGUF" + bytes([i]) for i in (1, 2, 3)}
    hub.repos[REPO] = pieces
    first = get(SOURCE)
    assert first.name == "big-Q4_0-00001-of-00003.gguf"
    assert {p.name: p.read_bytes() for p in first.parent.glob("*.gguf")} == pieces
    assert [model.name for model in lh.list_cached_models()] == [first.name]
    # The first part is downloaded last: without the other parts there is no model.
    first.with_name("big-Q4_0-00002-of-00003.gguf").unlink()
    get(SOURCE)
    assert len(list(first.parent.glob("*.gguf"))) == 3


@pytest.mark.parametrize("is_linked", [True, False], ids=["links", "no links"])
def test_files_of_other_programs_are_found(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_linked: bool
) -> None:
    # Without symbolic links, as on most machines with Windows, the cache has no blobs.
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    from huggingface_hub import constants, hf_hub_download

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not is_linked)
    shared = hf_hub_download(
        REPO,
        "tiny-Q8_0.gguf",
        endpoint=hub.url,
        cache_dir=tmp_path / "hf" / "hub",
        token=False,
    )
    assert Path(shared).is_symlink() == is_linked
    hub.requests.clear()
    assert str(get(SOURCE)) == shared
    assert str(get("tiny-Q8_0.gguf")) == shared
    assert [model.source for model in lh.list_cached_models()] == [SOURCE]
    assert hub.requests == []


def test_the_web_is_asked_for_plain_addresses(hub: Hub, cache: Path) -> None:
    url = f"{hub.url}/{REPO}/resolve/main/tiny-Q8_0.gguf?download=true"
    path = get(url)
    assert path.parent.parent == cache
    assert path.name == "tiny-Q8_0.gguf"
    assert path.read_bytes() == Q8
    assert get(url) == path
    assert len(hub.gets()) == 1
    # Another address with the same name is another file.
    hub.repos["else/where"] = {"tiny-Q8_0.gguf": Q4}
    other = get(f"{hub.url}/else/where/resolve/main/tiny-Q8_0.gguf")
    assert other.read_bytes() == Q4
    assert path.read_bytes() == Q8


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/download?file=a.gguf", "/download?file=b.gguf"),
        ("/file.gguf?versionId=1", "/file.gguf?versionId=2"),
        ("/file.gguf?x=1", "/file.gguf"),
        ("/a/file.gguf", "/b/file.gguf"),
        ("/a%2Ffile.gguf", "/a/file.gguf"),
        ("/file", "/file.gguf"),
        ("/FILE.gguf", "/file.gguf"),
        ("/file.gguf#a", "/file.gguf#b"),
    ],
)
def test_another_address_is_another_file(hub: Hub, one: str, other: str) -> None:
    targets = [address.partition("#")[0] for address in (one, other)]
    hub.by_target = dict(zip(targets, (Q4, Q8), strict=True))
    for i in (0, 1, 0, 1):
        path = get(f"{hub.url}{(one, other)[i]}")
        assert path.read_bytes() == hub.by_target[targets[i]]
    assert len(hub.gets()) == len(set(targets))
    wrong = hashlib.sha256(b"GGUF").hexdigest()
    with pytest.raises(lh.DownloadError, match="another file, or was changed"):
        get(f"{hub.url}{one}", sha256=wrong)


def test_a_file_that_nobody_downloaded_is_of_no_address(hub: Hub, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "model.gguf").write_bytes(Q4)
    hub.by_target = {"/model.gguf": Q8}
    path = get(f"{hub.url}/model.gguf")
    assert path.read_bytes() == Q8
    path.with_name("model.gguf.json").unlink()
    path.write_bytes(Q4)
    assert get(f"{hub.url}/model.gguf").read_bytes() == Q8
    # Its name alone now matches two files.
    with pytest.raises(lh.ModelLoadError, match="several files in the cache, which dif"):
        get("model.gguf")
    (cache / "model.gguf").write_bytes(Q8)
    assert get("model.gguf").read_bytes() == Q8


def test_parts_of_two_commits_are_no_model(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(letter: bytes) -> dict[str, bytes]:
        names = [f"big-Q4_0-0000{i}-of-00002.gguf" for i in (1, 2)]
        return {name: b"GGUF" + letter + name.encode() for name in names}

    def of(path: Path) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in path.parent.glob("*.gguf")}

    hub.repos[REPO] = version(b"a")
    first = get(SOURCE)
    first.unlink()  # as if the download had been interrupted after the second part
    hub.repos[REPO] = version(b"b")
    monkeypatch.setattr("hub_server.COMMIT", "decade" * 6 + "deca")
    assert of(get(SOURCE)) == version(b"b")
    # As if a forced download had been interrupted: the two parts are of different
    # versions.
    note = first.with_name(f"{first.name}.json")
    note.write_text(note.read_text().replace("decade", "c0ffee"))
    first.write_bytes(version(b"a")[first.name])
    n_gets = len(hub.gets())
    note.write_text(note.read_text().replace(sha256(version(b"b")[first.name]), "0" * 64))
    assert of(get(SOURCE)) == version(b"b")
    assert len(hub.gets()) == n_gets + 1


def test_a_name_is_that_of_one_file_of_a_repository(hub: Hub) -> None:
    hub.repos[REPO] = {"tiny.gguf": Q4, "a/tiny.gguf": Q8, "b/own.gguf": Q8}
    assert get(f"{SOURCE}/a/tiny.gguf").read_bytes() == Q8
    assert get(f"{SOURCE}/tiny.gguf").read_bytes() == Q4
    assert get(f"{SOURCE}/own.gguf").read_bytes() == Q8
    hub.repos["other/tiny-GGUF"] = {"a/tiny.gguf": Q4, "b/tiny.gguf": Q8}
    with pytest.raises(lh.ModelLoadError, match=r"several.*a/tiny.gguf, b/tiny.gguf"):
        get("hf:other/tiny-GGUF/tiny.gguf")


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"Content-Length": "\u00b2"}, None),
        ({"Content-Length": "1" * 5000}, None),
        ({"Content-Length": "-1"}, None),
        ({"Location": "http://[::1"}, "the server's answer cannot be read"),
        ({"Location": "http://..../x"}, "the server's answer cannot be read"),
        ({"Location": "http://xn--/x"}, "the server's answer cannot be read"),
        ({"Location": "http://127.0.0.1:99999/x"}, "the server's answer cannot be read|"),
        ({"Retry-After": "\u00b2"}, "answered 503"),
        ({"Retry-After": "9" * 5000}, "answered 503"),
    ],
)
def test_odd_headers_are_no_raw_errors(
    hub: Hub, headers: dict[str, str], message: str | None
) -> None:
    hub.by_target = {"/file.gguf": Q4}
    hub.odd = headers
    if message is None:
        with suppress(lh.DownloadError):
            assert get(f"{hub.url}/file.gguf").read_bytes() == Q4
        return
    with pytest.raises(lh.DownloadError, match=message):
        get(f"{hub.url}/file.gguf")


def test_names_and_addresses_that_cannot_be(hub: Hub) -> None:
    with pytest.raises(lh.DownloadError, match="has 305 bytes; the name of a file"):
        get(f"{hub.url}/{'a' * 300}.gguf")
    for host in ("[::1", "lab:x", "lab:99999", "....", "a" * 300):
        with pytest.raises(lh.ArgumentError, match="is not an address: "):
            get(f"http://{host}/model.gguf")


def test_progress_is_told(hub: Hub) -> None:
    del hub
    seen: list[tuple[int, int | None]] = []
    lh.download_model(SOURCE, progress=lambda *numbers: seen.append(numbers))
    assert seen[-1] == (len(Q8), len(Q8))
    assert [n for n, _ in seen] == sorted(n for n, _ in seen)
    with pytest.raises(TypeError, match="progress must be true or false, or a function"):
        lh.download_model(SOURCE, progress="yes")


# ---- what breaks ----------------------------------------------------------------------


def test_a_broken_connection_is_gone_on_with(hub: Hub) -> None:
    hub.cut_after = [1_000_000, 500_000]
    assert get(f"{SOURCE}:Q4_K_M").read_bytes() == Q4
    ranges = [headers.get("range") for headers in hub.gets()]
    assert ranges == [None, "bytes=1000000-", "bytes=1500000-"]


@pytest.mark.parametrize("moment", ["done > 2_000_000", "done == total"])
def test_what_a_dead_process_left_is_gone_on_with(
    hub: Hub, cache: Path, moment: str
) -> None:
    program = (
        "import llamaherd as lh, os\n"
        "def step(done, total):\n"
        f"    if {moment}: os._exit(9)\n"
        f"lh.download_model({SOURCE + ':Q4_K_M'!r}, progress=step)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == 9
    assert not (cache / "owner--tiny-GGUF" / "tiny-Q4_K_M.gguf").exists()
    hub.requests.clear()
    assert get(f"{SOURCE}:Q4_K_M").read_bytes() == Q4
    (headers,) = hub.gets()
    assert int(headers["range"].removeprefix("bytes=").rstrip("-")) >= 1_000_000


def test_a_file_that_changed_meanwhile_is_begun_anew(hub: Hub, cache: Path) -> None:
    url = f"{hub.url}/{REPO}/resolve/main/tiny-Q4_K_M.gguf"
    hub.cut_after = [1_000_000]
    hub.refuse = [404]
    with pytest.raises(lh.DownloadError, match=r"answered 404.*is the address right\?"):
        get(url)
    hub.cut_after = [1_000_000] + [0] * 4
    with pytest.raises(lh.DownloadError, match="1 MB are kept, and the same call"):
        get(url)
    assert ".tiny-Q4_K_M.gguf.part" in parts(cache)
    new = b"GGUF" + os.urandom(2_000_000)
    hub.repos[REPO]["tiny-Q4_K_M.gguf"] = new
    assert get(url).read_bytes() == new
    assert hub.gets()[-1]["if-range"] == f'"{hashlib.sha256(Q4).hexdigest()}"'
    assert parts(cache) == []


def test_a_server_without_ranges_sends_all_again(hub: Hub) -> None:
    hub.ranges = False
    hub.cut_after = [1_000_000]
    assert get(f"{SOURCE}:Q4_K_M").read_bytes() == Q4


def test_wrong_content_is_removed(hub: Hub, cache: Path) -> None:
    hub.lie = True
    with pytest.raises(
        lh.DownloadError, match=r"has the SHA-256 .* not .* It was removed"
    ):
        get(f"{SOURCE}:Q4_K_M")
    assert parts(cache) == []
    assert list(cache.rglob("*.gguf")) == []
    hub.lie = False
    assert get(f"{SOURCE}:Q4_K_M").read_bytes() == Q4


def test_a_hash_of_the_user_s_is_checked(hub: Hub) -> None:
    url = f"{hub.url}/{REPO}/resolve/main/tiny-Q4_K_M.gguf"
    right = hashlib.sha256(Q4).hexdigest()
    with pytest.raises(lh.DownloadError, match=r"not 0{64}"):
        get(url, sha256="0" * 64)
    with pytest.raises(lh.DownloadError, match="the hub says that tiny"):
        get(f"{SOURCE}:Q4_K_M", sha256="0" * 64)
    path = get(url, sha256=right.upper())
    with pytest.raises(lh.DownloadError, match="force=True downloads it again"):
        get(str(path), sha256="0" * 64)
    with pytest.raises(lh.DownloadError, match="force=True downloads it again"):
        get(url, sha256="0" * 64)
    with pytest.raises(ValueError, match="sha256 must be 64 hexadecimal digits"):
        get(url, sha256="abc")


def test_a_page_is_no_model(hub: Hub, cache: Path) -> None:
    hub.repos[REPO]["page.gguf"] = b"<!DOCTYPE html>"
    with pytest.raises(
        lh.DownloadError, match=r"is not a GGUF file: it begins with b'<!D"
    ):
        get(f"{hub.url}/{REPO}/resolve/main/page.gguf")
    assert list(cache.rglob("*.gguf")) == []


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(hub: Hub, status: int) -> None:
    url = f"{hub.url}/{REPO}/resolve/main/tiny-Q4_K_M.gguf"
    hub.refuse = [status, status]
    assert get(url).read_bytes() == Q4
    hub.refuse = [status] * 20
    with pytest.raises(lh.DownloadError, match=f"the server answered {status}"):
        get(url, force=True)


def test_no_server_at_all(monkeypatch: pytest.MonkeyPatch, hub: Hub) -> None:
    del hub
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(lh.DownloadError, match="cannot be reached"):
        get(SOURCE)
    with pytest.raises(lh.DownloadError, match="no connection"):
        get("http://127.0.0.1:9/x.gguf")


def test_two_who_want_the_same_get_one_file(hub: Hub) -> None:
    results: list[bytes] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(get(f"{SOURCE}:Q8_0").read_bytes())
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [Q8] * 4
    assert len(hub.gets()) == 1


def test_a_cancelled_download_is_kept(hub: Hub, cache: Path) -> None:
    seen: list[int] = []

    def step(n_done: int, _total: int | None) -> None:
        seen.append(n_done)
        meter.is_cancelled = len(seen) > 1

    meter = FetchMeter(step)
    with pytest.raises(Cancelled):
        fetch.fetch(f"{SOURCE}:Q8_0", FetchOptions(cache=cache, meter=meter))
    hub.requests.clear()
    assert get(f"{SOURCE}:Q8_0").read_bytes() == Q8
    assert hub.gets()[0]["range"] == f"bytes={seen[-1]}-"


def test_ctrl_c_keeps_what_came(hub: Hub) -> None:
    def interrupt(done: int, _total: int | None) -> None:
        if done > 1_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lh.download_model(f"{SOURCE}:Q8_0", progress=interrupt)
    hub.requests.clear()
    assert get(f"{SOURCE}:Q8_0").read_bytes() == Q8
    assert int(hub.gets()[0]["range"].removeprefix("bytes=").rstrip("-")) >= 1_000_000


# ---- memory and disk ------------------------------------------------------------------


def test_what_does_not_fit_is_not_begun(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda: 132_000_000)
    message = (
        r"needs about 133 MB with a context, and 132 MB are available\. Q4_K_M \(3 MB"
    )
    with pytest.raises(lh.ModelLoadError, match=message):
        get(f"{SOURCE}:Q8_0")
    with pytest.raises(lh.ModelLoadError, match="Use a smaller model"):
        get(f"{hub.url}/{REPO}/resolve/main/tiny-Q8_0.gguf")
    assert list(cache.rglob("*.gguf")) == []
    assert get(SOURCE).name == "tiny-Q4_K_M.gguf"
    assert get(f"{SOURCE}:Q8_0", check_memory=False).read_bytes() == Q8
    monkeypatch.setattr(hardware, "available_memory", lambda: 1_000_000)
    with pytest.raises(lh.ModelLoadError, match="none of its files fits into memory"):
        get(SOURCE, force=True)


def test_a_full_disk_is_seen_before(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del hub
    usage = type("Usage", (), {"free": 1_000_000})
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(lh.DownloadError, match="has 1 MB free, but 3 MB remain"):
        get(f"{SOURCE}:Q4_K_M")
    assert list(cache.rglob("*.gguf")) == []


def test_a_disk_that_becomes_full_is_told_and_goes_on_later(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(download.os, "fsync", full)
        with pytest.raises(lh.DownloadError, match=r"No space left.*3 MB are kept"):
            get(f"{SOURCE}:Q4_K_M")
    assert len(hub.gets()) == 1
    assert get(f"{SOURCE}:Q4_K_M").read_bytes() == Q4
    assert hub.gets()[1]["range"] == f"bytes={len(Q4) - 1}-"


# ---- tokens ---------------------------------------------------------------------------


def test_a_gated_model_wants_a_token(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    hub.gated.add(REPO)
    hub.token = "hf_secretsecret"
    with pytest.raises(lh.DownloadError, match=r"there is no token.*set_hf_token\(\)"):
        get(SOURCE)
    with pytest.raises(lh.DownloadError, match="the token gives no access") as error:
        get(SOURCE, token="hf_wrongwrong")
    assert "hf_wrong" not in str(error.value)
    assert get(SOURCE, token=hub.token).read_bytes() == Q8
    monkeypatch.setenv("HF_TOKEN", "x")  # put back afterwards
    lh.set_hf_token(hub.token)
    assert get(f"{SOURCE}:Q4_K_M").read_bytes() == Q4
    written = b"".join(p.read_bytes() for p in cache.rglob("*.json"))
    assert b"hf_secret" not in written
    options = FetchOptions(cache=cache, token=hub.token)
    assert "hf_secret" not in repr(options)
    assert "hf_secret" not in repr(
        download.FileRequest(
            url="https://x/y?token=hf_secret", target=cache, source="", token=hub.token
        )
    )
    with pytest.raises(ValueError, match="not shown here") as error:
        get(SOURCE, token="hf secret\n2")
    assert "hf secret" not in str(error.value)


def test_other_hosts_never_see_the_token(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.gated.add(REPO)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    with serving(Hub(repos={REPO: dict(FILES)}), "localhost") as cdn:
        hub.cdn = cdn.url
        assert get(f"{SOURCE}:Q4_K_M").read_bytes() == Q4
        assert get(f"{hub.url}/{REPO}/resolve/main/tiny-Q8_0.gguf").read_bytes() == Q8
        get(f"{cdn.url}/{REPO}/resolve/main/tiny-Q4_K_M.gguf")
        assert len(cdn.requests) == 3
        assert all("authorization" not in headers for _, _, headers in cdn.requests)
    assert all(h["authorization"] == f"Bearer {hub.token}" for h in hub.gets())


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://example.org/x.gguf"])
def test_redirects_lead_to_the_web_only(hub: Hub, to: str) -> None:
    hub.cdn = to
    with pytest.raises(lh.DownloadError, match="unsupported protocol"):
        get(f"{hub.url}/{REPO}/resolve/main/tiny-Q8_0.gguf")
    assert len(hub.gets()) == 1  # not tried again


# ---- hostile servers ------------------------------------------------------------------


def test_a_body_without_end_does_not_fill_the_machine(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.by_target = {"/file.gguf": Q8}
    hub.stated = False
    monkeypatch.setattr(download, "_UNSIZED", 1_000_000)
    with monkeypatch.context() as memory:
        memory.setattr(hardware, "available_memory", lambda: 130_000_000)
        with pytest.raises(lh.ModelLoadError, match=r"does not fit .* Use a smaller"):
            get(f"{hub.url}/file.gguf")
    with monkeypatch.context() as disk:
        usage = type("Usage", (), {"free": 100_000})
        disk.setattr(download.shutil, "disk_usage", lambda _path: usage)
        with pytest.raises(lh.DownloadError, match="has 0 MB free, but 1 MB remain"):
            get(f"{hub.url}/file.gguf")
    assert list(cache.rglob("*.gguf")) == []
    assert get(f"{hub.url}/file.gguf").read_bytes() == Q8


def test_another_length_than_the_hub_s_is_refused(hub: Hub, cache: Path) -> None:
    hub.by_target = {f"/{REPO}/resolve/{COMMIT}/tiny-Q4_K_M.gguf": Q4}
    for length in (1000, len(Q4) + 1):
        hub.odd = {"Content-Length": str(length)}
        with pytest.raises(lh.DownloadError, match=f"has {length} bytes, not {len(Q4)}"):
            get(f"{SOURCE}:Q4_K_M")
    assert list(cache.rglob("*.gguf")) == []


def test_a_tag_that_no_header_can_contain_is_not_sent_back(hub: Hub) -> None:
    hub.by_target = {"/file.gguf": Q4}
    hub.odd = {"ETag": '"\u00e9"', "Content-Length": str(len(Q4) + 1)}
    with pytest.raises(lh.DownloadError, match="the connection ended too early"):
        get(f"{hub.url}/file.gguf")
    assert all("if-range" not in headers for headers in hub.gets())


def test_a_compressed_body_is_not_unpacked(hub: Hub) -> None:
    hub.by_target = {"/file.gguf": gzip.compress(b"GGUF" + bytes(10_000_000))}
    hub.odd = {"Content-Encoding": "gzip"}
    with pytest.raises(lh.DownloadError, match=r"is not a GGUF file: it begins with b'."):
        get(f"{hub.url}/file.gguf")


def test_redirects_have_an_end(hub: Hub) -> None:
    hub.by_target = {"/file.gguf": Q4}
    hub.odd = {"Location": "/file.gguf"}
    with pytest.raises(lh.DownloadError, match="maximum allowed redirects"):
        get(f"{hub.url}/file.gguf")


def test_no_redirect_leads_from_https_to_http(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.scheme == "https"
        return httpx.Response(302, headers={"Location": "http://example.org/b.gguf"})

    opened = partial(httpx.Client, transport=httpx.MockTransport(answer))
    monkeypatch.setattr(httpx, "Client", opened)
    with pytest.raises(lh.DownloadError, match="redirects from https to http"):
        get("https://example.org/a.gguf")


def test_no_log_contains_the_secrets_of_an_address(
    hub: Hub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.by_target = {"/a.gguf?key=hf_secret": b"", "/b.gguf?signature=hf_secret": Q4}
    hub.odd = {"Location": f"{hub.url}/b.gguf?signature=hf_secret"}
    with pytest.raises(lh.DownloadError):
        get(f"{hub.url}/a.gguf?key=hf_secret")
    hub.odd = {}
    get(f"{hub.url}/b.gguf?signature=hf_secret")
    get(SOURCE)
    assert "hf_secret" not in caplog.text
    httpx.get(f"{hub.url}/other?of=another")  # requests of other code are logged
    assert "other?of=another" in caplog.text


def test_a_proxy_that_cannot_be_used_is_no_raw_error(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("ALL_PROXY", "gopher://user:hf_secret@localhost:9")
    with pytest.raises(lh.DownloadError, match="proxy that the environment") as error:
        get(f"{hub.url}/file.gguf")
    assert "hf_secret" not in str(error.value)


def test_finding_a_file_loads_no_http() -> None:
    script = (
        "import llamaherd.engine.hub.fetch, sys\n"
        "assert not {'httpx', 'httpcore', 'filelock', 'requests'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


# ---- offline --------------------------------------------------------------------------


def test_offline_uses_the_cache_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    path = get(f"{SOURCE}:Q8_0")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.requests.clear()
    assert get(SOURCE) == path
    with pytest.raises(lh.DownloadError, match="HF_HUB_OFFLINE forbids"):
        get(f"{SOURCE}:Q4_K_M")
    with pytest.raises(lh.DownloadError, match="HF_HUB_OFFLINE forbids"):
        get(f"{hub.url}/{REPO}/resolve/main/tiny-Q4_K_M.gguf")
    assert hub.requests == []


def test_what_the_hub_does_not_have(hub: Hub) -> None:
    hub.repos["owner/none"] = {"model.safetensors": b"x"}
    for source, message in {
        "hf:owner/missing": "no such repository; check the spelling",
        "hf:owner/none": "has no GGUF files; look for a repository",
        f"{SOURCE}:Q2_K": r"there is no 'Q2_K'; there is Q8_0 \(5 MB\), Q4_K_M \(3 MB\)",
        f"{SOURCE}@other": "has no branch, tag or commit 'other'",
        f"{SOURCE}/other.gguf": "there is no 'other.gguf'",
    }.items():
        with pytest.raises(lh.ModelLoadError, match=message):
            get(source)
    hub.refuse = [500] * 20
    with pytest.raises(lh.DownloadError, match="the hub answered 500; try again later"):
        get(SOURCE)
    hub.refuse = [429] * 20
    with pytest.raises(lh.DownloadError, match="too many requests from this machine"):
        get(SOURCE)


def test_names_of_the_hub_lead_nowhere_else(hub: Hub, cache: Path) -> None:
    hub.repos[REPO] = {"../../evil-Q4_0.gguf": Q4}
    with pytest.raises(lh.DownloadError, match="cannot be the name of a file"):
        get(SOURCE)
    assert not list(cache.parent.parent.rglob("evil*"))
