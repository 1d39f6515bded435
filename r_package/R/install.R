#' Install the Python side
#'
#' Makes a Python virtual environment and installs the Python package llamaherd in it,
#' which compiles llama.cpp for this machine's processor: some minutes, once.
#' Needs Python 3.10 or later and a C++ compiler. An environment of that name that is
#' there already is kept, and the package in it brought up to date.
#'
#' @param envname Name or path of the virtual environment. The package finds
#'   `r-llamaherd` by itself; for another one, set the environment variable
#'   `LLAMAHERD_PYTHON` to the path of its Python.
#' @param path A folder with the sources of llamaherd, for example a clone of its
#'   repository; or the address of a Git repository, such as
#'   `"https://github.com/llamaherd/llamaherd"`, also with a branch, tag or commit after an
#'   `@`. NULL installs the package `llamaherd` from pip's index.
#' @param python Path of the Python to make the environment with. NULL searches.
#' @param pip_options Further options for `pip install`, as a character vector.
#' @returns The path of the environment's Python, invisibly.
#' @seealso [llamaherd_available()]
#' @export
#' @examples
#' \dontrun{
#' install_llamaherd(path = "https://github.com/llamaherd/llamaherd")
#' install_llamaherd(path = "~/src/llamaherd")
#' }
install_llamaherd <- function(
  envname = "r-llamaherd",
  path = NULL,
  python = NULL,
  pip_options = character()
) {
  check_string(envname)
  path <- check_string(path, null = TRUE)
  python <- check_string(python, null = TRUE)
  pip_options <- check_text(pip_options)
  package <- install_source(path, rlang::current_env())

  if (reticulate::virtualenv_exists(envname)) {
    cli::cli_inform("Using the virtual environment {.val {envname}}.")
  } else {
    python <- python_to_start_from(python, rlang::current_env())
    cli::cli_inform(
      "Making the virtual environment {.val {envname}} with {.path {python}}."
    )
    run_python(
      reticulate::virtualenv_create(envname, python = python, packages = FALSE),
      "The virtual environment {.val {envname}} could not be made.",
      "On Debian and Ubuntu: {.code apt-get install python3-venv python3-dev}."
    )
  }
  cli::cli_inform(
    "Installing {.val {package}}. Compiling llama.cpp takes some minutes."
  )
  run_python(
    with_compiler_flags(
      reticulate::virtualenv_install(envname, package, pip_options = pip_options)
    ),
    "The Python package could not be installed.",
    "The lines above say why. It needs a C++ compiler: {.code apt-get install build-essential}."
  )
  cli::cli_inform(c(v = "llamaherd is ready."))
  if (reticulate::py_available()) {
    cli::cli_inform(c(
      i = "Python runs in this session already: restart R to use it."
    ))
  }
  invisible(reticulate::virtualenv_python(envname))
}

# With what downloading models of the Hugging Face hub needs, and plots in reports.
install_source <- function(path, error_call) {
  if (is.null(path)) {
    return("llamaherd[hub,plot]")
  }
  if (grepl("^(git\\+)?(https|http|ssh|git|file)://", path)) {
    return(paste0("llamaherd[hub,plot] @ git+", sub("^git\\+", "", path)))
  }
  folder <- path.expand(path)
  if (!file.exists(file.path(folder, "pyproject.toml"))) {
    abort_argument(
      "path",
      "a folder with the sources of llamaherd (with a file pyproject.toml), or an address",
      path,
      error_call
    )
  }
  paste0(normalizePath(folder), "[hub,plot]")
}

# A Python that a virtual environment can be made with.
python_to_start_from <- function(python, error_call) {
  candidates <- if (is.null(python)) {
    Sys.which(c("python3", "python"))
  } else {
    python
  }
  for (candidate in path.expand(candidates[nzchar(candidates)])) {
    if (runs(candidate, "import sys, venv; sys.exit(sys.version_info < (3, 10))")) {
      return(candidate)
    }
  }
  abort(
    c(
      if (is.null(python)) {
        "No Python 3.10 or later was found."
      } else {
        "{.arg python} is no Python 3.10 or later: {.path {python}}."
      },
      i = "On Debian and Ubuntu: {.code apt-get install python3 python3-venv python3-dev}.",
      i = "Elsewhere: {.url https://www.python.org/downloads/} or {.fn reticulate::install_python}."
    ),
    "python",
    error_call
  )
}

# What newer Intel processors need. GCC before the cure of its bug 114098 breaks ggml's code
# for AMX, their matrix instructions; and ggml computes many a model's attention slowly with
# their arithmetic of half precision.
compiler_flags <- c(amx_tile = "-fno-dse", avx512_fp16 = "-U__AVX512FP16__")

with_compiler_flags <- function(expr, cpuinfo = "/proc/cpuinfo") {
  lines <- if (file.exists(cpuinfo)) readLines(cpuinfo, warn = FALSE)
  has <- \(feature) any(grepl(paste0("\\b", feature, "\\b"), lines))
  flags <- compiler_flags[vapply(names(compiler_flags), has, logical(1))]
  if (length(flags) > 0) {
    old <- Sys.getenv("CXXFLAGS", NA)
    on.exit(if (is.na(old)) Sys.unsetenv("CXXFLAGS") else Sys.setenv(CXXFLAGS = old))
    Sys.setenv(CXXFLAGS = paste(c(if (!is.na(old)) old, flags), collapse = " "))
  }
  force(expr)
}

run_python <- function(expr, problem, hint, error_call = rlang::caller_env()) {
  .envir <- error_call
  rlang::try_fetch(
    as_python_likes(expr),
    error = function(cnd) {
      abort(
        c(problem, i = hint),
        "python",
        error_call,
        parent = cnd,
        .envir = .envir
      )
    }
  )
}

#' Is the Python side there?
#'
#' Looks without starting Python.
#'
#' @returns TRUE if the Python that would be used has the package llamaherd, else FALSE.
#' @seealso [install_llamaherd()]
#' @export
#' @examples
#' llamaherd_available()
llamaherd_available <- function() {
  if (!is.null(the$module)) {
    return(TRUE)
  }
  python <- find_python()
  !is.null(python) && has_llamaherd(python)
}

#' Where the library is
#'
#' For scripts that ask: [llamaherd_available()] is this package's own way.
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
get_lib_path <- function() py_call("lib_path")
