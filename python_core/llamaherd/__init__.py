"""Many prompts at once through one llama.cpp context.

import llamaherd as lh

model = lh.Model("model.gguf")
out = lh.generate_parallel(lh.Context(model), ["One.", "Two."], max_tokens=20)
print(out.texts, out.stats)
"""

from llamaherd.engine.core import process as _starting  # noqa: F401 - before all that takes long

# isort: split
import warnings as _warnings

import lazy_loader as _lazy_loader

# The stub `__init__.pyi` lists the public names; each is imported on its first use.
_imported, _, _names = _lazy_loader.attach_stub(__name__, __file__)
# `import *` needs no Ray, and leaves the name of Python's own module `types` alone.
__all__ = [name for name in _names if name not in {"ray", "types"}]


def __dir__() -> list[str]:
    """Return the public names, without the modules that are imported."""
    return sorted(
        {*__all__, "types", "__all__", "__doc__", "__file__", "__name__", "__version__"}
    )


def __getattr__(name: str) -> object:
    """Import a public name on its first use."""
    if name == "__version__":
        from importlib.metadata import version  # takes long

        globals()[name] = text = version("llamaherd")  # a server tells it in each answer
        return text
    if name in _names:
        return _imported(name)
    if name[:1].isupper() and (cls := getattr(_imported("types"), name, None)):
        message = f"llamaherd.{name} is now llamaherd.types.{name}"
        _warnings.warn(message, DeprecationWarning, stacklevel=2)
        return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
