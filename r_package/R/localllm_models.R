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
  compare_models(annotations, quos, pairwise, label_levels, NULL)$confusion
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
  method <- py_value(method)
  compare_models(annotations, quos, NULL, label_levels, method)$reliability
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
  method <- py_value(method)
  pairwise <- if (check_flag(include_confusion)) pairwise
  method <- if (check_flag(include_reliability)) method
  if (is.null(pairwise) && is.null(method)) {
    abort(
      "At least one of {.arg include_confusion} and {.arg include_reliability} must be TRUE."
    )
  }
  result <- compare_models(annotations, quos, pairwise, label_levels, method)
  document_event("validate", models = names(result$confusion$vs_gold))
  result
}

# Computes confusion matrices unless `pairwise` is NULL, and reliability unless `method` is NULL.
compare_models <- function(annotations, quos, pairwise, label_levels, method) {
  read <- labels_of_models(annotations, quos)
  levels <- list(label_levels = check_levels(label_levels, "label_levels"))
  of_both <- setdiff(names(read$columns), "truth_col")
  arguments <- list(
    annotations = read$frame,
    of_confusion = if (!is.null(pairwise)) {
      own <- list(gold = read$gold, pairwise = py_value(pairwise))
      c(read$columns, levels, own)
    },
    of_reliability = if (!is.null(method)) {
      c(read$columns[of_both], levels, list(method = method))
    }
  )
  call_python("compare_models", arguments)
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
