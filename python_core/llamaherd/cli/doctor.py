"""`llamaherd doctor`: check this machine, one function per topic, and give advice."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from typing import TYPE_CHECKING, Literal

import click
import psutil

from llamaherd.cli.conventions import ExitStatus
from llamaherd.cli.page import command
from llamaherd.engine.core import checks, phrases
from llamaherd.engine.hub.cache import list_cached_models, model_cache_dir
from llamaherd.engine.hub.profile import cpu_features, cpu_name, gpus
from llamaherd.engine.hub.quantizations import gigabytes
from llamaherd.engine.loop.threads import trouble_with_threads
from llamaherd.engine.memory import hardware
from llamaherd.engine.native import abi, shim

if TYPE_CHECKING:
    from collections.abc import Callable

State = Literal["ok", "note", "warning", "error"]

# Name of each processor feature in libllama, by its name in Linux.
_ALIKE = "avx avx2 fma f16c avx_vnni avx512_vnni avx512_bf16 amx_int8 sve sme"
_COMPILED = {
    **{name: name.upper() for name in _ALIKE.split()},
    "avx512f": "AVX512",
    "asimddp": "DOTPROD",
    "i8mm": "MATMUL_INT8",
}
_LITTLE_MEMORY = 1 << 30  # bytes
_LITTLE_DISK = 5 << 30
_SMALL_MODEL = 1 << 30  # bytes of a model that runs in seconds
_RUN_S = 180
_R_CODE = (
    "has <- function(p) tryCatch(as.character(packageVersion(p)), "
    'error = \\(e) "-"); cat(as.character(getRversion()), has("reticulate"), '
    'has("llamaherd"))'
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check, with advice to the user."""

    # "note": a possible improvement; "warning": some work will fail; "error": no work.
    state: State
    text: str
    advice: str = ""
    topic: str = ""


_ok, _note = partial(Finding, "ok"), partial(Finding, "note")
_warning, _error = partial(Finding, "warning"), partial(Finding, "error")


def versions() -> Finding:
    """Check the versions of llamaherd and its dependencies."""
    return _ok(
        f"{version('llamaherd')}, Python {platform.python_version()} "
        f"({sys.executable}), {platform.system()} {platform.release()}",
    )


def libllama() -> Finding:
    """Check libllama, which the shim has loaded by now."""
    text = (
        f"llama.cpp {shim.ggml_commit()[:7]} of llama-cpp-python "
        f"{shim.llama_cpp_python()}, in {abi.libllama_folder()}"
    )
    if abi.checks_disabled():
        return _warning(
            f"{text}; LLAMAHERD_SKIP_ABI_CHECK=1: not compared with the version "
            "that llamaherd was compiled for",
            "unset LLAMAHERD_SKIP_ABI_CHECK",
        )
    return _ok(text)


def processor() -> Finding:
    """Check the processor features, and whether libllama was compiled for them."""
    has = cpu_features()
    compiled = abi.compiled_for(abi.libllama_folder())
    amx = ", AMX multiplies" if shim.has_amx() else ""
    text = f"{cpu_name()} ({' '.join(has) or 'no known features'}){amx}"
    unused = [
        name
        for name in has
        if compiled and name in _COMPILED and _COMPILED[name] not in compiled
    ]
    if not unused:
        return _ok(text)
    return _note(
        f"{text}; libllama was compiled without {', '.join(unused)}",
        "compiled on this machine it may be faster: " + _reinstall("-DGGML_NATIVE=ON"),
    )


def threads() -> Finding:
    """Check the number of threads, and whether other programs slow them down."""
    n = hardware.n_cores()
    text = f"{n} of {os.cpu_count()} logical processors, one for each core"
    quotas = hardware.cpu_quotas()
    if quotas:
        text += f"; a control group allows {min(quotas):g}"
    trouble = trouble_with_threads()
    if trouble is not None:
        return _warning(text, trouble)
    granted = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if (checks.digits(granted) or n) < n:
        return _warning(
            f"{text}; SLURM assigned {granted} to this task, without enforcing it",
            f"pass n_threads={granted}, or --n-threads {granted}",
        )
    return _ok(text)


