"""HTTP server for one context: prompts of all clients share batches.

The server needs the packages of the extra `server`. Only this package imports them.
"""

from llamaherd.engine.core import phrases

try:
    import prometheus_client as _prometheus_client
    import starlette as _starlette
    import uvicorn as _uvicorn
except ImportError as error:
    raise ImportError(
        f"the server needs packages that are not installed ({error}): "
        f"{phrases.install_command('server')}",
        name=error.name,
    ) from error

del _prometheus_client, _starlette, _uvicorn
