#' Improve labels with the codes of a gold-standard sample
#'
#' @description
#' A model's labels are often wrong in a systematic way: it prefers some labels, or confuses two
#' labels. `recalibrate()` learns from the codes of a [gold_sample()] how to correct these errors.
#' The function fits a ridge multinomial logistic regression (called head) that predicts the codes
#' from the model's log-probabilities, from embeddings of the texts, or from both, and replaces
#' labels and probabilities by its predictions. `recalibration()` returns the accuracy of the head's
#' predictions.
#'
#' @section Cross-fitting:
#' Coded texts are assigned to folds at random. Each coded text gets the prediction of a head that
#' was fitted on the codes of the other folds; texts without a code get the mean prediction of all
#' these heads. So no label depends on the code of the same text: the accuracy by cross-validation
#' is not too high, and [estimate()] with the same gold sample stays valid (cross-prediction-powered
#' inference). Codes are weighted by the inverse of their inclusion probabilities. The penalty of
#' each head is chosen by cross-validation among the codes to which the head is fitted.
#'
#' @section When it helps:
#' Probabilities improve most where the model prefers a label regardless of the text. Probabilities
#' do not improve if the labels are already right, or if there are few codes; you get a warning if
#' the accuracy by cross-validation does not increase. At least 30 codes are needed, and at least 5
#' for each label that occurs among the codes. A label without any code gets probability 0, with a
#' warning.
#'
#' @inheritParams estimate
#' @param coded Return value of [annotate_texts()] with probabilities (not with `method =
#'   "generate"`), with one label per text; or a data frame with a column of labels and a column
#'   `p_<label>` for each label.
#' @param gold A coded [gold_sample()], or codes with `prob`, as in [estimate()].
#' @param features `"probs"`, `"embeddings"`, or both.
#' @param embeddings For `"embeddings"`: a numeric matrix with one row per text, or a model for
#'   embeddings, with which [embed_parallel()] computes the matrix.
#' @param n_folds Number of folds, from 2 to 20.
#' @param seed Seed of the folds. The same seed gives the same result.
#' @param cluster A column of clusters, such as speakers; texts of one cluster share a fold. Use the
#'   same column as in [estimate()].
#' @param level Confidence level of the intervals of accuracies.
#' @param x Return value of `recalibrate()`.
#' @returns `recalibrate()`: `coded` with new labels and probabilities in the same columns, in the
#'   order of its rows; NA where the label was NA. New columns: the model's labels and
#'   probabilities, under names that begin with `raw_`, and `fold`, NA for texts without a code.
#'   [validate()], [estimate()], [gold_sample()] and [report()] accept this data frame like `coded`.
#'
#'   `recalibration()`: NULL for data that were not recalibrated, and otherwise a list:
#'
#'   * `features`, `n_codes`, `n_folds`, `seed`.
#'   * `scores`: a data frame with the rows `accuracy`, `brier` and `ece` (expected calibration
#'     error), and the columns `model` (value for the model's labels), `recalibrated` (value for
#'     the new labels by cross-validation) and `constant` (value for the shares of the codes).
#'   * `gain`: the difference of the two accuracies, with its interval.
#'   * `line`: a summary.
#' @references Zrnic, Candès, *Cross-prediction-powered inference*, PNAS 121, 2024
#'   ([arXiv 2309.16598](https://arxiv.org/abs/2309.16598)).
#' @seealso [estimate()], [gold_sample()], [calibrate_batch()], which needs no codes
#' @concept calibration
#' @concept constant
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' # 600 speeches; the model calls too many of them neutral.
#' set.seed(1)
#' names <- c("against", "neutral", "for")
#' truth <- sample(names, 600, replace = TRUE, prob = c(0.4, 0.2, 0.4))
#' scores <- matrix(rnorm(1800), 600) + 1.5 * outer(truth, names, "==")
#' probs <- prop.table(exp(scores + rep(c(0, 2, 0), each = 600)), 1)
#' speeches <- data.frame(
#'   text = sprintf("Speech %d.", 1:600),
#'   label = names[max.col(probs)],
#'   p_against = probs[, 1],
#'   p_neutral = probs[, 2],
#'   p_for = probs[, 3]
#' )
#'
#' gold <- gold_sample(speeches, 150, text = text, label = label, seed = 1)
#' gold <- read_gold(data.frame(id = gold$ids, code = truth[gold$rows]), gold)
#'
#' better <- recalibrate(speeches, gold)
#' recalibration(better)
#' mean(speeches$label == truth)
#' mean(better$label == truth)
#' estimate(better, gold, outcome = "against")
recalibrate <- function(
  coded,
  gold,
  features = "probs",
  embeddings = NULL,
  n_folds = 5L,
  seed = 0L,
  label = NULL,
  text = NULL,
  prob = NULL,
  cluster = NULL,
  level = 0.95
) {
  coded <- check_data(coded, "coded")
  inputs <- labels_and_gold(
    coded,
    rlang::enquo(gold),
    rlang::enquo(label),
    rlang::enquo(text)
  )
  gold <- inputs$gold
  label <- inputs$label
  text <- inputs$text %||% if ("text" %in% names(coded)) "text"
  design <- inputs$design
  cluster <- one_column(rlang::enquo(cluster), coded, "cluster")
  if (isTRUE(coded_columns(coded)$several) || isTRUE(design$several)) {
    must <- "texts with one label each"
    abort_argument("coded", must, coded)
  }
  probs <- prob_columns(coded)
  roles <- roles_known(coded)
  uses <- c(label, text, probs, cluster, unlist(roles))
  uses <- c(uses, if (!is.null(design)) gold_columns(gold, coded))
  codes <- gold_codes_of(gold, coded)
  features <- check_features(features, embeddings)
  vectors <- vectors_for(embeddings, coded, text)
  arguments <- py_arguments(
    c("n_folds", "seed", "level"),
    columns = frame_for_python(coded, c(uses, raw_columns(coded, label))),
    gold = codes,
    coded = list(
      label = label,
      text = text,
      probs = if (length(probs) > 0) as.list(probs),
      roles = roles,
      ordered = is_ordered_column(coded, label),
      run = if (inherits(coded, "llamaherd_coded")) attr(coded, "llamaherd")$run_json
    ),
    features = features,
    prob = check_prob(prob),
    cluster = cluster
  )
  if (!is.null(vectors)) {
    arguments$embeddings <- tagged("array", content = rows_of(unclass(vectors)))
  }
  recalibrated <- call_python("recalibrate", arguments)
  result <- recalibrated_frame(coded, label, recalibrated)
  document_event(
    "recalibrate",
    recalibration(result)[c("features", "n_codes", "n_folds", "seed")],
    n_texts = nrow(coded),
    input_hash = lines_sha256(coded[[label]]),
    gold_hash = lines_sha256(unlist(codes$content %||% codes))
  )
  result
}

