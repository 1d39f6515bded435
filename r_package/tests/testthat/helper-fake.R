# Uses the fake Python module of tests/testthat/python in this session.

skip_if_no_python <- function() {
  python <- c(
    Sys.getenv("RETICULATE_PYTHON"),
    Sys.which(c("python3", "python"))
  )
  skip_if_not(any(nzchar(python)), "Python is missing")
}

local_fake <- function(env = parent.frame()) {
  skip_if_no_python()
  # Current versions of reticulate would download a Python.
  withr::local_envvar(RETICULATE_USE_MANAGED_VENV = "no", .local_envir = env)
  fake <- reticulate::import_from_path("fake_r", test_path("python"))
  old <- the$module
  the$module <- fake
  withr::defer(the$module <- old, envir = env)
  fake
}

# Returns the path of a file that the fake module accepts as a model.
local_model_file <- function(env = parent.frame()) {
  folder <- r_path(withr::local_tempdir(.local_envir = env))
  path <- file.path(folder, "fake.gguf")
  writeLines("GGUF", path)
  path
}

local_context <- function(env = parent.frame()) {
  local_fake(env)
  context_create(model_load(local_model_file(env)))
}

# Removes the paths of temporary folders from messages.
without_folder <- function(path) {
  \(lines) gsub(dirname(path), "<folder>", lines, fixed = TRUE)
}

# Statistics are computed by the real package, because a test of fake statistics would test only the
# fake.
skip_if_no_llamaherd <- function() {
  skip_if_no_python()
  skip_if_not(has_real_package(), "the Python package llamaherd is missing")
}

# The fake module, which may be in use, does not count.
has_real_package <- local({
  known <- NULL
  function() {
    if (is.null(known)) {
      withr::local_envvar(RETICULATE_USE_MANAGED_VENV = "no")
      old <- the$module
      the$module <- NULL
      on.exit(the$module <- old)
      known <<- llamaherd_available()
    }
    known
  }
})

# Replaces a function of the fake module, for tests of code that uses its results.
local_real <- function(env = parent.frame()) {
  skip_if_no_llamaherd()
  old <- the$module
  the$module <- NULL
  withr::defer(the$module <- old, envir = env)
}

# Returns a context of a real model, whose answers have no meaning.
local_model_context <- function(env = parent.frame()) {
  local_real(env)
  path <- llamaherd_example_model()
  skip_if(is.null(path), "the example model is missing")
  model <- model_load(path)
  withr::defer(close(model), envir = env)
  context_create(model, n_ctx = 1024L, n_seq_max = 4L)
}
