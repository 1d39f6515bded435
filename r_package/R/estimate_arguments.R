# Arguments of estimate(): methods, outcome, clusters, weights, codes in one form.

# Reads the data, the codes and the options that estimate(), corrected() and replicate_weights()
# share. `quos` are the expressions of `gold`, `label`, `text` and perhaps `cluster` and `weights`.
# `frame` of the result is a function of further columns that returns the data frame for Python.
estimate_inputs <- function(coded, quos, several, prob, predictions, is_stated) {
  coded <- check_data(coded, "coded")
  inputs <- labels_and_gold(coded, quos$gold, quos$label, quos$text)
  design <- inputs$design
  label <- inputs$label
  check_lost_record(
    coded,
    label,
    "coded",
    several %||% design$several,
    if (is_stated || !is.numeric(coded[[label]])) "nominal" else design$scale,
    scale_arg = "outcome"
  )
  several <- several_labels(several, coded, design)
  probs <- probs_used(coded, label, predictions)
  known <- coded_columns(coded)
  options <- list(
    label = label,
    text = inputs$text,
    prob = check_prob(prob),
    predictions = if (is.null(probs)) "labels" else as.list(probs),
    several = several
  )
  uses <- c(label, inputs$text, if (!is.null(design)) gold_columns(inputs$gold, coded))
  uses <- c(uses, probs, raw_columns(coded, c(label, probs)))
  named <- \(arg, read) {
    if (!is.null(quos[[arg]])) read(quos[[arg]], coded, arg)
  }
  list(
    coded = coded,
    codes = gold_codes_of(inputs$gold, coded),
    options = options,
    frame = \(columns) {
      book <- if (identical(label, known$label)) known$codebook
      frame_for_python(coded, c(uses, columns), label, book)
    },
    uses = uses,
    probs = probs,
    cluster = named("cluster", one_column),
    weights = named("weights", column_or_values)
  )
}

# Converts the survey weights of all rows for Python.
weights_given <- function(weights, coded) {
  if (is.character(weights)) {
    weights <- coded[[weights]]
  }
  if (!is.null(weights)) as_py_numbers(weights)
}

# Returns other columns of text or whole numbers that may be clusters. At most 1e6 / n_rows columns
# are returned, because each column is copied to Python.
cluster_columns <- function(coded, used) {
  is_kind <- \(x) {
    (is.character(x) || is.factor(x) || is.integer(x)) && !inherits(x, "haven_labelled")
  }
  names <- setdiff(names(coded), used)
  covariates <- Filter(
    \(name) is_kind(coded[[name]]) && is.null(dim(coded[[name]])),
    names
  )
  utils::head(covariates, max(0, 1e6 %/% max(nrow(coded), 1)))
}

# Converts labels, numbers by label, or the name of a quantity.
outcome_given <- function(x) {
  if (is.numeric(x) && !is.null(names(x))) {
    Map(py_value, as.list(x), sprintf("outcome[\"%s\"]", names(x)))
  } else if ((is.numeric(x) || is.logical(x) || is.factor(x)) && !anyNA(x)) {
    as_codes(x)
  } else {
    py_values(x, "outcome")
  }
}

# What to use instead of arguments that selected a model of coders.
removed_consensus <- local({
  majority <- "The right code is that of the majority. {.fn dawid_skene} estimates how often each
    coder errs; let one more coder decide the texts on which coders disagree."
  c(consensus = majority, n_imputations = majority)
})

removed_bootstrap <- local({
  bootstrap <- "Intervals are computed without a bootstrap."
  c(n_bootstrap = bootstrap, seed = bootstrap)
})

# Requires allowed arguments in `...`; for one version, removed ones say what to use instead.
check_removed <- function(dots, instead, allowed = character()) {
  removed <- intersect(names(dots), names(instead))
  if (length(removed) > 0) {
    message <- c("{.arg {removed[[1]]}} was removed.", i = instead[[removed[[1]]]])
    abort(message)
  }
  check_dots(dots, allowed)
}

# Returns the levels of the factors among the columns; the levels give the order of groups.
levels_by <- function(data, by) {
  factors <- Filter(\(name) is.factor(data[[name]]), by)
  rlang::set_names(lapply(factors, \(name) as_py_list(levels(data[[name]]))), factors)
}

# Converts a gold sample, or a vector of codes, for Python.
gold_codes_of <- function(gold, coded) {
  if (inherits(gold, "llamaherd_gold")) {
    return(gold_for_python(gold))
  }
  if (rlang::is_string(gold) && gold %in% names(coded)) {
    check_single(coded, gold)
    gold <- coded[[gold]]
  }
  if (!is.atomic(gold) || length(gold) != nrow(coded)) {
    must <- "a <llamaherd_gold>, a column, or a code or NA for each row"
    abort_argument("gold", must, gold, hint = column_hint(gold, coded))
  }
  as_codes(gold)
}

# Returns the argument `several`, by default TRUE if the codebook or the sample allows several
# labels per text.
several_labels <- function(several, data, design) {
  if (is.null(several)) {
    type <- if (inherits(data, "llamaherd_coded")) attr(data, "llamaherd")$codebook$type
    identical(type, "multiple") || isTRUE(design$several)
  } else {
    check_flag(several)
  }
}
