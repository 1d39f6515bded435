# Arguments of estimate(): methods, outcome, clusters, weights, codes in one form.

# Reads the data, the codes and the options that estimate(), corrected() and replicate_weights()
# share. `quos` are the expressions of `gold`, `label`, `text` and perhaps `cluster` and `weights`.
estimate_inputs <- function(
  coded,
  quos,
  several,
  prob,
  predictions,
  is_stated,
  error_call
) {
  coded <- check_data(coded, error_call, "coded")
  given <- labels_and_gold(coded, quos$gold, quos$label, quos$text, error_call)
  design <- given$design
  label <- given$label
  check_lost_record(
    coded,
    label,
    "coded",
    several %||% design$several,
    if (is_stated || !is.numeric(coded[[label]])) "nominal" else design$scale,
    error_call,
    scale_arg = "outcome"
  )
  several <- if (is.null(several)) {
    has_several(coded) || isTRUE(design$several)
  } else {
    check_flag(several, error_call = error_call)
  }
  probs <- probs_used(coded, label, predictions, error_call)
  known <- coded_columns(coded)
  options <- list(
    label = label,
    text = given$text,
    prob = check_prob(prob, "simple", error_call),
    predictions = if (is.null(probs)) "labels" else as.list(probs),
    several = several,
    levels = if (is.factor(coded[[label]])) as_py_list(levels(coded[[label]])),
    ordered = is.ordered(coded[[label]]),
    codebook = if (identical(label, known$label)) known$codebook
  )
  uses <- c(label, given$text, if (!is.null(design)) gold_columns(given$gold, coded))
  named <- \(arg, read) {
    if (!is.null(quos[[arg]])) read(quos[[arg]], coded, arg, error_call)
  }
  list(
    coded = coded,
    codes = gold_codes_of(given$gold, coded, error_call),
    options = options,
    uses = c(uses, probs, raw_columns(coded, c(label, probs))),
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
  is_kind <- \(x) is.character(x) || is.factor(x) || is.integer(x)
  names <- setdiff(names(coded), used)
  found <- Filter(\(name) is_kind(coded[[name]]) && is.null(dim(coded[[name]])), names)
  utils::head(found, max(0, 1e6 %/% max(nrow(coded), 1)))
}

check_methods <- function(x, error_call) {
  known <- c("dsl", "ppi", "gold", "naive")
  if (!is.character(x) || length(x) == 0 || !all(x %in% known)) {
    must <- paste("some of", paste0("\"", known, "\"", collapse = ", "))
    abort_argument("methods", must, x, error_call)
  }
  unique(x)
}

check_model_name <- function(x, formula, error_call) {
  if (is.null(x)) {
    return(if (is.null(formula)) "mean" else "ols")
  }
  x <- check_choice(x, c("mean", "ols", "logit"), "model", error_call)
  if ((x == "mean") != is.null(formula)) {
    needs <- if (x == "mean") "takes no" else "needs a"
    abort("{.code model = \"{x}\"} {needs} formula.", "argument", error_call)
  }
  x
}

check_outcome <- function(x, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  if (is.numeric(x) && !is.null(names(x))) {
    return(as.list(x))
  }
  if (length(x) > 0 && (is.numeric(x) || is.logical(x) || is.factor(x))) {
    return(as_codes(x))
  }
  if (!is.character(x) || length(x) == 0) {
    must <- "labels, or a named vector with a number for each label"
    abort_argument("outcome", must, x, error_call)
  }
  as_py_list(check_text(x, "outcome", error_call))
}

# What to use instead of arguments that selected a model of coders.
removed_consensus <- local({
  majority <- "The right code is that of the majority. {.fn dawid_skene} estimates how often each
    coder errs; let one more coder decide the texts on which coders disagree."
  c(consensus = majority, n_imputations = majority)
})

# Returns the arguments in `...` that are allowed; for one version, removed ones say what to use
# instead.
check_removed <- function(dots, error_call, instead, allowed = character()) {
  found <- intersect(names(dots), names(instead))
  if (length(found) > 0) {
    message <- c("{.arg {found[[1]]}} was removed.", i = instead[[found[[1]]]])
    abort(message, "argument", error_call)
  }
  check_dots(dots, allowed, error_call)
}

# Returns the levels of the factors among the columns; the levels give the order of groups.
levels_by <- function(data, by) {
  factors <- Filter(\(name) is.factor(data[[name]]), by)
  rlang::set_names(lapply(factors, \(name) as_py_list(levels(data[[name]]))), factors)
}

# Converts a gold sample, or a vector of codes, for Python.
gold_codes_of <- function(gold, coded, error_call) {
  if (inherits(gold, "llamaherd_gold")) {
    return(check_gold(gold, error_call))
  }
  if (rlang::is_string(gold) && gold %in% names(coded)) {
    check_single(coded, gold, error_call)
    gold <- coded[[gold]]
  }
  if (!is.atomic(gold) || length(gold) != nrow(coded)) {
    must <- "a <llamaherd_gold>, a column, or a code or NA for each row"
    abort_argument("gold", must, gold, error_call, column_hint(gold, coded))
  }
  as_codes(gold)
}

# Returns labels, and codes of the coded rows, as text for Python: equal values have the same text.
codes_in_one_form <- function(columns, codes, options) {
  read <- py_call("codes_in_one_form", columns, codes, options)
  list(
    labels = as_text(read[["labels"]]),
    rows = as.integer(unlist(read[["rows"]]) + 1),
    codes = as_text(read[["codes"]]),
    gold = read[["gold"]]
  )
}

# TRUE if the codebook allows several labels per text.
has_several <- function(coded) {
  inherits(coded, "llamaherd_coded") &&
    identical(attr(coded, "llamaherd")$codebook$type, "multiple")
}
