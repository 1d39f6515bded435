# Calls of Python's functions by name. A call is a job: R converts the arguments, starts the job,
# waits for it, and converts the result, see from_python().

# Calls a function of Python and returns its result. After Ctrl-C, the interrupt contains the
# results of the finished parts of the call, and of the part that was running.
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
  ended = NULL,
  error_call = public_frame(rlang::caller_env())
) {
  journal <- NULL
  bar <- new_bar(progress)
  suspendInterrupts({
    run <- quietly(
      verbosity < 0,
      run_in_slices(
        py_call(
          "call_start",
          fun,
          arguments,
          as.character(getRversion()),
          error_call = error_call
        ),
        \(job) py_call("call_result", job, error_call = error_call, warns = warns),
        bar,
        error_call,
        made = from_python,
        begun = \(started) journal <<- started[["journal"]]
      )
    )
    found <- from_python(run$columns)
    if (run$interrupted) {
      line <- run$columns[["line"]]
      message <- ended %||% if (!is.null(line)) sprintf("Interrupted: %s done.", line)
      interrupt(message %||% "Interrupted.", found, verbosity, r_path(journal))
    }
    found
  })
}

# Returns an object of this package in the form that Python reads as its own object.
as_python <- function(x, arg = rlang::caller_arg(x), error_call = rlang::caller_env()) {
  class <- class(x)[[1]]
  switch(
    class,
    llamaherd_context = check_context(x, arg, error_call),
    llamaherd_model = check_model(x, arg, error_call),
    llamaherd_codebook = tagged("codebook", content = x$content),
    llamaherd_candidate = tagged(
      "candidate",
      book = x$codebook$content,
      context = if (!is.null(x$context)) as_python(x$context, arg, error_call),
      settings = x$settings
    ),
    llamaherd_gold = tagged("gold", content = check_gold(x, error_call, arg)),
    llamaherd_choice = tagged("choice", content = x$json),
    llamaherd_codebooks = tagged("comparison", content = x$json),
    llamaherd_pairs = tagged("pairs", content = x$json),
    x
  )
}

tagged <- function(class, ...) list(.class = class, ...)
