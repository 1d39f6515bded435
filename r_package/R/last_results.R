#' Results of an interrupted call
#'
#' Ctrl-C during [generate_parallel()], [classify_parallel()], [annotate_texts()] and similar calls
#' ends the call and the code around it: in `x <- generate_parallel(...)` nothing is assigned to
#' `x`, and a loop around the call ends. `last_results()` returns the finished results, which are
#' stored until the next interrupt.
#'
#' In scripts, catch the interrupt: it is a condition of class `llamaherd_interrupt`, whose
#' `results` are the same results.
#'
#' @returns The return value of the last interrupted call, with NA for unfinished prompts and texts:
#'   a `llamaherd_result`, whose [as.data.frame()][as.data.frame.llamaherd_result] shows the
#'   beginnings of unfinished answers; a table of [classify_parallel()] or [score_parallel()]; a
#'   data frame of [annotate_texts()], whose column `error` names the unfinished rows; a matrix of
#'   [embed_parallel()]; or the pairs of [compare_pairs()]. NULL if no call was interrupted.
#' @seealso [generate_parallel()], section "Interrupting a call"
#' @export
#' @examples
#' answers <- last_results()
last_results <- function() the$last_results
