# Default source of the Python package: llamaherd's repository, because llamaherd is not on a
# package index.
repository <- "https://github.com/llamaherd/llamaherd"

#' Install the Python package
#'
#' Creates a Python virtual environment and installs the Python package llamaherd in it. The
#' installation compiles llama.cpp for this machine's processor, which takes some minutes. The
#' installation needs Python 3.11 or later, a C++ compiler and, if the source is an address, git. If
#' one of these programs is missing, an error names it before anything is installed. A folder of
#' wheels needs neither a compiler nor git. An existing environment of this name is kept, and its
#' package is updated.
#'
#' Python 3.10 gets no security fixes any more. Only one version of llama-cpp-python works, with the
#' libllama that it contains. With the environment variable `LLAMAHERD_SKIP_ABI_CHECK=1` a libllama
#' of another commit is loaded, too, at your own risk.
#'
#' @param envname Name or path of the virtual environment. The package finds `r-llamaherd`
#'   automatically; for another environment, set the environment variable `LLAMAHERD_PYTHON` to the
#'   path of its Python.
#' @param path Source of the Python package. One of: the address of a Git repository, optionally
#'   with a branch, tag or commit after an `@`; a folder with the sources, such as a clone; a folder
#'   with wheels (compiled packages) of llamaherd and llama-cpp-python, which `make wheels` creates
#'   in a clone. NULL uses the default.
#' @param python Path of the Python program that creates the environment. NULL searches for a
#'   suitable Python.
#' @param pip_options Further options for `pip install`, as a character vector.
#' @returns The path of the environment's Python, invisibly.
#' @seealso [llamaherd_available()]
#' @concept Python version
#' @concept virtual environment
#' @concept llama-cpp-python
#' @concept libllama
#' @concept compiler
#' @export
#' @examples
#' \dontrun{
#' install_llamaherd()
#' install_llamaherd(path = "https://github.com/llamaherd/llamaherd@main")
#' install_llamaherd(path = "~/src/llamaherd")
#' install_llamaherd(path = "~/Downloads/wheelhouse")
#' }
install_llamaherd <- function(
  envname = "r-llamaherd",
  path = "https://github.com/llamaherd/llamaherd",
  python = NULL,
  pip_options = character()
) {
  check_string(envname)
  path <- check_string(path, null = TRUE) %||% repository
  python <- check_string(python, null = TRUE)
  pip_options <- check_text(pip_options)
  package <- install_source(path)
  is_new <- !reticulate::virtualenv_exists(envname)
  if (is_new) {
    python <- python_to_start_from(python)
  }
  compiles <- !has_wheels(path)
  if (compiles) {
    check_compiler()
  } else {
    pip_options <- c(pip_options, "--find-links", shQuote(normalizePath(path)))
  }
  if (is_address(path)) {
    check_repository(path)
  }

  if (is_new) {
    cli::cli_inform(
      "Making the virtual environment {.val {envname}} with {.path {python}}."
    )
    run_python(
      reticulate::virtualenv_create(envname, python = python, packages = FALSE),
      "The virtual environment {.val {envname}} could not be made.",
      "The lines above say why."
    )
  } else {
    cli::cli_inform("Using the virtual environment {.val {envname}}.")
  }
  cli::cli_inform(
    c(
      "Installing {.val {package}}.",
      i = if (compiles) "Compiling llama.cpp takes some minutes."
    )
  )
  run_python(
    with_compiler_flags(
      reticulate::virtualenv_install(envname, package, pip_options = pip_options)
    ),
    "pip could not install {.val {package}}.",
    "The lines above say why."
  )
  installed <- reticulate::virtualenv_python(envname)
  cli::cli_inform(c(v = "llamaherd is ready.", how_to_use(installed, envname)))
  invisible(installed)
}

