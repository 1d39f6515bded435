"""Checked arguments of `Model` for GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.memory.device import Placement
from llamaherd.engine.native import devices, shim

if TYPE_CHECKING:
    from collections.abc import Mapping

SPLIT_MODES = {"none": 0, "layer": 1, "row": 2}  # of libllama
_FLAGS = ("use_mmap", "use_mlock", "check_tensors", "check_memory")


def checked_layers(n_gpu_layers: object) -> int:
    """Check a number of layers in GPU memory; "auto" is all layers, or 0 without a GPU.

    Raises:
        ArgumentTypeError: The value is neither a whole number nor a text.
        ArgumentError: The value is a text other than "auto", or too large.
    """
    if isinstance(n_gpu_layers, str):
        if n_gpu_layers != "auto":
            raise ArgumentError(
                f'must be a whole number or "auto", not {checks.shown(n_gpu_layers)}',
                argument="n_gpu_layers",
            )
        return -1 if shim.supports_gpu() else 0
    return checks.integer("n_gpu_layers", n_gpu_layers, -checks.INT32_MAX)


def checked_placement(
    n_gpu_layers: int,
    split_mode: str,
    main_gpu: int,
    tensor_split: object,
) -> Placement:
    """Check the arguments for GPUs and return them."""
    mode = checks.choice("split_mode", split_mode, tuple(SPLIT_MODES))
    shares = None
    if tensor_split is not None:
        if isinstance(tensor_split, str) or not isinstance(tensor_split, Sequence):
            raise ArgumentTypeError(
                f"must be a list of numbers, not {type(tensor_split).__name__}",
                argument="tensor_split",
            )
        shares = tuple(checks.real("tensor_split", x, 0, 1e9) for x in tensor_split)
        if not any(shares):
            raise ArgumentError(
                f"must have a share above 0, not {list(shares)}", argument="tensor_split"
            )
    gpu = checks.integer("main_gpu", main_gpu, 0)
    n_gpus = len(devices.gpus()) if n_gpu_layers != 0 else 0
    if n_gpus and gpu >= n_gpus:
        raise ArgumentError(
            f"must be less than the number of GPUs ({n_gpus}), not {gpu}",
            argument="main_gpu",
        )
    if n_gpus and shares is not None and len(shares) > n_gpus:
        raise ArgumentError(
            f"must have a share for each of the {n_gpus} GPUs, not {len(shares)} shares",
            argument="tensor_split",
        )
    return Placement(
        n_gpu_layers=n_gpu_layers, split_mode=mode, main_gpu=gpu, tensor_split=shares
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Checked arguments of `Model` other than its files.

    Attributes:
        placement: Arguments for GPUs.
        use_mmap: See `Model`.
        use_mlock: See `Model`.
        check_tensors: See `Model`.
        check_memory: See `Model`.
    """

    placement: Placement
    use_mmap: bool
    use_mlock: bool
    check_tensors: bool
    check_memory: bool

    @property
    def fits_file_to_memory(self) -> bool:
        """Whether host memory decides which file of a repository is loaded."""
        return self.check_memory and self.placement.n_gpu_layers == 0


def checked_loading(loading: Mapping[str, Any]) -> LoadSettings:
    """Check arguments of `Model` before a file is read.

    Args:
        loading: All arguments by name; arguments of files are ignored.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or there are fewer GPUs.
    """
    placement = checked_placement(
        checked_layers(loading["n_gpu_layers"]),
        loading["split_mode"],
        loading["main_gpu"],
        loading["tensor_split"],
    )
    flags = {name: checks.flag(name, loading[name]) for name in _FLAGS}
    return LoadSettings(placement=placement, **flags)
