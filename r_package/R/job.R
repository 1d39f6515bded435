# A call runs in a thread of Python. R waits for the call in short slices, between which it updates
# the progress bar. R handles Ctrl-C only between slices, so that a running job is not lost.

slice_s <- 0.1

# Runs a call and returns its result. `start` is a Python function that starts the call, and perhaps
# its first argument. `make` creates the result from its value and the prompts; with several
# samples per prompt, it has an element for each prompt that repeated() returned. After Ctrl-C the
# function signals an interrupt that contains the result.
run_call <- function(start, make, context, prompts, options, verbosity, progress) {
  verbosity <- check_whole(verbosity, "verbosity")
  suspendInterrupts({
    n <- options$n %||% 1L
    result_of <- \(value) make(value, repeated(prompts, n))
    samples_of <- \(value) as_samples(result_of(value), prompts$names, n)
    run <- quietly(
      verbosity < 0,
      run_in_slices(
        py_call(start[[1]], !!!start[-1], context, prompts$values, options),
        bar = new_bar(progress),
        as_value = samples_of
      )
    )
    result <- result_of(run$value)
    if (run$interrupted) {
      reasons <- attr(result, "finish_reason")
      message <- sprintf(
        "Interrupted: %d of %d %s done.",
        sum(reasons %in% c("stop", "length")),
        length(reasons),
        plural(length(reasons), counted(result, n))
      )
      samples <- as_samples(result, prompts$names, n)
      interrupt(message, samples, verbosity, options$journal)
    }
    result
  })
}

# Signals an interrupt as R does on Ctrl-C: a handler for interrupts receives it; without a handler
# the running code ends, and a script ends with exit status 1. No warning is signalled before the
# interrupt, because a handler could catch the warning and continue. last_results() returns
# `results` afterwards; NULL if there are none. `journal` is the path of the file that contains the
# finished results, or NULL.
interrupt <- function(message, results, verbosity, journal = NULL) {
  if (!is.null(results)) {
    the$last_results <- results
    # A second Ctrl-C must not discard the collected results.
    is_interrupted(Sys.sleep(0))
  }
  signalCondition(structure(
    class = c("llamaherd_interrupt", "interrupt", "condition"),
    list(message = message, call = NULL, results = results)
  ))
  if (verbosity >= 0) {
    lines <- c(
      message,
      if (interactive() && !is.null(results)) {
        "last_results() returns the finished results."
      },
      if (is.character(journal)) {
        path <- full_path(journal)
        paste(
          "The journal contains the finished results; the same call continues the run:",
          path
        )
      }
    )
    writeLines(c("", lines), stderr())
  }
  invokeRestart("abort")
}

# Waits for a job of any kind and collects its results. `start` contains the job that Python
# started, and for short calls of a model also its result. `collect` is a function that returns the
# results of a job, and `bar` is the return value of new_bar().
#
# `as_value` converts the results to the value of last_results(), if the function ends in another
# way than by returning: by an error, also of the job, a time limit, or a jump of a calling handler.
# NULL keeps nothing.
# `begun` is called with the value of `start` when the job has started; an error of this function
# ends the job.
#
# Returns the results, and TRUE if Ctrl-C ended the job. `keep = FALSE` is for jobs without partial
# results: after Ctrl-C they end in the background, and the results are NULL.
run_in_slices <- function(
  start,
  collect = \(job) py_call("job_result", job),
  bar = new_bar(FALSE),
  keep = TRUE,
  as_value = NULL,
  begun = \(started) NULL
) {
  force(bar) # checks its arguments before the job starts
  suspendInterrupts({
    started <- holding(start)
    job <- started$value[["job"]]
    is_over <- FALSE
    on.exit(if (!is_over) end_early(job, collect, as_value))
    signal_held(started$held)
    begun(started$value)

    # Status of the results, if the call has ended already.
    early <- started$value[["result"]]
    interrupted <- is.null(early) && is_interrupted(wait_for(job, bar))
    if (interrupted) {
      py_call("job_cancel", job)
    }
    value <- NULL
    if (keep || !interrupted) {
      collected <- holding(if (is.null(early)) collect(job) else value_of(early))
      value <- collected$value
      signal_held(collected$held)
    }
    is_over <- TRUE
    list(value = value, interrupted = interrupted)
  })
}

# Returns the result of a job without partial results; `ended` is the message after Ctrl-C.
wait_for_result <- function(start, ended, ..., verbosity = 0L) {
  run <- run_in_slices(start, ...)
  if (run$interrupted) {
    interrupt(ended, NULL, verbosity)
  }
  run$value
}

