# A call to generate runs in a thread of Python's. R waits for it in short slices, which
# keeps the progress bar going. Ctrl-C is let through between slices only, so that no job
# is lost that runs already.

slice_s <- 0.1

# What a call asks Python for: functions that start it and collect it, and the one of R that
# makes the result of the columns.
new_task <- function(start, collect, make) {
  list(start = start, collect = collect, make = make)
}

# Returns the result, of repeated() prompts if there are several samples. Ctrl-C goes on as
# an interrupt that has the result.
run_call <- function(task, context, prompts, options, display, progress, error_call) {
  suspendInterrupts({
    run <- quietly(
      display$verbosity < 0,
      run_job(task, context, prompts, options, progress, error_call)
    )
    n <- options$n %||% 1L
    result <- task$make(run$columns, repeated(prompts, n), display)
    if (run$interrupted) {
      results <- as_samples(result, prompts$names, n)
      the$last_results <- results
      # Ctrl-C pressed once more meanwhile must not throw away what was collected.
      is_interrupted(Sys.sleep(0))
      reason <- attr(result, "finish_reason")
      n_answered <- sum(reason %in% c("stop", "length"))
      message <- sprintf(
        "Interrupted: %d of %d %s answered.",
        n_answered,
        length(reason),
        plural(length(reason), counted(n))
      )
      interrupt(message, results, display$verbosity, options$journal)
    }
    result
  })
}

# Does what R does on Ctrl-C: whoever waits for an interrupt gets it, and otherwise all that
# runs ends, a script with an exit status of 1. A warning before that could be caught by
# someone who would go on. `journal` is the path of a file that has what is done, or NULL.
interrupt <- function(message, results, verbosity, journal = NULL) {
  signalCondition(structure(
    class = c("llamaherd_interrupt", "interrupt", "condition"),
    list(message = message, call = NULL, results = results)
  ))
  if (verbosity >= 0) {
    told <- c(
      message,
      if (interactive() && !is.null(results)) "last_results() has them.",
      if (is.character(journal)) {
        path <- normalizePath(journal, mustWork = FALSE)
        paste("The journal has them, and the same call goes on from there:", path)
      }
    )
    writeLines(c("", told), stderr())
  }
  invokeRestart("abort")
}

# Returns Python's columns, and whether Ctrl-C ended the call.
run_job <- function(task, context, prompts, options, progress, error_call) {
  run_in_slices(
    py_call(
      task$start,
      context,
      prompts$values,
      options,
      error_call = error_call
    ),
    \(job) py_call(task$collect, job, error_call = error_call),
    new_bar(progress),
    error_call
  )
}

# Waits for the job that `start` makes, and returns what `collect` makes of it, and whether
# Ctrl-C ended it. `bar` is what new_bar() made.
run_in_slices <- function(start, collect, bar, error_call) {
  suspendInterrupts({
    job <- start[["job"]]
    collected <- FALSE
    on.exit(if (!collected) py_call("job_cancel", job))

    interrupted <- is_interrupted(wait_for(job, bar, error_call))
    if (interrupted) {
      py_call("job_cancel", job)
    }
    columns <- collect(job)
    collected <- TRUE
    list(columns = columns, interrupted = interrupted)
  })
}

# Whether Ctrl-C ended the expression.
is_interrupted <- function(expr) {
  tryCatch(
    {
      allowInterrupts(expr)
      FALSE
    },
    interrupt = \(cnd) TRUE
  )
}

wait_for <- function(job, bar, error_call) {
  on.exit(bar$end())
  repeat {
    state <- py_call("job_wait", job, slice_s, error_call = error_call)
    bar$show(state)
    if (state[["done"]]) {
      break
    }
    Sys.sleep(0) # looks for Ctrl-C, which R by itself does rarely
  }
}

# In a knitted document each refresh of a bar would be a line.
shows_progress <- function(progress) {
  progress && !isTRUE(getOption("knitr.in.progress"))
}

