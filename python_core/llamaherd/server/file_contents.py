"""Content of the model files of a server, which stays the same while the server runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from llamaherd.core.errors import ModelLoadError
from llamaherd.model.adapters import content_of
from llamaherd.model.file import ModelFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llamaherd.model.model import Model


def identity_of(models: Sequence[Model]) -> str | None:
    """Return the identity of models with their adapters; None if a file was replaced."""
    found = [content_of(each.file, each.loras) for each in models]
    return None if None in found else json.dumps(found)


class FileContents:
    """Model and adapter files that a server has loaded.

    A file that was replaced since is not loaded again under the same name: a client
    would get the answers of another model.
    """

    def __init__(self) -> None:
        self._loaded: dict[Path, ModelFile] = {}
        self._seen: dict[Path, ModelFile] = {}

    def check(self, path: Path) -> None:
        """Check that a file that was loaded before has not changed.

        Raises:
            ModelLoadError: It has.
        """
        known = self._loaded.get(path)
        if known is not None and not known.is_unchanged:
            raise ModelLoadError(
                f"{path} was changed or replaced since the server loaded it: restart the "
                "server to serve the new file"
            )

    def keep(self, path: Path, file: ModelFile | None) -> None:
        """Note that a file was loaded, in the state that it had before.

        Raises:
            ModelLoadError: It was replaced since it was loaded first.
        """
        self.check(path)
        if file is not None:
            self._loaded.setdefault(path, file)

    def identity(
        self, path: Path, adapter: Path | None, *, is_loaded: bool
    ) -> str | None:
        """Return what `identity_of` returns for a model with at most one adapter.

        Args:
            path: Path of the model.
            adapter: Path of the adapter; None without one.
            is_loaded: Whether the model is in memory; otherwise its files are looked at.
        """
        paths = [path] if adapter is None else [path, adapter]
        hashes = [self._sha256(each, is_loaded=is_loaded) for each in paths]
        if None in hashes:
            return None
        return json.dumps([[hashes[0], [[each, 1.0] for each in hashes[1:]]]])

    def _sha256(self, path: Path, *, is_loaded: bool) -> str | None:
        file = self._loaded.get(path)
        try:
            if file is None:
                file = self._seen.get(path)
                if file is None or not file.is_unchanged:
                    file = self._seen[path] = ModelFile(path)
            elif not is_loaded and not file.is_unchanged:
                return None
            sha256 = file.sha256_of_loaded()
        except OSError:
            return None
        return None if sha256 is None else sha256.hex()
