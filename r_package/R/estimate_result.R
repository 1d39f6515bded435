# The result of estimate(): its object, and its methods coef(), confint(), vcov() and print().

new_estimates <- function(found, options, formula, methods) {
  if (!is.null(formula)) {
    # A saved object would contain all variables of the function that wrote the formula.
    environment(formula) <- globalenv()
  }
  rows <- found[["rows"]]
  texts <- c("outcome", "term", "group", "method")
  numbers <- c("estimate", "std_error", "low", "high", "lam", "df")
  columns <- c(
    rlang::set_names(lapply(texts, \(name) as_text(rows[[name]])), texts),
    rlang::set_names(lapply(numbers, \(name) numbers_of(rows[[name]])), numbers)
  )
  there <- unique(columns$method)
  fixed(
    list(
      rows = new_frame(columns, length(columns$outcome)),
      covariances = lapply(found[["covariances"]], \(one) {
        n <- length(one[["values"]])
        values <- numbers_of(one[["values"]])
        list(
          outcome = one[["outcome"]],
          method = one[["method"]],
          values = matrix(values, n, n)
        )
      }),
      model = options$model,
      formula = formula,
      methods = intersect(methods, there),
      level = options$level,
      target = options$target,
      n_texts = found[["n_texts"]],
      n_gold = found[["n_gold"]],
      design = found[["design"]],
      notes = as_text(found[["notes"]]),
      grouped_by = unlist(options$by),
      line = found[["line"]],
      predictions = found[["predictions"]],
      widths = widths_of(found[["widths"]]),
      simultaneous = found[["simultaneous"]],
      agreement = found[["agreement"]],
      is_weighted = found[["is_weighted"]],
      label_check = label_check_of(found[["label_check"]]),
      source = found[["source"]]
    ),
    class = "llamaherd_estimates"
  )
}

# Returns observed and expected labels of coded texts as a data frame.
label_check_of <- function(check) {
  if (is.null(check)) {
    return(NULL)
  }
  numbers <- lapply(check[c("n_texts", "n_coded", "expected")], numbers_of)
  columns <- c(list(label = as_text(check[["label"]])), numbers)
  structure(new_frame(columns, length(columns$label)), p_value = check[["p_value"]])
}

# Returns mean widths of intervals as a data frame.
widths_of <- function(widths) {
  columns <- list(
    predictions = as_text(widths[["predictions"]]),
    method = as_text(widths[["method"]]),
    width = numbers_of(widths[["width"]])
  )
  new_frame(columns, length(columns$width))
}

# Returns the rows of one method, with the names of the coefficients as row names. Several methods
# have no common coefficients.
rows_by <- function(object, methods, error_call) {
  method <- methods %||% object$methods[[1]]
  method <- check_choice(method, object$methods, "methods", error_call)
  rows <- object$rows[object$rows$method == method, , drop = FALSE]
  parts <- if (object$model == "mean") {
    several <- length(unique(rows$outcome)) > 1
    rows[c(if (several) "outcome", "term", "group")]
  } else {
    rows["term"]
  }
  names <- do.call(paste, unname(as.list(parts)))
  rows$name <- trimws(gsub(" +", " ", names))
  rows
}

#' @rdname estimate-methods
#' @importFrom stats coef
#' @export
coef.llamaherd_estimates <- function(object, methods = NULL, ...) {
  rows <- rows_by(object, methods, rlang::current_env())
  rlang::set_names(rows$estimate, rows$name)
}

