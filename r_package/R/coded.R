# The class llamaherd_coded: a data frame with columns that annotate_texts() has added, and the
# attribute `llamaherd`, the record of how they were made. An operation keeps the class and the
# record as long as the record describes the data: the columns of texts and labels exist, possibly
# renamed, and each row is a coded row with its original label. If the record no longer describes
# the data, the result is a plain data frame.

as_coded <- function(data, coding) {
  if (!all(coding$needs %in% names(data))) {
    return(data)
  }
  coding$probs <- coding$probs[coding$probs %in% names(data)]
  coding$columns <- coding$columns[coding$columns %in% names(data)]
  if (inherits(data, "data.table")) {
    return(set_coding(data.table::copy(data), coding))
  }
  attr(data, "llamaherd") <- coding
  class(data) <- c("llamaherd_coded", setdiff(class(data), "llamaherd_coded"))
  data
}

# Returns the result of an operation on coded texts. The result keeps the class and the record if
# all of its rows are coded rows with their labels; otherwise it is a plain data frame, and a
# warning reports the loss.
kept_coding <- function(data, coded, warns = TRUE) {
  coding <- attr(coded, "llamaherd")
  if (!all(coding$needs %in% names(data))) {
    return(data)
  }
  if (rlang::is_reference(data, coded)) {
    data <- without_coding(data)
  }
  unknown <- uncoded_rows(data, coding, columns_needed(coded, coding))
  if (length(unknown) == 0) {
    return(as_coded(data, coding))
  }
  if (!warns) {
    return(data)
  }
  warn(
    c(
      "Row {unknown[[1]]} of the result was not coded by {.fn annotate_texts}, or has another
       label. The result has no record of how its labels were made.",
      i = "{.fn coded_restore} restores the record of coded rows."
    ),
    "record",
    NULL
  )
  data
}

columns_needed <- function(data, coding) lapply(coding$needs, \(name) data[[name]])

# Returns the indices of rows that are not coded rows with their labels. `known` contains the
# columns `needs` of coded rows. The record has a key of each row that the model coded, so that
# pieces of a coded data frame can be bound again.
uncoded_rows <- function(data, coding, known = NULL) {
  if (length(coding$needs) == 0) {
    return(integer())
  }
  rows <- columns_needed(data, coding)
  unknown <- seq_len(nrow(data))
  if (!is.null(known)) {
    unknown <- which(is.na(match_rows(rows, known)))
  }
  if (length(unknown) > 0 && length(coding$keys) > 0) {
    keys <- row_keys(lapply(rows, `[`, unknown))
    unknown <- unknown[!keys %in% coding$keys]
  }
  unknown
}

# Returns a number for each row, which differs between different rows.
row_keys <- function(columns) {
  texts <- lapply(unname(as.list(columns)), \(column) enc2utf8(value_text(column)))
  hashes <- do.call(mapply, c(list(\(...) rlang::hash(c(...))), texts, USE.NAMES = FALSE))
  as.numeric(sprintf("0x%s", substr(as.character(hashes), 1L, 13L)))
}

# Refuses rows that were added to coded texts, or changed, without an operation that this package
# sees, such as data.table::set().
check_coded_rows <- function(data, arg) {
  coding <- if (inherits(data, "llamaherd_coded")) attr(data, "llamaherd")
  if (length(coding$keys) == 0 || !all(coding$needs %in% names(data))) {
    return(invisible())
  }
  unknown <- uncoded_rows(data, coding)
  if (length(unknown) > 0) {
    abort(c(
      "Row {unknown[[1]]} of {.arg {arg}} was not coded by {.fn annotate_texts}, or has another
       label.",
      i = "Remove such rows, or use {.code as.data.frame({arg})} for data without the record of
           how the labels were made."
    ))
  }
}

# Records the keys of the rows with their texts and labels, and with all probabilities; see
# uncoded_rows() and check_coded_probs().
with_keys <- function(coding, data) {
  coding$keys <- unique(row_keys(columns_needed(data, coding)))
  coding$prob_keys <- unique(prob_keys(data, coding))
  coding
}

