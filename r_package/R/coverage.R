#' Accuracy against coverage, and texts for human coding
#'
#' @description
#' A model labels the texts for which its probability is high, and people code the others.
#' `coverage_curve()` computes the accuracy of the labels for every share of texts that the model
#' labels. `texts_for_people()` selects the texts to be coded by people so that the labels of the
#' remaining texts have a given accuracy.
#'
#' @param x A [validate()] result, or a numeric vector from 0 to 1: the probability of the label of
#'   each coded text. For `texts_for_people()` also the return value of `coverage_curve()`.
#' @param correct Logical vector: TRUE for a correct label.
#' @param weights Weight of each text, such as 1 / inclusion probability.
#' @param level Confidence level.
#' @param accuracy Required accuracy of the model's labels, from 0 to 1.
#' @param prob Probability of the label of each text. NULL uses the probabilities of the
#'   [validate()] result.
#' @param sure TRUE requires the lower end of the confidence interval to reach `accuracy`. With
#'   FALSE, the accuracy of about half of all selections is somewhat below `accuracy`, because the
#'   threshold is chosen on the same texts that measure the accuracy.
#' @returns `coverage_curve()`: a `llamaherd_coverage`, a data frame with one row per distinct
#'   probability, in decreasing order: `threshold`; `coverage`, the share of texts with at least
#'   that probability; `accuracy` of these texts; `low` and `high` (pointwise intervals).
#'
#'   `texts_for_people()`: an integer vector of the rows to be coded by people: first the rows
#'   without a label, then rows by increasing probability. The attribute `threshold` is the smallest
#'   probability with which a label is kept, Inf if no label is kept.
#' @references El-Yaniv and Wiener (2010), Journal of Machine Learning Research 11.
#' @seealso [validate()]
#' @export
#' @examplesIf llamaherd_available()
#' prob <- c(0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.55, 0.5)
#' right <- c(TRUE, TRUE, TRUE, TRUE, FALSE, TRUE, FALSE, FALSE)
#' curve <- coverage_curve(prob, right)
#' curve
#' texts_for_people(curve, 0.9, prob)
coverage_curve <- function(x, correct = NULL, weights = NULL, level = 0.95) {
  error_call <- rlang::current_env()
  check_given(x)
  if (inherits(x, "llamaherd_validation")) {
    return(x$coverage %||% abort_no_prob(error_call))
  }
  x <- check_numeric(x)
  if (!is.logical(correct) || length(correct) != length(x)) {
    must <- sprintf("TRUE or FALSE for each of %d texts", length(x))
    abort_argument("correct", must, correct, error_call)
  }
  x[is.na(correct)] <- NaN
  correct[is.na(correct)] <- FALSE
  weights <- if (!is.null(weights)) as_py_list(check_numeric(weights))
  found <- py_call(
    "coverage_curve",
    as_py_list(x),
    as_py_list(correct),
    weights,
    py_value(level),
    error_call = error_call
  )
  new_coverage(found, level)
}

#' @rdname coverage_curve
#' @export
texts_for_people <- function(x, accuracy, prob = NULL, sure = FALSE) {
  error_call <- rlang::current_env()
  check_given(x)
  if (inherits(x, "llamaherd_validation")) {
    prob <- prob %||% x$prob
    x <- coverage_curve(x)
  }
  if (!inherits(x, "llamaherd_coverage")) {
    must <- "what validate() or coverage_curve() returned"
    abort_argument("x", must, x, error_call)
  }
  if (is.null(prob)) {
    abort_argument("prob", "the probability of the label of each text", prob, error_call)
  }
  columns <- lapply(unclass(x)[names(x)], as_py_list)
  found <- py_call(
    "for_people",
    c(columns, n = attr(x, "n")),
    as_py_list(check_numeric(prob)),
    py_value(accuracy),
    py_value(sure),
    error_call = error_call
  )
  structure(as.integer(unlist(found$rows)), threshold = found$threshold)
}

new_coverage <- function(found, level) {
  names <- c("threshold", "coverage", "accuracy", "low", "high")
  columns <- lapply(found[names], numbers_of)
  structure(
    new_frame(columns, length(columns[[1]])),
    class = c("llamaherd_coverage", "data.frame"),
    n = as.integer(found$n),
    level = level
  )
}

abort_no_prob <- function(error_call) {
  abort(
    c(
      "There are no probabilities of the labels.",
      i = "Pass them to {.fn validate} as {.arg prob}."
    ),
    "argument",
    error_call
  )
}

#' @export
format.llamaherd_coverage <- function(x, ...) {
  head <- sprintf(
    "<llamaherd_coverage> of %d coded %s",
    attr(x, "n"),
    plural(attr(x, "n"), "text")
  )
  if (nrow(x) == 0) {
    return(head)
  }
  at <- vapply(seq(0.1, 1, 0.1), \(p) match(TRUE, x$coverage >= p - 1e-9), 1L)
  at <- unique(c(at[!is.na(at)], nrow(x)))
  rows <- sprintf(
    "%8s %9s     %s %s",
    decimals(x$coverage[at]),
    decimals(x$threshold[at]),
    decimals(x$accuracy[at]),
    limits_text(x$low[at], x$high[at])
  )
  c(head, "coverage threshold accuracy", rows)
}

#' @export
as.data.frame.llamaherd_coverage <- function(x, ...) {
  new_frame(lapply(unclass(x), identity)[names(x)], nrow(x))
}

# Subsetting a curve returns a plain data frame: the last point of a curve must cover all texts, and
# a subset may lack this point.
#' @export
`[.llamaherd_coverage` <- function(x, ...) as.data.frame(x)[...]

#' @exportS3Method dplyr::dplyr_reconstruct
dplyr_reconstruct.llamaherd_coverage <- function(data, template) {
  if (inherits(data, "llamaherd_coverage")) as.data.frame(data) else data
}

#' @export
`names<-.llamaherd_coverage` <- function(x, value) {
  stats::setNames(as.data.frame(x), value)
}
