#' A scale of numbers, for codebooks
#'
#' Describes a scale such as 0 to 10 for [codebook()]. Each number is scored like a label, so that
#' [annotate_texts()] returns the expected value of each text, its standard deviation, the most
#' probable number, and with `distribution = TRUE` the probability of each number.
#'
#' @param low,high Lowest and highest number. `low` and `high` may be negative or have decimals.
#' @param step Difference between two adjacent numbers. The range from `low` to `high` must be a
#'   whole number of steps, and a scale has at most 1,001 numbers.
#' @param names Names of numbers, which the prompt lists: a character vector named by numbers, such
#'   as `c("0" = "not at all", "10" = "extremely")`, or two names, of the lowest and the highest
#'   number.
#' @returns A `llamaherd_scale`: a list with `low`, `high`, `step`, `names` (named by numbers),
#'   `values` (all numbers) and `content`, the scale as JSON.
#' @seealso [codebook()], [annotate_texts()], [validate()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' anger <- number_scale(0, 10, names = c("not angry at all", "extremely angry"))
#' anger
#' codebook("How angry is the author of the text?", anger)
#'
#' # From disagreement to agreement, with a named middle.
#' number_scale(-1, 1, 0.5, names = c("-1" = "disagrees", "0" = "neutral", "1" = "agrees"))
number_scale <- function(low, high, step = 1, names = NULL) {
  error_call <- rlang::current_env()
  check_given(low, "The lowest number, such as 0.")
  check_given(high, "The highest number, such as 10.")
  numbers <- py_arguments("low", "high", "step")
  made <- py_call(
    "scale_make",
    numbers$low,
    numbers$high,
    numbers$step,
    scale_names(names, error_call),
    error_call = error_call
  )
  content <- jsonlite::parse_json(made[["json"]])
  fixed(
    list(
      low = as.double(content$from),
      high = as.double(content$to),
      step = as.double(content$step),
      names = unlist(content$names),
      values = as.double(unlist(made[["values"]])),
      content = made[["json"]]
    ),
    class = "llamaherd_scale"
  )
}

scale_names <- function(x, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  is_pair <- is.null(names(x)) && length(x) == 2
  if (!is.character(x) || !(is_pair || all(nzchar(rlang::names2(x))))) {
    must <- "two names, or names named by numbers, as c(\"0\" = \"not at all\")"
    abort_argument("names", must, x, error_call)
  }
  texts <- check_text(x, "names", error_call)
  if (is_pair) {
    return(as_py_list(texts))
  }
  as.list(stats::setNames(texts, names(x)))
}

# Returns a scale as JSON, for types of codebooks that need a scale in `labels`.
check_scale_of <- function(labels, error_call) {
  if (!inherits(labels, "llamaherd_scale")) {
    abort_argument("labels", "a scale, such as number_scale(0, 10)", labels, error_call)
  }
  labels$content
}

#' @export
format.llamaherd_scale <- function(x, ...) {
  c(
    sprintf("<llamaherd_scale> from %g to %g in steps of %g", x$low, x$high, x$step),
    if (length(x$names) > 0) sprintf("  %s  %s", format(names(x$names)), x$names)
  )
}
