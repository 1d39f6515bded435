#' Results of a call that was interrupted
#'
#' Ctrl-C during [generate_parallel()], [classify_parallel()], [annotate_texts()] and similar calls
#' ends the call and the code around it: in `x <- generate_parallel(...)` nothing is assigned to
#' `x`, and a loop around the call ends. `last_results()` returns the finished results, which are
#' stored until another call with finished results is interrupted or ends by an error.
#'
#' The results are also stored if an error ends a call that has results: a time limit
#' ([setTimeLimit()]), a warning that `options(warn = 2)` turns into an error, a handler of a
#' warning or message that leaves the call, as in `tryCatch(..., warning = )`, a lack of memory, or
#' a data frame whose class refuses new columns. While R waits for a
#' model, it does not always notice a time limit: reticulate may print it, and the call continues.
#'
#' In scripts, catch the interrupt: it is a condition of class `llamaherd_interrupt`, whose
#' `results` are the same results.
#'
#' @returns The return value of the last call that was interrupted or ended by such an error, with
#'   NA for unfinished prompts and texts; NULL if there was no such call. The value depends on the
#'   call:
#'
#'   * [generate_parallel()]: a `llamaherd_result`; its
#'     [as.data.frame()][as.data.frame.llamaherd_result] shows the beginnings of unfinished answers.
#'   * [classify_parallel()], [score_parallel()]: a table.
#'   * [annotate_texts()]: a data frame; its column `error` names the unfinished rows.
#'   * [embed_parallel()]: a matrix.
#'   * [compare_pairs()]: the pairs.
#'   * [robustness()], [compare_codebooks()], [explore()]: the value for the finished variants,
#'     candidates or models. The attribute `interrupted` of the value contains the answers of the
#'     variant, candidate or model that was running; if it was the first, these answers are the
#'     value. They are a table of texts and labels, after [explore()] a `llamaherd_result`. If
#'     the `sink` of [explore()] raises an error, the value is the rows that it refused.
#'   * [evaluate_codebook()]: a table of texts and labels.
#' @seealso [generate_parallel()], section "Interrupting a call"
#' @concept Ctrl-C
#' @export
#' @examples
#' answers <- last_results()
last_results <- function() the$last_results

# Evaluates an expression after results were computed. If the expression ends in another way than by
# returning, such as by a warning that options(warn = 2) turns into an error, last_results() returns
# the results. `results` is evaluated only then.
keeping <- function(results, expr) {
  is_kept <- FALSE
  on.exit(if (!is_kept) keep_results(results))
  value <- expr
  is_kept <- TRUE
  value
}

# Stores results of a call that ends with an error. If there are none, the error itself, which is
# being handled, is sufficient; earlier results stay.
keep_results <- function(results) {
  value <- try(results, silent = TRUE)
  if (!is.null(value) && !inherits(value, "try-error") && has_finished(value)) {
    the$last_results <- value
  }
}

# Adds the labels of the part that was running to the value for the finished parts. If no part is
# finished, the labels are the value.
with_running <- function(finished, running) {
  if (is.null(finished) || is.null(running)) {
    return(finished %||% running)
  }
  structure(finished, interrupted = running)
}

# Returns FALSE if no prompt has finished; TRUE if results do not tell how prompts ended.
has_finished <- function(results) {
  reasons <- attr(results, "finish_reason")
  is.null(reasons) || any(reasons %in% c("stop", "length"))
}

#' Read a journal
#'
#' Returns the results that [generate_parallel()] stored with its argument `journal`. The file may
#' be in use by a running call of any session. No model is needed.
#'
#' @param path Path of a journal; `~` is expanded.
#' @returns A data frame with one row per result, in the order in which they were first stored:
#'
#'   * `prompt`; `text`, the answer. `text` is NA if the last try failed, and for
#'     [classify_parallel()] and [annotate_texts()], which only score labels.
#'   * `finish_reason`: `"stop"`, `"length"` or `"error"`; `complete`: TRUE if the answer was not
#'     cut off; `error`: the reason of a failure, NA for all others.
#'   * `n_prompt_tokens`, `n_generated_tokens` and `seed`.
#'   * `thinking`, the thought before the answer as the model wrote it, NA if there is no thought;
#'     `n_thinking_tokens`, the number of its tokens; and `thinking_complete`, FALSE if it used up
#'     its budget.
#'   * `model`, the name of the model's file, and `model_sha256`, its SHA-256.
#'   * `settings`: further settings that affect the text, as JSON: `max_tokens`, `stop`, sampling
#'     settings other than the defaults, settings of the context.
#'   * `created`: time of storage, a [POSIXct][base::DateTimeClasses] in UTC; `version`: version of
#'     llamaherd.
#'
#'   A file that is not a journal, or is damaged, causes an error of class
#'   `llamaherd_error_journal`. The file remains unchanged.
#' @seealso [generate_parallel()]
#' @concept resume
#' @concept crash
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' journal <- tempfile(fileext = ".sqlite")
#' answers <- generate_parallel(context, "The sky is", max_tokens = 4, journal = journal)
#' journal_read(journal)
#' close(model)
journal_read <- function(path) {
  path <- py_path(path)
  py_call("journal_read", path)
}

#' @export
print.llamaherd_journal <- function(x, ..., n = 20L, width = getOption("width")) {
  show_lines(paste("<llamaherd_journal>", count_of(nrow(x), "result")))
  frame <- new_frame(as.list(x), nrow(x))
  print_rows(frame, n, width, c("prompt", "text", "finish_reason"))
  invisible(x)
}

expand_path <- function(path) {
  if (is.null(path)) {
    return(NULL)
  }
  home <- startsWith(path, "~")
  # path.expand() truncates long paths.
  path[home] <- r_path(path.expand(native_path(path[home])))
  as_utf8(path)
}
