#' Start and stop the backend
#'
#' These functions exist for scripts written for localLLM. [model_load()] starts the backend itself;
#' `backend_init()` only checks early that Python and the Python package work.
#'
#' @returns NULL, invisibly.
#' @export
#' @examplesIf llamaherd_available()
#' backend_init()
backend_init <- function() {
  py_call("backend_init")
  invisible()
}

#' @rdname backend_init
#' @export
backend_free <- function() {
  if (!is.null(the$module)) {
    py_call("backend_free")
  }
  invisible()
}