# Ends a job for which R no longer waits, and keeps its finished results.
end_early <- function(job, collect, as_value) {
  suspendInterrupts({
    py_call("job_cancel", job)
    if (!is.null(as_value)) {
      py_call("job_keep", job)
      keep_results(as_value(holding(collect(job))$value))
    }
  })
}

# Evaluates an expression and holds its warnings and messages back. options(warn = 2) or a calling
# handler could otherwise turn a warning of Python's return value into an error, and lose the value.
holding <- function(expr) {
  held <- list()
  hold <- function(restart) {
    function(cnd) {
      held <<- c(held, list(cnd))
      invokeRestart(restart)
    }
  }
  value <- withCallingHandlers(
    expr,
    llamaherd_warning = hold("muffleWarning"),
    llamaherd_message_thinking = hold("muffleMessage")
  )
  list(value = value, held = held)
}

# Signals conditions again; messages end a line, as rlang first wrote them.
signal_held <- function(held) {
  for (cnd in held) {
    if (inherits(cnd, "warning")) {
      signal_warning(cnd)
    } else {
      classes <- setdiff(class(cnd), c("rlang_message", "message", "condition"))
      rlang::inform(conditionMessage(cnd), class = classes)
    }
  }
}

# Returns TRUE if Ctrl-C ended the expression.
is_interrupted <- function(expr) {
  tryCatch(
    {
      allowInterrupts(expr)
      FALSE
    },
    interrupt = \(cnd) TRUE
  )
}

wait_for <- function(job, bar) {
  on.exit(bar$end())
  repeat {
    state <- py_call("job_wait", job, slice_s)
    bar$show(state)
    if (state[["done"]]) {
      break
    }
    check_interrupt()
  }
}

# Checks for Ctrl-C and for time limits, which R itself checks rarely. R must not wait itself: with
# reticulate before 1.39, no thread of Python runs while R waits outside Python. During calls of
# Python, reticulate checks twice a second; if it finds a time limit, it prints the error and
# continues.
check_interrupt <- function() Sys.sleep(0)

# Returns TRUE if a progress bar is shown. In a knitted document each update of a bar would be a
# separate line.
shows_progress <- function(progress) {
  progress && !isTRUE(getOption("knitr.in.progress"))
}

# Shows the progress of a job: its messages, unless `verbosity` is below 0, and a progress bar.
# progressr ends a bar when the function whose frame is `owner` returns, or when the bar is full. A
# full bar is therefore not shown: end() follows, and progressr refuses an end after an end.
new_bar <- function(progress, verbosity = 0L, owner = parent.frame()) {
  force(owner)
  is_shown <- shows_progress(check_flag(progress, "progress"))
  id <- NULL
  n_said <- 0L
  say <- function(texts) {
    for (text in utils::tail(texts, length(texts) - n_said)) {
      cli::cli_inform("{text}")
    }
    n_said <<- length(texts)
  }
  show <- function(state) {
    if (verbosity >= 0) {
      say(state[["messages"]])
      tell_problem(state[["problem"]])
    }
    if (!is_shown || state[["n_done"]] >= state[["n_total"]]) {
      return(invisible())
    }
    if (is.null(id)) {
      id <<- begin_bar(state[["n_total"]])
    }
    cli::cli_progress_update(
      set = state[["n_done"]],
      total = state[["n_total"]],
      extra = list(bar = draw_bar(state), counts = state[["counts"]]),
      id = id,
      .envir = owner
    )
  }
  end <- function() {
    if (!is.null(id)) {
      cli::cli_progress_done(id = id, .envir = owner)
      id <<- NULL
    }
  }
  list(show = show, end = end)
}

# Reports a journal that cannot be written, while the call runs. R delays warnings until the call
# ends, so this is a message; a warning follows at the end if results are still not stored.
tell_problem <- function(problem) {
  if (!is.null(problem) && nzchar(problem)) {
    cli::cli_inform(c("!" = "{problem}"), class = "llamaherd_message_journal")
  }
}

begin_bar <- function(n) {
  rlang::local_options(cli.progress_handlers = bar_handlers())
  cli::cli_progress_bar(
    total = n,
    format = "{cli::pb_extra$bar}{cli::pb_extra$counts} | ETA {cli::pb_eta}",
    extra = list(bar = "", counts = ""),
    clear = TRUE,
    auto_terminate = FALSE,
    .auto_close = FALSE
  )
}

# Returns the names of cli's handlers of progress bars. In a Shiny app cli shows the bar in the
# browser, and fails where no session is being served: in global code, and in functions that later
# or promises call.
bar_handlers <- function(session = shiny_session) {
  handlers <- getOption("cli.progress_handlers", c("shiny", "cli"))
  if ("shiny" %in% handlers && is.null(session())) {
    setdiff(handlers, "shiny")
  } else {
    handlers
  }
}

