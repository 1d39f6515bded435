#' A small model for examples
#'
#' Finds the file of SmolLM2-135M, an instruction-tuned model of 92 MB: first by the environment
#' variable `LLAMAHERD_TEST_SMOLLM2`, then in the cache. The examples of this package run only if
#' this function finds the model. The function downloads nothing and does not start Python.
#'
#' @returns Path of the file. NULL if the file or the Python package does not exist.
#' @seealso [list_cached_models()] for all models on this computer
#' @export
#' @examples
#' llamaherd_example_model()
llamaherd_example_model <- function() {
  cache <- Sys.getenv("LLAMAHERD_CACHE_DIR")
  if (!nzchar(cache)) {
    base <- Sys.getenv("XDG_CACHE_HOME", "~/.cache")
    cache <- file.path(base, "llamaherd", "models")
  }
  found <- list.files(
    path.expand(cache),
    "^SmolLM2-135M-Instruct.*[.]gguf$",
    recursive = TRUE,
    full.names = TRUE
  )
  # Files of model_optimize() are not used.
  found <- found[!grepl("llamaherd[.]gguf$", found)]
  paths <- c(Sys.getenv("LLAMAHERD_TEST_SMOLLM2"), found)
  paths <- paths[file.exists(paths)]
  if (length(paths) == 0 || !llamaherd_available()) NULL else paths[[1]]
}
