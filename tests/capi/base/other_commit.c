/* Takes the place of a function of libggml that tells the commit of its build. */
__attribute__((visibility("default"))) const char* ggml_commit(void);

const char* ggml_commit(void) { return "badc0de"; }
