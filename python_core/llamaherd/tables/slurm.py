"""Builds a script that executes a run as a SLURM array job."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

MAX_TASKS = 100_000
_WARNING_S = 120  # seconds before the time limit, enough to copy a journal
_KEEP_S = 600  # seconds between copies of the journal; a failed node loses at most this
_MOST_STARTS = 20  # maximum number of restarts, for tasks that always fail

_SCRIPT = r"""#!/usr/bin/env bash
# A run in {n_tasks} parts, one for each task of an array. Submit it with
#   sbatch {script}
# and combine the parts when all tasks are done:
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

# A journal cannot be written on a network drive, so it is on the local disk of the node.
work=$(mktemp -d -- "{scratch}/llamaherd-XXXXXXXX")
journal=$work/$name
if [[ -e $journals/$name ]]; then # from an earlier start of this task
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

# SLURM sends SIGTERM before the time limit and before a preemption. The run then ends,
# and its journal has the finished rows.
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

# Status 3: some rows failed, which `llamaherd merge` reports.
if ((status == 3)); then status=0; fi
# A job that is still RUNNING received SIGTERM before its time limit: requeue it, to
# continue from its journal. A cancelled job is not requeued; SLURM requeues a preempted
# one itself.
if ((status == 143 && ${{SLURM_RESTART_COUNT:-0}} < {most_starts})) &&
  [[ $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) == RUNNING ]]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resources of each task in the notation of sbatch; None for sbatch's default.

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
                    raise ArgumentError(
                        f"must be one word without quotes, not {checks.shown(text)}",
                        argument=field.name,
                    )
        for option in self.extra:
            if not option.startswith("--"):
                raise ArgumentError(
                    f"must be options of sbatch, such as --constraint=avx512, not "
                    f"{checks.shown(option)}",
                    argument="extra",
                )

    def directives(self) -> list[str]:
        """Return the #SBATCH lines."""
        named = [
            f"--{field.name.replace('_', '-')}={getattr(self, field.name)}"
            for field in fields(self)
            if field.name != "extra" and getattr(self, field.name) is not None
        ]
        return [*named, *self.extra]


def slurm_script(  # noqa: PLR0917 - one argument per setting of the script
    script: Path,
    run: Path,
    output: str,
    n_tasks: int,
    resources: Resources,
    setup: tuple[str, ...] = (),
    scratch: str | None = None,
    most_running: int | None = None,
) -> str:
    """Return the text of an array script in which each task answers one shard.

    Args:
        script: Path at which the script will be saved.
        run: Path of the run's TOML file.
        output: Output of the run, used in the command `llamaherd merge`.
        n_tasks: Number of tasks, which is the number of shards.
        resources: Resources of each task.
        setup: Lines at the start of the script, such as "module load python".
        scratch: Folder on a node's local disk; environment variables in it are expanded
            on the node. None for the first of SLURM_TMPDIR, TMPDIR and /tmp that is set
            on the node.
        most_running: Maximum number of tasks that run at once; None for the cluster's
            limit.

    Raises:
        ValueError: An argument contains characters that a script cannot contain.
    """
    checks.integer("n_tasks", n_tasks, 1, MAX_TASKS)
    at_once = ""
    if most_running is not None:
        at_once = f"%{checks.integer('most_running', most_running, 1, MAX_TASKS)}"
    script, run = script.absolute(), run.absolute()
    journals = script.with_name(f"{run.stem}.journals")
    for name, path in (("script", script), ("run", run)):
        if not re.fullmatch(r"[\w@+=:,./ -]+", str(path)):
            raise ArgumentError(
                f"must have a path of letters, digits, spaces and @+=:,.-, not "
                f"{checks.shown(str(path))}",
                argument=name,
            )
    folder = "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}" if scratch is None else scratch
    if not re.fullmatch(r"[\w@+=:,./ ${}-]+", folder):
        raise ArgumentError(
            f"cannot be a folder: {checks.shown(folder)}", argument="scratch"
        )
    if any(not line.isprintable() for line in setup):
        raise ArgumentError(
            "must be lines of a script, each without a line break", argument="setup"
        )
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
        scratch=folder,
        keep_s=_KEEP_S,
        threads=threads,
        most_starts=_MOST_STARTS,
    )


def merge_command(journals: Path, output: str) -> str:
    """Return the command that merges the outputs of the tasks."""
    return (
        f"llamaherd merge {shlex.quote(str(journals))}/*.journal --out "
        f"{shlex.quote(output)}"
    )
