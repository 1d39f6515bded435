# A call runs in a thread of Python. R waits for the call in short slices, between which it updates
# the progress bar. R handles Ctrl-C only between slices, so that a running job is not lost.

slice_s <- 0.1

# Runs a call and returns its result. `start` is the Python function that starts the call, perhaps
# with its first argument. `make` creates the result from its value and the prompts; with several
# samples per prompt, it has an element for each prompt that repeated() returned. After Ctrl-C the
# function signals an interrupt that contains the result.
run_call <- function(start, make, context, prompts, options, display, progress) {
  suspendInterrupts({
    n <- options$n %||% 1L
    made <- \(value) make(value, repeated(prompts, n), display)
    shown <- \(value) as_samples(made(value), prompts$names, n)
    run <- quietly(
      display$verbosity < 0,
      run_in_slices(
        rlang::exec("py_call", !!!start, context, prompts$values, options),
        bar = new_bar(progress),
        made = shown
      )
    )
    result <- made(run$value)
    if (run$interrupted) {
      reason <- attr(result, "finish_reason")
      what <- plural(length(reason), counted(n))
      n_answered <- sum(reason %in% c("stop", "length"))
      message <- sprintf(
        "Interrupted: %d of %d %s answered.",
        n_answered,
        length(reason),
        what
      )
      results <- as_samples(result, prompts$names, n)
      interrupt(message, results, display$verbosity, options$journal)
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
    told <- c(
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
    writeLines(c("", told), stderr())
  }
  invokeRestart("abort")
}

# Waits for a job of any kind and collects its results. `start` contains the job that Python
# started, and for short calls of a model also its result. `collect` is a function that returns the
# results of a job, and `bar` is the return value of new_bar().
#
# `made` converts the results to the value of last_results(), if the function ends in another way
# than by returning: by an error, also of the job, a time limit, or a jump of a calling handler.
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
  made = NULL,
  begun = \(started) NULL
) {
  force(bar) # checks its arguments before the job starts
  suspendInterrupts({
    started <- holding(start)
    job <- started$value[["job"]]
    is_over <- FALSE
    on.exit(if (!is_over) end_early(job, collect, made))
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

# Ends a job for which R no longer waits, and keeps its finished results.
end_early <- function(job, collect, made) {
  suspendInterrupts({
    py_call("job_cancel", job)
    if (!is.null(made)) {
      py_call("job_keep", job)
      keep_results(made(holding(collect(job))$value))
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

# Signals conditions again, as rlang first did: with long warnings, and messages that end a line.
signal_held <- function(held) {
  if (length(held) == 0) {
    return(invisible())
  }
  rlang::local_options(warning.length = 8170L)
  for (cnd in held) {
    if (inherits(cnd, "warning")) {
      warning(cnd)
    } else {
      own <- setdiff(class(cnd), c("rlang_message", "message", "condition"))
      rlang::inform(conditionMessage(cnd), class = own)
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
  shown <- shows_progress(progress)
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
    if (!shown || state[["n_done"]] >= state[["n_total"]]) {
      return(invisible())
    }
    if (is.null(id)) {
      id <<- begin_bar(state[["n_total"]])
    }
    cli::cli_progress_update(
      set = state[["n_done"]],
      total = state[["n_total"]],
      extra = list(bar = draw_bar(state), counts = format_counts(state)),
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

# Formats the numbers of finished and of all units, and the progress line from Python.
format_counts <- function(state) {
  counts <- if (identical(state[["unit"]], "B")) {
    paste0(format_bytes(state[["n_done"]]), "/", format_bytes(state[["n_total"]]))
  } else {
    sprintf("%.0f/%.0f", state[["n_done"]], state[["n_total"]])
  }
  line <- state[["line"]]
  if (is.null(line) || !nzchar(line)) counts else paste(counts, "|", line)
}

# Draws the bar, which fills the rest of the line.
draw_bar <- function(state, width = cli::console_width()) {
  rest <- nchar(format_counts(state)) + nchar("  | ETA 99m 59s")
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
# "stop".
tell_failures <- function(result, on_error, verbosity, bound = FALSE, n_samples = 1L) {
  if (verbosity >= 2) {
    cli::cli_inform("{format(attr(result, 'stats'))}")
  }
  n <- length(attr(result, "finish_reason"))
  failed <- which(attr(result, "finish_reason") == "error")
  n_cancelled <- sum(attr(result, "finish_reason") == "cancelled")
  if (length(failed) > 0 && on_error == "stop") {
    reason <- attr(result, "errors")[[failed[[1]]]]
    what <- if (n == 1) {
      "The prompt failed"
    } else {
      sprintf("Prompt %d failed", (failed[[1]] - 1L) %/% n_samples + 1L)
    }
    abort("{what}: {reason}", "generation", results = result)
  }
  if (verbosity < 0) {
    return(invisible())
  }
  if (any(bound)) {
    warn_incomplete(result, bound, n_samples)
  }
  tell_cut(attr(result, "finish_reason") == "length" & !bound)
  if (length(failed) > 0) {
    not_run <- if (n_cancelled > 0) {
      "{n_cancelled} more {?was/were} not finished."
    }
    warn(
      c(
        "{length(failed)} of {n} {counted(n_samples)}{cli::qty(n)}{?s} failed,
         {cli::qty(length(failed))}and {?is/are} NA in the result.",
        failed_bullets(result, failed),
        i = not_run,
        i = "{.code {column_of('error', n_samples)}} has all reasons."
      ),
      "failed"
    )
  }
}

# Returns the noun for numbers in messages: "samples" if each prompt has several samples, otherwise
# "prompts".
counted <- function(n) if (n > 1) "sample" else "prompt"

# Returns the R code that selects a column of a result, for messages.
column_of <- function(name, n) {
  if (n > 1) {
    return(sprintf("as.data.frame(result)$%s", name))
  }
  sprintf('attr(result, "%s")', if (name == "error") "errors" else name)
}

# Warns of cut-off answers: a cut-off label or number looks like a complete one.
warn_incomplete <- function(result, bound, n_samples) {
  cut <- which(bound & !is.na(unclass(result)) & !attr(result, "complete"))
  if (length(cut) == 0) {
    return(invisible())
  }
  shown <- sprintf(
    "%s: %s",
    labels_of(result)[utils::head(cut, 3)],
    utils::head(
      format(result, width = 40L)[cut],
      3
    )
  )
  warn(
    c(
      "{length(cut)} of {length(result)} answer{?s} {?was/were} cut off before {?its/their}
       grammar, regex or choice was at its end.",
      stats::setNames(escape_cli(shown), rep("x", length(shown))),
      i = "Raise {.arg max_tokens}, or look at {.arg stop}; {.code {column_of('complete',
           n_samples)}} tells which are whole."
    ),
    "incomplete"
  )
}

# Tells of answers that ended at `max_tokens`, in one line. In a loop of single calls only the first
# cut answer is told of.
tell_cut <- function(is_cut) {
  if (length(is_cut) == 1L) {
    if (!is_cut || isTRUE(the$told_cut)) {
      return(invisible())
    }
    the$told_cut <- TRUE
    rlang::inform(
      c(
        i = paste(
          "The answer ended at `max_tokens`, before the model had ended it: set a larger",
          "`max_tokens` for whole answers."
        )
      ),
      class = "llamaherd_message_cut"
    )
  } else if (any(is_cut)) {
    cli::cli_inform(
      c(
        i = "{sum(is_cut)} of {length(is_cut)} answer{?s} ended at {.arg max_tokens}, before the
             model had ended {cli::qty(sum(is_cut))}{?it/them}: set a larger {.arg max_tokens} for
             whole answers."
      ),
      class = "llamaherd_message_cut"
    )
  }
}

# Escapes braces, so that cli does not read the texts as templates.
escape_cli <- function(text) {
  gsub("}", "}}", gsub("{", "{{", text, fixed = TRUE), fixed = TRUE)
}

# Returns the first reasons of failures, with the names or indices of the prompts.
failed_bullets <- function(result, failed) {
  shown <- utils::head(failed, 3)
  label <- labels_of(result)[shown]
  text <- sprintf("%s: %s", label, attr(result, "errors")[shown])
  stats::setNames(escape_cli(text), rep("x", length(text)))
}
