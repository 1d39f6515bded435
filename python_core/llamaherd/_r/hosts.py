"""Models and their files, contexts, clusters, servers and engines elsewhere."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd import remote
from llamaherd._r.arguments import by_name
from llamaherd._r.boundary import clean, form_of
from llamaherd._r.forms import Part, fields, parts, r_object, table_of, vector
from llamaherd._r.jobs import NoProgress
from llamaherd.calls.chat.chat import swap_date, template_date
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, ClusterError, renamed
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.words import R
from llamaherd.engine.hub.cache import cache_folder
from llamaherd.engine.hub.fetch import FetchWork
from llamaherd.engine.hub.progress import FetchOptions
from llamaherd.engine.hub.quantizations import gigabytes
from llamaherd.engine.hub.repository import checked_token
from llamaherd.engine.native import abi
from llamaherd.ray.cluster import Cluster
from llamaherd.ray.config import Config
from llamaherd.remote.engine import RemoteEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


# Advice for R users that is appended to error messages, by error code.
_REMEDIES = {
    "no_ray": ': reticulate::virtualenv_install("r-llamaherd", "ray"), then restart R',
    "no_cluster": ': "local"',
}
_ARGUMENT = "cluster"  # name of the argument `address` in R


@contextmanager
def _own_libraries() -> Iterator[None]:
    """Hide R's library folders from Ray, because they may contain another libpython."""
    folders = os.environ.get("LD_LIBRARY_PATH")
    if folders is None:
        yield
        return
    of_r = ("/usr/lib", "/lib", os.environ.get("R_HOME") or "/usr/lib")
    others = [path for path in folders.split(":") if path and not path.startswith(of_r)]
    os.environ["LD_LIBRARY_PATH"] = ":".join(others)
    try:
        yield
    finally:
        os.environ["LD_LIBRARY_PATH"] = folders


def _of_cluster(error: ClusterError) -> ClusterError:
    """Return the error with R's name of the argument and advice for R."""
    is_of_argument = error.argument == "address" or error.code == "no_ray"
    argument = _ARGUMENT if is_of_argument else error.argument
    return ClusterError(
        error.problem,
        code=error.code,
        argument=argument and R.name(argument),
        remedy=_REMEDIES.get(error.code, ""),
    )


def _of_argument(error: lh.BadArgumentError) -> lh.BadArgumentError:
    """Return the error with R's name of the argument and advice for R."""
    if error.argument != "address":
        return error
    if error.code != "conflict":
        return error.moved(argument=_ARGUMENT)
    form = '{name} {problem}: reticulate::import("ray")$shutdown() first'
    return error.moved(argument=_ARGUMENT, form=form)