# Returns the session of Shiny that is being served; NULL if there is none.
shiny_session <- function() {
  if (isNamespaceLoaded("shiny")) asNamespace("shiny")$getDefaultReactiveDomain()
}

# Draws the bar, which fills the rest of the line.
draw_bar <- function(state, width = cli::console_width()) {
  rest <- nchar(state[["counts"]]) + nchar("  | ETA 99m 59s")
  width <- min(30L, width - rest)
  if (width < 5L) {
    return("")
  }
  n_full <- floor(width * state[["n_done"]] / max(state[["n_total"]], 1))
  paste0(
    strrep(if (cli::is_utf8_output()) "\u25a0" else "=", n_full),
    strrep(" ", width - n_full + 1L)
  )
}

# Reports the end of a call: a line of statistics, and one warning, or the error for on_error =
# "stop". `is_bound` is TRUE if a grammar, a regular expression or choices bound the answers.
tell_failures <- function(
  result,
  on_error,
  verbosity,
  is_bound = FALSE,
  n_samples = 1L
) {
  if (verbosity >= 2) {
    cli::cli_inform("{format(attr(result, 'stats'))}")
  }
  reasons <- attr(result, "finish_reason")
  n <- length(reasons)
  failed <- which(reasons == "error")
  n_cancelled <- sum(reasons == "cancelled")
  if (length(failed) > 0 && on_error == "stop") {
    reason <- attr(result, "errors")[[failed[[1]]]]
    i <- (failed[[1]] - 1L) %/% n_samples + 1L
    prompt <- if (n == 1) "The prompt" else sprintf("Prompt %d", i)
    abort("{prompt} failed: {reason}", "generation", results = result)
  }
  if (verbosity < 0) {
    return(invisible())
  }
  is_cut <- if (is_bound) {
    reasons %in% c("stop", "length") & !attr(result, "complete")
  } else {
    reasons == "length"
  }
  tell_cut(sum(is_cut), n, is_bound)
  if (length(failed) > 0) {
    column <- if (n_samples > 1) {
      "as.data.frame(result)$error"
    } else {
      "attr(result, \"errors\")"
    }
    warn(
      c(
        "{length(failed)} of {n} {counted(result, n_samples)}{cli::qty(n)}{?s} failed,
         {cli::qty(length(failed))}and {?is/are} NA in the result.",
        failed_bullets(result, failed),
        i = if (n_cancelled > 0) "{n_cancelled} more {?was/were} not finished.",
        i = "{.code {column}} has all reasons."
      ),
      "failed"
    )
  }
}

# Returns the noun for numbers in messages: what the elements of a result belong to.
counted <- function(result, n_samples) {
  if (is.matrix(result)) {
    "text"
  } else if (n_samples > 1) {
    "sample"
  } else {
    "prompt"
  }
}

# Tells of answers that were cut off, in one line: by a warning if they were bound, because a cut
# label or number looks like a complete one. In a loop of single calls only the first cut answer is
# told of, unless it was bound.
tell_cut <- function(n_cut, n, is_bound = FALSE) {
  if (n_cut == 0) {
    invisible()
  } else if (is_bound) {
    text <- paste(
      "%s ended before the grammar, regex or choice was at its end: set a larger `max_tokens`, or",
      "look at `stop`; the column `complete` of as.data.frame(result) tells which are whole."
    )
    answers <- if (n == 1) "The answer" else sprintf("%d of %d answers", n_cut, n)
    warn_text(sprintf(text, answers), "incomplete")
  } else if (n > 1 || !isTRUE(the$told_cut)) {
    the$told_cut <- n == 1 || isTRUE(the$told_cut)
    note <- py_call("cut_note", n_cut, n)
    text <- paste0(toupper(substr(note, 1, 1)), substring(note, 2), ".")
    rlang::inform(c(i = text), class = "llamaherd_message_cut")
  }
}

# Escapes braces, so that cli does not read the texts as templates.
escape_cli <- function(text) {
  gsub("}", "}}", gsub("{", "{{", text, fixed = TRUE), fixed = TRUE)
}

# Returns the first reasons of failures, with the names or indices of the prompts.
failed_bullets <- function(result, failed) {
  first <- utils::head(failed, 3)
  texts <- sprintf(
    "%s: %s",
    labels_of(result)[first],
    attr(result, "errors")[first]
  )
  stats::setNames(escape_cli(texts), rep("x", length(texts)))
}
