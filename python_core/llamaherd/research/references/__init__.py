"""References of methods, codebooks and guidelines, by their keys.

Reports cite a reference only if its method or codebook was used; the checklist cites the
guidelines. A test checks that keys, DOIs and citations in text are unique.
"""

from __future__ import annotations

from llamaherd.research.references.methods import METHODS
from llamaherd.research.references.published import Reference
from llamaherd.research.references.texts import CODEBOOKS, GUIDELINES

__all__ = ["GUIDELINES", "REFERENCES", "Reference"]

REFERENCES = {each.key: each for each in (*METHODS, *CODEBOOKS, *GUIDELINES)}
