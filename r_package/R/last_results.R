#' Results of an interrupted call
#'
#' Ctrl-C during [generate_parallel()] or [generate()] ends the call and the code around it: nothing
#' is assigned, and loops end. `last_results()` returns the finished answers, which are stored until
#' the next interrupt.
#'
#' In scripts, catch the interrupt: it is a condition of class `llamaherd_interrupt`, whose
#' `results` are the same answers.
#'
#' @returns The `llamaherd_result` of the last interrupted call, with NA for unfinished prompts;
#'   [as.data.frame()][as.data.frame.llamaherd_result] shows the beginnings of their answers. NULL
#'   if no call was interrupted.
#' @seealso [generate_parallel()], section "Interrupting a call"
#' @export
#' @examples
#' answers <- last_results()
last_results <- function() the$last_results
