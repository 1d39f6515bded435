"""`--cluster`: commands on tables use the actors of a Ray cluster."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the address of a cluster with two nodes of one CPU each, for two actors."""
    import ray  # takes a second
    from ray.cluster_utils import Cluster

    with (
        warnings.catch_warnings(),
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="lh", dir="/tmp") as folder,
    ):
        warnings.simplefilter("ignore")
        # `Cluster` writes its address into this folder, which must exist.
        patch.setenv("RAY_TMPDIR", folder)
        ray.shutdown()  # other tests of this process may have left theirs connected
        ray_folder = Path(folder, "ray")
        ray_folder.mkdir()
        node = {"num_cpus": 1, "include_dashboard": False, "temp_dir": str(ray_folder)}
        cluster = Cluster(initialize_head=True, head_node_args=node)
        cluster.add_node(num_cpus=1)
        yield cluster.address
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.long(
    reason="starts actors of Ray for each task; tests/python/ray has the gate's tests"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_writes_the_same_tables(
    address: str,
    tiny_path: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},text number {i}" for i in range(60)]
    Path("in.csv").write_text("\n".join(["id,text", *rows, '9,""']), encoding="utf-8")
    lh.write_codebook(lh.Codebook("Which?", ["a", "b"]), "topics.yaml")
    started: list[lh.ray.Cluster] = []
    start = lh.ray.Cluster.__init__

    def spy(cluster: lh.ray.Cluster, *args: object, **options: object) -> None:
        started.append(cluster)
        start(cluster, *args, **options)

    monkeypatch.setattr(lh.ray.Cluster, "__init__", spy)
    exact = ["in.csv", "-m", str(tiny_path("llama")), "--deterministic", "-q"]
    exact += ["--n-threads", "1"]
    for command in (
        ["run", *exact, "--max-tokens", "5", "--temperature", "1"],
        ["classify", *exact, "--labels", "yes,no"],
        ["annotate", *exact, "--codebook", "topics.yaml"],
        ["embed", *exact],
    ):
        task = command[0]
        assert main([*command, "-o", f"{task}.csv"]) == 3
        assert not started
        distributed = [*command, "-o", f"{task}.there.csv", "--cluster", address]
        assert main(distributed) == 3
        assert len(started.pop().actors) == 2
        assert Path(f"{task}.there.csv").read_bytes() == Path(f"{task}.csv").read_bytes()
        assert "1 of 61 rows failed" in capsys.readouterr().err
