"""The journal on a real model: killed at any moment, with all kinds of contexts."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import llama_cpp
import llamaherd as lh
import pytest
from thorough import sized

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

N_PROMPTS = sized(200, 500)
N_KILLS = sized(3, 20)
PROGRAM = """
import sys
import llamaherd as lh
prompts = [f"Word {i}" for i in range(int(sys.argv[3]))]
with (
    lh.Model(sys.argv[1]) as model,
    lh.Context(model, n_threads=1, n_seq_max=8) as context,
):
    print("loaded", flush=True)
    tell = lambda progress: print(progress.n_done, flush=True)
    lh.generate_parallel(
        context, prompts, max_tokens=2, journal=sys.argv[2], progress=tell
    )
"""


def start(model: Path, journal: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(model), str(journal), str(N_PROMPTS)],
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )


def told(results: lh.Results) -> list[tuple[object, ...]]:
    return [
        (result.index, result.text, result.tokens, result.finish_reason, result.seed)
        for result in results
    ]


@pytest.mark.long(reason="a process for each case")
@pytest.mark.more(reason="3 of 20 kills of a process, 200 of 500 prompts")
def test_killed_at_random_moments_nothing_is_lost_or_doubled(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "run.sqlite"
    prompts = [f"Word {i}" for i in range(N_PROMPTS)]
    chance = random.Random(4)
    stored: dict[str, lh.types.JournalEntry] = {}
    n_cut = 0
    for _ in range(N_KILLS):
        process = start(smollm2_path, journal)
        with process:
            assert process.stdout.readline() == "loaded\n"
            # Measured in prompts, because a busy machine may take any time.
            n_before = len(stored) + chance.randrange(50)
            for line in process.stdout:
                if int(line) >= n_before:
                    break
            time.sleep(chance.uniform(0.0, 0.05))
            process.kill()
            n_cut += process.wait() == -signal.SIGKILL
            assert process.returncode in {0, -signal.SIGKILL}
        entries = lh.journal_read(journal) if journal.exists() else []
        by_key = {entry.key: entry for entry in entries}
        assert len(by_key) == len(entries)  # nothing is doubled,
        assert stored.items() <= by_key.items()  # lost or changed
        stored = by_key
    assert n_cut > 0
    assert stored
    with lh.Context(smollm2, n_threads=1) as context:
        resumed = lh.generate_parallel(context, prompts, max_tokens=2, journal=journal)
        whole = lh.generate_parallel(context, prompts, max_tokens=2)
    assert resumed.stats.n_journal == len(stored)
    assert told(resumed) == told(whole)
    assert len(lh.journal_read(journal)) == N_PROMPTS


def test_the_same_call_again_is_answered_from_the_journal(
    smollm2: lh.Model, tmp_path: Path
) -> None:
    journal = tmp_path / "run.sqlite"
    prompts = ["The sky is", [1, 2, 3], "The sky is", "", "word " * 9000]
    options = {"temperature": 0.8, "seed": 5, "max_tokens": 8, "journal": journal}
    with lh.Context(smollm2, n_threads=1, n_seq_max=4) as context:
        first = lh.generate_parallel(context, prompts, **options)
    with lh.Context(smollm2, n_threads=1, n_seq_max=2) as context:
        again = lh.generate_parallel(context, prompts, **options)
        assert context.plan is None  # no prompt had to be computed
    assert told(again) == told(first)
    assert (first.stats.n_journal, again.stats.n_journal) == (0, 3)
    assert again.stats.n_generated_tokens == 0
    assert again.errors == first.errors
    texts = [entry.prompt for entry in lh.journal_read(journal)]
    assert sorted(texts)[:2] == [
        "",
        lh.detokenize(smollm2, [1, 2, 3], unparse_special=True),
    ]
    assert texts.count("The sky is") == 2  # two positions, two seeds
    # Other settings of the context that change what is computed, and a fresh seed: add.
    with lh.Context(smollm2, n_threads=1, type_k="q8_0") as context:
        other = lh.generate_parallel(context, prompts[:1], **options)
    assert other.stats.n_journal == 0
    with lh.Context(smollm2, n_threads=1) as context:
        fresh = lh.generate_parallel(context, prompts[:1], **{**options, "seed": None})
    assert fresh.stats.n_journal == 0


def test_wrong_arguments_raise_before_anything_runs(
    smollm2: lh.Model, tmp_path: Path
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with lh.Context(smollm2, n_threads=1) as context:
        with pytest.raises(
            lh.JournalError, match=r"journal: .*notes.txt.* not a journal"
        ):
            lh.start_parallel(context, ["a"], journal=path)
        with pytest.raises(TypeError, match="journal must be a path, not True"):
            lh.generate_parallel(context, ["a"], journal=True)
        with pytest.raises(ValueError, match="max_tokens"):
            lh.generate_parallel(context, ["a"], max_tokens=0, journal=tmp_path / "run")
        assert context.plan is None
    assert path.read_text() == "mine"
    assert not (tmp_path / "run").exists()


def test_a_llama_has_a_journal_too(smollm2_path: Path, tmp_path: Path) -> None:
    journal = tmp_path / "run.sqlite"
    with lh.Model(smollm2_path) as model, lh.Context(model, n_threads=1) as context:
        expected = lh.generate_parallel(context, ["One"], max_tokens=2, journal=journal)
    llama = llama_cpp.Llama(str(smollm2_path), n_ctx=256, verbose=False)
    results = lh.generate_parallel(llama, ["One"], max_tokens=2, journal=journal)
    llama.close()
    assert (results.stats.n_journal, results.texts) == (1, expected.texts)
