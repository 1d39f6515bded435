"""Statistics of coded texts: arrays in, frozen dataclasses out."""
