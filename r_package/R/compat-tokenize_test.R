#' Try the tokenizer
#'
#' @param model A `llamaherd_model` from [model_load()].
#' @returns The tokens of the text `"H"`, an integer vector.
#' @seealso [tokenize()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' tokenize_test(model)
tokenize_test <- function(model) {
  check_model(model)
  tokenize(model, "H")
}
