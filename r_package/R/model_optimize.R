#' Make a model faster on this computer
#'
#' How fast a processor computes a model depends on the type of its weights. This tries
#' some types: it writes the model in each, measures how fast both files are, taking turns,
#' and how far the answers move. It keeps the fastest file whose answers move little enough
#' and removes the others. The original is not touched, and no file is ever overwritten.
#'
#' Speed is measured on a prompt of 512 tokens and on 8 answers generated together. Files
#' are ranked by the geometric mean of the two speedups; less than 1.05 is not worth a file.
#' How far answers move is the Kullback-Leibler divergence between what the two files
#' predict for each token of a text, as llama.cpp's perplexity program computes it.
#'
#' Ctrl-C ends it and leaves no file, but a file that is being written is finished first:
#' llama.cpp cannot be interrupted there, which takes some seconds per GB.
#'
#' @param path Path of a GGUF file; `~` is expanded.
#' @param out Folder for the new file, `NULL` for that of `path`. The file's name is
#'   `<name>.<type>.llamaherd.gguf`.
#' @param types Types to try, out of `"F16"`, `"BF16"`, `"Q8_0"`, `"Q6_K"`, `"Q5_1"`,
#'   `"Q5_0"`, `"Q5_K_M"`, `"Q5_K_S"`, `"Q4_1"`, `"Q4_0"`, `"Q4_K_M"`, `"Q4_K_S"` and
#'   `"IQ4_NL"`. `NULL` tries `"Q8_0"`, `"Q4_0"` and `"Q4_K_M"`, but not the one that the
#'   model has already.
#' @param max_kl Largest mean divergence, in nats, that the kept file may have.
#' @param text A sample text to compare the files on, 64 tokens or more, of which up to 4096
#'   are used; best such as the model will meet. `NULL` takes one from a novel.
#' @param n_threads Number of threads; `NULL`: the physical cores.
#' @param progress TRUE shows what is being done.
#' @returns A data frame of class `llamaherd_optimize` with one row per file, the original
#'   first, and the columns `type`, `size_bytes`, `prefill_tokens_per_s`,
#'   `decode_tokens_per_s`, `speedup`, `perplexity`, `mean_kl`, `p99_kl` (divergence from
#'   the original in nats: mean and 99th percentile), `same_top` (share of predictions with
#'   the same most likely token) and `same_answers` (share of equal greedy answers). Its
#'   attribute `path` is the file to use, `chosen` that file's type; `chosen` is `NA`, and
#'   `path` the original, if nothing was better.
#' @seealso [model_load()]
#' @export
#' @examples
#' \dontrun{
#' report <- model_optimize("~/models/SmolLM2-135M-Instruct.Q4_1.gguf")
#' report
#' model <- model_load(attr(report, "path"))
#' }
model_optimize <- function(
  path,
  out = NULL,
  types = NULL,
  max_kl = 0.01,
  text = NULL,
  n_threads = NULL,
  progress = interactive()
) {
  path <- path.expand(check_string(path))
  out <- check_string(out, null = TRUE)
  options <- list(max_kl = check_number(max_kl))
  if (!is.null(types)) {
    options$types <- as_py_list(check_text(types))
  }
  if (!is.null(text)) {
    options$text <- paste(check_text(text), collapse = "\n")
  }
  if (!is.null(n_threads)) {
    options$n_threads <- check_whole(n_threads, min = 1)
  }
  value <- run_optimize(
    path,
    if (!is.null(out)) path.expand(out),
    options,
    check_flag(progress),
    rlang::current_env()
  )
  files <- lapply(value[["files"]], unlist)
  structure(
    as.data.frame(files),
    path = value[["path"]],
    chosen = value[["chosen"]] %||% NA_character_,
    verdict = value[["verdict"]],
    class = c("llamaherd_optimize", "data.frame")
  )
}

# As run_job() does: Ctrl-C is let through between slices of waiting only. It ends the job,
# whose files are gone when the interrupt goes on to whoever called.
run_optimize <- function(path, out, options, progress, error_call) {
  suspendInterrupts({
    start <- py_call("optimize_start", path, out, options, error_call = error_call)
    job <- start[["job"]]
    on.exit({
      py_call("job_cancel", job)
      py_call("optimize_result", job)
    })
    allowInterrupts(wait_for_steps(job, progress, error_call))
    on.exit()
    py_call("optimize_result", job, error_call = error_call)
  })
}

wait_for_steps <- function(job, progress, error_call) {
  progress <- shows_progress(progress)
  bar <- if (progress) {
    cli::cli_progress_bar(
      total = NA,
      format = "{cli::pb_spin} {cli::pb_extra$step} [{cli::pb_elapsed}]",
      extra = list(step = ""),
      clear = TRUE,
      auto_terminate = FALSE
    )
  }
  repeat {
    state <- py_call("job_wait", job, slice_s, error_call = error_call)
    if (progress) {
      step <- sprintf(
        "Step %d of %d: %s",
        min(state[["n_done"]] + 1L, state[["n_total"]]),
        state[["n_total"]],
        state[["step"]]
      )
      cli::cli_progress_update(extra = list(step = step), id = bar)
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

#' @export
format.llamaherd_optimize <- function(x, ...) {
  percent <- function(share) sprintf("%.0f%%", 100 * share)
  cells <- data.frame(
    type = x$type,
    MB = sprintf("%.0f", x$size_bytes / 1e6),
    `prefill/s` = sprintf("%.0f", x$prefill_tokens_per_s),
    `decode/s` = sprintf("%.0f", x$decode_tokens_per_s),
    speedup = sprintf("%.2f", x$speedup),
    perplexity = sprintf("%.2f", x$perplexity),
    `mean KL` = sprintf("%.4f", x$mean_kl),
    `p99 KL` = sprintf("%.4f", x$p99_kl),
    `same top` = percent(x$same_top),
    `same answers` = percent(x$same_answers),
    check.names = FALSE
  )
  columns <- Map(
    \(name, column) format(c(name, column), justify = "right"),
    names(cells),
    cells
  )
  do.call(paste, c(unname(columns), sep = "  "))
}

#' @export
print.llamaherd_optimize <- function(x, ...) {
  columns <- c("type", "size_bytes", "prefill_tokens_per_s", "same_answers")
  if (!all(columns %in% names(x)) || is.null(attr(x, "verdict"))) {
    return(NextMethod()) # a part of the table
  }
  lines <- format(x)
  cli::cat_line(cli::style_bold(lines[[1]]))
  chosen <- c(FALSE, x$type %in% attr(x, "chosen"))[-1]
  cli::cat_line(ifelse(chosen, cli::col_green(lines[-1]), lines[-1]))
  cli::cat_line(attr(x, "verdict"))
  invisible(x)
}
