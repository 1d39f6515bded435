#' Validate the labels of several models
#'
#' Compares the labels of several models with human codes and with each other: confusion matrices
#' and inter-coder reliability. [validate()] calls this function for a data frame with a row for
#' each text and model. The function has the arguments and return values of `validate()` in package
#' localLLM. For intervals, calibration and errors of one model see [validate()].
#'
#' @param annotations A data frame with one row per text and model, or the return value of
#'   [explore()].
#' @inheritParams compute_confusion_matrices
#' @param method Reliability coefficients: `"cohen"`, `"krippendorff"`, or `"auto"` for both.
#' @param include_confusion,include_reliability TRUE computes confusion matrices, or reliability
#'   coefficients.
#' @returns A `llamaherd_comparison`, which prints as a page: a list with `confusion`, the return
#'   value of [compute_confusion_matrices()], and `reliability`, the return value of
#'   [intercoder_reliability()].
#' @seealso [validate()]
#' @export
#' @examplesIf llamaherd_available()
#' annotations <- data.frame(
#'   sample_id = rep(1:4, 2),
#'   model_id = rep(c("small", "large"), each = 4),
#'   label = c("pro", "con", "pro", "pro", "pro", "con", "con", "pro"),
#'   truth = rep(c("pro", "con", "con", "con"), 2)
#' )
#' validate_models(annotations)
validate_models <- function(
  annotations,
  gold = NULL,
  pairwise = TRUE,
  label_levels = NULL,
  sample_col = "sample_id",
  model_col = "model_id",
  label_col = "label",
  truth_col = "truth",
  method = c("auto", "cohen", "krippendorff"),
  include_confusion = TRUE,
  include_reliability = TRUE
) {
  error_call <- rlang::current_env()
  check_given(annotations)
  frame <- frame_in(annotations)
  arguments <- list(
    annotations,
    gold = column_or_object(
      rlang::enquo(gold),
      frame,
      "gold",
      error_call,
      is_object = is_codes
    ),
    pairwise = pairwise,
    label_levels = label_levels,
    sample_col = column_or_object(
      rlang::enquo(sample_col),
      frame,
      "sample_col",
      error_call
    ),
    model_col = column_or_object(rlang::enquo(model_col), frame, "model_col", error_call),
    label_col = column_or_object(rlang::enquo(label_col), frame, "label_col", error_call),
    truth_col = column_or_object(rlang::enquo(truth_col), frame, "truth_col", error_call),
    method = method,
    include_confusion = include_confusion,
    include_reliability = include_reliability
  )
  compare_models(arguments, error_call)
}

# Computes confusion matrices and reliability from a list of arguments, in which arguments with a
# default may be missing.
compare_models <- function(arguments, error_call) {
  part <- function(name) {
    check_flag(arguments[[name]] %||% TRUE, name, error_call)
  }
  confusion <- part("include_confusion")
  reliability <- part("include_reliability")
  if (!confusion && !reliability) {
    abort(
      "At least one of {.arg include_confusion} and {.arg include_reliability} must be TRUE.",
      "argument",
      error_call
    )
  }
  of <- \(fun) arguments[rlang::names2(arguments) %in% c("", names(formals(fun)))]
  result <- list()
  if (confusion) {
    # do.call() gets the name of the function, so that errors show the name and not the whole
    # function.
    arguments_of <- of(compute_confusion_matrices)
    result$confusion <- do.call("compute_confusion_matrices", arguments_of)
  }
  if (reliability) {
    arguments_of <- of(intercoder_reliability)
    result$reliability <- do.call("intercoder_reliability", arguments_of)
  }
  result <- structure(result, class = "llamaherd_comparison")
  document_event("validate", \() list(models = names(shares_right(result))))
  result
}

# Returns for each model the share of its labels that equal the human codes; NULL without codes.
shares_right <- function(x) {
  vapply(x$confusion$vs_gold, \(counts) sum(diag(counts)) / sum(counts), double(1))
}

#' @export
format.llamaherd_comparison <- function(x, ...) {
  right <- shares_right(x)
  n <- vapply(x$confusion$vs_gold, sum, double(1))
  kappas <- x$reliability$cohen
  alpha <- x$reliability$krippendorff$alpha
  parts <- list(
    "<llamaherd_comparison> of models' labels",
    if (length(right) > 0) {
      c(
        "labels that equal the codes of people:",
        sprintf("  %s  %5.1f%% of %s", format(names(right)), 100 * right, big(n))
      )
    },
    if (!is.null(kappas)) {
      pair <- paste(kappas$model_a, "and", kappas$model_b)
      c(
        "between models:",
        sprintf(
          "  %s  Cohen's kappa %s, alike %s",
          format(pair),
          decimals(kappas$kappa),
          percents(kappas$observed)
        )
      )
    },
    if (!is.null(alpha)) paste("Krippendorff's alpha of all models:", decimals(alpha)),
    lapply(names(x$confusion$vs_gold), \(name) {
      table_lines(x$confusion$vs_gold[[name]], name, "people")
    }),
    lapply(names(x$confusion$pairwise), \(name) {
      sides <- strsplit(name, " vs ", fixed = TRUE)[[1]]
      table_lines(x$confusion$pairwise[[name]], sides[[1]], sides[[2]])
    })
  )
  parts <- unlist(lapply(parts, \(part) if (is.list(part)) part else list(part)), FALSE)
  parts <- Filter(\(part) length(part) > 0, parts)
  utils::head(unlist(lapply(parts, c, "")), -1)
}

# Formats a table of few labels as lines; `rows` and `columns` name the sources of the labels.
table_lines <- function(counts, rows, columns) {
  if (nrow(counts) > 8) {
    return(NULL)
  }
  corner <- paste(rows, columns, sep = " \\ ")
  cells <- rbind(
    c(corner, colnames(counts)),
    cbind(rownames(counts), unclass(counts))
  )
  wide <- apply(cells, 2, \(column) max(nchar(column, "width")))
  lines <- lapply(seq_along(wide), \(j) {
    formatC(cells[, j], width = if (j == 1) -wide[[j]] else wide[[j]])
  })
  do.call(paste, c(lines, sep = "  "))
}

#' @export
print.llamaherd_comparison <- function(x, ...) {
  show_lines(format(x, ...))
  invisible(x)
}
