# Shapes of plots, which Python computes from an object. A shape is a list with `shape`, `data` (a
# small data frame), `title`, `x`, `y` (labels of the axes) and elements of its kind. The drawing
# functions in plot_base.R and plot_ggplot2.R use only shapes.
#
#   bars      row, part, n; `notes`, a text for each row; `legend`, or NULL
#   forest    row, series, value, low, high; `limits` of the axis; `spans`, row, low, high
#   panels    row, series, value, low, high: a panel with a separate axis for each row
#   matrix    row, column, n, share; `legend`, meaning of the shares
#   curve     x, y, low, high; `reference`, the ends of a line, `named`; `steps`; `limits`
#   tradeoff  name, x, y, low, high, series: points with names; `limits`
#   scatter   x, y, size; `lines`, y and name
#   timeline  waited, first, end, in the order of the rows; `phases`, their names

# `given` is the content of an object in the form that plot_picture() in Python reads.
picture <- function(kind, given, error_call) {
  found <- py_call("plot_picture", kind, given, error_call = error_call)
  data <- switch(
    found$shape,
    bars = bars_data(found),
    forest = ,
    panels = points_data(found),
    matrix = matrix_data(found),
    curve = number_columns(found, c(x = "at", y = "value", low = "low", high = "high")),
    tradeoff = tradeoff_data(found),
    scatter = number_columns(found, c(x = "at", y = "value", size = "size")),
    timeline = number_columns(found, c("waited", "first", "end"))
  )
  c(
    found[c("shape", "title", "x", "y")],
    list(data = data),
    switch(
      found$shape,
      bars = list(notes = as_text(found$notes), legend = found$legend),
      forest = list(limits = unlist(found$limits), spans = spans_data(found)),
      matrix = found["legend"],
      curve = list(
        reference = number_columns(found$reference, c("x", "y")),
        named = found$named,
        steps = found$steps,
        limits = lapply(rlang::set_names(found$limits, c("x", "y")), unlist)
      ),
      tradeoff = list(
        limits = lapply(rlang::set_names(found$limits, c("x", "y")), unlist)
      ),
      scatter = list(
        lines = data.frame(y = numbers_of(found$lines), name = as_text(found$named))
      ),
      timeline = list(phases = as_text(found$phases))
    )
  )
}

bars_data <- function(found) {
  rows <- as_text(found$rows)
  parts <- as_text(found$parts)
  data.frame(
    row = factor_at(rep(seq_along(rows), length(parts)), rows),
    part = factor_at(rep(seq_along(parts), each = length(rows)), parts),
    n = as.double(unlist(found$lengths))
  )
}

points_data <- function(found) {
  data <- number_columns(found, c("value", "low", "high"))
  data.frame(
    row = factor_at(found$row, as_text(found$rows)),
    series = factor_at(found$of, as_text(found$series)),
    data
  )
}

tradeoff_data <- function(found) {
  columns <- c(x = "at", y = "value", low = "low", high = "high")
  data.frame(
    name = as_text(found$names),
    series = factor_at(found$of, as_text(found$series)),
    number_columns(found, columns)
  )
}

matrix_data <- function(found) {
  rows <- as_text(found$rows)
  columns <- as_text(found$columns)
  data.frame(
    row = factor_at(rep(seq_along(rows), each = length(columns)), rows),
    column = factor_at(rep(seq_along(columns), length(rows)), columns),
    n = as.integer(unlist(found$counts)),
    share = as.double(unlist(found$shares))
  )
}

# Returns a data frame with a row for each row of the plot that has a range; NULL without ranges.
spans_data <- function(found) {
  if (length(found$spans) == 0) {
    return(NULL)
  }
  ends <- matrix_of(found$spans, c("low", "high"))
  rows <- as_text(found$rows)
  data <- data.frame(row = factor_at(seq_along(rows), rows), ends)
  data[!is.na(data$low), ]
}

# Returns numeric columns. `columns` are names in `found`; if `columns` has names, these are the new
# names.
number_columns <- function(found, columns) {
  names <- rlang::names2(columns)
  names(columns) <- ifelse(nzchar(names), names, columns)
  new_frame(
    lapply(columns, \(name) numbers_of(found[[name]])),
    length(found[[columns[[1]]]])
  )
}

# Returns a factor with one level per position; equal names are made distinct, because R requires
# distinct levels.
factor_at <- function(at, names) {
  factor(as.integer(unlist(at)), seq_along(names), make.unique(names))
}

# ---- converting objects of R for Python ----------------------------------------------------

