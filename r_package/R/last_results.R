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
#' @returns The return value of the last interrupted call, with NA for unfinished prompts and texts;
#'   NULL if no call was interrupted. The value depends on the call:
#'
#'   * [generate_parallel()]: a `llamaherd_result`; its
#'     [as.data.frame()][as.data.frame.llamaherd_result] shows the beginnings of unfinished answers.
#'   * [classify_parallel()], [score_parallel()]: a table.
#'   * [annotate_texts()]: a data frame; its column `error` names the unfinished rows.
#'   * [embed_parallel()]: a matrix.
#'   * [compare_pairs()]: the pairs.
#' @seealso [generate_parallel()], section "Interrupting a call"
#' @export
#' @examples
#' answers <- last_results()
last_results <- function() the$last_results
