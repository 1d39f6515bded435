#' Validate a model's labels against human codes
#'
#' @description
#' Compares the labels of a model with the codes of people: accuracy with confidence intervals,
#' overall and by label; agreement between the model and people, and between people; calibration;
#' and the texts whose label is wrong although its probability is high.
#'
#' Labels of several models in a long data frame are compared by [validate_models()], which
#' `validate()` calls for a data frame with the columns `sample_id` and `model_id`.
#'
#' @section How codes are used:
#' If several people coded a text, the most frequent code is taken as correct; on a tie, the code of
#' the first of the tied coders. Texts drawn by [gold_sample()] are weighted by 1 / inclusion
#' probability, so that all numbers are estimates for all texts. Texts without a label are left out.
#' The result has warnings about ties and about coded texts without a label.
#'
#' @section Numbers to report:
#' Report accuracy and macro F1 with their intervals. Also report the accuracy of a rule that always
#' predicts the most frequent label, and the agreement between two people. Report precision and
#' recall of the labels that the analysis uses, and Krippendorff's alpha between the coders. If a
#' model agrees with a person as often as people agree with each other, it is as good as an
#' additional coder.
#'
#' @param annotations Labels of a model: the return value of [annotate_texts()]; a data frame with
#'   the column `label_col`; or a factor or vector with one label per text, NA for texts without a
#'   label. For several models see [validate_models()].
#' @param gold Human codes: a coded [gold_sample()]; a vector with one code per text, NA for texts
#'   without a code; a data frame or list with one such vector per coder; or names of columns of
#'   `annotations`, quoted or unquoted. An unquoted name that is also a variable with other values
#'   causes an error. Codes are compared with labels as in [agreement()]. NULL uses the column
#'   `truth_col`.
#' @param ... Arguments of [validate_models()], for a data frame with labels of several models.
#'   Any other name causes an error.
#' @param label_levels All labels, in order. NULL uses the levels of factors, the labels of the
#'   codebook, or the labels that occur.
#' @param label_col,truth_col Names of the columns of labels and of human codes, quoted or
#'   unquoted.
#' @param prob Probability of each label: the name of a column, or a number from 0 to 1 per text.
#'   NULL uses the columns that [annotate_texts()] added.
#' @inheritParams agreement
#' @param scale `"nominal"`, `"ordinal"`, `"interval"` or `"ratio"`. NULL uses the scale of the
#'   codebook, an ordered factor or the gold sample, and `"interval"` for labels with fractions or
#'   more than 20 different numbers. Ordered labels that are numbers are also compared as numbers:
#'   Pearson's and Spearman's correlation, ICC(2,1), Krippendorff's alpha for intervals, RMSE, MAE
#'   and bias, in the parts `numbers` and `numbers of people` of the table. The model's number is
#'   the expected value if [annotate_texts()] returned expected values. If several people coded a
#'   text, their number is the mean of their codes.
#' @param several TRUE if a text may have several labels, joined by `"; "`, with `""` or `"none"`
#'   for no label. Each label is then evaluated as a yes/no question, and accuracy is the share of
#'   texts with exactly the right labels. `NULL` uses the value that `annotations` or `gold`
#'   records.
#' @param weights Survey weights: a column, or a number of at least 0 per text. The weight of a text
#'   is then its survey weight / inclusion probability.
#' @returns A `llamaherd_validation`, which prints as a page: a list with
#'
#'   * `table`: all numbers as a long data frame with the columns `part`, `measure`, `label`,
#'     `value`, `low`, `high` and `n`; [as.data.frame()] returns it.
#'   * `labels`: a data frame with one row per label: the number of texts that people gave the
#'     label, the number of texts that the model gave the label, precision, recall and F1.
#'   * `model_agreement`, `coder_agreement`: coefficients between the model and people, and between
#'     people (NULL with one coder), as in [agreement()]. With several labels per text the
#'     coefficients of both elements are means over the labels, and `label_agreement` has the
#'     coefficients of each label.
#'   * `pairs`: a data frame of the agreement of each pair of coders, including the model: `first`,
#'     `second`, and the columns of [agreement()]; NULL with one coder.
#'   * `confusion`, `reliability`: as in [compute_confusion_matrices()] and
#'     [intercoder_reliability()], for the model (`model`) and people (`people`). The element
#'     `confusion` contains unweighted counts; it is missing if texts can have several labels.
#'   * `bins`: a data frame for a reliability diagram; NULL without probabilities.
#'   * `coverage`: see [coverage_curve()]; NULL without probabilities.
#'   * `wrong`: a data frame of the texts with a wrong label, the most probable first: `row`,
#'     `label`, `truth`, `prob` and, if available, `text`.
#'   * `warnings`: problems that limit how far the results can be trusted.
#'   * `n_texts`, `n_gold`, `coders`, `is_weighted`, `several`, `scale`, `level`, `prob`.
#' @seealso [validate_models()] for several models, [agreement()], [texts_for_people()]
#' @concept accuracy
#' @concept F1
#' @concept confusion matrix
#' @export
#' @examplesIf llamaherd_available()
#' truth <- rep(c("pro", "con", "none"), c(40, 40, 20))
#' model <- c(rep("pro", 45), rep("con", 40), rep("none", 15))
#' prob <- seq(0.99, 0.5, length.out = 100)
#' found <- validate(model, truth, prob = prob)
#' found
#' subset(as.data.frame(found), measure == "f1")
#'
#' # Ordered factors have weighted kappa and ordinal alpha.
#' levels <- c("low", "middle", "high")
#' validate(
#'   ordered(c("low", "high", "middle", "low"), levels),
#'   ordered(c("low", "high", "high", "low"), levels)
#' )$model_agreement
validate <- function(
  annotations,
  gold = NULL,
  ...,
  label_levels = NULL,
  label_col = "label",
  truth_col = "truth",
  prob = NULL,
  scale = NULL,
  level = 0.95,
  several = NULL,
  weights = NULL
) {
  check_not_shiny(substitute(annotations))
  check_given(annotations)
  dots <- rlang::enquos(...)
  if (!all(nzchar(rlang::names2(dots)))) {
    abort(c(
      "Arguments of {.fn validate} after {.arg gold} need names, such as
       {.code scale = \"ordinal\"}.",
      i = "{.fn validate_models} takes them in the order of localLLM."
    ))
  }
  check_removed(dots, c(removed_consensus, removed_bootstrap), models_arguments)
  models <- list(...)
  label_is_default <- missing(label_col)
  gold <- column_or_object(rlang::enquo(gold), annotations, "gold", is_object = is_codes)
  label_col <- column_or_object(rlang::enquo(label_col), annotations, "label_col")
  truth_col <- column_or_object(rlang::enquo(truth_col), annotations, "truth_col")
  prob <- column_or_object(rlang::enquo(prob), annotations, "prob", is_object = is_table)
  if (is_of_models(annotations, gold, models)) {
    columns <- list(
      gold = gold,
      sample_col = models$sample_col %||% "sample_id",
      model_col = models$model_col %||% "model_id",
      label_col = label_col,
      truth_col = truth_col
    )
    variables <- models[setdiff(names(models), names(columns))]
    positional <- list(annotations, label_levels = label_levels)
    return(rlang::exec("validate_models", !!!c(positional, columns, variables)))
  }
  of_columns <- if (is.data.frame(annotations)) annotations else data.frame()
  weights <- column_or_values(rlang::enquo(weights), of_columns, "weights")
  data <- labels_frame(annotations)
  check_coded_rows(data, "annotations")
  known <- coded_columns(data)
  label <- if (label_is_default) known$label
  label <- label %||% check_string(label_col, "label_col")
  if (!label %in% names(data)) {
    abort_column("label_col", label, data, spans_hint(data))
  }
  known <- if (identical(label, known$label)) known else list()
  codes <- human_codes(gold, annotations, truth_col)
  design <- if (inherits(gold, "llamaherd_gold")) gold$design
  known_several <- several %||% design$several
  check_lost_record(data, label, "annotations", known_several, scale %||% design$scale)
  several <- if (is.null(several)) {
    isTRUE(known$several) || isTRUE(design$several)
  } else {
    check_flag(several)
  }
  columns <- c(list(data[[label]]), codes)
  measured <- if (!identical(known$scale, "nominal")) known$scale
  scale <- scale %||% measured %||% design$scale
  if (is.null(scale) && any(vapply(columns, is.ordered, NA))) {
    scale <- "ordinal"
  }
  prob <- prob %||% if (is.null(all_probs(data))) known$prob
  truth <- attr(codes, "truth")
  options <- py_arguments(
    c("level", "scale"),
    label = label,
    truth = if (!is.null(truth)) as_py_list(truth),
    prob = check_prob(prob),
    several = several,
    weights = weights_given(weights, of_columns)
  )
  is_list <- is.null(design) && is.null(truth)
  uses <- c(truth, if (is.character(prob)) intersect(prob, names(data)))
  arguments <- list(
    data = labels_for_python(data, label, known, list(design = design), uses),
    gold = if (is_list) unname(lapply(codes, as_codes)),
    coders = if (is_list) as_py_list(names(codes)),
    levels = check_levels(label_levels, "label_levels"),
    known = if (several) list() else known_levels(columns),
    options = options
  )
  if (!is.null(design)) {
    arguments$gold <- gold_for_python(gold)
  }
  result <- call_python("validate", arguments)
  overall <- result$table[result$table$part == "accuracy", ]
  document_event(
    "validate",
    result[c("n_texts", "n_gold", "is_weighted", "scale", "level")],
    n_coders = length(result$coders),
    input_hash = lines_sha256(data[[label]]),
    gold_hash = lines_sha256(unlist(lapply(codes, as.character))),
    stats::setNames(as.list(overall$value), overall$measure)
  )
  result
}

# Names of the arguments that apply only to labels of several models.
models_arguments <- strsplit(
  "pairwise sample_col model_col method include_confusion include_reliability",
  " "
)[[1]]

# TRUE if the data frame has a row for each text and model.
is_of_models <- function(annotations, gold, models) {
  if (inherits(annotations, "llamaherd_coded") || inherits(gold, "llamaherd_gold")) {
    return(FALSE)
  }
  if (is.data.frame(annotations)) {
    columns <- c(models$sample_col %||% "sample_id", models$model_col %||% "model_id")
    return(all(columns %in% names(annotations)))
  }
  is.list(annotations) && is.data.frame(annotations$annotations)
}

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
  check_given(x)
  if (inherits(x, "llamaherd_validation")) {
    return(x$coverage %||% abort_no_prob())
  }
  x <- check_numeric(x)
  if (!is.logical(correct) || length(correct) != length(x)) {
    must <- sprintf("TRUE or FALSE for each of %d texts", length(x))
    abort_argument("correct", must, correct)
  }
  x[is.na(correct)] <- NaN
  correct[is.na(correct)] <- FALSE
  arguments <- py_arguments(
    "level",
    confidence = as_py_list(x),
    correct = as_py_list(correct),
    weights = if (!is.null(weights)) as_py_list(check_numeric(weights))
  )
  call_python("coverage_curve", arguments)
}

#' @rdname coverage_curve
#' @export
texts_for_people <- function(x, accuracy, prob = NULL, sure = FALSE) {
  check_given(x)
  if (inherits(x, "llamaherd_validation")) {
    prob <- prob %||% x$prob
    x <- coverage_curve(x)
  }
  if (!inherits(x, "llamaherd_coverage")) {
    must <- "what validate() or coverage_curve() returned"
    abort_argument("x", must, x)
  }
  if (is.null(prob)) {
    abort_argument("prob", "the probability of the label of each text", prob)
  }
  columns <- lapply(unclass(x)[names(x)], as_py_list)
  probs <- as_py_list(check_numeric(prob))
  for_people <- py_call("for_people", columns, probs, py_value(accuracy), py_value(sure))
  structure(for_people$rows, threshold = for_people$threshold)
}

abort_no_prob <- function() {
  abort(c(
    "There are no probabilities of the labels.",
    i = "Pass them to {.fn validate} as {.arg prob}."
  ))
}
