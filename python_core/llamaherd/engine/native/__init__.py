"""Python interface of the C++ shim. Only this package uses cffi."""