check_features <- function(x, embeddings) {
  if (is.null(embeddings) == (is.atomic(x) && "embeddings" %in% x)) {
    abort(
      "{.arg embeddings} is needed if {.arg features} contains {.val embeddings}, and only then."
    )
  }
  py_values(x, "features")
}

# Returns the columns that a coding added, by role, other than labels and their probabilities.
roles_known <- function(coded) {
  if (!inherits(coded, "llamaherd_coded")) {
    roles <- c("prob", "margin", "entropy", "mean")
    roles <- intersect(roles, names(coded))
    return(as.list(rlang::set_names(roles)))
  }
  columns <- attr(coded, "llamaherd")$columns
  as.list(columns[names(columns) %in% c("prob", "margin", "entropy", "mean", "sd")])
}

# TRUE if the labels are ordered. In other data frames, a column "mean" belongs to the user.
is_ordered_column <- function(coded, label) {
  is_coded <- inherits(coded, "llamaherd_coded")
  is.ordered(coded[[label]]) || (is_coded && is.numeric(coded[[label]]))
}

# Returns a matrix with a row for each text; NaN for texts without an embedding.
vectors_for <- function(embeddings, coded, text) {
  if (is.null(embeddings)) {
    return(NULL)
  }
  if (inherits(embeddings, c("llamaherd_model", "llamaherd_context"))) {
    if (is.null(text)) {
      abort_column("text", text, coded)
    }
    embeddings <- embed_parallel(embeddings, as.character(coded[[text]]))
  }
  if (!is.matrix(embeddings) || !is.numeric(embeddings)) {
    must <- "a numeric matrix with a row for each text, or a model for embeddings"
    abort_argument("embeddings", must, embeddings)
  }
  if (nrow(embeddings) != nrow(coded) || ncol(embeddings) == 0) {
    must <- sprintf("a matrix with a row for each of %d texts", nrow(coded))
    abort_argument("embeddings", must, embeddings)
  }
  embeddings[is.na(embeddings)] <- NaN
  embeddings
}

# Returns `coded` with Python's new columns, and the record of how they were made.
recalibrated_frame <- function(coded, label, recalibrated) {
  is_coded <- inherits(coded, "llamaherd_coded")
  coding <- if (is_coded) attr(coded, "llamaherd")
  data <- if (is_coded) without_coding(coded) else coded
  old <- lapply(rlang::set_names(recalibrated$raw), \(name) {
    data[[sub("^raw_", "", name)]]
  })
  new <- recalibrated$label
  if (is.factor(data[[label]])) {
    levels <- union(levels(data[[label]]), recalibrated$names)
    new <- factor(new, levels, ordered = is.ordered(data[[label]]))
  } else if (is.numeric(data[[label]])) {
    new <- as.numeric(new)
  }
  data[[label]] <- new
  columns <- c(recalibrated$numbers, old)
  for (name in names(columns)) {
    data[[name]] <- columns[[name]]
  }
  data[[recalibrated$fold]] <- recalibrated$folds
  if (!is_coded) {
    attr(data, "recalibration") <- recalibrated$record
    return(data)
  }
  coding$recalibration <- recalibrated$record
  coding$run_json <- recalibrated$run
  coding$run <- jsonlite::parse_json(recalibrated$run)
  as_coded(data, with_keys(coding, data))
}

#' @rdname recalibrate
#' @export
recalibration <- function(x) {
  check_given(x)
  if (inherits(x, "llamaherd_coded")) {
    return(attr(x, "llamaherd")$recalibration)
  }
  attr(x, "recalibration", exact = TRUE)
}

# Returns the columns of probabilities by label that estimate() uses; NULL if it uses labels. In
# recalibrated data, the model's labels and probabilities are in further columns.
probs_used <- function(coded, label, predictions) {
  probs <- prob_columns(coded)
  if (is.null(predictions)) {
    raw <- raw_columns(coded, c(label, probs))
    predictions <- if (length(raw) > 2) "probs" else "labels"
  }
  predictions <- check_choice(predictions, c("labels", "probs"), "predictions")
  if (predictions == "labels") {
    return(NULL)
  }
  if (length(probs) == 0) {
    message <- "{.arg coded} has no columns of probabilities, {.field p_<label>}."
    abort(message)
  }
  probs
}
