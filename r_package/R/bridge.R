# Calls Python through a single module, `llamaherd._r`, which catches all exceptions and returns
# lists and scalars. No other file of this package calls Python.

# Calls a function of the module and returns its value, see from_python(). Exceptions of Python
# arrive as data and become conditions of this package; all warnings of a call become one warning.
#
# Ctrl-C has an effect only after the call, so calls must be short; call_python() calls functions
# that may compute for a long time. Interrupting Python during a call may crash R with reticulate
# 1.28: its signal handler in Python asks R whether an interrupt is pending, and if R then handles
# the interrupt, R jumps over Python's stack frames.
#
# `warns` is the class of these warnings; `...` may contain lists of arguments, as `!!!arguments`.
py_call <- function(fun, ..., warns = "python", error_call = public_frame()) {
  module <- py_module()
  status <- if (l10n_info()[["UTF-8"]]) {
    call_directly(module, fun, rlang::list2(...))
  } else {
    arguments <- renamed(rlang::list2(...), native_names)
    renamed(call_directly(module, fun, arguments), utf8_names)
  }
  value_of(status, warns, error_call)
}

# Returns the value of a call of Python, and signals its conditions.
value_of <- function(status, warns = "python", error_call = public_frame()) {
  warn_python(as.character(unlist(status[["warnings"]])), warns, error_call)
  for (text in status[["notices"]]) {
    rlang::inform(text, class = "llamaherd_message_thinking")
  }
  if (!isTRUE(status[["ok"]])) {
    abort_python(status, error_call)
  }
  from_python(status[["value"]])
}

call_directly <- function(module, fun, arguments) {
  suspendInterrupts(do.call(python_function(module, fun), arguments))
}

# Returns a function of the module, which is looked up once, because each call of R calls several. A
# package of another version may lack the function.
python_function <- function(module, fun) {
  if (!identical(module, the$called)) {
    the$called <- module
    the$functions <- list()
  }
  if (is.null(the$functions[[fun]])) {
    the$functions[[fun]] <- tryCatch(module[[fun]], error = \(cnd) abort_version(fun))
  }
  the$functions[[fun]]
}

# Returns the frame of the function that the user called, which errors name: the innermost exported
# function, method or method of a conversation that is running; NULL if there is none.
public_frame <- function() {
  exported <- getNamespaceExports("llamaherd")
  for (i in rev(seq_len(sys.nframe()))) {
    if (!identical(topenv(sys.frame(i)), topenv())) {
      next
    }
    head <- sys.call(i)[[1]]
    if (rlang::is_call(head, c("::", ":::"))) {
      head <- head[[3]]
    }
    name <- if (is.symbol(head)) as.character(head) else ""
    is_public <- name %in%
      exported ||
      grepl("[.]llamaherd_", name) ||
      rlang::is_call(head, "$") ||
      # lapply() and do.call() call functions by other names, or without a name
      !(nzchar(name) && exists(name, topenv(), inherits = FALSE)) &&
        any(vapply(mget(exported, topenv()), identical, NA, sys.function(i)))
    if (is_public) {
      return(sys.frame(i))
    }
  }
}

py_module <- function() {
  if (is.null(the$module)) {
    use_python()
    the$module <- rlang::try_fetch(
      with_utf8_paths(reticulate::import("llamaherd._r")),
      error = \(cnd) abort_no_python(find_python(), cnd)
    )
    warn_version()
  }
  the$module
}

# Returns the versions of the R package and of the Python package, without suffixes of development.
versions <- function() {
  python <- tryCatch(
    as.character(reticulate::import("llamaherd")[["__version__"]]),
    error = \(cnd) "unknown"
  )
  all <- c(r = as.character(utils::packageVersion("llamaherd")), python = python)
  sub("^([0-9]+[.][0-9]+[.][0-9]+).*$", "\\1", all)
}

# The R package and the Python package belong together: they have the same version.
warn_version <- function(of = versions()) {
  if (of[["r"]] != of[["python"]]) {
    warn(version_message(of), "python")
  }
}

