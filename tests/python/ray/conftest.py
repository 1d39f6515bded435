"""A Ray cluster for the tests of this folder: two CPUs for actors, one for reading."""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    # Ray Serve ends a proxy that is not ready after 5 seconds, and thereby the start.
    os.environ["RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"] = "120"
    import ray  # takes a second

    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory(prefix="lh", dir="/tmp") as folder,
    ):
        warnings.simplefilter("ignore")
        ray.init(
            num_cpus=3,
            include_dashboard=False,
            _temp_dir=folder,
            log_to_driver=False,
            logging_level="ERROR",
        )
        yield
        ray.shutdown()
