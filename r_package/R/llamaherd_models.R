#' Recommend models by the memory that they need
#'
#' Lists models from the smallest to the largest. For each model, the table shows whether it fits
#' into memory, the results that this project measured with it, and results that others published
#' for models of its size. No model is the best in every task: measure the model that you use with
#' [validate()].
#'
#' @param memory_gb Memory in GB; `fits` marks the models that fit into this memory. NULL uses the
#'   memory that is available now.
#' @returns A data frame with one row per model:
#'
#'   * `source`: source of the model, for [model_load()].
#'   * `memory_gb`: memory of a computer that runs the model and other programs, in GB; 0
#'     if the model runs on any computer.
#'   * `size_bytes`: approximate size of the file.
#'   * `fits`: TRUE if the model fits with a context into the memory that the argument `memory_gb`
#'     gives.
#'   * `measured`: figures that this project measured; `"not measured"` if there are none.
#'   * `published`: figures that others published for models of this size, but not for this file;
#'     `""` if there are none.
#' @seealso [hardware_profile()], [model_load()]
#' @export
#' @examplesIf llamaherd_available()
#' llamaherd_models()[c("source", "memory_gb", "fits")]
#' subset(llamaherd_models(memory_gb = 16), fits)$source
llamaherd_models <- function(memory_gb = NULL) {
  error_call <- rlang::current_env()
  columns <- py_call("models_recommended", py_value(memory_gb), error_call = error_call)
  as.data.frame(lapply(columns, unlist))
}
