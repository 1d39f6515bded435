"""Python interface of the shim; the only room that uses cffi."""
