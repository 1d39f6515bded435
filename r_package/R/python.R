# Chooses the Python before it starts: once reticulate has started a Python, the session cannot
# change it.

# Sets the Python that reticulate starts. Does nothing if Python already runs.
use_python <- function() {
  if (reticulate::py_available()) {
    return(invisible())
  }
  python <- find_python()
  if (is.null(python) || !has_llamaherd(python)) {
    abort_no_python(python)
  }
  if (is_too_new(python)) {
    abort_too_new(python)
  }
  if (nzchar(Sys.getenv("LLAMAHERD_PYTHON"))) {
    # The variable RETICULATE_PYTHON has priority over use_python().
    Sys.setenv(RETICULATE_PYTHON = python)
  } else if (!nzchar(Sys.getenv("RETICULATE_PYTHON"))) {
    reticulate::use_python(python, required = TRUE)
  }
}

# Evaluates an expression that starts Python. When Python starts, it takes the encoding of paths
# from the locale. In the C locale it could not open files with names such as "größe.csv".
with_utf8_paths <- function(expr) {
  if (!is_ascii_locale() || reticulate::py_available()) {
    return(expr)
  }
  old <- Sys.getlocale("LC_CTYPE")
  on.exit(Sys.setlocale("LC_CTYPE", old)) # starting Python sets the locale of the process
  with_envvar(c(LC_ALL = "C.UTF-8"), expr)
}

# Returns the path of the Python that the package uses or would use, without starting it; NULL if
# none is found.
find_python <- function() {
  if (reticulate::py_available()) {
    return(reticulate::py_config()$python)
  }
  named <- python_of_variable()
  if (!is.null(named)) {
    return(named)
  }
  if (reticulate::virtualenv_exists(default_envname)) {
    return(reticulate::virtualenv_python(default_envname))
  }
  discover_python()
}

# Returns the Python that an environment variable of the user names; NULL if there is none.
python_of_variable <- function() {
  for (variable in c("LLAMAHERD_PYTHON", "RETICULATE_PYTHON")) {
    path <- path.expand(Sys.getenv(variable))
    if (nzchar(path) && path != "managed") {
      python <- python_at(path)
      if (is.null(python)) {
        abort(
          "The environment variable {.envvar {variable}} names no Python program: {.path {path}}.",
          "python"
        )
      }
      return(python)
    }
  }
  NULL
}

# Returns the path of a Python program. A path may also be the folder of an environment, as in
# reticulate; its program is then returned.
python_at <- function(path) {
  if (dir.exists(path)) {
    programs <- c("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")
    path <- file.path(path, programs)
  }
  path <- path[file.exists(path) & !dir.exists(path)]
  if (length(path) > 0) path[[1]]
}

default_envname <- "r-llamaherd"

# Runs reticulate's own search without its offer to install Miniconda (up to 1.40), its download of
# a Python (since 1.41), and its advice on pyproject.toml files.
discover_python <- function() {
  config <- with_envvar(
    c(RETICULATE_MINICONDA_ENABLED = "FALSE", RETICULATE_USE_MANAGED_VENV = "no"),
    tryCatch(
      suppressWarnings(reticulate::py_discover_config("llamaherd")),
      error = \(cnd) NULL
    )
  )
  config$python
}

# Checks, in a separate process, that this Python finds the package. Python also accepts any folder
# with the package's name as a package; such a package has no `origin`.
has_llamaherd <- function(python) {
  code <- paste(
    "import importlib.util as u, sys; spec = u.find_spec('llamaherd');",
    "sys.exit(spec is None or spec.origin is None)"
  )
  runs(python, code)
}

# Returns TRUE for a Python that this reticulate cannot start: before version 1.33, it imports a
# module that Python 3.12 no longer has.
is_too_new <- function(python, reticulate = utils::packageVersion("reticulate")) {
  code <- "import sys; sys.exit(5 if sys.version_info >= (3, 12) else 0)"
  reticulate < "1.33" && status_of(python, code) == 5
}

abort_too_new <- function(python) {
  abort(
    c(
      "reticulate {utils::packageVersion('reticulate')} cannot start Python 3.12 or later, such as
       {.path {python}}.",
      i = "Update it: {.run install.packages(\"reticulate\")}; then restart R.",
      i = "Or use a Python 3.11 with llamaherd: set the environment variable
           {.envvar LLAMAHERD_PYTHON}."
    ),
    "python"
  )
}

# Returns TRUE if a Python runs the code without an error.
runs <- function(python, code) status_of(python, code) == 0

# Returns the exit status of a Python that runs the code.
status_of <- function(python, code) {
  as_python_likes(suppressWarnings(
    system2(python, c("-c", shQuote(code)), stdout = FALSE, stderr = FALSE)
  ))
}

# Evaluates an expression without the folders of LD_LIBRARY_PATH that R puts in front: its own and
# the system's. With these folders in front, a Python that was not installed by the system would
# load the system's libpython instead of its own.
as_python_likes <- function(expr) {
  folders <- strsplit(Sys.getenv("LD_LIBRARY_PATH"), ":", fixed = TRUE)[[1]]
  from_r <- startsWith(folders, R.home()) | startsWith(folders, "/usr/lib")
  with_envvar(c(LD_LIBRARY_PATH = paste(folders[!from_r], collapse = ":")), expr)
}

with_envvar <- function(values, expr) {
  old <- Sys.getenv(names(values), unset = NA, names = TRUE)
  on.exit({
    Sys.unsetenv(names(old)[is.na(old)])
    set_envvar(old[!is.na(old)])
  })
  set_envvar(values)
  expr
}

set_envvar <- function(values) {
  # Sys.setenv() does not accept an empty list.
  if (length(values) > 0) do.call(Sys.setenv, as.list(values))
}

abort_no_python <- function(python, parent = NULL) {
  problem <- if (is.null(python)) {
    "No Python was found, and llamaherd needs one (3.11 or later)."
  } else if (is.null(parent)) {
    "The Python package {.pkg llamaherd} is not installed in {.path {python}}."
  } else {
    "The Python package {.pkg llamaherd} in {.path {python}} cannot be loaded."
  }
  restart <- if (reticulate::py_available()) {
    "Python runs in this session already, so restart R afterwards."
  }
  abort(
    c(
      problem,
      i = "{.run llamaherd::install_llamaherd()} makes a Python environment with llamaherd.",
      i = unset_hint(),
      i = "To use another Python, set the environment variable {.envvar LLAMAHERD_PYTHON}.",
      i = restart
    ),
    "python",
    parent = parent
  )
}

# A Python that a variable names has priority over the environment of install_llamaherd().
unset_hint <- function() {
  named <- c("LLAMAHERD_PYTHON", "RETICULATE_PYTHON")
  named <- named[!Sys.getenv(named) %in% c("", "managed")]
  if (length(named) > 0) {
    sprintf(
      "Then unset {.envvar %s}, because a Python named there is used first.",
      paste(named, collapse = "} and {.envvar ")
    )
  }
}