#' @rdname estimate-methods
#' @importFrom stats confint
#' @export
confint.llamaherd_estimates <- function(object, parm, level = NULL, methods = NULL, ...) {
  rows <- rows_by(object, methods, rlang::current_env())
  level <- level %||% object$level
  if (!is.numeric(level) || length(level) != 1 || !isTRUE(level > 0 && level < 1)) {
    abort_argument("level", "above 0 and below 1", level, rlang::current_env())
  }
  if (!is.null(object$simultaneous) && level != object$level) {
    must <- "the level of the estimates, whose intervals are simultaneous (see estimate(level = ))"
    abort_argument("level", must, level, rlang::current_env())
  }
  limits <- cbind(rows$low, rows$high)
  if (level != object$level) {
    # If few label errors were observed, one side of an interval is longer than the other. Another
    # level multiplies each side by the ratio of the t quantiles, unless the side was cut at a bound
    # of the range.
    far <- stats::qt(0.5 + level / 2, rows$df)
    longer <- far / stats::qt(0.5 + object$level / 2, rows$df)
    ends <- ends_of(rows)
    sides <- cbind(rows$estimate - rows$low, rows$high - rows$estimate) * longer
    is_cut <- cbind(rows$low <= ends$least, rows$high >= ends$most)
    sides <- ifelse(is_cut, pmax(sides, far * rows$std_error), sides)
    limits <- cbind(rows$estimate - sides[, 1], rows$estimate + sides[, 2])
    limits[] <- pmin(pmax(limits, ends$least), ends$most)
  }
  ends <- 100 * c((1 - level) / 2, (1 + level) / 2)
  percent <- format(ends, trim = TRUE, digits = 3, decimal.mark = ".")
  dimnames(limits) <- list(rows$name, paste(percent, "%"))
  if (missing(parm)) {
    return(limits)
  }
  limits[check_parm(parm, rows$name, rlang::current_env()), , drop = FALSE]
}

# Requires names or indices of coefficients.
check_parm <- function(parm, names, error_call) {
  known <- if (is.character(parm)) names else c(seq_along(names), -seq_along(names))
  if (!(is.character(parm) || is.numeric(parm)) || !all(parm %in% known)) {
    shown <- utils::head(names, 10)
    must <- paste("names or indices of coefficients, which are", toString(shown))
    abort_argument("parm", must, parm, error_call)
  }
  parm
}

# Returns the range of the values: shares and differences of shares are bounded.
ends_of <- function(rows) {
  of_shares <- any(rows$term == "share")
  list(
    least = ifelse(rows$term == "share", 0, if (of_shares) -1 else -Inf),
    most = rep(if (of_shares) 1 else Inf, nrow(rows))
  )
}

#' @rdname estimate-methods
#' @importFrom stats vcov
#' @export
vcov.llamaherd_estimates <- function(object, methods = NULL, outcome = NULL, ...) {
  error_call <- rlang::current_env()
  rows <- rows_by(object, methods, error_call)
  rows <- rows[rows$term != "difference", , drop = FALSE]
  outcomes <- unique(rows$outcome)
  if (!is.null(outcome)) {
    outcomes <- check_choice(outcome, outcomes, "outcome", error_call)
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
as.data.frame.llamaherd_estimates <- function(x, ...) x$rows

#' @export
format.llamaherd_estimates <- function(x, ...) strsplit(x$line, "\n", fixed = TRUE)[[1]]

# Returns lines with at most `n` rows of each table. Lines of tables begin with spaces, the first
# one has the names of the columns.
first_rows <- function(lines, n) {
  parts <- split(lines, cumsum(c(TRUE, diff(startsWith(lines, "  ")) != 0)))
  short <- lapply(unname(parts), \(part) {
    n_more <- length(part) - 1L - n
    if (!startsWith(part[[1]], "  ") || n_more <= 0) {
      return(part)
    }
    c(utils::head(part, n + 1L), sprintf("  ... and %s more", big(n_more)))
  })
  as.character(unlist(short))
}

# Ends notes with a period, unless they have another end.
as_sentences <- function(notes) {
  sub("([^.!?:])$", "\\1.", as_text(notes))
}

# Wraps sentences to the width of the console, but not the rows of tables, which begin with spaces.
notes_wrapped <- function(lines) {
  is_note <- !grepl("^( |$)", lines)
  as.character(unlist(replace(
    as.list(lines),
    is_note,
    lapply(lines[is_note], console_lines)
  )))
}

# Wraps sentences to the width of the console.
console_lines <- function(text) {
  lines <- as.character(unlist(strsplit(as.character(text), "\n", fixed = TRUE)))
  strwrap(lines, getOption("width"), exdent = 2)
}

#' @export
print.llamaherd_estimates <- function(x, ..., n = 20L) {
  show_lines(notes_wrapped(first_rows(format(x, ...), n)))
  invisible(x)
}
