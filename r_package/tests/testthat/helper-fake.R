# Uses the fake Python module of tests/testthat/python in this session.

skip_if_no_python <- function() {
  python <- c(
    Sys.getenv("RETICULATE_PYTHON"),
    Sys.which(c("python3", "python"))
  )
  skip_if_not(any(nzchar(python)), "Python is missing")
}

local_fake <- function(env = parent.frame()) {
  skip_if_no_llamaherd()
  fake <- reticulate::import_from_path("fake_r", test_path("python"))
  old <- the$module
  the$module <- fake
  fake$begin()
  withr::defer(
    {
      the$module <- old
      fake$end()
    },
    envir = env
  )
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

# Uses models as well; seen() works as in local_fake().
local_real <- function(env = parent.frame()) {
  skip_if_no_llamaherd()
  old <- the$module
  the$module <- reticulate::import_from_path("fake_r", test_path("python"))
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

# Returns the expressions of a block of code.
expressions_of <- function(block) {
  if (is.call(block) && identical(block[[1]], quote(`{`))) {
    as.list(block)[-1]
  } else {
    list(block)
  }
}

# Checks that each expression of a block ends with an error of the package; assignments among them
# are only evaluated.
expect_refused <- function(block, class = "llamaherd_error") {
  env <- parent.frame()
  for (expression in expressions_of(substitute(block))) {
    if (is.call(expression) && identical(expression[[1]], quote(`<-`))) {
      eval(expression, env)
    } else {
      expect_error(eval(expression, env), class = class, label = deparse1(expression))
    }
  }
}

# Checks that each call ends with an error of an argument, whose message has the text that is the
# name of the call: a regular expression, or plain text if `fixed`. A call without a name may have
# any message.
expect_errors <- function(..., fixed = FALSE, class = "llamaherd_error_argument") {
  calls <- as.list(substitute(list(...)))[-1]
  env <- parent.frame()
  texts <- rlang::names2(calls)
  for (i in seq_along(calls)) {
    expected <- if (nzchar(texts[[i]])) list(regexp = texts[[i]], fixed = fixed)
    rlang::inject(expect_error(
      eval(calls[[i]], env),
      !!!expected,
      class = class,
      label = deparse1(calls[[i]])
    ))
  }
}

# Checks that a block runs, and that its values print within 80 columns.
expect_page <- function(block) {
  env <- parent.frame()
  withr::local_options(width = 80)
  for (expression in expressions_of(substitute(block))) {
    lines <- utils::capture.output({
      value <- withVisible(eval(expression, env))
      if (value$visible) print(value$value)
    })
    expect_lte(max(0, nchar(lines, "width")), 80, label = deparse1(expression))
  }
}

# Checks that wrong values of arguments, by kind, cause errors that name the argument as R calls it.
# Each argument gets one of the wrong values of its kind, in turn.
wrong_values <- list(
  flag = list(NA, c(TRUE, FALSE)),
  number = list("x", data.frame(a = 1)),
  whole = list(NA, 1.5),
  text = list(3, c("a", "b")),
  choice = list(NA, "nope")
)

expect_arguments_named <- function(call, ..., env = parent.frame()) {
  call <- substitute(call)
  kinds <- list(...)
  for (kind in names(kinds)) {
    for (arg in kinds[[kind]]) {
      value <- wrong_values[[kind]][[1L + nchar(arg) %% 2L]]
      tried <- call
      tried[arg] <- list(value)
      info <- deparse1(tried)
      cnd <- tryCatch(suppressMessages(eval(tried, env)), error = identity)
      expect_s3_class(cnd, "llamaherd_error_argument")
      expect_identical(cnd$argument, arg, info = info)
      expect_match(conditionMessage(cnd), paste0("`", arg), fixed = TRUE, info = info)
    }
  }
}

# Checks that the last call of a Python function had arguments with each of these texts.
expect_seen <- function(fun, ...) {
  seen <- the$module$seen(fun)
  for (text in c(...)) {
    expect_match(seen, text, fixed = TRUE)
  }
}

# Six texts with labels and parties.
six_texts <- function() {
  data.frame(
    text = letters[1:6],
    label = c("yes", "no"),
    party = c("A", "A", "B")
  )
}

# A sample of all six texts with these codes.
sample_of_six <- function(codes) {
  gold <- gold_sample(six_texts(), 6, text = text, label = label)
  read_gold(data.frame(id = 1:6, code = codes), gold)
}