# Returns NULL without probabilities, or if a column of them was removed.
prob_keys <- function(data, coding) {
  columns <- unname(coding$columns[coding$prob_roles])
  if (length(columns) > 0 && all(columns %in% names(data))) {
    probs <- lapply(columns, \(name) sprintf("%.6f", as.double(data[[name]])))
    row_keys(c(columns_needed(data, coding), probs))
  }
}

# Refuses coded texts whose probabilities were changed.
check_coded_probs <- function(data, arg) {
  coding <- attr(data, "llamaherd")
  changed <- if (length(coding$prob_keys) > 0 && nrow(data) > 0) {
    which(!prob_keys(data, coding) %in% coding$prob_keys)
  }
  if (length(changed) > 0) {
    abort(
      c(
        "Row {changed[[1]]} of {.arg {arg}} has other probabilities than those of
         {.fn annotate_texts}.",
        i = "Write other probabilities to a new column."
      ),
      argument = arg
    )
  }
}

# Refuses data without the record of annotate_texts() whose columns show that the record would
# change the result: texts with several labels, or labels on a scale. The arguments `several` and
# `scale` of the caller replace the record.
check_lost_record <- function(data, label, arg, several, scale, scale_arg = "scale") {
  if (
    !is.data.frame(data) || inherits(data, "llamaherd_coded") || !endsWith(label, "label")
  ) {
    return(invisible())
  }
  start <- sub("label$", "", label)
  has <- \(...) all(paste0(start, c(...)) %in% names(data))
  has_several <- !has("prob") && length(columns_of_labels(label, data)) > 0
  has_scale <- has("mean", "prob", "margin", "entropy") && !is.ordered(data[[label]])
  missing <- c(
    if (is.null(several) && has_several) "several",
    if (is.null(several %||% scale) && has_scale) scale_arg
  )
  if (!has("coverage", "error") || length(missing) == 0) {
    return(invisible())
  }
  abort(c(
    "{.arg {arg}} has lost the record of {.fn annotate_texts}, and its columns show
     {if (missing == 'several') 'several labels per text' else 'labels on a scale'}.",
    i = "{.fn coded_restore} restores the record. Without the record, set {.arg {missing}}."
  ))
}

# Finds for each row the row of `known` with equal values; NA if there is no such row. Both
# arguments are lists of columns.
match_rows <- function(rows, known) {
  if (identical(rows, known)) {
    return(seq_along(rows[[1]]))
  }
  at <- of <- 1
  for (i in seq_along(rows)) {
    values <- value_text(known[[i]])
    # Rows with equal values in all columns so far form a group. Each distinct pair of a group and a
    # value of the next column gets a number.
    of <- of * (length(values) + 1) + match(values, values)
    at <- at * (length(values) + 1) + match(value_text(rows[[i]]), values)
    at <- match(at, of)
    of <- match(of, of)
  }
  at
}

# Returns the plain data frame, with its original class.
without_coding <- function(x) {
  if (inherits(x, "data.table")) {
    return(set_coding(data.table::copy(x), NULL))
  }
  attr(x, "llamaherd") <- NULL
  class(x) <- setdiff(class(x), "llamaherd_coded")
  x
}

