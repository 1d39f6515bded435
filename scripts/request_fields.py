"""Records the request fields of other servers, and documents their effect here.

python scripts/request_fields.py record [--llama-server FILE.cpp] [--vllm FOLDER]
python scripts/request_fields.py table

`record` writes tests/python/server/request_fields.json: the fields of OpenAI's API from
the installed `openai` package and, if the options are given, the fields of llama-server
from its server-schema.cpp and the fields of vLLM from a folder of its sources. `table`
writes the table in docs/server-fields.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.server.errors import JSON
from llamaherd.server.routes import FORMATS
from llamaherd.server.schemas import kinds_of
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import input_token_count_params, response_create_params

if TYPE_CHECKING:
    from llamaherd.server.unused_fields import UnusedField

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))

import marked  # noqa: E402 - a module of that folder

RECORD = ROOT / "tests/python/server/request_fields.json"
PAGE = ROOT / "docs/server-fields.md"
_MARK = "fields: made by scripts/request_fields.py"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
RESPONSES, COUNT = "/v1/responses", "/v1/responses/input_tokens"
EMBEDDINGS, RERANK = "/v1/embeddings", "/v1/rerank"
# Classes of vLLM's sources with the fields of a request.
_OF_VLLM = {
    "ChatCompletionRequest": CHAT,
    "CompletionRequest": TEXT,
    "ResponsesRequest": RESPONSES,
    "RerankRequest": RERANK,
}


def unused_field(path: str, name: str) -> UnusedField | None:
    """Return a field without an effect on a path of an endpoint."""
    form = FORMATS[path.removeprefix("/v1")]
    return None if name in form.fields else form.unused.get(name)


def status_of(path: str, name: str) -> str:
    """Return the effect of a field in requests to a path of an endpoint."""
    field = unused_field(path, name)
    if field is None:
        is_served = name in FORMATS[path.removeprefix("/v1")].fields
        return "served" if is_served else "refused"
    if field.values is None:
        return "no effect"
    reason = f": {field.reason}" if field.reason else ""
    allowed = " or ".join(f"`{JSON.literal(value)}`" for value in (None, *field.values))
    return f"refused, except {allowed}{reason}"


def of_openai() -> dict[str, list[str]]:
    """Return the fields of each path in the installed `openai` package."""
    kinds = {
        CHAT: chat_params.CompletionCreateParamsBase,
        TEXT: completion_create_params.CompletionCreateParamsBase,
        RESPONSES: response_create_params.ResponseCreateParamsBase,
        COUNT: input_token_count_params.InputTokenCountParams,
        EMBEDDINGS: embedding_create_params.EmbeddingCreateParams,
    }
    return {path: sorted(kind.__annotations__) for path, kind in kinds.items()}


def of_llama_server(source: str) -> dict[str, list[str]]:
    """Return the fields of completions in llama-server's server-schema.cpp."""
    pattern = r'\badd\(\(new field_\w+\("(\w+)"|add_alias\("(\w+)"\)'
    names = {one or other for one, other in re.findall(pattern, source)}
    return {CHAT: sorted(names), TEXT: sorted(names)}


def of_vllm(folder: Path) -> dict[str, list[str]]:
    """Return the fields of each path in the classes of vLLM's sources."""
    fields: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("protocol.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name in _OF_VLLM:
                names = [
                    field.target.id
                    for field in node.body
                    if isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and not field.target.id.startswith("_")
                ]
                fields[_OF_VLLM[node.name]] = sorted(names)
    return fields


def table() -> str:
    """Return the table: a row for each field without an effect that may have a value."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    rows: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    refused: dict[str, None] = {}
    n_served = 0
    for api, entry in record.items():
        for path, names in entry["paths"].items():
            for name in names:
                status = status_of(path, name)
                if status == "served":
                    n_served += 1
                    continue
                field = unused_field(path, name)
                if field is None:
                    refused[name] = None
                    continue
                types = " or ".join(kinds_of(field.kind))
                apis = rows.setdefault((name, types, status), {})
                apis.setdefault(api, []).append(path.removeprefix("/v1/"))
    lines = [
        [f"`{name}`", types, _paths(apis), _accepted(status)]
        for (name, types, status), apis in sorted(rows.items())
    ]
    fields = marked.table(["field", "type", "of", "accepted"], lines, 4)
    versions = ", ".join(f"{api} {entry['version']}" for api, entry in record.items())
    head = f"Fields of {versions}. {n_served} fields of paths are served; the others:"
    names = ", ".join(f"`{name}`" for name in sorted(refused))
    end = f"Refused where they have no effect, except `null`: {names}."
    return f"{head}\n\n{fields}\n{end}\n"


def _paths(apis: dict[str, list[str]]) -> str:
    """Return servers and paths; servers with the same paths share them."""
    by_paths: dict[str, list[str]] = {}
    for api, paths in apis.items():
        by_paths.setdefault(", ".join(dict.fromkeys(paths)), []).append(api)
    return "; ".join(f"{', '.join(names)}: {paths}" for paths, names in by_paths.items())


def _accepted(status: str) -> str:
    """Return the accepted values of a status, such as "refused, except `null`"."""
    if status == "no effect":
        return "any value, no effect"
    return status.removeprefix("refused, except ").replace("`null` or ", "").strip()


def _written(record: dict[str, Any]) -> str:
    """Return the record as JSON, with the fields of a path in a few lines."""
    text = json.dumps(record, indent=1)
    return re.sub(r"\[[^]]*\]", lambda names: _wrapped(names[0]), text) + "\n"


def _wrapped(names: str) -> str:
    return textwrap.fill(" ".join(names.split()), 88, subsequent_indent="    ")


def main() -> None:
    """Read the arguments and write a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["record", "table"])
    parser.add_argument("--llama-server", type=Path)
    parser.add_argument("--vllm", type=Path)
    options = parser.parse_args()
    if options.what == "table":
        marked.write(PAGE, {_MARK: table()})
        return
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record["OpenAI"] = {"version": version("openai"), "paths": of_openai()}
    if options.llama_server is not None:
        source = options.llama_server.read_text(encoding="utf-8")
        entry = record.get("llama-server", {"version": "unknown"})
        record["llama-server"] = {**entry, "paths": of_llama_server(source)}
    if options.vllm is not None:
        entry = record.get("vLLM", {"version": "unknown"})
        record["vLLM"] = {**entry, "paths": of_vllm(options.vllm)}
    RECORD.write_text(_written(record), encoding="utf-8")


if __name__ == "__main__":
    main()
