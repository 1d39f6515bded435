"""A run as an array of SLURM tasks: the text of its script."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import TYPE_CHECKING

from llamaherd.core import checks

if TYPE_CHECKING:
    from pathlib import Path

MAX_TASKS = 100_000
_WARNING_S = 120  # before the time limit: enough to bring a journal back
_KEEP_S = 600  # what a node that dies has computed since is computed again
_MOST_STARTS = 20  # a task that never gets through its start would go on for ever

_SCRIPT = r"""#!/usr/bin/env bash
# A run in {n_tasks} parts, one for each task of an array. Read it, then
#   sbatch {script}
# and when all tasks are done
#   {merge}
# Written by llamaherd {version}.
{directives}
set -euo pipefail

run={run}
journals={journals}
n_shards={n_tasks}
llamaherd=({command})
{setup}
shard=${{SLURM_ARRAY_TASK_ID:?run me with sbatch}}
name=$shard-of-$n_shards.journal
mkdir -p -- "$journals"

# A journal cannot be written to on a network drive: it lies on this node's own disk.
work=$(mktemp -d -- "{scratch}/llamaherd-XXXXXXXX")
journal=$work/$name
if [[ -e $journals/$name ]]; then # of an earlier start
  cp -- "$journals/$name" "$journal"
fi

bring_back() {{
  if [[ -e $journal ]]; then
    "${{llamaherd[@]}}" keep-journal "$journal" "$journals/$name"
  fi
}}

bring_back_now_and_then() {{
  trap 'kill "$!" 2>/dev/null || true; exit 0' TERM
  while sleep {keep_s} & wait "$!"; do
    bring_back || true
  done
}}

"${{llamaherd[@]}}" run "$run" --shard "$shard/$n_shards" --journal "$journal"{threads} &
task=$!
bring_back_now_and_then &
keeper=$!

# SIGTERM comes before the time limit and before a preemption: the run ends by it, and its
# journal has what is finished.
terminated=0
trap 'terminated=1; kill -TERM "$task" 2>/dev/null || true' TERM
status=0
while :; do
  terminated=0 code=0
  wait "$task" || code=$? # a signal ends the wait, not the task
  ((code == 127)) || status=$code
  ((terminated)) || break
done
kill -TERM "$keeper" 2>/dev/null || true
wait "$keeper" || true
bring_back
rm -rf -- "$work"

# Only some rows failed: `llamaherd merge` says so.
if ((status == 3)); then status=0; fi
# Before the time limit the job still runs: it starts again, and goes on where it was. One
# that is cancelled does not; a preempted one is started again by SLURM.
if ((status == 143 && ${{SLURM_RESTART_COUNT:-0}} < {most_starts})) &&
  [[ $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) == RUNNING ]]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What each task asks for, as sbatch writes it; None: what the cluster gives.

    Attributes:
        extra: Further options of sbatch, such as "--constraint=avx512".
    """

    time: str | None = None
    mem: str | None = None
    cpus_per_task: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    gres: str | None = None
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            for text in value if isinstance(value, tuple) else (value,):
                if text is not None and not re.fullmatch(r"[^\s\"'`$\\]+", str(text)):
                    raise ValueError(
                        f"{field.name} must be one word without quotes, not "
                        f"{checks.shown(text)}"
                    )
        for option in self.extra:
            if not option.startswith("--"):
                raise ValueError(
                    f"extra must be options of sbatch, such as --constraint=avx512, not "
                    f"{checks.shown(option)}"
                )

    def directives(self) -> list[str]:
        """Lines for sbatch."""
        named = [
            f"--{field.name.replace('_', '-')}={getattr(self, field.name)}"
            for field in fields(self)
            if field.name != "extra" and getattr(self, field.name) is not None
        ]
        return [*named, *self.extra]


def slurm_script(  # noqa: PLR0917 - each is a line of the script
    script: Path,
    run: Path,
    output: str,
    n_tasks: int,
    resources: Resources,
    setup: tuple[str, ...] = (),
    scratch: str | None = None,
    most_running: int | None = None,
) -> str:
    """The text of an array script, in which each task answers a shard of a run.

    Args:
        script: Where it will be.
        run: The run's TOML file.
        output: Of the run, for `llamaherd merge`.
        n_tasks: Tasks, hence shards.
        resources: Of each task.
        setup: Lines that come first, such as "module load python".
        scratch: Folder on a node's own disk; None: SLURM_TMPDIR, TMPDIR or /tmp there. It
            may name variables of the node.
        most_running: Tasks that may run at once; None: as many as the cluster lets.

    Raises:
        ValueError: An argument cannot stand in a script.
    """
    checks.integer("n_tasks", n_tasks, 1, MAX_TASKS)
    at_once = ""
    if most_running is not None:
        at_once = f"%{checks.integer('most_running', most_running, 1, MAX_TASKS)}"
    script, run = script.absolute(), run.absolute()
    journals = script.with_name(f"{run.stem}.journals")
    for name, path in (("script", script), ("run", run)):
        if not re.fullmatch(r"[\w@+=:,./ -]+", str(path)):
            raise ValueError(
                f"{name} must have a path of letters, digits, spaces and @+=:,.-, not "
                f"{checks.shown(str(path))}"
            )
    place = "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}" if scratch is None else scratch
    if not re.fullmatch(r"[\w@+=:,./ ${}-]+", place):
        raise ValueError(f"scratch cannot be a folder: {checks.shown(place)}")
    if any(not line.isprintable() for line in setup):
        raise ValueError("setup must be lines of a script, each without a line break")
    directives = [
        f"--job-name=llamaherd-{re.sub(r'[^A-Za-z0-9_-]', '-', run.stem)}",
        f"--array=1-{n_tasks}{at_once}",
        f'--output="{journals}/%a.log"',
        "--open-mode=append",
        "--requeue",
        f"--signal=B:TERM@{_WARNING_S}",
        "--nodes=1",
        "--ntasks=1",
        *resources.directives(),
    ]
    command = [sys.executable, "-m", "llamaherd.cli"]
    threads = ' --n-threads "$SLURM_CPUS_PER_TASK"' if resources.cpus_per_task else ""
    return _SCRIPT.format(
        n_tasks=n_tasks,
        script=shlex.quote(str(script)),
        merge=merge_command(journals, output),
        version=version("llamaherd"),
        directives="\n".join(f"#SBATCH {line}" for line in directives),
        run=shlex.quote(str(run)),
        journals=shlex.quote(str(journals)),
        command=shlex.join(command),
        setup="".join(f"{line}\n" for line in setup),
        scratch=place,
        keep_s=_KEEP_S,
        threads=threads,
        most_starts=_MOST_STARTS,
    )


def merge_command(journals: Path, output: str) -> str:
    """What puts the tasks' answers together."""
    return (
        f"llamaherd merge {shlex.quote(str(journals))}/*.journal --out "
        f"{shlex.quote(output)}"
    )
