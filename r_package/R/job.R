# A call to generate runs in a thread of Python's. R waits for it in short slices, which
# keeps the progress bar going. Ctrl-C is let through between slices only, so that no job
# is lost that runs already.

slice_s <- 0.1

# Returns Python's columns, and whether Ctrl-C ended the call.
run_job <- function(context, prompts, options, progress, error_call) {
  suspendInterrupts({
    start <- py_call(
      "generate_start",
      context,
      prompts$values,
      options,
      error_call = error_call
    )
    job <- start[["job"]]
    collected <- FALSE
    on.exit(if (!collected) py_call("job_cancel", job))

    interrupted <- is_interrupted(wait_for(
      job,
      length(prompts$values),
      progress,
      error_call
    ))
    if (interrupted) {
      py_call("job_cancel", job)
    }
    columns <- py_call("job_result", job, error_call = error_call)
    collected <- TRUE
    if (interrupted) {
      # Ctrl-C pressed once more meanwhile must not throw away what was collected.
      is_interrupted(Sys.sleep(0))
    }
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

wait_for <- function(job, n, progress, error_call) {
  bar <- if (progress) {
    cli::cli_progress_bar(
      total = n,
      format = paste(
        "{cli::pb_spin} Generating {cli::pb_bar} {cli::pb_current}/{cli::pb_total}",
        "| {cli::pb_extra$tokens} | ETA {cli::pb_eta}"
      ),
      extra = list(tokens = ""),
      clear = TRUE,
      auto_terminate = FALSE
    )
  }
  repeat {
    state <- py_call("job_wait", job, slice_s, error_call = error_call)
    if (progress) {
      cli::cli_progress_update(
        set = state[["n_done"]],
        extra = list(tokens = format_rate(state)),
        id = bar
      )
    }
    if (state[["done"]]) {
      break
    }
    Sys.sleep(0) # looks for Ctrl-C, which R by itself does rarely
  }
  if (progress) {
    cli::cli_progress_done(id = bar)
  }
}

format_rate <- function(state) {
  rate <- state[["n_generated_tokens"]] / max(state[["elapsed_s"]], 0.001)
  failed <- if (state[["n_failed"]] > 0) {
    sprintf(" | %d failed", state[["n_failed"]])
  }
  paste0(sprintf("%.0f tokens/s", rate), failed)
}

# What a call has to say at its end: a line of statistics, and one warning, or the error
# that on_error = "stop" asks for.
report <- function(result, interrupted, on_error, verbosity, error_call) {
  if (verbosity >= 2) {
    cli::cli_inform("{attr(result, 'stats')$line}")
  }
  n <- length(result)
  failed <- which(attr(result, "finish_reason") == "error")
  n_cancelled <- sum(attr(result, "finish_reason") == "cancelled")
  if (length(failed) > 0 && on_error == "stop") {
    reason <- attr(result, "errors")[[failed[[1]]]]
    what <- if (n == 1) {
      "The prompt failed"
    } else {
      sprintf("Prompt %d failed", failed[[1]])
    }
    abort("{what}: {reason}", "generation", error_call, results = result)
  }
  if (verbosity < 0) {
    return(invisible())
  }
  if (interrupted) {
    warn(
      c(
        "Interrupted: {n - length(failed) - n_cancelled} of {n} prompt{?s} answered, the
         others are NA.",
        failed_bullets(result, failed)
      ),
      "interrupted",
      error_call
    )
  } else if (length(failed) > 0) {
    not_run <- if (n_cancelled > 0) {
      "{n_cancelled} more {?was/were} not finished."
    }
    warn(
      c(
        "{length(failed)} of {n} prompt{?s} failed, and {?is/are} NA in the result.",
        failed_bullets(result, failed),
        i = not_run,
        i = "{.code attr(result, \"errors\")} has all reasons."
      ),
      "failed",
      error_call
    )
  }
}

# The first few reasons, with the prompts' names or places.
failed_bullets <- function(result, failed) {
  shown <- utils::head(failed, 3)
  label <- labels_of(result)[shown]
  text <- sprintf("%s: %s", label, attr(result, "errors")[shown])
  # The texts are no templates for cli.
  text <- gsub("}", "}}", gsub("{", "{{", text, fixed = TRUE), fixed = TRUE)
  stats::setNames(text, rep("x", length(text)))
}
