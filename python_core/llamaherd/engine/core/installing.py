"""Instructions to install llamaherd, shared by all messages.

The package is on no package index. A command with its name alone could therefore
install a package of another author.
"""

from __future__ import annotations

ADDRESS = "git+https://github.com/llamaherd/llamaherd"


def command(*extras: str, options: str = "") -> str:
    """Return a command that installs llamaherd and works in any shell.

    Args:
        *extras: Optional parts, such as "plot".
        options: Options of `pip install`.
    """
    what = f"llamaherd[{','.join(extras)}] @ {ADDRESS}" if extras else ADDRESS
    return " ".join(filter(None, ("pip install", options, f'"{what}"')))
