# Types of the module that the build writes (capi_shim/build_support.py).

LLAMA_CPP_PYTHON_VERSION: str
LLAMA_BUILD_COMMIT: str
HEADER_SHA256: dict[str, str]
