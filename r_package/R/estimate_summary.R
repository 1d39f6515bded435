# Converts estimates for other R packages: summary(), and tidy() and glance() for tables of
# modelsummary. The generic functions tidy() and glance() are in the package generics.

#' @rdname estimate-methods
#' @returns `summary()`: `coefficients`, a matrix with a row for each coefficient. Coefficients of
#' regressions and differences have `t` and `p` of the test of the hypothesis that they are 0. The
#' summary prints as a table.
#'
#'   `tidy()` and `glance()` return the data frames that broom and modelsummary use for tables.
#'   `tidy()` has `term`, `estimate`, `std.error`, `statistic`, `p.value` and optionally `conf.low`
#'   and `conf.high`. `glance()` has one row with `nobs`, `n_gold`, `design`, `model` and `method`.
#' @export
summary.llamaherd_estimates <- function(object, methods = NULL, ...) {
  rows <- rows_by(object, methods, rlang::current_env())
  table <- cbind(rows[c("estimate", "std_error", "low", "high")], tests_of(rows, object))
  has_any <- vapply(table, \(column) !all(is.na(column)), logical(1))
  has_any[1:4] <- TRUE
  structure(
    list(
      coefficients = as.matrix(`rownames<-`(table[has_any], rows$name)),
      method = rows$method[[1]],
      model = object$model,
      formula = object$formula,
      outcomes = unique(rows$outcome),
      level = object$level,
      n_texts = object$n_texts,
      n_gold = object$n_gold,
      design = object$design,
      notes = object$notes
    ),
    class = "llamaherd_summary"
  )
}

# Tests whether coefficients and differences are 0. A share gets no test, and neither does an
# estimate without a variance.
tests_of <- function(rows, object) {
  asked <- object$model != "mean" | rows$term == "difference"
  asked <- asked & rows$std_error > 0
  t <- ifelse(asked, rows$estimate / rows$std_error, NA_real_)
  data.frame(t = t, p = 2 * stats::pt(-abs(t), rows$df))
}

# Names of the methods, as in the plots and reports of Python.
method_names <- c(
  dsl = "corrected (DSL)",
  ppi = "corrected (PPI++)",
  gold = "human codes only",
  naive = "labels, uncorrected"
)

#' @export
format.llamaherd_summary <- function(x, ..., digits = 4L) {
  what <- if (!is.null(x$formula)) {
    deparse1(x$formula)
  } else {
    paste(
      c("shares and means", if (length(x$outcomes) == 1) x$outcomes),
      collapse = " of "
    )
  }
  table <- x$coefficients
  cells <- apply(table, 2, format, digits = digits)
  dim(cells) <- dim(table)
  dimnames(cells) <- dimnames(table)
  if ("p" %in% colnames(table)) {
    cells[, "t"] <- with_decimals(table[, "t"], 2L)
    cells[, "p"] <- format.pval(table[, "p"], digits = 2L, eps = 1e-4)
  }
  cells[is.na(table)] <- ""
  columns <- lapply(colnames(table), \(name) {
    format(c(name, cells[, name]), justify = "right")
  })
  c(
    sprintf(
      "%s: %s %s, %s with codes (%s)",
      what,
      big(x$n_texts),
      plural(x$n_texts, "text"),
      big(x$n_gold),
      x$design
    ),
    sprintf("%s, intervals of %s", method_names[[x$method]], percent(x$level)),
    "",
    trimws(do.call(paste, c(list(format(c("", rownames(table)))), columns)), "right"),
    if (length(x$notes) > 0) c("", console_lines(as_sentences(x$notes)))
  )
}

#' @export
print.llamaherd_summary <- function(x, ..., n = 20L) {
  n_more <- nrow(x$coefficients) - n
  x_short <- x
  x_short$coefficients <- utils::head(x$coefficients, n)
  show_lines(format(x_short, ...))
  if (n_more > 0) {
    show_lines(sprintf("... and %s more %s", big(n_more), plural(n_more, "row")))
  }
  invisible(x)
}

#' @rdname estimate-methods
#' @importFrom stats nobs
#' @export
nobs.llamaherd_estimates <- function(object, methods = NULL, ...) {
  method <- rows_by(object, methods, rlang::current_env())$method[[1]]
  as.integer(if (method == "gold") object$n_gold else object$n_texts)
}

#' @rdname estimate-methods
#' @param x Return value of [estimate()].
#' @param exponentiate TRUE returns odds ratios of `model = "logit"`: the exponentials of estimates
#'   and intervals. Standard errors stay on the logit scale, as in broom.
#' @param conf.int TRUE adds intervals.
#' @param conf.level Confidence level of `conf.low` and `conf.high`. `NULL` uses the level of the
#'   estimates.
#' @exportS3Method generics::tidy
tidy.llamaherd_estimates <- function(
  x,
  conf.int = FALSE,
  conf.level = NULL,
  methods = NULL,
  exponentiate = FALSE,
  ...
) {
  if (check_flag(exponentiate) && x$model != "logit") {
    must <- sprintf(
      "FALSE: the model is \"%s\", and only \"logit\" has odds ratios",
      x$model
    )
    abort_argument("exponentiate", must, exponentiate, rlang::current_env())
  }
  rows <- rows_by(x, methods, rlang::current_env())
  tests <- tests_of(rows, x)
  table <- data.frame(
    term = rows$name,
    estimate = rows$estimate,
    std.error = rows$std_error,
    statistic = tests$t,
    p.value = tests$p
  )
  if (check_flag(conf.int)) {
    limits <- unname(confint(x, level = conf.level, methods = methods))
    table$conf.low <- limits[, 1]
    table$conf.high <- limits[, 2]
  }
  if (exponentiate) {
    logits <- intersect(c("estimate", "conf.low", "conf.high"), names(table))
    table[logits] <- lapply(table[logits], exp)
  }
  table
}

#' @rdname estimate-methods
#' @exportS3Method generics::glance
glance.llamaherd_estimates <- function(x, methods = NULL, ...) {
  data.frame(
    nobs = nobs(x, methods = methods),
    n_gold = as.integer(x$n_gold),
    design = x$design,
    model = x$model,
    method = rows_by(x, methods, rlang::current_env())$method[[1]]
  )
}
