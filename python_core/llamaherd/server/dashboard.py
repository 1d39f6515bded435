"""Page that shows the current state of the server, and the data of the page.

The server records nothing: the page requests the current data every second and stores the
data of the last minutes in the browser. So the dashboard costs nothing while the page is
not open.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING

import psutil
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from llamaherd.memory.hardware import available_memory
from llamaherd.server.messages import dumps
from llamaherd.server.web_pages import page_routes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request

    from llamaherd.loop.slot_times import SlotTime, SlotTimes
    from llamaherd.server.batches.records import BatchProgress
    from llamaherd.server.model_view import ModelView, ShownModel
    from llamaherd.server.shared_state import SharedState

DATA = "/dashboard.json"
PAGES = {  # paths of files that contain no data and need no key
    "/": "dashboard.html",
    "/dashboard.js": "dashboard.js",
    "/charts.js": "charts.js",
    "/strips.js": "strips.js",
    "/updating.js": "updating.js",
    "/try.js": "try.js",
    "/dashboard.css": "dashboard.css",
    "/icon.svg": "icon.svg",
}
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_COUNTS = (
    *("n_prefill", "n_reused", "n_decode", "n_generated", "n_thinking"),
    *("n_batches", "n_clients", "n_pauses"),
)


class Dashboard:
    """Data of the page.

    Args:
        shared: State of the server.
        models: Models of the server.
        batches: Function that returns the progress of running and of recently ended
            batches.
    """

    def __init__(
        self,
        shared: SharedState,
        models: ModelView,
        batches: Callable[[], Awaitable[Sequence[BatchProgress]]],
    ) -> None:
        self._shared = shared
        self._models = models
        self._batches = batches
        self._start_s = time.monotonic()
        self._process = psutil.Process()

    def routes(self) -> list[Route]:
        """Return the routes of the page and its data."""
        data = Route(DATA, self.data, include_in_schema=False)
        return [*page_routes("llamaherd.server", PAGES), data]

    async def data(self, _request: Request) -> Response:
        """Return the current load, counts of the engine and memory."""
        found = await run_in_threadpool(self._found)
        found["batches"] = [_batch(each) for each in await self._batches()]
        return Response(dumps(found), 200, _HEADERS, "application/json")

    def _found(self) -> dict[str, object]:
        counts, shown = self._models.counts, self._models.shown()
        return {
            "version": version("llamaherd"),
            "models": [each.name for each in shown],
            "states": [_state(each) for each in shown],
            "slots": [
                {"model": name, **_slots(times)}
                for name, times in self._models.slots().items()
            ],
            "uptime_s": time.monotonic() - self._start_s,
            "load": asdict(self._models.load),
            "n_requests": self._shared.queue.n_inside,
            "counts": {name: getattr(counts, name) for name in _COUNTS},
            "memory": {
                "process": self._process.memory_info().rss,
                "available": available_memory(),
            },
        }


def _slots(times: SlotTimes) -> dict[str, object]:
    """Return the seconds that each slot spent on prefill, on decoding and waiting."""
    return {
        "began": times.began_s,
        "at": times.at_s,
        "prompts": [_seconds(each) for each in times.prompts],
        "prefixes": [_seconds(each) for each in times.prefixes],
    }


def _seconds(time_of_slot: SlotTime) -> tuple[float, float, float]:
    return time_of_slot.prefill_s, time_of_slot.decode_s, time_of_slot.waiting_s


def _batch(progress: BatchProgress) -> dict[str, object]:
    return {
        "id": progress.id,
        "endpoint": progress.endpoint,
        "status": progress.status,
        "n_total": progress.n_total,
        "n_done": progress.n_done,
        "left_s": progress.left_s,
        "problem": progress.problem,
    }


def _state(model: ShownModel) -> dict[str, object]:
    load = model.load
    return {
        "name": model.name,
        "parent": model.parent,
        "state": model.state,
        "memory": model.n_bytes,
        "n_running": 0 if load is None else load.n_running,
        "n_waiting": 0 if load is None else load.n_waiting,
    }
