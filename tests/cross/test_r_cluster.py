"""In R, a context on a Ray cluster returns the same answers as a local context."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import rscript
from llamaherd import _r

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROMPTS = [f"A beginning that is shared. No. {i * 7 % 12}: " for i in range(24)]


@pytest.fixture(scope="module")
def out(
    tiny_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("cluster")
    job = {
        "model": str(tiny_path("llama")),
        "cluster": "local",
        "prompts": PROMPTS,
        "labels": ["good", "bad"],
    }
    return rscript.results("cluster.R", folder, job, RAY_ADDRESS="")


@pytest.mark.long(reason="starts actors of Ray from R for each kind of call")
@pytest.mark.parametrize("name", ["texts", "text", "probs", "scores", "vectors", "codes"])
def test_actors_answer_as_one_process(out: dict[str, Any], name: str) -> None:
    assert out["there"][name]
    assert out["there"][name] == out["here"][name]


@pytest.mark.long(reason="starts actors of Ray from R")
def test_statistics_have_a_row_for_each_actor(out: dict[str, Any]) -> None:
    cluster, here = out["there"], out["here"]
    assert cluster["n_actors"] == [2, 2, 2]
    assert here["n_actors"] == [0, 0, 0]
    assert cluster["columns"][:3] == ["actor", "node", "n_done"]
    assert cluster["n_done"] > 0
    assert (cluster["reported"], here["reported"]) == (2, 0)


@pytest.mark.long(reason="starts actors of Ray from R")
def test_a_cluster_prints_its_actors_and_ends(out: dict[str, Any]) -> None:
    assert "cluster local" in out["printed"]
    actors = [line for line in out["printed"] if line.startswith("  actor ")]
    assert [line.split(" on ")[0] for line in actors] == ["  actor 0", "  actor 1"]
    assert all(": 1 thread, " in line for line in actors)
    assert out["closed"].startswith("llamaherd_error_context")


@pytest.mark.long(reason="starts actors of Ray from R")
def test_a_cluster_that_is_not_there_is_an_error_in_r_s_words(
    out: dict[str, Any],
) -> None:
    assert out["unreachable"].startswith("llamaherd_error_context")
    assert "`cluster`: there is no Ray at '127.0.0.1:1'" in out["unreachable"]


@pytest.mark.long(reason="starts actors of Ray from R")
@pytest.mark.parametrize("ends", ["NULL", 'stop("that is all")'])
def test_r_may_end_while_a_cluster_is_open(
    tiny_path: Callable[[str], Path], tmp_path: Path, ends: str
) -> None:
    program = tmp_path / "ends.R"
    program.write_text(
        "library(llamaherd)\n"
        f'model <- model_load("{tiny_path("llama")}")\n'
        'on <- context_create(model, cluster = "local", n_actors = 1, num_cpus = 1)\n'
        'cat(generate_parallel(on, "a", max_tokens = 2, ignore_eos = TRUE))\n'
        f"{ends}\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        rscript.command(program),
        env=rscript.environment(RAY_ADDRESS=""),
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == (0 if ends == "NULL" else 1), done.stderr


def test_a_missing_ray_is_told_with_the_cure_in_r(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    model = _r.model_load(str(tiny_path("llama")), {})["value"]["python"]
    job = _r.cluster_start(model, "local", {"n_actors": 2})["value"]["job"]
    assert _r.job_wait(job, 60)["value"]["done"]
    status = _r.job_result(job)
    assert status["error_type"] == "ClusterError"
    assert "Python's package ray cannot be imported" in status["message"]
    assert 'virtualenv_install("r-llamaherd", "ray")' in status["message"]
    assert "pip install" not in status["message"]
