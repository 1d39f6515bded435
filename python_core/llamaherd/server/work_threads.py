"""Threads of requests whose work needs a thread until its end: codes and vectors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

# Numbers of threads, for requests of clients and of batches. A request for codes starts
# another thread for each block of texts. Vectors are computed one request at a time.
_N_CODING = (64, 16)
_N_EMBEDDING = (2, 1)


class WorkThreads:
    """Threads for requests whose work blocks its thread.

    Further requests wait until a thread is free. Requests of batches have their own
    threads, so that clients do not wait for batches.
    """

    def __init__(self) -> None:
        names = ("clients", "batches")
        self._coding, self._embedding = (
            tuple(
                ThreadPoolExecutor(n, f"llamaherd-{kind}-{name}")
                for n, name in zip(numbers, names, strict=True)
            )
            for kind, numbers in (("codes", _N_CODING), ("vectors", _N_EMBEDDING))
        )

    def pool(self, *, is_embedding: bool, is_background: bool) -> ThreadPoolExecutor:
        """Return the threads for a request.

        Args:
            is_embedding: Whether the request is for vectors.
            is_background: Whether the request belongs to a batch.
        """
        pools = self._embedding if is_embedding else self._coding
        return pools[is_background]

    def close(self) -> None:
        """End the threads; work that waits for a thread does not run."""
        for pool in (*self._coding, *self._embedding):
            pool.shutdown(wait=False, cancel_futures=True)