picture_coded <- function(x, error_call = rlang::caller_env()) {
  check_coded_rows(x, "x", error_call)
  coding <- attr(x, "llamaherd")
  if (identical(coding$codebook$type, "spans")) {
    return(picture_passages(x, error_call))
  }
  probs <- unname(coding$probs[coding$names])
  has_probs <- length(probs) == length(coding$names) && all(probs %in% names(x))
  columns <- unclass(x)
  given <- list(
    labels = text_list(value_text(columns[[coding$label %||% ""]])),
    names = as_py_list(coding$names),
    probs = if (has_probs) unname(lapply(columns[probs], as_py_numbers)),
    several = identical(coding$codebook$type, "multiple"),
    things = "texts"
  )
  picture("labels", given, error_call)
}

picture_passages <- function(x, error_call) {
  coding <- attr(x, "llamaherd")
  spans <- x[[coding$columns[["spans"]] %||% "spans"]]
  if (!is.list(spans)) {
    abort_argument("x", "coded texts with their list column of passages", x, error_call)
  }
  given <- list(
    spans = lapply(unname(spans), passages_json),
    names = as_py_list(coding$span_labels)
  )
  picture("passages", given, error_call)
}

picture_span_validation <- function(x, type, error_call) {
  columns <- list(
    part = text_list(x$part),
    measure = text_list(x$measure),
    label = text_list(ifelse(is.na(x$label), "", x$label))
  )
  numbers <- lapply(unclass(x)[c("value", "low", "high")], as_py_numbers)
  given <- list(
    columns = c(columns, numbers, list(n = as_py_list(x$n))),
    level = attr(x, "level"),
    type = type
  )
  picture("span_validation", given, error_call)
}

picture_classes <- function(x, error_call = rlang::caller_env()) {
  names <- colnames(attr(x, "logprobs"))
  columns <- unclass(x)
  given <- list(
    labels = text_list(value_text(columns$label)),
    names = as_py_list(names),
    probs = unname(lapply(columns[paste0("p_", names)], as_py_numbers)),
    several = FALSE,
    things = "prompts"
  )
  picture("labels", given, error_call)
}

picture_validation <- function(x, type, error_call = rlang::caller_env()) {
  needs_prob <- c(calibration = "bins", coverage = "coverage")
  if (type %in% names(needs_prob) && is.null(x[[needs_prob[[type]]]])) {
    abort_no_prob(error_call)
  }
  picture("validation", list(json = x$json, type = type), error_call)
}

picture_coverage <- function(x, error_call = rlang::caller_env()) {
  columns <- lapply(unclass(x)[names(x)], as_py_numbers)
  given <- list(coverage = c(columns, n = attr(x, "n")), level = attr(x, "level"))
  picture("coverage", given, error_call)
}

picture_agreement <- function(x, error_call = rlang::caller_env()) {
  columns <- list(
    name = text_list(x$coefficient),
    value = as_py_numbers(x$value),
    low = as_py_numbers(x$low),
    high = as_py_numbers(x$high),
    n_units = as_py_list(x$n_units),
    n_coders = as_py_list(x$n_coders)
  )
  picture("agreement", list(columns = columns, level = attr(x, "level")), error_call)
}

picture_estimates <- function(x, error_call = rlang::caller_env()) {
  picture("estimates", estimates_for_report(x), error_call)
}

picture_robustness <- function(x, error_call = rlang::caller_env()) {
  if (!is.null(x$estimates)) {
    return(picture("variants", variants_for_report(x), error_call))
  }
  given <- list(
    variants = as_py_list(x$summary$variant),
    names = as_py_list(x$ranges$label),
    n_texts = nrow(x$labels),
    flips = as_py_numbers(x$summary$flips),
    shares = rows_of(unname(as.matrix(x$summary[-(1:2)])))
  )
  picture("robustness", given, error_call)
}

picture_comparison <- function(x, error_call = rlang::caller_env()) {
  picture("comparison", list(json = x$json), error_call)
}

picture_timeline <- function(x, error_call = rlang::caller_env()) {
  columns <- lapply(attr(x, "timing"), as_py_numbers)
  if (is.null(attr(x, "timing"))) {
    columns <- list(queue_s = list(), first_token_s = list(), wall_s = list())
  }
  given <- c(columns, n_slots = as.integer(attr(x, "stats")$n_slots %||% 0L))
  picture("timeline", given, error_call)
}

picture_stats <- function(x, error_call = rlang::caller_env()) {
  names <- c(
    "n_prompts",
    "wall_s",
    "prefill_s",
    "decode_s",
    "n_prefill_tokens",
    "n_decode_tokens",
    "prefill_tokens_per_s",
    "decode_tokens_per_s"
  )
  picture("time", lapply(unclass(x)[names], as.double), error_call)
}
