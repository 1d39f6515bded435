"""Reports of `fake_r`."""

import json

__all__ = ["report"]


def report(coded, path, parts, options):
    with open(path, "w") as file:
        file.write(json.dumps([coded, parts, options]).replace("NaN", "null"))
    return path