def memory() -> Finding:
    """Check the memory available for a model and its context."""
    available = hardware.available_memory()
    of_all = psutil.virtual_memory()
    text = f"{gigabytes(available)} available of {gigabytes(of_all.total)}"
    if available < of_all.available * 0.9:
        text += (
            f"; a control group leaves less than the {gigabytes(of_all.available)} free"
        )
    limit = _address_space()
    if limit is not None:
        return _warning(
            f"{text}; this process may map {gigabytes(limit)} (ulimit -v)",
            "ulimit -v unlimited: files of models are mapped, too",
        )
    if available < _LITTLE_MEMORY:
        return _warning(
            text,
            "close other programs, or ask for more: models of more than "
            f"{gigabytes(available * 0.9)} do not fit",
        )
    return _ok(text)


def gpu() -> Finding:
    """Check for a GPU, and whether it can be used."""
    devices = gpus()
    names = ", ".join(f"{x.name} ({gigabytes(x.memory_bytes)})" for x in devices)
    if devices and not shim.supports_gpu():
        return _note(
            f"{names}; this build of llama-cpp-python cannot use it",
            f"{_reinstall('-DGGML_CUDA=on')}; then Model(..., n_gpu_layers=-1)",
        )
    if devices:
        text = f"{names}; Model(..., n_gpu_layers=-1) uses it"
    else:
        text = "none found; models run on the processor"
    return _ok(text)


def cache() -> Finding:
    """Check whether models can be downloaded to the cache folder."""
    folder = model_cache_dir()
    existing_folder = next(x for x in (folder, *folder.parents) if x.exists())
    models = list_cached_models()
    size = gigabytes(sum(model.size_bytes for model in models))
    free = shutil.disk_usage(existing_folder).free
    text = f"{folder}: {gigabytes(free)} free; {len(models)} models here, {size}"
    try:
        with tempfile.TemporaryFile(dir=existing_folder):
            pass
    except OSError as error:
        return _error(
            f"{existing_folder} cannot be written to: {error.strerror}",
            "set LLAMAHERD_CACHE_DIR to a folder of yours",
        )
    if free < _LITTLE_DISK:
        return _warning(
            text,
            "make room, or set LLAMAHERD_CACHE_DIR to a folder on another disk: "
            "models have some GB",
        )
    return _ok(text)


def extras() -> Finding:
    """Check the optional packages."""
    missing: dict[str, list[str]] = {}
    for requirement in requires("llamaherd") or []:
        match = re.match(r"([\w.-]+).*extra == ['\"](\w+)['\"]", requirement)
        windows = "sys_platform != " in requirement and sys.platform == "win32"
        if match is None or windows:
            continue
        lacking = missing.setdefault(match[2], [])
        if not _is_installed(match[1]):
            lacking.append(match[1])
    here = ", ".join(name for name, lacking in missing.items() if not lacking) or "none"
    gone = {name: lacking for name, lacking in missing.items() if lacking}
    if not gone:
        return _ok(here)
    without = "; ".join(f"{name} ({', '.join(x)})" for name, x in gone.items())
    return _note(
        f"{here}; not {without}",
        f"if you need them: {phrases.install_command(*gone)}",
    )


