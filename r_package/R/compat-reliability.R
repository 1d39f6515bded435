#' Confusion matrices and reliability of several models
#'
#' @description
#' `compute_confusion_matrices()` cross-tabulates the labels of models with human codes and with
#' each other. `intercoder_reliability()` computes the agreement between models. Both functions need
#' a data frame with one row per text and model. The functions have the names, arguments and return
#' values of the same functions in package localLLM.
#'
#' @param annotations A data frame, or a list with a data frame `annotations`.
#' @param gold Human codes: a vector with one code per text, in the order of the texts' first
#'   occurrence or named by text; or the name of a column. NULL uses the column `truth_col` if it
#'   exists.
#' @param pairwise TRUE compares models with each other.
#' @param label_levels All labels, in order. NULL uses the labels in order of occurrence.
#' @param sample_col,model_col,label_col,truth_col Names of the columns of text ids, model ids,
#'   labels and human codes, quoted or unquoted.
#' @param method `"cohen"`, `"krippendorff"`, or `"auto"` for both.
#' @returns `compute_confusion_matrices()`: a list with
#'
#'   * `vs_gold`: for each model, by name, a table with the model's labels as rows and human codes
#'     as columns. NULL without human codes.
#'   * `pairwise`: for each pair of models, named `"a vs b"`, a table with the labels of the first
#'     model as rows. NULL with one model.
#'
#'   `intercoder_reliability()`: a list with
#'
#'   * `cohen`: a data frame with one row per pair of models: `model_a`, `model_b`, `kappa`,
#'     `observed` and `expected`; absent with one model. `kappa` is NA if expected agreement is 1.
#'   * `krippendorff`: a list with `alpha` (the nominal coefficient as `irr::kripp.alpha()` computes
#'     it), `alpha_exact` (the coefficient by Krippendorff's definition), `per_item` (for each text,
#'     the share of pairs of models that agree) and `category_proportions` (relative frequencies of
#'     labels). `alpha` and `alpha_exact` differ only if there are three or more models and no
#'     missing labels.
#' @seealso [agreement()], which has intervals and more coefficients; [validate_models()]
#' @export
#' @examplesIf llamaherd_available()
#' annotations <- data.frame(
#'   sample_id = rep(1:4, 2),
#'   model_id = rep(c("small", "large"), each = 4),
#'   label = c("pro", "con", "pro", "pro", "pro", "con", "con", "pro"),
#'   truth = rep(c("pro", "con", "con", "con"), 2)
#' )
#' compute_confusion_matrices(annotations)
#' intercoder_reliability(annotations)$cohen
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
  frame <- frame_in(annotations)
  gold <- column_or_object(
    rlang::enquo(gold),
    frame,
    "gold",
    error_call,
    is_object = is_codes
  )
  sample_col <- column_or_object(
    rlang::enquo(sample_col),
    frame,
    "sample_col",
    error_call
  )
  model_col <- column_or_object(rlang::enquo(model_col), frame, "model_col", error_call)
  label_col <- column_or_object(rlang::enquo(label_col), frame, "label_col", error_call)
  truth_col <- column_or_object(rlang::enquo(truth_col), frame, "truth_col", error_call)
  data <- annotation_frame(annotations, sample_col, model_col, label_col, error_call)
  columns <- label_columns(data)
  truth <- gold_column(data, gold, check_string(truth_col), error_call)
  if (!is.null(truth)) {
    columns$truth <- as_codes(truth)
  }
  options <- list(
    pairwise = check_flag(pairwise),
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

#' @rdname compute_confusion_matrices
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
  frame <- frame_in(annotations)
  sample_col <- column_or_object(
    rlang::enquo(sample_col),
    frame,
    "sample_col",
    error_call
  )
  model_col <- column_or_object(rlang::enquo(model_col), frame, "model_col", error_call)
  label_col <- column_or_object(rlang::enquo(label_col), frame, "label_col", error_call)
  options <- list(
    method = check_choice(method, c("auto", "cohen", "krippendorff")),
    levels = check_levels(label_levels, error_call, "label_levels")
  )
  data <- annotation_frame(annotations, sample_col, model_col, label_col, error_call)
  found <- py_call("reliability", label_columns(data), options, error_call = error_call)
  result <- list()
  if (length(found$cohen) > 0) {
    result$cohen <- kappa_frame(found$cohen)
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

kappa_frame <- function(columns) {
  data.frame(
    model_a = as_text(columns$model_a),
    model_b = as_text(columns$model_b),
    kappa = numbers_of(columns$kappa),
    observed = numbers_of(columns$observed),
    expected = numbers_of(columns$expected)
  )
}

# Returns the data frame itself, or the data frame in a list.
frame_in <- \(x) if (!is.data.frame(x) && is.list(x)) x$annotations else x

# Returns a data frame with the columns sample, model and label, and the user's columns.
annotation_frame <- function(x, sample_col, model_col, label_col, error_call) {
  x <- frame_in(x)
  if (!is.data.frame(x)) {
    must <- "a data frame or the result of explore()"
    abort_argument("annotations", must, x, error_call)
  }
  columns <- list(sample_col = sample_col, model_col = model_col, label_col = label_col)
  columns <- Map(
    \(name, arg) check_string(name, arg, error_call = error_call),
    columns,
    names(columns)
  )
  missing <- setdiff(unlist(columns), names(x))
  if (length(missing) > 0) {
    abort(
      c(
        "{.arg annotations} is missing required column{?s}: {.field {missing}}.",
        i = "It has {.field {names(x)}}."
      ),
      "argument",
      error_call
    )
  }
  list(
    frame = x,
    sample = value_text(x[[columns$sample_col]]),
    model = value_text(x[[columns$model_col]]),
    label = x[[columns$label_col]]
  )
}

label_columns <- function(data) {
  list(
    sample = as_codes(data$sample),
    model = as_codes(data$model),
    label = as_codes(data$label)
  )
}

# Returns the human code for each row; NULL without human codes.
gold_column <- function(data, gold, truth_col, error_call) {
  if (is.null(gold)) {
    return(data$frame[[truth_col]])
  }
  ids <- unique(data$sample)
  if (is.character(gold) && length(gold) == 1 && gold %in% names(data$frame)) {
    return(data$frame[[gold]])
  }
  if (!is.atomic(gold) || length(gold) != length(ids)) {
    must <- paste(
      "a vector aligned with unique samples, of which there are",
      length(ids),
      "or the name of a column in annotations"
    )
    abort_argument("gold", must, gold, error_call)
  }
  at <- if (is.null(names(gold))) ids else names(gold)
  (if (is.factor(gold)) as.character(gold) else unname(gold))[match(data$sample, at)]
}

count_table <- function(counts, levels) {
  values <- matrix(
    as.integer(unlist(counts)),
    nrow = length(levels),
    byrow = TRUE,
    dimnames = list(levels, levels)
  )
  as.table(values)
}
