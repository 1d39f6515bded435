"""The journal on a fake engine: no result is lost, duplicated or confused."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sqlite3
import sys
from contextlib import closing
from itertools import chain, count, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from fake_engine import N_VOCAB, FakeEngine, answer, make_loop, text_of
from hypothesis import given
from hypothesis import strategies as st
from journalled import NUMERICS, SIZES, FakeContext, entries, recorded, request, run
from llamaherd import GenerationError, JournalError, JournalWarning, SamplingParams
from llamaherd.calls.journal import sqlite as journal_look
from llamaherd.calls.journal.entry import journal_key, settings_json
from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.journal.recording import RecordedCall, Writer
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.calls.run.job import Job
from llamaherd.engine.model.file import ModelFile
from setting_examples import EFFECTIVE
from thorough import examples

if TYPE_CHECKING:
    from llamaherd.calls.journal.entry import JournalEntry
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.results import Result
    from llamaherd.engine.memory.plan import Plan

POISON = N_VOCAB + 7


def core(result: Result) -> dict[str, object]:
    """Return the fields of a result without its cost."""
    fields = dataclasses.asdict(result)
    del fields["n_reused_tokens"], fields["stats"]
    return fields


# ---- the same call again ---------------------------------------------------------------


@st.composite
def workloads(draw: st.DrawFn) -> list[Request]:
    """Draw prompts: shared beginnings, equal prompts, failures, sampled answers."""
    return [
        request(
            [1] * draw(st.sampled_from([0, 0, 20])) + draw(st.lists(st.integers(0, 3))),
            draw(st.integers(1, 30)),
            temperature=draw(st.sampled_from([0.0, 0.8])),
            seed=draw(st.integers(0, 2)),
        )
        if draw(st.integers(0, 7))
        else request([1, POISON])
        for _ in range(draw(st.integers(1, 25)))
    ]


@given(requests=workloads(), stops=st.lists(st.integers(0, 30), max_size=3))
@examples(100)
def test_a_broken_run_that_goes_on_equals_an_unbroken_one(
    requests: list[Request], stops: list[int]
) -> None:
    call = Call(requests, seed=1)
    whole = call.run(make_loop(SIZES))
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.gguf").write_bytes(b"GGUF")
        done: set[int] = set()
        for stop in stops:
            # The journal checks for cancellation once for each prompt and each MB of
            # the model.
            polls = chain(repeat(False, len(requests) + 1 + stop), repeat(True))
            results, _ = run(folder, requests, is_cancelled=polls.__next__)
            finished = {result.index for result in results if result.is_finished}
            assert finished >= done
            done = finished
        results, engine = run(folder, requests)
        assert [core(result) for result in results] == [core(result) for result in whole]
        assert results.stats.n_journal == len(done)
        n_open = sum(r.finish_reason != "error" for r in whole) - len(done)
        n_poisoned = sum(POISON in prompt.tokens for prompt in requests)
        assert engine.numbers["n_failed_decodes"] == 0 or n_poisoned
        assert engine.n_submitted == 0 or n_open or n_poisoned
        again, engine = run(folder, requests)
        assert [core(result) for result in again] == [core(result) for result in whole]
        assert engine.numbers["n_generated"] == 0
        assert [path.name for path in sorted(folder.iterdir())] == [
            "model.gguf",
            "run.sqlite",
        ]


def test_only_what_is_missing_is_submitted(folder: Path) -> None:
    requests = [request([i, 1]) for i in range(10)]
    run(folder, requests[::2])
    results, engine = run(folder, requests)
    assert engine.n_submitted == 5
    assert results.stats.n_journal == 5
    assert "5 from the journal" in str(results.stats)
    assert results.texts == [text_of(answer(prompt)[0]) for prompt in requests]
    # Nothing of a stored prompt was computed for it.
    assert [result.n_reused_tokens for result in results] == [2, 0] * 5


def test_progress_counts_what_was_stored(folder: Path) -> None:
    requests = [request([1]), request([1]), request([2])]
    run(folder, requests)
    call = recorded(folder, requests)
    call.run(make_loop(SIZES))
    assert (call.progress.n_done, call.progress.n_failed) == (3, 0)


def test_equal_prompts_share_one_entry(folder: Path) -> None:
    requests = [request([1, 2]) for _ in range(4)] + [request([3])]
    results, _ = run(folder, requests)
    assert (results.stats.n_journal, results.stats.n_copied) == (0, 3)
    assert len(entries(folder)) == 2
    results, _ = run(folder, [*requests, request([3]), request([4]), request([4])])
    assert (results.stats.n_journal, results.stats.n_copied) == (6, 1)
    assert len(entries(folder)) == 3


def test_drawn_answers_belong_to_their_seeds(folder: Path) -> None:
    requests = [request([1, 2], 9, temperature=1.0, seed=seed) for seed in (5, 6, 5)]
    results, _ = run(folder, requests)
    assert results[0].text != results[1].text
    assert results[0].text == results[2].text
    assert len(entries(folder)) == 2
    results, engine = run(folder, requests[::-1])
    assert (results.stats.n_journal, engine.n_submitted) == (3, 0)
    # If no token is drawn, the seed has no effect, and the result has its own seed.
    run(folder, [request([8], seed=1)])
    results, engine = run(folder, [request([8], seed=2)])
    assert (engine.n_submitted, results[0].seed) == (0, 2)


def test_failures_are_tried_again_and_replaced(folder: Path) -> None:
    class Broken(FakeEngine):
        def submit(
            self, id_: int, prompt: Request, *args: object, **kwargs: object
        ) -> None:
            if prompt.tokens[0] == 2:
                raise ValueError("not today")
            super().submit(id_, prompt, *args, **kwargs)

    requests = [request([1]), request([2]), request([])]
    run(folder, requests, Broken(4096, 12))
    first, second, third = sorted(
        entries(folder), key=lambda entry: entry.n_prompt_tokens
    )
    assert (first.error, first.finish_reason) == (
        "the prompt is empty: it has no tokens",
        "error",
    )
    assert {second.error, third.error} == {None, "not today"}
    results, engine = run(folder, requests)
    assert engine.n_submitted == 1
    assert results[1].is_finished
    assert results.stats.n_failed == 1
    assert [entry.error for entry in entries(folder)].count(None) == 2
    # A failure never replaces an answer.
    run(folder, requests, Broken(4096, 12))
    assert [entry.error for entry in entries(folder)].count(None) == 2


def test_what_was_finished_before_an_error_is_stored(folder: Path) -> None:
    requests = [request([i], 1) for i in range(4)] + [request([POISON], 1)]
    with pytest.raises(GenerationError, match=r"prompts\[4\]"):
        run(folder, requests, on_error="stop")
    assert sum(entry.error is None for entry in entries(folder)) == 4


def test_a_call_that_cannot_run_leaves_a_journal_that_works(folder: Path) -> None:
    def make(_plan: Plan) -> FakeEngine:
        raise MemoryError("too much")

    loop = make_loop(SIZES)
    loop._sizing.make = make
    with pytest.raises(MemoryError):
        recorded(folder, [request([1])]).run(loop)
    assert entries(folder) == []
    results, _ = run(folder, [request([1])])
    assert results[0].is_finished


def test_cancelled_before_the_model_is_known_stores_nothing(folder: Path) -> None:
    empty = dataclasses.replace(request([]), problem="the prompt is empty")
    results, _ = run(folder, [request([1]), empty], is_cancelled=lambda: True)
    assert results.finish_reasons == ["cancelled", "error"]
    assert entries(folder) == []


@pytest.mark.long(reason="a process for each case")
def test_a_fast_writer_stores_each_result_while_the_call_runs(folder: Path) -> None:
    seen = []

    class Curious(FakeEngine):
        def run(self, *args: object, **options: object) -> object:
            seen.append(len(entries(folder)))
            return super().run(*args, **options)

    run(folder, [request([i, i], 30) for i in range(400)], Curious(4096, 12))
    assert len(entries(folder)) == 400
    assert any(0 < n < 400 for n in seen)
    assert seen == sorted(seen)


# ---- keys ------------------------------------------------------------------------------

OTHER = {
    name: value
    for name, (value, _) in EFFECTIVE.items()
    if name not in ("max_tokens", "stop", "seed")
}


def key(prompt: Request, model: bytes = b"m" * 32, **context: object) -> bytes:
    return journal_key(model, settings_json(prompt, {**NUMERICS, **context}), prompt)


def test_everything_that_the_text_depends_on_is_in_the_key() -> None:
    names = {field.name for field in dataclasses.fields(SamplingParams)}
    assert set(OTHER) == names - {"max_tokens", "stop", "seed"}
    plain = request([1, 2])
    keys = [
        key(plain),
        key(plain, b"n" * 32),
        key(plain, type_k="q8_0"),
        key(plain, deterministic=True),
        key(request([1, 2, 3])),
        key(request([513])),  # the bytes of [1, 2] at other positions
        key(request([1, 2], 6)),
        key(dataclasses.replace(plain, stop=("a", "b"))),
        key(dataclasses.replace(plain, stop=("ab",))),
        key(request([1, 2], temperature=0.8, seed=1)),
        key(request([1, 2], temperature=0.8, seed=2)),
        *(key(request([1, 2], **{name: value})) for name, value in OTHER.items()),
    ]
    assert len(set(keys)) == len(keys)
    assert key(plain) == key(request([1, 2], seed=99))
    assert key(plain) == key(dataclasses.replace(plain, text="another spelling"))


def test_keys_stay_what_they_are_from_version_to_version() -> None:
    # Do not change these values or a default of SamplingParams: users would lose their
    # journals.
    prompt = dataclasses.replace(
        request([1, 2, 3], 9, temperature=0.5, top_k=3, seed=11), stop=("é",)
    )
    assert settings_json(prompt, NUMERICS) == (
        '{"max_tokens": 9, "stop": ["é"], "temperature": 0.5, "top_k": 3, '
        '"type_k": "f16"}'
    )
    assert settings_json(request([1]), {}) == '{"max_tokens": 5, "stop": []}'
    assert key(prompt).hex() == GOLDEN_KEY
    assert {name: getattr(SamplingParams(), name) for name in DEFAULTS} == DEFAULTS


GOLDEN_KEY = "6afd673019d4d6f22d04d9a6131511e4f39cb082eb8291f36dc6405984272289"
DEFAULTS = {
    "temperature": 0.0,
    "top_k": 40,
    "top_p": 1.0,
    "min_p": 0.05,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "repeat_last_n": 64,
    "penalty_repeat": 1.0,
    "penalty_freq": 0.0,
    "penalty_present": 0.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": -1,
    "dry_breakers": ("\n", ":", '"', "*"),
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "logit_bias": (),
    "schema": None,
    "regex": None,
    "grammar": None,
    "choices": None,
    "quote_from": None,
    "ignore_eos": False,
    "min_tokens": 0,
    "stop_token_ids": (),
}


def test_another_model_or_other_settings_add(folder: Path) -> None:
    run(folder, [request([1])])
    for prompt in (request([1], 6), request([1], top_k=3)):
        results, _ = run(folder, [prompt])
        assert results.stats.n_journal == 0
    (folder / "model.gguf").write_bytes(b"GGUF and weighty")  # same length as before
    results, _ = run(folder, [request([1])])
    assert results.stats.n_journal == 0
    assert len(entries(folder)) == 4
    assert len({entry.model_sha256 for entry in entries(folder)}) == 2


# ---- the model's file ------------------------------------------------------------------


def test_a_model_is_hashed_once_for_each_journal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder, [request([1])])
    (entry,) = entries(folder)
    assert entry.model_sha256 == hashlib.sha256(b"GGUF and weights").hexdigest()
    assert entry.model == "model.gguf"
    monkeypatch.setattr("llamaherd.engine.model.file.digest_of", None)
    results, _ = run(folder, [request([1])])
    assert results.stats.n_journal == 1


def test_a_model_that_is_exchanged_while_it_is_hashed_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = recorded(folder, [request([1])])
    monkeypatch.setattr(
        "llamaherd.engine.model.file.digest_of",
        lambda path, _is_cancelled: bytes(path.write_bytes(b"other") * 6),
    )
    with pytest.raises(JournalError, match=r"'model.gguf' has changed since it was"):
        call.run(make_loop(SIZES))
    assert entries(folder) == []


def test_a_file_knows_whether_it_changed(folder: Path) -> None:
    path = folder / "model.gguf"
    file = ModelFile(path)
    path.chmod(0o600)
    assert file.is_unchanged
    path.write_bytes(b"GGUF")
    assert not file.is_unchanged
    file = ModelFile(path)
    path.unlink()
    assert not file.is_unchanged


@pytest.mark.skipif(
    sys.platform in ("darwin", "win32"), reason="all file names are Unicode there"
)
def test_a_name_that_is_not_utf8_can_be_stored(folder: Path) -> None:
    path = folder / os.fsdecode(b"mod\xe8le.gguf")  # Latin-1
    path.write_bytes(b"GGUF")
    journal = Journal(folder / "run.sqlite")
    call = Call([request([1])], seed=1)
    kept = RecordedCall(call, journal, ModelFile(path), NUMERICS, text_of)
    kept.run(make_loop(SIZES))
    assert (kept.problem, entries(folder)[0].model) == ("", "mod?le.gguf")


def test_all_parts_of_a_split_model_count(tmp_path: Path) -> None:
    paths = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    hashes = set()
    for contents in ((b"a", b"b"), (b"a", b"c"), (b"ab", b"")):
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        hashes.add(ModelFile(paths[0]).sha256())
    assert len(hashes) == 3
    assert None not in hashes
    paths[1].unlink()
    assert ModelFile(paths[0]).sha256() == hashlib.sha256(b"ab").digest()
    assert ModelFile(paths[0]).sha256(lambda: True) is None


# ---- when nothing can be written -------------------------------------------------------


def test_a_full_disk_costs_no_result(folder: Path) -> None:
    requests = [request([i, i], 30) for i in range(200)]
    call = recorded(folder, requests)
    # SQLite's own "disk is full".
    n_pages = call._journal._db.execute("PRAGMA page_count").fetchone()[0]
    call._journal._db.execute(f"PRAGMA max_page_count = {n_pages + 2}")
    job = Job(HostedCall(FakeContext(), call))
    full = r"results could not .*run.sqlite'.*full"
    with pytest.warns(JournalWarning, match=full) as warned:
        results = job.results()
    assert all(result.is_finished for result in results)
    # On a busy machine, a first group of results is small enough for two pages, and the
    # first failure is reported before the end.
    n_lost = 200 - len(entries(folder))
    assert n_lost > 0
    assert f"{n_lost} results could not" in str(warned[-1].message)
    results, engine = run(folder, requests)
    assert engine.n_submitted == n_lost


def test_what_could_not_be_written_is_written_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = recorded(folder, [request([i, i], 3) for i in range(50)])
    add = call._journal.add
    refusals = iter(["database is locked"])

    def refuse_once(group: list[JournalEntry]) -> None:
        for reason in refusals:
            raise sqlite3.OperationalError(reason)
        add(group)

    monkeypatch.setattr(call._journal, "add", refuse_once)
    results = Job(HostedCall(FakeContext(), call)).results()  # warns of nothing
    assert all(result.is_finished for result in results)
    assert next(refusals, None) is None
    assert len(entries(folder)) == 50


def test_an_error_that_nobody_foresaw_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_group: list[JournalEntry]) -> None:
        raise MemoryError("no room")

    call = recorded(folder, [request([1])])
    monkeypatch.setattr(call._journal, "add", fail)
    job = Job(HostedCall(FakeContext(), call))
    with pytest.warns(JournalWarning, match=r"^journal: 1 results could .*: no room"):
        assert job.results()[0].is_finished


def test_failed_tries_take_a_small_part_of_the_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def fail(group: list[JournalEntry]) -> None:
        tries.append(len(group))
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = 13  # SQLITE_FULL
        raise error

    seconds = count()  # a clock that advances by one at each call
    monkeypatch.setattr(
        "llamaherd.calls.journal.recording.monotonic", lambda: float(next(seconds))
    )
    journal = Journal(folder / "run.sqlite")
    monkeypatch.setattr(journal, "add", fail)
    writer = Writer(journal)
    groups = chain(repeat(([None], True), 99), [([None], False)])
    monkeypatch.setattr(writer, "_next_group", groups.__next__)
    with writer:
        pass
    journal.close()
    assert 2 < len(tries) < 10
    assert tries[0] == 1
    assert tries[-2:] == [100, 100]  # no result is dropped
    assert "100 results could not be stored" in writer.problem


@pytest.mark.parametrize("mode", ["NORMAL", "EXCLUSIVE"])
def test_a_wait_for_another_process_is_said_once(
    mode: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_look, "_SILENT_S", 0.01)
    path = folder / "run.sqlite"
    Journal(path).close()
    logs: list[str] = []

    def holder() -> sqlite3.Connection:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute(f"PRAGMA locking_mode = {mode}")  # exclusive: against readers, too
        other.execute("BEGIN IMMEDIATE")
        return other

    def say_and_let_go(text: str, _stream: object) -> None:
        logs.append(text)
        first.close()

    monkeypatch.setattr(journal_look, "say", say_and_let_go)
    first = holder()
    with closing(Journal(path)) as journal:
        assert logs == [f"llamaherd: another process holds {str(path)!r}: waiting for it"]
        monkeypatch.setattr(journal_look, "_BUSY_S", 0.05)
        if mode == "NORMAL":
            with closing(holder()), pytest.raises(sqlite3.OperationalError):
                journal._store([])
    assert len(logs) == 1


def test_a_locked_journal_is_waited_for_and_then_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_look, "_BUSY_S", 0.05)
    Journal(folder / "run.sqlite").close()
    other = sqlite3.connect(folder / "run.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalError, match="cannot be used: database is locked"):
        Journal(folder / "run.sqlite")
    other.execute("COMMIT")
    other.close()
    Journal(folder / "run.sqlite").close()
