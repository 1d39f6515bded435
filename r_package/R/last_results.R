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
  found <- try(results, silent = TRUE)
  if (!is.null(found) && !inherits(found, "try-error") && has_finished(found)) {
    the$last_results <- found
  }
}

# Returns the texts of a coding that was ended early, with their labels and errors; NULL if no text
# has a label.
labels_so_far <- function(texts, columns) {
  labels <- as_text(columns[["labels"]])
  if (all(is.na(labels))) {
    return(NULL)
  }
  data.frame(text = as_text(texts), label = labels, error = as_text(columns[["errors"]]))
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