def r() -> Finding:
    """Check R and its packages, which only R users need."""
    program = shutil.which("Rscript")
    if program is None:
        return _ok("not in the path; only R users need it")
    try:
        done = subprocess.run(  # noqa: S603 - a program of the system
            [program, "--no-init-file", "-e", _R_CODE],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        r_version, reticulate, package = done.stdout.split()[-3:]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return _note(f"{program} does not run: {error}")
    text = f"{r_version}, reticulate {reticulate}, llamaherd {package}".replace(
        " -", " missing"
    )
    if "-" in (reticulate, package):
        advice = (
            "install.packages('reticulate')"
            if reticulate == "-"
            else "R CMD INSTALL r_package; if it is in a separate library, as after "
            "`make setup`, set R_LIBS=/path/to/.rlib"
        )
        return _note(text, f"for the R package: {advice}")
    return _ok(text)


def run() -> Finding:
    """Run some prompts in a separate process, which may crash."""
    models = sorted(list_cached_models(), key=lambda model: model.size_bytes)
    paths = [str(x.path) for x in models if x.size_bytes <= _SMALL_MODEL]
    command = [sys.executable, "-m", "llamaherd.cli.tiny_run", *paths]
    try:
        done = subprocess.run(  # noqa: S603 - this Python
            command, capture_output=True, text=True, timeout=_RUN_S, check=False
        )
    except subprocess.TimeoutExpired:
        return _warning(
            f"8 prompts through a small model took more than {_RUN_S} s",
            "see what else runs here, and how many threads this process may use",
        )
    if done.returncode != 0:
        return _failed_run(done.returncode, done.stderr)
    seen = json.loads(done.stdout.splitlines()[-1])
    name = seen["model"] or "a tiny model with random weights"
    if not seen["is_same"]:
        return _error(
            f"{name} gave different answers to prompts together and one by one",
            f"libllama computes wrongly here: {_reinstall('-DGGML_NATIVE=ON')}",
        )
    return _ok(
        f"{name} gave the same answers to 8 prompts together and one by one, "
        f"{seen['prompts_per_s']:.1f} prompts/s",
    )


CHECKUPS: dict[str, Callable[[], Finding]] = {
    "llamaherd": versions,
    "libllama": libllama,
    "processor": processor,
    "threads": threads,
    "memory": memory,
    "GPU": gpu,
    "cache": cache,
    "extras": extras,
    "R": r,
    "run": run,
}


def look_at(topic: str) -> Finding:
    """Return the finding of a topic; if the check raises an error, report the error."""
    try:
        finding = CHECKUPS[topic]()
    except Exception as error:  # noqa: BLE001 - the other checks must still run
        finding = _warning(f"could not be checked: {type(error).__name__}: {error}")
    return dataclasses.replace(finding, topic=topic)


_ILLEGAL_ON_WINDOWS = 0xC000001D  # STATUS_ILLEGAL_INSTRUCTION


def _failed_run(status: int, stderr: str) -> Finding:
    if status in {-signal.SIGILL, _ILLEGAL_ON_WINDOWS}:
        text = "libllama was compiled for a processor with more features than this one"
        advice = f"compile it here: {_reinstall('-DGGML_NATIVE=ON')}"
    elif status == -9:  # SIGKILL, which Windows lacks
        text = "the run was killed: there was not enough memory"
        advice = "ask for more memory, or close other programs"
    else:
        last = (stderr.strip().splitlines() or [f"exit status {status}"])[-1]
        text = f"a small model does not run: {last}"
        advice = phrases.install_command(options="--force-reinstall --no-cache-dir")
    return _error(text, advice)


def _reinstall(options: str) -> str:
    return (
        f"CMAKE_ARGS='{options}' pip install --force-reinstall --no-cache-dir --no-deps "
        f"--no-binary llama-cpp-python llama-cpp-python=={shim.llama_cpp_python()}"
    )


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _address_space() -> int | None:
    """Return the limit of mapped bytes for this process; None without a limit."""
    if sys.platform == "win32":
        return None
    import resource  # not on Windows

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


_COLOURS: dict[State, str] = {
    "ok": "green",
    "note": "cyan",
    "warning": "yellow",
    "error": "red",
}
_WIDTH = 80
_INDENT = 20


@command(
    "doctor",
    """
Check this machine for problems, and print what to do.

Checks versions, libllama, the processor, threads, memory, graphics processors, the cache
of models, optional packages and R, and answers some prompts with a small model of the
cache, or with a tiny random one if the cache has none. Exit status 1 means that llamaherd
does not work here. Attach the output to a bug report.

Options:
  --json -> as_json  Print the findings as JSON.

Examples:
  llamaherd doctor
  llamaherd doctor --json | jq '.findings[] | select(.state != "ok")'
""",
)
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
