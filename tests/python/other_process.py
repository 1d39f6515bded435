"""What another process is asked to do: it finds this module, but no test modules."""

from __future__ import annotations


def returned(thing: object) -> object:
    return thing


def raised(error: BaseException) -> None:
    raise error
