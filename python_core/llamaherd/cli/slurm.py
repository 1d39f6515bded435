"""`llamaherd slurm`: write the script of a SLURM array job for a run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import click

from llamaherd.cli.conventions import Command, ExitStatus, Whole, failed, section
from llamaherd.core.files import write_new

_HELP = """\
Write a SLURM array script that executes a run in parts.

RUN.toml is written by `llamaherd run --save RUN.toml`. Each task answers a part of the
rows (`llamaherd run RUN.toml --shard I/N`) into a journal on the local disk of its node.
The journal is copied to RUN.journals/ every ten minutes, at the end, and at SIGTERM; a
requeued task continues from this copy. When all tasks are done, `llamaherd merge`
combines the answers, which equal the answers of a run on one machine.

Compute nodes often have no internet: download the model on a login node first, with
`llamaherd models download`, and name its file in RUN.toml.
"""
_EXAMPLES = """\
llamaherd run texts.csv -m model.gguf -o out.csv --save run.toml
llamaherd slurm run.toml --tasks 50 --time 04:00:00 --cpus-per-task 16
llamaherd slurm run.toml --tasks 50 --setup "module load gcc" --submit
llamaherd merge run.journals/*.journal --out out.csv
"""
_array = section("The array")
_resources = section("Resources of each task (options of sbatch)")


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
    help="Number of tasks of the array; each answers a part of the rows.",
)
@_array(
    "--script",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Path of the script. Default: RUN.slurm.sh next to RUN.toml.",
)
@_array(
    "--overwrite",
    is_flag=True,
    help="Replace the file of the script, if it exists with other content. Only this "
    "file is replaced: RUN.journals/ is kept, and tasks continue from its journals if "
    "--tasks is the same.",
)
@_array(
    "--submit", is_flag=True, help="Submit the script with sbatch and print the job id."
)
@_array(
    "--most-running",
    type=Whole(1),
    metavar="N",
    help="Maximum number of tasks that run at once.",
)
@_array(
    "--setup",
    multiple=True,
    metavar="LINE",
    help='Line to run first, such as "module load gcc". May be given several times.',
)
@_array(
    "--scratch",
    metavar="FOLDER",
    help="Folder on the local disk of a node. Default: $SLURM_TMPDIR, $TMPDIR or /tmp.",
)
@_resources("--time", metavar="TIME", help="Time limit per task, such as 04:00:00.")
@_resources("--mem", metavar="SIZE", help="Memory per task, such as 24G.")
@_resources(
    "--cpus-per-task",
    type=Whole(1),
    metavar="N",
    help="Cores per task, and number of threads that compute.",
)
@_resources("--partition", metavar="NAME")
@_resources("--account", metavar="NAME")
@_resources("--qos", metavar="NAME")
@_resources("--gres", metavar="LIST", help="Generic resources, such as gpu:1.")
@_resources(
    "--sbatch",
    "extra",
    multiple=True,
    metavar="OPTION",
    help="Another sbatch option, such as --constraint=avx512; may be repeated.",
)
def slurm(
    run: Path,
    tasks: int,
    script: Path | None,
    submit: bool,
    overwrite: bool,
    **options: Any,  # noqa: ANN401 - as declared above
) -> int:
    """Write the script, and print the next steps."""
    from llamaherd.tables import slurm as scripts  # noqa: PLC0415 - loads the engine
    from llamaherd.tables.execution import check_shardable  # noqa: PLC0415
    from llamaherd.tables.spec import STREAM  # noqa: PLC0415
    from llamaherd.tables.spec_file import read_spec  # noqa: PLC0415

    spec = read_spec(run)
    if STREAM in (spec.input, spec.output):
        return failed(
            f"{run} reads or writes a stream, which tasks cannot share",
            ExitStatus.WRONG_USE,
        )
    check_shardable(spec)
    output = str(spec.at("output"))
    place = script or run.with_name(f"{run.stem}.slurm.sh")
    words = {name: options.pop(name) for name in ("setup", "scratch", "most_running")}
    resources = scripts.Resources(**options)
    text = scripts.slurm_script(place, run, output, tasks, resources, **words)
    write_new(place, text.encode(), overwrite=overwrite)
    # sbatch opens the log before the script could create its folder.
    journals = place.absolute().with_name(f"{run.stem}.journals")
    journals.mkdir(exist_ok=True)
    if submit:
        return _submit(place)
    click.echo(
        f"wrote {place}: read it, then\n  sbatch {place}\nand when all tasks are done\n"
        f"  {scripts.merge_command(journals, output)}"
    )
    return ExitStatus.DONE


def _submit(script: Path) -> int:
    program = shutil.which("sbatch")
    if program is None:
        return failed(f"no sbatch here; {script} is written, submit it on the cluster")
    done = subprocess.run(  # noqa: S603 - a program of the system
        [program, "--parsable", str(script)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return failed(f"sbatch: {done.stderr.strip()}")
    click.echo(done.stdout.strip())
    return ExitStatus.DONE
