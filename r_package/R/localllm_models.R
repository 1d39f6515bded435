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
  check_given(annotations)
  quos <- rlang::enquos(
    gold = gold,
    sample_col = sample_col,
    model_col = model_col,
    label_col = label_col,
    truth_col = truth_col
  )
  columns <- columns_of_models(annotations, quos)
  options <- list(
    pairwise = py_value(pairwise),
    levels = check_levels(label_levels, "label_levels")
  )
  py_call("confusion_tables", columns, options)
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
  check_given(annotations)
  quos <- rlang::enquos(
    sample_col = sample_col,
    model_col = model_col,
    label_col = label_col
  )
  options <- list(
    method = py_value(method),
    levels = check_levels(label_levels, "label_levels")
  )
  columns <- columns_of_models(annotations, quos)
  py_call("reliability", columns, options)
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
  check_given(annotations)
  quos <- rlang::enquos(
    gold = gold,
    sample_col = sample_col,
    model_col = model_col,
    label_col = label_col,
    truth_col = truth_col
  )
  compare_models(
    annotations,
    quos,
    pairwise,
    label_levels,
    method,
    include_confusion,
    include_reliability
  )
}

# Computes confusion matrices and reliability, with the page that shows them.
compare_models <- function(
  annotations,
  quos,
  pairwise = TRUE,
  label_levels = NULL,
  method = "auto",
  include_confusion = TRUE,
  include_reliability = TRUE
) {
  options <- list(
    pairwise = py_value(pairwise),
    levels = check_levels(label_levels, "label_levels"),
    method = py_value(method),
    confusion = check_flag(include_confusion),
    reliability = check_flag(include_reliability)
  )
  if (!options$confusion && !options$reliability) {
    abort(
      "At least one of {.arg include_confusion} and {.arg include_reliability} must be TRUE."
    )
  }
  result <- py_call("compare_models", columns_of_models(annotations, quos), options)
  document_event("validate", \() list(models = names(result$confusion$vs_gold)))
  result
}

# Returns the data frame itself, or the data frame in a list.
frame_in <- \(x) if (!is.data.frame(x) && is.list(x)) x$annotations else x

# Returns the values of arguments that name columns, quoted or not; `gold` may be codes.
resolved_columns <- function(frame, quos) {
  columns <- lapply(names(quos), \(arg) {
    is_object <- if (arg == "gold") is_codes else \(x) FALSE
    column_or_object(quos[[arg]], frame, arg, is_object = is_object)
  })
  rlang::set_names(columns, names(quos))
}

# Returns the samples, models, labels and, if there are any, human codes for Python.
columns_of_models <- function(annotations, quos) {
  frame <- frame_in(annotations)
  columns <- resolved_columns(frame, quos)
  if (!is.data.frame(frame)) {
    must <- "a data frame or the result of explore()"
    abort_argument("annotations", must, frame)
  }
  for (arg in setdiff(names(columns), "gold")) {
    check_string(columns[[arg]], arg)
  }
  missing <- setdiff(
    unlist(columns[c("sample_col", "model_col", "label_col")]),
    names(frame)
  )
  if (length(missing) > 0) {
    abort(c(
      "{.arg annotations} is missing required column{?s}: {.field {missing}}.",
      i = "It has {.field {names(frame)}}."
    ))
  }
  samples <- value_text(frame[[columns$sample_col]])
  truth <- if (is.null(columns$gold)) {
    if (!is.null(columns$truth_col)) frame[[columns$truth_col]]
  } else {
    codes_of_samples(columns$gold, frame, samples)
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
codes_of_samples <- function(gold, frame, samples) {
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
    abort_argument("gold", must, gold)
  }
  at <- match(samples, names(gold) %||% ids)
  (if (is.factor(gold)) as.character(gold) else unname(gold))[at]
}
