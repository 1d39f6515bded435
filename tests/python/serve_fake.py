"""Serves a `FakeContext` until a signal arrives: serve_fake.py MODEL GRACE_S STEP_S.

Lines on stdin control the context: after "hold" it computes nothing, after "go" it
continues as fast as possible.
"""

from __future__ import annotations

import sys
import threading

import llamaherd as lh
from fake_context import FakeContext
from llamaherd.server import serving
from llamaherd.server.app import create_app
from llamaherd.server.settings import ServerSettings

listener = serving.bind("127.0.0.1", 0)


def tell_port() -> None:
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()


def obey(ctx: FakeContext) -> None:
    for line in sys.stdin:
        if line == "hold\n":
            ctx.may_run.clear()
        else:
            ctx.step_s = 0.0
            ctx.may_run.set()


with lh.Model(sys.argv[1]) as model:
    ctx = FakeContext(model)
    ctx.step_s = float(sys.argv[3])
    threading.Thread(target=obey, args=(ctx,), daemon=True).start()
    server = serving.Server(
        create_app(ctx, ServerSettings(model_name="tiny")),
        grace_s=float(sys.argv[2]),
        when_ready=tell_port,
    )
    server.run([listener])
    ctx.close()
sys.exit(server.status)