# Prints the steps that remain until the package uses the environment.
how_to_use <- function(installed, envname) {
  named <- Sys.getenv("LLAMAHERD_PYTHON")
  hint <- if (nzchar(named) && named != installed) {
    "The environment variable {.envvar LLAMAHERD_PYTHON} names another Python. To use this
     one: {.code Sys.unsetenv(\"LLAMAHERD_PYTHON\")}."
  } else if (envname != default_envname) {
    "To use it: {.code Sys.setenv(LLAMAHERD_PYTHON = \"{installed}\")}."
  } else if (!Sys.getenv("RETICULATE_PYTHON") %in% c("", "managed", installed)) {
    "The environment variable {.envvar RETICULATE_PYTHON} names another Python. To use this
     one: {.code Sys.unsetenv(\"RETICULATE_PYTHON\")}."
  }
  c(
    i = if (!is.null(hint)) cli::format_inline(hint),
    i = if (reticulate::py_available()) {
      "Python runs in this session already: restart R to use it."
    }
  )
}

is_address <- function(path) grepl("^(git\\+)?(https|http|ssh|git|file)://", path)

# Returns the paths of llamaherd's wheels in a folder; no paths for an address.
wheels_in <- function(path) {
  if (is_address(path)) {
    return(character())
  }
  list.files(path.expand(path), "^llamaherd-.*[.]whl$", full.names = TRUE)
}

has_wheels <- function(path) length(wheels_in(path)) > 0

# Returns the wheel for this system; the names of wheels end with the system and the processor.
wheel_for <- function(wheels, info = Sys.info()) {
  system <- switch(info[["sysname"]], Darwin = "macosx", Windows = "win", "linux")
  machine <- switch(info[["machine"]], "x86-64" = "amd64", info[["machine"]])
  fits <- grepl(paste0("-[^-]*", system, "[^-]*_", machine, "[.]whl$"), wheels)
  if (!any(fits)) {
    abort(
      c(
        "{.arg path} has no wheel of llamaherd for this system ({system}, {machine}).",
        i = "It has {.file {basename(wheels)}}."
      ),
      "python"
    )
  }
  utils::tail(sort(wheels[fits]), 1)
}

# Includes the extras for reports for Word and plots in reports.
install_source <- function(path) {
  if (is_address(path)) {
    return(paste0("llamaherd[docx,plot] @ git+", sub("^git\\+", "", path)))
  }
  folder <- path.expand(path)
  if (has_wheels(folder)) {
    wheel <- wheel_for(wheels_in(folder))
    return(paste0(normalizePath(wheel), "[docx,plot]"))
  }
  if (!file.exists(file.path(folder, "pyproject.toml"))) {
    abort_argument(
      "path",
      "a folder with wheels or with the sources of llamaherd (pyproject.toml), or an address",
      path
    )
  }
  paste0(normalizePath(folder), "[docx,plot]")
}

# Names the command that installs missing programs, by operating system.
system_hints <- function(debian, mac, windows) {
  switch(
    Sys.info()[["sysname"]],
    Darwin = mac,
    Windows = windows,
    sprintf("On Debian and Ubuntu: {.code apt-get install %s}.", debian)
  )
}

check_compiler <- function() {
  named <- strsplit(Sys.getenv("CXX"), " ", fixed = TRUE)[[1]]
  programs <- c(utils::head(named, 1), "c++", "g++", "clang++")
  # The compiler of Visual Studio is not on the path.
  if (.Platform$OS.type == "windows" || any(nzchar(Sys.which(programs)))) {
    return(invisible())
  }
  hint <- system_hints("build-essential", "{.code xcode-select --install}.", "")
  abort(
    c("A C++ compiler is needed to compile llama.cpp, and none was found.", i = hint),
    "python"
  )
}

# Checks before the installation that the repository can be read, because pip's own error message
# would have many lines.
check_repository <- function(path) {
  if (!nzchar(Sys.which("git"))) {
    hint <- system_hints(
      "git",
      "{.code xcode-select --install}.",
      "{.url https://git-scm.com}."
    )
    abort(
      c(
        "Installing from {.url {path}} needs git, which was not found.",
        i = hint,
        i = "Or download the sources, and name their folder: {.code install_llamaherd(path = )}."
      ),
      "python"
    )
  }
  address <- sub("^git\\+", "", path)
  # Returns the branch, tag or commit of an address, in pip's notation.
  address <- sub("^([a-z]+://[^/]*/.*)@[^@]*$", "\\1", address)
  output <- suppressWarnings(with_envvar(
    c(GIT_TERMINAL_PROMPT = "0", GIT_SSH_COMMAND = "ssh -o BatchMode=yes"),
    system2("git", c("ls-remote", shQuote(address), "HEAD"), stdout = TRUE, stderr = TRUE)
  ))
  if (!is.null(attr(output, "status"))) {
    abort(
      c(
        "The repository {.url {address}} cannot be read.",
        x = escape_cli(paste(utils::tail(output[nzchar(output)], 2), collapse = " ")),
        i = "Set {.arg path} to another address, or to a folder with the sources."
      ),
      "python"
    )
  }
}

# A Python program whose exit status is 0 if this Python can create a virtual environment and R can
# load it.
python_fits <- "
import sys, sysconfig
from pathlib import Path
if sys.version_info < (3, 11):
    sys.exit(2)
try:
    import ensurepip, venv
except ImportError:
    sys.exit(3)
get = sysconfig.get_config_var
files = [Path(get(d) or '') / (get(n) or '-')
         for d in ('LIBDIR', 'LIBPL') for n in ('LDLIBRARY', 'INSTSONAME')]
is_shared = any(f.suffix != '.a' and f.is_file() for f in files)
sys.exit(0 if is_shared or sys.platform in ('win32', 'darwin') else 4)
"

# Finds a Python that can create a virtual environment.
python_to_start_from <- function(python) {
  candidates <- if (is.null(python)) {
    Sys.which(c("python3", "python"))
  } else {
    python
  }
  status <- c()
  for (candidate in path.expand(candidates[nzchar(candidates)])) {
    status <- c(
      status,
      if (is_too_new(candidate)) 5 else status_of(candidate, python_fits)
    )
    if (utils::tail(status, 1) == 0) {
      return(candidate)
    }
  }
  if (any(status == 5)) {
    abort_too_new(candidate)
  }
  problem <- if (any(status == 4)) {
    "{.path {candidate}} has no shared library, without which R cannot load it."
  } else if (any(status == 3)) {
    "{.path {candidate}} lacks the modules venv and ensurepip."
  } else if (is.null(python)) {
    "No Python 3.11 or later was found."
  } else {
    "{.arg python} is not Python 3.11 or later: {.path {python}}."
  }
  hint <- system_hints(
    "python3 python3-venv python3-dev",
    "{.url https://www.python.org/downloads/} or {.fn reticulate::install_python}.",
    "{.url https://www.python.org/downloads/} or {.fn reticulate::install_python}."
  )
  abort(c(problem, i = hint), "python")
}

# Compiler flags for newer Intel processors. GCC versions with bug 114098 break ggml's code for AMX,
# the matrix instructions of these processors. If ggml uses the half-precision arithmetic of these
# processors, the attention of many models is computed slowly.
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

run_python <- function(expr, problem, hint) {
  .envir <- rlang::caller_env()
  rlang::try_fetch(
    as_python_likes(expr),
    error = function(cnd) {
      abort(c(problem, i = hint), "python", parent = cnd, .envir = .envir)
    }
  )
}

#' Is the Python package installed?
#'
#' Checks for the Python package without starting Python in this session. The result is also FALSE
#' if the environment variable names a Python that does not exist.
#'
#' @returns TRUE if the package llamaherd is installed in the Python that this package uses, else
#'   FALSE.
#' @seealso [install_llamaherd()]
#' @export
#' @examples
#' llamaherd_available()
llamaherd_available <- function() {
  if (!is.null(the$module)) {
    return(TRUE)
  }
  python <- tryCatch(find_python(), llamaherd_error_python = \(cnd) NULL)
  !is.null(python) && has_llamaherd(python)
}
