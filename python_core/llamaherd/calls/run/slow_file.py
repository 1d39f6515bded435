"""A note, once for each model, that another file of the model would be much faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.calls.run.elsewhere import Elsewhere
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.words import words
from llamaherd.engine.hub.profile import cpu_features

if TYPE_CHECKING:
    from llamaherd.calls.run.host import Host

MANY = 5000  # prompts from which on a faster file is worth minutes of requantizing
# Values of general.file_type of types that ggml does not rearrange for wide instructions,
# and than which Q8_0 reads prompts twice as fast; see docs/decisions/0013.
_SLOW = {"3": "Q4_1"}
_noted: set[str] = set()  # paths of models for which the note was issued


def note_slow_file(host: Host, n_prompts: int) -> None:
    """Warn once if a call is long, and its model is of a type that is slow here.

    Warns:
        UserWarning: The type of the model's weights is slow on this processor.
    """
    if n_prompts < MANY or isinstance(host, Elsewhere):
        return
    model = host.model
    name = _SLOW.get(model.metadata.get("general.file_type", ""))
    path = str(model.path)
    if name is None or model.n_gpu_layers != 0 or path in _noted or not _is_slow_here():
        return
    _noted.add(path)
    warn_caller(
        f"{model.file.name} is of the type {name}, and this processor reads prompts "
        "about twice as fast with Q8_0, which predicts almost the same: "
        f"{words().faster(path)} writes such a file and measures it"
    )


def _is_slow_here() -> bool:
    """Whether the processor has wide instructions, but none for matrices of any type."""
    features = cpu_features()
    return "avx2" in features and "amx_int8" not in features
