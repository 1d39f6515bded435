#' Start and stop the backend
#'
#' Scripts for other packages call these. Here [model_load()] starts what it needs, so
#' that `backend_init()` only finds out early whether the Python side works.
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
