"""Instructions to install llamaherd, in one wording for all messages.

No package index has it: a bare name would fetch what somebody else put there.
"""

from __future__ import annotations

ADDRESS = "git+https://github.com/llamaherd/llamaherd"


def command(*extras: str, options: str = "") -> str:
    """The command that installs llamaherd, to be pasted into any shell.

    Args:
        *extras: Optional parts, such as "plot".
        options: Options of `pip install`.
    """
    what = f"llamaherd[{','.join(extras)}] @ {ADDRESS}" if extras else ADDRESS
    return " ".join(filter(None, ("pip install", options, f'"{what}"')))
