"""The shim: the only room that knows cffi."""