class StartWork:
    """Work of a `Job`: starts a server or a cluster; `start` can ask `is_cancelled`."""

    problem = ""
    progress = NoProgress()

    def __init__(self, start: Callable[..., Any]) -> None:
        self._start = start
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the processes that are starting."""
        self._is_cancelled = True

    def run(self) -> Any:  # a cluster or a server
        """Start; return None if the start of a server was cancelled."""
        try:
            return self._start(is_cancelled=lambda: self._is_cancelled)
        except lh.ServerError:
            if self._is_cancelled:
                return None
            raise


def cluster_start(
    model: lh.Model, cluster: str, options: Mapping[str, Any]
) -> lh.Job[Cluster | None]:
    """Start the actors of a cluster."""
    context = dict(options)
    with renamed(concurrency="n_actors"):
        config = Config(
            model,
            concurrency=context.pop("n_actors", None),
            num_cpus=context.pop("num_cpus", None),
            context=context,
        )
    address = None if cluster == "local" else cluster
    return lh.Job(StartWork(partial(_start_cluster, config, address)))


def _start_cluster(
    config: Config, address: str | None, *, is_cancelled: Callable[[], bool]
) -> Cluster:
    """Start the actors."""
    try:
        with _own_libraries():
            return Cluster(config, address=address, is_cancelled=is_cancelled)
    except ClusterError as error:
        raise _of_cluster(error) from None
    except lh.BadArgumentError as error:
        raise _of_argument(error) from None


@form_of.register
def _(server: remote.RemoteServer) -> dict[str, Any]:
    return {
        "name": server.name,
        "url": server.url,
        "key": server.key,
        "pid": server.pid,
        "model": clean(server.model),
        "folder": clean(server.folder),
        "stays": server.stays,
    }


def remote_at(folder: str) -> None:
    """Set the folder of all servers; Python does not see variables that R sets later."""
    if folder:
        os.environ[remote.FOLDER_VARIABLE] = folder
    else:
        os.environ.pop(remote.FOLDER_VARIABLE, None)


def remote_start(
    *,
    model: remote.Models,
    lora: Mapping[str, str] | None,
    name: str,
    port: int,
    stay: bool,
    sizes: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> lh.Job[remote.RemoteServer | None]:
    """Start a server with `sizes` (options) and `settings` (values of `--set`)."""
    if isinstance(model, list) and len(model) == 1:
        model = model[0]
    options = [*_size_flags(sizes), *_setting_flags(by_name("settings", settings))]
    start = partial(
        remote.start_server,
        model,
        lora=lora,
        name=name,
        port=port,
        stay=stay,
        options=options,
    )
    return lh.Job(StartWork(start))


def _size_flags(sizes: Mapping[str, Any]) -> Iterator[str]:
    for name, value in sizes.items():
        if value is None or value == "auto":
            continue
        if name == "memory":
            checks.text(name, value)
        elif name != "n_gpu_layers":
            checks.integer(name, value, 1)
        yield from (f"--{name.replace('_', '-')}", str(value))


def _setting_flags(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        # R's vector of one share is a number.
        is_share = name == "model.tensor_split" and not isinstance(value, list)
        text = json.dumps([value] if is_share else value, default=str)
        yield from ("--set", f"{name}={text}")


def remote_stop(name: str) -> bool:
    """Stop a server; return True if it ran."""
    return remote.stop_server(remote.server_named(name))


def remote_servers() -> Part:
    """Return a table of all servers."""
    rows = [
        {**form_of(server), "running": server.is_running, "stay": server.stays}
        for server in remote.list_servers()
    ]
    return table_of(rows, "name running url pid model stay folder")


@form_of.register(RemoteEngine)
def _(engine: RemoteEngine) -> dict[str, Any]:
    return {"python": engine, "name": clean(engine.name), "url": clean(engine.url)}


def model_load(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Load a model and return it as `python`, with the fields that R prints."""
    lora = [tuple(pair) for pair in options.get("lora", ())]
    model = lh.Model(path, **{**options, "lora": lora})
    return {
        "python": model,
        "description": clean(model.description),
        "size_bytes": float(model.size_bytes),
        "n_ctx_train": model.n_ctx_train,
        "n_vocab": model.n_vocab,
    }


def model_metadata(model: lh.Model) -> Part:
    """Return the metadata as texts with names."""
    metadata = lh.model_metadata(model)
    return {**vector("text", metadata.values()), "names": list(map(clean, metadata))}


