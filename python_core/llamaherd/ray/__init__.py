"""Many machines: what runs on a cluster of Ray."""

from llamaherd.ray.data import Annotator

__all__ = ["Annotator"]
