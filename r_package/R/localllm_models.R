# Labels of several models: localLLM's confusion matrices and reliability. Help: localllm.R.

#' @rdname localLLM
#' @export
compute_confusion_matrices <- function(
  annotations,
  gold = NULL,
  pairwise = TRUE,
  label_levels = NULL,
  sample_col = "sample_id",
  model_col = "model_id",
  label_col = "label",
  truth_col = "truth"
) {
  error_call <- rlang::current_env()
  check_given(annotations)
  quos <- rlang::enquos(
    gold = gold,
    sample_col = sample_col,
    model_col = model_col,
    label_col = label_col,
    truth_col = truth_col
  )
  columns <- columns_of_models(annotations, quos, error_call)
  options <- list(
    pairwise = py_value(pairwise),
    levels = check_levels(label_levels, error_call, "label_levels")
  )
  found <- py_call("confusion_tables", columns, options, error_call = error_call)
  tables <- function(counts, names) {
    tables <- lapply(counts, count_table, as_text(found$levels))
    if (length(tables) > 0) rlang::set_names(tables, as_text(names))
  }
  list(
    vs_gold = tables(found$vs_gold, found$vs_gold_names),
    pairwise = tables(found$pairwise, found$pairwise_names)
  )
}

#' @rdname localLLM
#' @export
intercoder_reliability <- function(
  annotations,
  method = c("auto", "cohen", "krippendorff"),
  label_levels = NULL,
  sample_col = "sample_id",
  model_col = "model_id",
  label_col = "label"
) {
  error_call <- rlang::current_env()
  check_given(annotations)
  quos <- rlang::enquos(
    sample_col = sample_col,
    model_col = model_col,
    label_col = label_col
  )
  options <- list(
    method = py_value(method),
    levels = check_levels(label_levels, error_call, "label_levels")
  )
  columns <- columns_of_models(annotations, quos, error_call)
  found <- py_call("reliability", columns, options, error_call = error_call)
  result <- list()
  if (length(found$cohen) > 0) {
    models <- lapply(found$cohen[c("model_a", "model_b")], as_text)
    numbers <- lapply(found$cohen[c("kappa", "observed", "expected")], numbers_of)
    result$cohen <- data.frame(models, numbers)
  }
  alpha <- found$krippendorff
  if (!is.null(alpha)) {
    named <- \(x, names) rlang::set_names(numbers_of(x), as_text(names))
    result$krippendorff <- list(
      alpha = numbers_of(alpha$alpha),
      per_item = named(alpha$per_item, alpha$items),
      category_proportions = named(alpha$proportions, alpha$categories),
      alpha_exact = numbers_of(alpha$alpha_exact)
    )
  }
  result
}

#' @rdname localLLM
#' @export
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
  quos <- rlang::enquos(
    gold = gold,
    sample_col = sample_col,
    model_col = model_col,
    label_col = label_col,
    truth_col = truth_col
  )
  columns <- resolved_columns(frame_in(annotations), quos, error_call)
  arguments <- list(
    annotations,
    pairwise = pairwise,
    label_levels = label_levels,
    method = method,
    include_confusion = include_confusion,
    include_reliability = include_reliability
  )
  compare_models(c(arguments, columns), error_call)
}

# Computes confusion matrices and reliability from a list of arguments, in which arguments with a
# default may be missing.
compare_models <- function(arguments, error_call) {
  has_part <- \(name) check_flag(arguments[[name]] %||% TRUE, name, error_call)
  parts <- c(
    confusion = if (has_part("include_confusion")) "compute_confusion_matrices",
    reliability = if (has_part("include_reliability")) "intercoder_reliability"
  )
  if (length(parts) == 0) {
    abort(
      "At least one of {.arg include_confusion} and {.arg include_reliability} must be TRUE.",
      "argument",
      error_call
    )
  }
  result <- lapply(parts, \(name) {
    own <- arguments[rlang::names2(arguments) %in% c("", names(formals(name)))]
    do.call(name, own) # the name, so that errors do not show the whole function
  })
  result <- structure(as.list(result), class = "llamaherd_comparison")
  document_event("validate", \() list(models = names(shares_right(result))))
  result
}

# Returns the data frame itself, or the data frame in a list.
frame_in <- \(x) if (!is.data.frame(x) && is.list(x)) x$annotations else x

# Returns the values of arguments that name columns, quoted or not; `gold` may be codes.
resolved_columns <- function(frame, quos, error_call) {
  columns <- lapply(names(quos), \(arg) {
    is_object <- if (arg == "gold") is_codes else \(x) FALSE
    column_or_object(quos[[arg]], frame, arg, error_call, is_object = is_object)
  })
  rlang::set_names(columns, names(quos))
}

# Returns the samples, models, labels and, if there are any, human codes for Python.
columns_of_models <- function(annotations, quos, error_call) {
  frame <- frame_in(annotations)
  columns <- resolved_columns(frame, quos, error_call)
  if (!is.data.frame(frame)) {
    must <- "a data frame or the result of explore()"
    abort_argument("annotations", must, frame, error_call)
  }
  for (arg in setdiff(names(columns), "gold")) {
    check_string(columns[[arg]], arg, error_call = error_call)
  }
  missing <- setdiff(
    unlist(columns[c("sample_col", "model_col", "label_col")]),
    names(frame)
  )
  if (length(missing) > 0) {
    abort(
      c(
        "{.arg annotations} is missing required column{?s}: {.field {missing}}.",
        i = "It has {.field {names(frame)}}."
      ),
      "argument",
      error_call
    )
  }
  samples <- value_text(frame[[columns$sample_col]])
  truth <- if (is.null(columns$gold)) {
    if (!is.null(columns$truth_col)) frame[[columns$truth_col]]
  } else {
    codes_of_samples(columns$gold, frame, samples, error_call)
  }
  values <- list(
    sample = samples,
    model = value_text(frame[[columns$model_col]]),
    label = frame[[columns$label_col]],
    truth = truth
  )
  lapply(values[lengths(values) > 0 | names(values) != "truth"], as_codes)
}

# Returns the human code for each row.
codes_of_samples <- function(gold, frame, samples, error_call) {
  if (is.character(gold) && length(gold) == 1 && gold %in% names(frame)) {
    return(frame[[gold]])
  }
  ids <- unique(samples)
  if (!is.atomic(gold) || length(gold) != length(ids)) {
    must <- paste(
      "a vector aligned with unique samples, of which there are",
      length(ids),
      "or the name of a column in annotations"
    )
    abort_argument("gold", must, gold, error_call)
  }
  at <- match(samples, names(gold) %||% ids)
  (if (is.factor(gold)) as.character(gold) else unname(gold))[at]
}

count_table <- function(counts, levels) {
  names <- list(levels, levels)
  counts <- as.integer(unlist(counts))
  as.table(matrix(counts, nrow = length(levels), byrow = TRUE, dimnames = names))
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