def context_create(model: lh.Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Create a context and return it as `python`."""
    of_cluster = options.keys() & {"n_actors", "num_cpus"}
    if of_cluster:
        text = "needs `cluster`, such as 'local'"
        raise ArgumentError(text, argument=min(of_cluster), code="conflict")
    return {"python": lh.Context(model, **options)}


def context_plan(context: lh.Context | Cluster) -> list[str]:
    """Return the plan, unless no call made one yet, and a line for each of ten actors."""
    plan = [] if context.plan is None else [str(context.plan)]
    if not isinstance(context, Cluster):
        return plan
    actors = [
        f"  actor {i} on {actor.node}: {count_of(actor.n_threads, 'thread')}, "
        f"{gigabytes(actor.memory_bytes)}"
        for i, actor in enumerate(context.actors)
    ]
    more = [f"  and {len(actors) - 10} more"] if len(actors) > 10 else []
    return [*plan, *actors[:10], *more]


def tokenize(
    model: lh.Model, texts: Sequence[str], add_special: bool, parse_special: bool
) -> list[list[int]]:
    """Return the tokens of each text."""
    return [
        lh.tokenize(model, text, add_special=add_special, parse_special=parse_special)
        for text in texts
    ]


def detokenize(
    model: lh.Model,
    tokens: Sequence[Sequence[int]],
    remove_special: bool,
    unparse_special: bool,
) -> list[str]:
    """Return the text of each sequence of tokens."""
    for i, ids in enumerate(tokens):
        for j, token in enumerate(ids):
            if not 0 <= token < model.n_vocab:
                raise ArgumentError(
                    f"is {token}, but the model's token ids are 0 to {model.n_vocab - 1}",
                    argument=Argument("tokens", (i, j) if len(tokens) > 1 else (j,)),
                    code="out_of_range",
                )
    options = {"remove_special": remove_special, "unparse_special": unparse_special}
    return [clean(lh.detokenize(model, ids, **options)) for ids in tokens]


def apply_chat_template(
    model: lh.Model,
    conversations: Sequence[Sequence[Mapping[str, object]]],
    template: str | None,
    add_assistant: bool,
    variables: Mapping[str, object],
) -> list[str]:
    """Format conversations as prompts with a model's chat template."""
    options: dict[str, Any] = {
        "add_generation_prompt": add_assistant,
        "template": template,
        "variables": dict(variables),
    }
    with renamed(add_generation_prompt="add_assistant"):
        return [
            clean(lh.apply_chat_template(model, messages, **options))
            for messages in conversations
        ]


def chat_date_enter(date: str | None) -> str | None:
    """Set a fixed date for chat templates, see `chat_date`; return the previous date."""
    before = swap_date(template_date(date).date())
    return None if before is None else before.isoformat()


def schema_prompt(schemas: Sequence[str]) -> list[str]:
    """Return an instruction for each JSON Schema."""
    return [clean(lh.structured.schema_prompt(schema)) for schema in schemas]


def lib_path() -> str:
    """Return the path of libllama."""
    return str(abi.libllama_path(abi.libllama_folder()))


def fetch_start(source: str, options: Mapping[str, Any]) -> lh.Job[Path | None]:
    """Start to search for a model's file and, if necessary, to download it."""
    checked = FetchOptions(
        cache=cache_folder(options.get("cache_dir")),
        token=checked_token(options.get("token")),
        force=options["force"],
        check_memory=options["check_memory"],
    )
    return lh.Job(FetchWork(source, checked, "model_path"))


@form_of.register
def _(profile: lh.types.HardwareProfile) -> Part:
    gpu: Any = profile.gpus[0] if profile.gpus else None
    numbers = {
        "ram_total": profile.memory_bytes,
        "ram_available": profile.available_bytes,
        "bandwidth_bytes_per_s": profile.bandwidth_bytes_per_s,
        "flops": profile.flops,
    }
    elements = {
        **fields(profile, "os release cpu"),
        **{name: vector("number", [number]) for name, number in numbers.items()},
        **fields(profile, "cpu_cores cpu_features"),
        "gpu": parts(
            name=vector("text", [gpu and gpu.name]),
            vram_bytes=vector("number", [gpu and gpu.memory_bytes]),
            cores=vector("integer", [None]),
            source=gpu.source if gpu else "undetected",
        ),
        "uses_gpu": profile.uses_gpu,
        "detected_at": vector("time", [datetime.now(UTC)]),
        "sizes": table_of(
            profile.sizes,
            "billions quantization size_bytes fits decode_per_s prefill_per_s",
        ),
    }
    return r_object("hardware", elements, page=profile)
