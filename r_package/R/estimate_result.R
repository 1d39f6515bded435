# The result of estimate(): its object, and its methods coef(), confint(), vcov() and print().

# Returns the rows of one method, with the names of the coefficients.
rows_by <- function(object, methods) {
  method <- check_choice(methods %||% object$methods[[1]], object$methods, "methods")
  rows <- object$rows
  rows$name <- object$names %||% rows$term # an earlier version saved no names
  rows[rows$method == method, , drop = FALSE]
}

#' @rdname estimate-methods
#' @importFrom stats coef
#' @export
coef.llamaherd_estimates <- function(object, methods = NULL, ...) {
  rows <- rows_by(object, methods)
  rlang::set_names(rows$estimate, rows$name)
}

#' @rdname estimate-methods
#' @importFrom stats confint
#' @export
confint.llamaherd_estimates <- function(object, parm, level = NULL, methods = NULL, ...) {
  rows <- rows_by(object, methods)
  level <- py_value(level) %||% object$level
  if (!is.null(object$simultaneous) && !identical(level, object$level)) {
    must <- "the level of the estimates, whose intervals are simultaneous (see estimate(level = ))"
    abort_argument("level", must, level)
  }
  limits <- cbind(rows$low, rows$high)
  if (!identical(level, object$level)) {
    columns <- lapply(rows, \(x) if (is.character(x)) text_list(x) else as_py_numbers(x))
    limits <- py_call("estimate_limits", columns, level, object$level)
  }
  ends <- 100 * c((1 - level) / 2, (1 + level) / 2)
  percent <- format(ends, trim = TRUE, digits = 3, decimal.mark = ".")
  dimnames(limits) <- list(rows$name, paste(percent, "%"))
  if (missing(parm)) limits else limits[check_parm(parm, rows$name), , drop = FALSE]
}

# Requires names or indices of coefficients.
check_parm <- function(parm, names) {
  known <- if (is.character(parm)) names else c(seq_along(names), -seq_along(names))
  if (!(is.character(parm) || is.numeric(parm)) || !all(parm %in% known)) {
    first <- utils::head(names, 10)
    must <- paste("names or indices of coefficients, which are", toString(first))
    abort_argument("parm", must, parm)
  }
  parm
}

#' @rdname estimate-methods
#' @importFrom stats vcov
#' @export
vcov.llamaherd_estimates <- function(object, methods = NULL, outcome = NULL, ...) {
  rows <- rows_by(object, methods)
  rows <- rows[rows$term != "difference", , drop = FALSE]
  outcomes <- unique(rows$outcome)
  if (!is.null(outcome)) {
    outcomes <- check_choice(outcome, outcomes, "outcome")
    rows <- rows[rows$outcome == outcomes, , drop = FALSE]
  }
  # Covariances of the estimates of different outcomes are not computed.
  matrix <- matrix(
    NA_real_,
    nrow(rows),
    nrow(rows),
    dimnames = list(rows$name, rows$name)
  )
  for (one in object$covariances) {
    if (one$outcome %in% outcomes && one$method == rows$method[[1]]) {
      at <- rows$outcome == one$outcome
      matrix[at, at] <- one$values
    }
  }
  matrix
}

# stats::residuals() and similar functions would return NULL, because an estimate has no such part.
no_part <- function(object, ...) {
  call <- sys.call()
  part <- sub("[.]llamaherd_estimates$", "", as.character(rlang::call_name(call)))
  abort(
    c(
      "Estimates have no {.fn {part}}: they are corrected sums over texts, without fitted values of
       single texts.",
      i = "{.fn coef}, {.fn vcov}, {.fn confint} and {.fn as.data.frame} return what was estimated."
    ),
    "argument",
    NULL
  )
}

# The same for stats::model.frame(), whose argument has another name.
no_frame <- no_part
names(formals(no_frame)) <- c("formula", "...")

#' @export
print.llamaherd_estimates <- function(x, ..., n = 20L) {
  show_page(first_rows(format(x, ...), n))
  invisible(x)
}

# ---- summary(), and tidy() and glance() of package generics, for tables of modelsummary

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
  rows <- rows_by(object, methods)
  table <- cbind(rows[c("estimate", "std_error", "low", "high")], tests_of(rows, object))
  has_any <- vapply(table, \(column) !all(is.na(column)), logical(1))
  has_any[1:4] <- TRUE
  structure(
    list(
      coefficients = as.matrix(`rownames<-`(table[has_any], rows$name)),
      method = rows$method[[1]],
      title = object$titles[[rows$method[[1]]]],
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
      "%s: %s, %s with codes (%s)",
      what,
      count_of(x$n_texts, "text"),
      big(x$n_gold),
      x$design
    ),
    sprintf("%s, intervals of %s", x$title %||% x$method, percent(x$level)),
    "",
    trimws(do.call(paste, c(list(format(c("", rownames(table)))), columns)), "right"),
    if (length(x$notes) > 0) c("", as_sentences(x$notes))
  )
}

#' @export
print.llamaherd_summary <- function(x, ..., n = 20L) {
  x_short <- x
  x_short$coefficients <- utils::head(x$coefficients, n)
  show_page(format(x_short, ...))
  show_more(nrow(x$coefficients) - n, "row")
  invisible(x)
}

#' @rdname estimate-methods
#' @importFrom stats nobs
#' @export
nobs.llamaherd_estimates <- function(object, methods = NULL, ...) {
  method <- rows_by(object, methods)$method[[1]]
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
    abort_argument("exponentiate", must, exponentiate)
  }
  rows <- rows_by(x, methods)
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
    method = rows_by(x, methods)$method[[1]]
  )
}