# What shows how far a job is: a bar on the console, or nothing.
new_bar <- function(progress) {
  if (!shows_progress(progress)) {
    return(list(show = \(state) NULL, end = \() NULL))
  }
  id <- NULL
  show <- function(state) {
    if (is.null(id)) {
      id <<- begin_bar(state[["n_total"]])
    }
    cli::cli_progress_update(
      set = state[["n_done"]],
      total = state[["n_total"]],
      extra = list(bar = draw_bar(state), rates = state[["rates"]]),
      id = id
    )
  }
  end <- function() {
    if (!is.null(id)) {
      cli::cli_progress_done(id = id)
      id <<- NULL
    }
  }
  list(show = show, end = end)
}

begin_bar <- function(n) {
  cli::cli_progress_bar(
    total = n,
    format = paste(
      "{cli::pb_extra$bar}{cli::pb_current}/{cli::pb_total}",
      "| {cli::pb_extra$rates} | ETA {cli::pb_eta}"
    ),
    extra = list(bar = "", rates = ""),
    clear = TRUE,
    auto_terminate = FALSE,
    .auto_close = FALSE
  )
}

# The same for job `i` of `n` that are about as long and share a bar. Whoever made it ends it.
part_of_bar <- function(bar, i, n) {
  show <- function(state) {
    each <- state[["n_total"]]
    state[["n_done"]] <- (i - 1L) * each + state[["n_done"]]
    state[["n_total"]] <- n * each
    bar$show(state)
  }
  list(show = show, end = \() NULL)
}

# As wide as the rest of the line lets it be.
draw_bar <- function(state, width = cli::console_width()) {
  counts <- sprintf("%d/%d", state[["n_done"]], state[["n_total"]])
  rest <- nchar(counts) + nchar(state[["rates"]]) + nchar("  |  | ETA 99m 59s")
  width <- min(30L, width - rest)
  if (width < 5L) {
    return("")
  }
  n_full <- floor(width * state[["n_done"]] / max(state[["n_total"]], 1L))
  paste0(
    strrep(if (cli::is_utf8_output()) "\u25a0" else "=", n_full),
    strrep(" ", width - n_full + 1L)
  )
}

# What a call has to say at its end: a line of statistics, and one warning, or the error
# that on_error = "stop" asks for.
tell_failures <- function(
  result,
  on_error,
  verbosity,
  error_call,
  bound = FALSE,
  n_samples = 1L
) {
  if (verbosity >= 2) {
    cli::cli_inform("{attr(result, 'stats')$line}")
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
    abort("{what}: {reason}", "generation", error_call, results = result)
  }
  if (verbosity < 0) {
    return(invisible())
  }
  if (any(bound)) {
    warn_incomplete(result, bound, error_call, n_samples)
  }
  if (length(failed) > 0) {
    not_run <- if (n_cancelled > 0) {
      "{n_cancelled} more {?was/were} not finished."
    }
    warn(
      c(
        "{length(failed)} of {n} {counted(n_samples)}{cli::qty(n)}{?s} failed, and
         {?is/are} NA in the result.",
        failed_bullets(result, failed),
        i = not_run,
        i = "{.code {column_of('error', n_samples)}} has all reasons."
      ),
      "failed",
      error_call
    )
  }
}

# What is counted where each prompt has n samples.
counted <- function(n) if (n > 1) "sample" else "prompt"

# Where a result has a column of its table.
column_of <- function(name, n) {
  if (n > 1) {
    return(sprintf("as.data.frame(result)$%s", name))
  }
  sprintf('attr(result, "%s")', if (name == "error") "errors" else name)
}

# Part of a label, or of a number, looks like a whole one.
warn_incomplete <- function(result, bound, error_call, n_samples) {
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
    "incomplete",
    error_call
  )
}

# For texts that are no templates of cli's.
escape_cli <- function(text) {
  gsub("}", "}}", gsub("{", "{{", text, fixed = TRUE), fixed = TRUE)
}

# The first few reasons, with the prompts' names or places.
failed_bullets <- function(result, failed) {
  shown <- utils::head(failed, 3)
  label <- labels_of(result)[shown]
  text <- sprintf("%s: %s", label, attr(result, "errors")[shown])
  stats::setNames(escape_cli(text), rep("x", length(text)))
}
