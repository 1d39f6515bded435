"""`llamaherd doctor`: check this machine and give advice."""

from __future__ import annotations

import dataclasses
import json
import textwrap

import click

from llamaherd.cli.checkups import CHECKUPS, Finding, State, look_at
from llamaherd.cli.conventions import Command, ExitStatus, option

_HELP = """\
Check this machine for problems, and print what to do.

Checks versions, libllama, the processor, threads, memory, graphics processors, the cache
of models, optional packages and R, and answers some prompts with a small model of the
cache, or with a tiny random one if the cache has none. Exit status 1 means that llamaherd
does not work here. Attach the output to a bug report.
"""
_EXAMPLES = """\
llamaherd doctor
llamaherd doctor --json | jq '.findings[] | select(.state != "ok")'
"""
_COLOURS: dict[State, str] = {
    "ok": "green",
    "note": "cyan",
    "warning": "yellow",
    "error": "red",
}
_WIDTH = 80
_INDENT = 20


@click.command("doctor", cls=Command, help=_HELP, examples=_EXAMPLES)
@option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(as_json: bool) -> int:
    """Print each finding as soon as its check ends."""
    findings = []
    for topic in CHECKUPS:
        finding = look_at(topic)
        findings.append(finding)
        if not as_json:
            click.echo(_lines(finding))
    errors = [finding for finding in findings if finding.state == "error"]
    if as_json:
        rows = [dataclasses.asdict(finding) for finding in findings]
        click.echo(json.dumps({"ok": not errors, "findings": rows}, indent=1))
    return ExitStatus.FAILED if errors else ExitStatus.DONE


def _lines(finding: Finding) -> str:
    state = click.style(finding.state.ljust(8), fg=_COLOURS[finding.state])
    head = f"{finding.topic:<12}"
    blocks = [finding.text, *([f"-> {finding.advice}"] if finding.advice else [])]
    lines = [
        line
        for block in blocks
        for line in textwrap.wrap(
            block, _WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False
        )
    ]
    indented = ("\n" + " " * _INDENT).join(lines)
    return f"{state}{head}{indented}"
