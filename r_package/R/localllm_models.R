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
  read <- labels_of_models(annotations, quos)
  options <- list(pairwise = py_value(pairwise))
  options$label_levels <- check_levels(label_levels, "label_levels")
  arguments <- list(annotations = read$frame, gold = read$gold)
  call_python("compute_confusion_matrices", c(arguments, read$columns, options))
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
  read <- labels_of_models(annotations, quos)
  options <- list(method = py_value(method))
  options$label_levels <- check_levels(label_levels, "label_levels")
  arguments <- c(list(annotations = read$frame), read$columns, options)
  call_python("intercoder_reliability", arguments)
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
  confusion <- check_flag(include_confusion)
  reliability <- check_flag(include_reliability)
  if (!confusion && !reliability) {
    abort(
      "At least one of {.arg include_confusion} and {.arg include_reliability} must be TRUE."
    )
  }
  read <- labels_of_models(annotations, quos)
  levels <- list(label_levels = check_levels(label_levels, "label_levels"))
  both <- setdiff(names(read$columns), "truth_col")
  arguments <- list(
    annotations = read$frame,
    confusion = confusion,
    reliability = reliability,
    of_confusion = c(
      read$columns,
      levels,
      list(gold = read$gold, pairwise = py_value(pairwise))
    ),
    of_reliability = c(read$columns[both], levels, list(method = py_value(method)))
  )
  result <- call_python("compare_models", arguments)
  document_event("validate", models = names(result$confusion$vs_gold))
  result
}

# Returns the labels of models for Python: the data frame, its columns by argument, human codes.
# `quos` are the arguments that name columns, quoted or not; `gold` may be codes.
labels_of_models <- function(annotations, quos) {
  frame <- if (!is.data.frame(annotations) && is.list(annotations)) {
    annotations$annotations # the return value of explore()
  } else {
    annotations
  }
  columns <- lapply(rlang::set_names(names(quos)), \(arg) {
    is_object <- if (arg == "gold") is_codes else \(x) FALSE
    column_or_object(quos[[arg]], frame, arg, is_object = is_object)
  })
  if (!is.data.frame(frame)) {
    abort_argument("annotations", "a data frame or the result of explore()", frame)
  }
  gold <- columns$gold
  columns <- lapply(rlang::set_names(setdiff(names(columns), "gold")), \(arg) {
    check_string(columns[[arg]], arg)
  })
  for (name in intersect(unlist(columns[c("sample_col", "model_col")]), names(frame))) {
    frame[[name]] <- value_text(frame[[name]])
  }
  is_column <- rlang::is_string(gold) && gold %in% names(frame)
  if (!is.null(gold) && !is_column) {
    if (!is.atomic(gold)) {
      must <- "a vector aligned with unique samples, or the name of a column in annotations"
      abort_argument("gold", must, gold)
    }
    ids <- names(gold)
    gold <- rlang::set_names(as_codes(gold), if (!is.null(ids)) as_utf8(ids))
  }
  used <- intersect(c(unlist(columns), if (is_column) gold), names(frame))
  list(frame = frame_for_python(frame, used), columns = columns, gold = gold)
}
