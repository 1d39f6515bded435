"""Interface for the R package: functions of lists and scalars that return a dict.

Arguments and results have types that reticulate can convert. Functions return errors as
data instead of raising them, because the exception classes of reticulate differ between
versions. Texts are cleaned before they are returned, because reticulate cuts texts at
lone surrogates and refuses NUL characters.
Numbers that may be large are floats, because reticulate converts integers of more than 32
bits to 0.
"""

from importlib import import_module

from llamaherd._r.jobs import call_result as call_result

_FILES = (
    "arguments",
    "calls",
    "chats",
    "clusters",
    "coding",
    "coding_page",
    "comparison",
    "estimation",
    "gold",
    "jobs",
    "methods",
    "models",
    "plots",
    "remote",
    "reports",
    "results",
    "schemas",
    "sources",
    "spans",
    "validation",
)

# Every public function that `boundary` or `unrecorded` decorates is called by R.
for _file in _FILES:
    _module = import_module(f"llamaherd._r.{_file}")
    for _name, _value in vars(_module).items():
        is_own = getattr(_value, "__module__", "") == _module.__name__
        if is_own and hasattr(_value, "__wrapped__") and not _name.startswith("_"):
            globals()[_name] = _value
