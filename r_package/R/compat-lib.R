#' Find the library of llama.cpp
#'
#' These functions exist for scripts written for localLLM. In new scripts, use
#' [llamaherd_available()].
#'
#' @returns `lib_is_installed()`: TRUE or FALSE. `get_lib_path()`: the path of llama.cpp's
#'   library, or an error that says how to install it.
#' @seealso [install_llamaherd()]
#' @export
#' @examplesIf llamaherd_available()
#' lib_is_installed()
#' get_lib_path()
lib_is_installed <- function() llamaherd_available()

#' @rdname lib_is_installed
#' @export
get_lib_path <- function() r_path(py_call("lib_path"))
