#' What Ctrl-C left
#'
#' Ctrl-C during [generate_parallel()] or [generate()] ends the call, and whatever the call
#' stands in: nothing is assigned, and a loop does not go on. What had been answered is kept
#' here, until the next such interrupt.
#'
#' In a script, catch it: the interrupt is a condition of class `llamaherd_interrupt`, which
#' has the same as `results`.
#'
#' @returns The `llamaherd_result` of the last call that Ctrl-C ended, with NA for prompts
#'   that were not finished; [as.data.frame()][as.data.frame.llamaherd_result] shows what
#'   there was of these. NULL if there was no such call.
#' @seealso [generate_parallel()], section Ctrl-C
#' @export
#' @examples
#' answers <- last_results()
last_results <- function() the$last_results
