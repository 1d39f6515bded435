"""`llamaherd slurm`: a run as an array of SLURM tasks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import click

from llamaherd.cli.conventions import Command, Status, Whole, failed, section

_HELP = """\
Write a SLURM array script that does a run in parts.

RUN.toml is what `llamaherd run --save RUN.toml` writes. Each task answers a part of the
rows (`llamaherd run RUN.toml --shard I/N`) into a journal on its node's own disk. The
journal is brought back to RUN.journals/ every ten minutes, at the end, and at SIGTERM;
a task that is requeued goes on from there. When all are done, `llamaherd merge` puts the
answers together; they are those that one machine would have given.

Compute nodes often have no internet: get the model first, on a login node, with
`llamaherd models download`, and name its file in RUN.toml.
"""
_EXAMPLES = """\
llamaherd run texts.csv -m model.gguf -o out.csv --save run.toml
llamaherd slurm run.toml --tasks 50 --time 04:00:00 --cpus-per-task 16
llamaherd slurm run.toml --tasks 50 --setup "module load gcc" --submit
llamaherd merge run.journals/*.journal --out out.csv
"""
_array = section("The array")
_resources = section("What each task asks for (as of sbatch)")


@click.command("slurm", cls=Command, help=_HELP, examples=_EXAMPLES)
@click.argument(
    "run",
    metavar="RUN.toml",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@_array(
    "--tasks",
    type=Whole(1),
    required=True,
    metavar="N",
    help="Tasks of the array, each with a part of the rows.",
)
@_array(
    "--script",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the script goes; default: RUN.slurm.sh beside RUN.toml.",
)
@_array("--submit", is_flag=True, help="Hand it to sbatch; prints the job's id.")
@_array(
    "--most-running",
    type=Whole(1),
    metavar="N",
    help="Tasks that may run at once.",
)
@_array(
    "--setup",
    multiple=True,
    metavar="LINE",
    help='A line that comes first, such as "module load gcc"; several times for several.',
)
@_array(
    "--scratch",
    metavar="FOLDER",
    help="On a node's own disk; default: $SLURM_TMPDIR, $TMPDIR or /tmp there.",
)
@_resources("--time", metavar="TIME", help="Such as 04:00:00.")
@_resources("--mem", metavar="SIZE", help="Such as 24G.")
@_resources(
    "--cpus-per-task",
    type=Whole(1),
    metavar="N",
    help="As many threads compute.",
)
@_resources("--partition", metavar="NAME")
@_resources("--account", metavar="NAME")
@_resources("--qos", metavar="NAME")
@_resources("--gres", metavar="LIST", help="Such as gpu:1.")
@_resources(
    "--sbatch",
    "extra",
    multiple=True,
    metavar="OPTION",
    help="Any other one, such as --constraint=avx512; several times for several.",
)
def slurm(
    run: Path,
    tasks: int,
    script: Path | None,
    submit: bool,
    **options: Any,  # noqa: ANN401 - as declared above
) -> int:
    """Writes the script, and says what to do with it."""
    from llamaherd.runs import slurm as scripts  # noqa: PLC0415 - loads the engine
    from llamaherd.runs.spec import STREAM  # noqa: PLC0415
    from llamaherd.runs.spec_file import read_spec  # noqa: PLC0415

    spec = read_spec(run)
    if STREAM in (spec.input, spec.output):
        return failed(
            f"{run} reads or writes a stream, which tasks cannot share", Status.WRONG_USE
        )
    output = str(spec.at("output"))
    place = script or run.with_name(f"{run.stem}.slurm.sh")
    words = {name: options.pop(name) for name in ("setup", "scratch", "most_running")}
    resources = scripts.Resources(**options)
    text = scripts.slurm_script(place, run, output, tasks, resources, **words)
    place.write_text(text, encoding="utf-8")
    # sbatch opens the log before the script could make its folder.
    journals = place.absolute().with_name(f"{run.stem}.journals")
    journals.mkdir(exist_ok=True)
    if submit:
        return _submit(place)
    click.echo(
        f"wrote {place}: read it, then\n  sbatch {place}\nand when all tasks are done\n"
        f"  {scripts.merge_command(journals, output)}"
    )
    return Status.DONE


def _submit(script: Path) -> int:
    program = shutil.which("sbatch")
    if program is None:
        return failed(f"there is no sbatch here; {script} is written, submit it there")
    done = subprocess.run(  # noqa: S603 - a program of the system's
        [program, "--parsable", str(script)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return failed(f"sbatch: {done.stderr.strip()}")
    click.echo(done.stdout.strip())
    return Status.DONE