abort_version <- function(fun, of = versions()) {
  abort(
    c(version_message(of), x = "The Python package has no function {.code {fun}}."),
    "python",
    NULL
  )
}

version_message <- function(of) {
  c(
    paste0(
      "The R package {.pkg llamaherd} has version ",
      of[["r"]],
      ", and the Python package has version ",
      of[["python"]],
      ": install the same version of both."
    ),
    i = "{.run llamaherd::install_llamaherd()} installs the Python package; then restart R."
  )
}

# Classes of R's conditions for Python's exceptions; all other exceptions are "internal".
error_classes <- local({
  kinds <- c(
    argument = "ArgumentError ArgumentTypeError BadArgumentError TypeError ValueError SamplerError
      FileNotFoundError FileExistsError IsADirectoryError NotADirectoryError
      PermissionError OSError",
    model = "ModelLoadError DownloadError ModelClosedError QuantizeError ChatTemplateError",
    context = "NoSpaceError ContextError ClusterError ContextClosedError",
    journal = "JournalError",
    server = "ServerError",
    generation = "GenerationError PromptError AnswerError CutOffError ChatFullError",
    python = "AbiMismatchError",
    process = "ForkError"
  )
  names <- strsplit(kinds, "\\s+")
  rlang::set_names(rep(names(names), lengths(names)), unlist(names))
})

abort_python <- function(status, error_call) {
  type <- status[["error_type"]]
  kind <- error_classes[type]
  if (is.na(kind)) {
    kind <- "internal"
  }
  message <- status[["message"]]
  if (kind == "internal") {
    message <- paste0("Python stopped with ", type, ": ", message)
  }
  abort(
    "{message}",
    kind,
    error_call,
    python = list(type = type, traceback = status[["traceback"]]),
    argument = status[["argument"]],
    place = as.list(status[["place"]]),
    code = status[["code"]],
    problem = status[["problem"]]
  )
}

# Errors and warnings with this package's classes; see ?llamaherd.
abort <- function(
  message,
  kind = "argument",
  error_call = public_frame(),
  ...,
  .envir = parent.frame()
) {
  class <- c(paste0("llamaherd_error_", kind), "llamaherd_error")
  cli::cli_abort(message, class = class, call = error_call, ..., .envir = .envir)
}

warn <- function(
  message,
  kind,
  error_call = public_frame(),
  ...,
  .envir = parent.frame()
) {
  class <- c(paste0("llamaherd_warning_", kind), "llamaherd_warning")
  cli::cli_warn(message, class = class, call = error_call, ..., .envir = .envir)
}

# Issues a warning with a text of Python. The condition has no backtrace and no format of cli, which
# would take longer than a call of a single prompt.
warn_text <- function(text, kind, error_call = public_frame()) {
  class <- c(paste0("llamaherd_warning_", kind), "llamaherd_warning")
  call <- if (is.environment(error_call)) rlang::frame_call(error_call)
  signal_warning(warningCondition(text, class = class, call = call))
}

signal_warning <- function(cnd) {
  rlang::local_options(warning.length = 8170L)
  warning(cnd)
}

# Issues one warning for all warnings of a call of Python; none without any.
warn_python <- function(texts, kind = "python", error_call = public_frame()) {
  texts <- unique(texts)
  if (length(texts) == 1) {
    warn_text(texts, kind, error_call)
  } else if (length(texts) > 1) {
    bullets <- rlang::set_names(sprintf("{texts[[%d]]}", seq_along(texts)), "*")
    warn(c("{length(texts)} warnings:", bullets), kind, error_call)
  }
}

# ---- names in locales other than UTF-8
# ---------------------------------------------------------

# Outside of UTF-8 locales reticulate converts names of lists to the locale, where the C locale
# writes "<U+00F6>" for a letter, and returns names whose encoding is not declared. Values are
# converted correctly.

# Returns a list whose names, at all levels, are changed by a function.
renamed <- function(x, change) {
  if (is.list(x) && !is.object(x)) {
    x[] <- lapply(x, renamed, change)
  }
  if (is.vector(x) && !is.null(names(x))) {
    names(x) <- change(names(x))
  }
  x
}

