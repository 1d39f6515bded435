# Ready codebooks, which this project wrote on the basis of published definitions.

#' Ready codebooks, to start from
#'
#' `ready_codebook()` returns a codebook for a common task. This project wrote the words of the
#' codebook; the definitions follow published works. `list_ready_codebooks()` lists these codebooks,
#' the works that they follow, and the accuracy that was measured with them.
#'
#' A codebook that follows a definition is not the instrument of the cited work: it is shorter, and
#' was not validated like that instrument. Adapt the codebook to your texts, add examples, and
#' compare the labels with human codes by [validate()]. [methods_text()] cites the works if you used
#' a ready codebook.
#'
#' @param name Name of the codebook, see `list_ready_codebooks()`.
#' @param target For `"stance"`: object of the position, such as `"nuclear energy"`.
#' @returns `ready_codebook()`: a codebook, as [codebook()] makes it. `list_ready_codebooks()`: a
#'   data frame with one row per codebook: `name`, `about`, `type`, `n_labels`, `needs_target`,
#'   `sources` and `measured`, which is `"not measured"` where this project has no labelled texts.
#' @seealso [codebook()], [write_codebook()]
#' @export
#' @examplesIf llamaherd_available()
#' list_ready_codebooks()[c("name", "sources")]
#' ready_codebook("sentiment")
#' stance <- ready_codebook("stance", target = "nuclear energy")
#' path <- tempfile(fileext = ".yaml")
#' write_codebook(stance, path)
ready_codebook <- function(name, target = NULL) {
  error_call <- rlang::current_env()
  name <- py_value(name)
  target <- py_value(target)
  new_codebook(py_call("codebook_ready", name, target, error_call = error_call))
}

#' @rdname ready_codebook
#' @export
list_ready_codebooks <- function() {
  as.data.frame(lapply(py_call("codebooks_ready"), unlist))
}
