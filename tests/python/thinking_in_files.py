"""The command line and the server as interfaces (doors) to a model that thinks."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import thinking_behaviours as data
from llamaherd.cli import main
from thinking_behaviours import CONTEXTS, Behaviour, Told
from thinking_desk import (
    AFTER_CANCELLED,
    TEXT,
    Desk,
    arguments,
)
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

# ---- command line ----------------------------------------------------------------------


def command(desk: Desk, behaviour: Behaviour, output: Path) -> list[str]:
    settings = CONTEXTS[behaviour.context]
    context = "".join(f"{name} = {json.dumps(v)}\n" for name, v in settings.items())
    options = dict(behaviour.options)
    stop, prefix = options.pop("stop", None), options.pop("prefix", None)
    assert not options
    rows = desk.file("in.jsonl")
    lines = [json.dumps({"text": text}) for text in behaviour.texts]
    rows.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    spec, thinking = desk.file("run.toml"), behaviour.thinking
    fields = thinking if isinstance(thinking, dict) else {}
    parts = [
        f"input = {json.dumps(str(rows))}",
        f"output = {json.dumps(str(output))}",
        'column = "text"\nchat = true',
        *(f"answer_prefix = {json.dumps(each)}" for each in [prefix] if each),
        *(
            f"thinking = {json.dumps(each)}"
            for each in [thinking]
            if each is not None and not fields
        ),
        f"[model]\npath = {json.dumps(str(desk.path))}",
        "[sampling]\nmax_tokens = 8",
        *(f"stop = {json.dumps(each)}" for each in [stop] if each),
        f"[context]\nn_threads = 1\n{context}",
        *(["[thinking]"] if fields else []),
        *(f"{name} = {json.dumps(value)}" for name, value in fields.items()),
    ]
    spec.write_text("\n".join(parts), encoding="utf-8")
    return ["run", str(spec), "-q"]


def cli_rows(output: Path) -> list[Told]:
    rows = []
    for line in output.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["error"] is not None:
            rows.append(data.FAILED)
            continue
        thinking, n, is_complete = (row.get(name) for name in data.COLUMNS)
        rows.append(Told(thinking, n or 0, is_complete, row["answer"]))
    return rows


def cli_ask(desk: Desk, behaviour: Behaviour) -> list[Told]:
    output = desk.file("out.jsonl")
    failed = any(told.answer is None for told in behaviour.told)
    assert main(command(desk, behaviour, output)) == (3 if failed else 0)
    return cli_rows(output)


def cli_journal(desk: Desk, behaviour: Behaviour) -> list[Told]:
    output = desk.file("out.jsonl")
    run = command(desk, behaviour, output)
    assert main(run) == 0
    first = cli_rows(output)
    stored = output.with_name(f"{output.name}.journal")
    n_stored = len(lh.journal_read(stored))
    output.unlink()
    assert main(run) == 0
    assert len(lh.journal_read(stored)) == n_stored == len(first)
    assert cli_rows(output) == first
    return first


# ---- HTTP ------------------------------------------------------------------------------


def body(text: str, behaviour: Behaviour) -> dict[str, Any]:
    return {"prompt": text, **arguments(behaviour), **TEXT}


def http_told(status: int, found: dict[str, Any]) -> Told:
    if status != 200:
        assert status == 400, found
        return data.FAILED
    details = found["usage"].get("completion_tokens_details", {})
    thought = found.get("thinking"), details.get("reasoning_tokens", 0)
    return Told(*thought, found.get("thinking_complete"), found["text"])


def http_ask(desk: Desk, behaviour: Behaviour) -> list[Told]:
    client = desk.client(behaviour.context)
    texts = behaviour.texts
    return [http_told(*client.post("/generate", body(t, behaviour))) for t in texts]


def http_pause(desk: Desk, behaviour: Behaviour) -> list[Told]:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    client = desk.client(behaviour.context)
    with ThreadPoolExecutor(len(behaviour.texts)) as pool:
        bodies = [body(text, behaviour) for text in behaviour.texts]
        found = list(pool.map(lambda each: client.post("/generate", each), bodies))
    return [http_told(*each) for each in found]


def http_stream(desk: Desk, behaviour: Behaviour) -> list[Told]:
    client, [text] = desk.client("plain"), behaviour.texts
    asked = {**body(text, behaviour), "stream": True}
    events = client.events("/generate", asked)
    parts = {
        name: "".join(event.get(name, "") for event in events)
        for name in ("thinking", "text")
    }
    return [http_told(200, {**events[-1], **parts})]


def http_cancel(desk: Desk, behaviour: Behaviour) -> list[Told]:
    client, [text] = desk.client(behaviour.context), behaviour.texts
    context = desk.context(behaviour.context)
    asked = {**body(text, behaviour), "stream": True}
    with client.connect("/generate", asked) as connection:
        connection.recv(4096)
    counted = re.compile(r'requests_total\{.*"499"\} 1')
    wait_until(lambda: counted.search(client.ask("GET", "/metrics")[1]) is not None)
    wait_until(lambda: context.load.n_running == 0)
    return http_ask(desk, AFTER_CANCELLED)