# Returns names whose bytes are UTF-8, as bytes of the locale, which reticulate does not convert.
native_names <- function(x) {
  utf8 <- as_utf8(x)
  utf8[is.na(utf8)] <- x[is.na(utf8)]
  Encoding(utf8) <- "unknown"
  utf8
}

utf8_names <- function(x) {
  Encoding(x) <- "UTF-8"
  x
}

# ---- converting lists of Python ---------------------------------------------------------------

# Converts a list of texts in which NULL stands for Python's None and list() for [].
as_text <- function(x) {
  if (!is.character(x)) {
    x <- as.list(x)
    x[lengths(x) == 0] <- NA_character_
    x <- unlist(x)
  }
  if (is.null(x)) character() else x
}

# Converts a vector to a list, because reticulate turns a vector of length 1 into a scalar.
as_py_list <- function(x) as.list(unname(x))

# Calls a function of Python by its name, as a job that runs in a thread of Python, and returns its
# result, see from_python(). R waits in slices, between which Ctrl-C and time limits have an effect.
# After Ctrl-C, the interrupt contains the results of the finished parts of the call, and of the
# part that was running.
#
# `arguments` are converted: objects by as_python(), vectors by as_py_list(); those in `settings`
# are arguments of annotate_texts(). `warns` is the class of Python's warnings, and `ended` is the
# message of an interrupt, in place of the number of finished prompts.
call_python <- function(
  fun,
  arguments,
  progress = FALSE,
  verbosity = 0L,
  warns = "python",
  ended = NULL
) {
  journal <- NULL
  verbosity <- check_whole(verbosity, "verbosity")
  bar <- new_bar(progress)
  finished <- \(value) if (inherits(value, "ended")) value$value else value
  suspendInterrupts({
    run <- quietly(
      verbosity < 0,
      run_in_slices(
        py_call("call_start", fun, arguments, as.character(getRversion())),
        \(job) py_call("call_result", job, warns = warns),
        bar,
        as_value = finished,
        begun = \(started) journal <<- started[["journal"]]
      )
    )
    if (run$interrupted) {
      line <- if (inherits(run$value, "ended")) run$value$line
      message <- ended %||% if (!is.null(line)) sprintf("Interrupted: %s done.", line)
      message <- message %||% "Interrupted."
      interrupt(message, finished(run$value), verbosity, r_path(journal))
    }
    run$value
  })
}

# Returns an object of this package in the form that Python reads as its own object.
as_python <- function(x, arg = rlang::caller_arg(x)) {
  class <- class(x)[[1]]
  switch(
    class,
    llamaherd_context = check_context(x, arg),
    llamaherd_model = check_model(x, arg),
    llamaherd_codebook = tagged("codebook", content = x$content),
    llamaherd_candidate = tagged(
      "candidate",
      book = x$codebook$content,
      context = if (!is.null(x$context)) as_python(x$context, arg),
      settings = settings_given(x$settings)
    ),
    llamaherd_gold = gold_for_python(x, arg),
    llamaherd_choice = tagged("choice", content = x$json),
    llamaherd_codebooks = tagged("comparison", content = x$json),
    llamaherd_pairs = tagged("pairs", content = x$json),
    x
  )
}

tagged <- function(class, ...) list(.class = class, ...)

# Returns columns of a data frame in the form that Python reads as a data frame. The column of
# labels keeps the levels of a factor; `codebook` is the JSON of its codebook, or NULL. `...` is
# more that is known of the labels, as in Python's function.
frame_for_python <- function(data, used, label = NULL, codebook = NULL, ...) {
  values <- if (!is.null(label)) data[[label]]
  tagged(
    "frame",
    content = py_columns(data, used),
    label = label,
    levels = if (is.factor(values)) as_py_list(levels(values)),
    ordered = is.ordered(values),
    book = codebook,
    in_data = as_py_list(as_utf8(names(data))),
    ...
  )
}
