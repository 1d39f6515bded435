"""Search for the quantization type that is fastest on this processor."""
