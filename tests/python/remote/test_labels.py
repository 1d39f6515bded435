"""Jobs that classify and code texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd import remote
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXTS: list[str | None] = [f"t{i}" for i in range(40)]
TEXTS[1], TEXTS[5] = None, "a" * 5000
GOOD = [text for text in TEXTS if text is not None and len(text) < 100]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.write(tmp_path_factory.mktemp("labels") / "tiny.gguf", "llama")


@pytest.fixture(scope="module")
def server(
    path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[remote.RemoteServer]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("servers")
        patch.setenv(remote.FOLDER_VARIABLE, str(folder))
        made = remote.start_server(path, options=["--n-threads", "1"])
        yield made
        remote.stop_server(made)


def _rows(
    server: remote.RemoteServer, task: remote.Task, options: dict[str, Any]
) -> list[dict[str, Any]]:
    job = remote.submit_job(server, task, TEXTS, options)
    wait_until(lambda: remote.job_status(server, job.id).is_done)
    rows = remote.job_results(server, job.id).rows
    assert rows[1] == {"error": "the text is missing"}
    assert "tokens" in rows[5]["error"]
    assert len(rows) == len(TEXTS)
    return [row for row in rows if row["error"] is None]


@pytest.mark.long(reason="servers are processes that load a model")
@pytest.mark.filterwarnings("ignore:median coverage:UserWarning")
def test_labels_are_those_of_the_library(server: remote.RemoteServer, path: Path) -> None:
    labels = ["good", "bad"]
    rows = _rows(server, "classify", {"labels": labels})
    with lh.Model(path) as model, lh.Context(model) as ctx:
        same = lh.classify_parallel(ctx, GOOD, labels=labels)
    assert [row["label"] for row in rows] == same.labels
    assert [row["p_good"] for row in rows] == pytest.approx(same.probs[:, 0].tolist())


@pytest.mark.long(reason="servers are processes that load a model")
def test_texts_are_coded_with_a_codebook(server: remote.RemoteServer) -> None:
    codebook = lh.Codebook("Which?", labels=["good", "bad"])
    rows = _rows(server, "annotate", {"codebook": codebook.to_dict()})
    assert len(rows) == len(GOOD)
    assert {row["label"] for row in rows} <= {"good", "bad"}
    assert all(row["p_good"] + row["p_bad"] == pytest.approx(1) for row in rows)
