"""Memory that a context needs, and memory and cores of the machine."""