#' Restore the record of how labels were made
#'
#' The return value of [annotate_texts()] records the codebook, prompts and model of its labels,
#' which [report()], [plot()][plots] and [gold_sample()] use. The record is kept when rows are
#' removed, sorted, grouped or bound again, and when columns are added or renamed. A warning reports
#' the loss of the record if you edit a label or a text, add rows, or bind the rows of several runs;
#' the columns remain. The record is also lost if you save the data as a CSV file or nest them, or
#' if they are the right table of a join. [validate()], [estimate()] and [gold_sample()] refuse data
#' without a record whose columns show several labels per text or labels on a scale. This function
#' restores the record from the return value of `annotate_texts()`, which you can store with
#' [saveRDS()].
#'
#' @param data A data frame with the columns of texts and labels, for some or all of the labelled
#'   rows, in any order. Further columns are allowed. Labels may be text, as in a CSV file.
#' @param coded Return value of `annotate_texts()`.
#' @returns `data` in the form that `annotate_texts()` returns. A row whose text was not labelled,
#'   or whose label differs from the recorded label, causes an error.
#' @seealso [report()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' topics <- codebook("Label the topic of each news text.", unique(news$topic))
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' coded <- annotate_texts(news[c(1, 16, 31, 46), ], text, topics, context)
#' kept <- tempfile(fileext = ".rds")
#' saveRDS(coded, kept)
#'
#' # A table that another program reads and writes.
#' table <- tempfile(fileext = ".csv")
#' write.csv(as.data.frame(coded)[c("text", "label")], table, row.names = FALSE)
#' coded_restore(read.csv(table), readRDS(kept))
coded_restore <- function(data, coded) {
  data <- check_data(data)
  check_class(coded, "llamaherd_coded")
  coding <- attr(coded, "llamaherd")
  if (inherits(data, "llamaherd_coded")) {
    data <- without_coding(data)
  }
  needs <- c(coding$text, coding$label)
  missing <- setdiff(needs, names(data))
  if (length(missing) > 0) {
    abort(c(
      "{.arg data} has no column {.field {missing[[1]]}}, which it had when it was coded.",
      i = "There are {listed_columns(data)}."
    ))
  }
  check_same_coding(data, coded, needs)
  if (is.factor(coded[[coding$label]])) {
    data[[coding$label]] <- factor(
      value_text(data[[coding$label]]),
      levels(coded[[coding$label]]),
      ordered = is.ordered(coded[[coding$label]])
    )
  }
  as_coded(data, coding)
}

# Checks that each row is one of the coded rows.
check_same_coding <- function(data, coded, needs) {
  columns_of <- \(frame) lapply(needs, \(name) frame[[name]])
  other <- which(is.na(match_rows(columns_of(data), columns_of(coded))))
  if (length(other) > 0) {
    row <- other[[1]]
    values <- vapply(needs, \(name) value_text(data[[name]][[row]]), "")
    abort(c(
      "Row {row} of {.arg data} was not coded, or has another label.",
      i = "Its {.field {needs}}: {.val {shorten(values, 40L)}}."
    ))
  }
}

#' @export
print.llamaherd_coded <- function(
  x,
  ...,
  n = 10L,
  width = getOption("width"),
  tibble = has_tibble()
) {
  is_silent <- is_table_of(x, the$not_printed)
  the$not_printed <- NULL
  if (is_silent) {
    return(invisible(x))
  }
  coding <- attr(x, "llamaherd")
  label <- coding$label
  counts <- NULL
  if (length(label) == 1 && is.factor(x[[label]])) {
    shares <- table(x[[label]])
    largest <- utils::head(shares[shares > 0], 6)
    none <- names(utils::head(shares[shares == 0], 6))
    if (length(largest) > 0) {
      counts <- paste0(": ", paste(names(largest), big(largest), collapse = ", "))
      counts <- c(counts, if (length(none) > 0) paste0("; none: ", toString(none)))
    }
  }
  head <- paste("<llamaherd_coded>", count_of(nrow(x), "text"))
  show_lines(paste(c(head, counts), collapse = ""))
  if (!is.null(coding$recalibration)) {
    show_page(format(coding$recalibration))
  }
  cat(sprintf("Steps: %s\n", as_text(coding$run$steps$methods)), sep = "")
  show_page(sprintf("Note: %s", as_sentences(coding$run$notes)))
  data <- without_coding(x)
  if (inherits(data, "tbl_df") && tibble) {
    print(data, ..., n = n, width = width)
  } else {
    first <- c(coding$text, label, coding$columns["prob"])
    print_rows(data, n, width, first)
  }
  invisible(x)
}
