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

# Returns the result of an operation on coded texts; it remains a llamaherd_coded if the record
# still describes the data.
kept_coding <- function(data, coded) {
  coding <- attr(coded, "llamaherd")
  is_there <- all(coding$needs %in% names(data))
  if (!is_there || anyNA(match_rows(data, coded, coding$needs))) {
    return(data)
  }
  as_coded(data, coding)
}

# Finds for each row of `data` the row of `coded` with equal values in some columns; NA if there is
# no such row.
match_rows <- function(data, coded, columns) {
  rows <- lapply(columns, \(name) data[[name]])
  known <- lapply(columns, \(name) coded[[name]])
  if (identical(rows, known)) {
    return(seq_len(nrow(data)))
  }
  at <- of <- 1
  for (i in seq_along(columns)) {
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

#' @export
`[.llamaherd_coded` <- function(x, ...) {
  if (inherits(x, "data.table")) {
    before <- lapply(attr(x, "llamaherd")$needs, \(name) rlang::duplicate(x[[name]]))
    # NextMethod() evaluates the arguments in the frame of the caller, like methods of data.table.
    part <- NextMethod()
    data_table_part(part, x, before)
  } else {
    part <- without_coding(x)[...]
    if (is.data.frame(part)) as_coded(part, attr(x, "llamaherd")) else part
  }
}

# Handles the result of data.table's `[`. The result is a part of the coded texts; if the call
# contains `:=`, it is `x` itself. Because `:=` changes `x` in place, changed labels are visible
# only by comparison with a copy made before.
data_table_part <- function(part, x, before) {
  coding <- attr(x, "llamaherd")
  changed <- !identical(before, lapply(coding$needs, \(name) x[[name]]))
  for (each in list(if (changed) x, part)) {
    if (data.table::is.data.table(each)) {
      is_it <- !changed && all(coding$needs %in% names(each))
      set_coding(each, if (is_it) coding)
    }
  }
  # A value of `[` is always visible; as for a data.table, the value of `:=` should not be printed.
  the$not_printed <- if (rlang::is_reference(part, x)) rlang::obj_address(part)
  part
}

# Sets the record of a data.table in place: R's replacement functions would create a copy of the
# table, and data.table could not change the copy by reference.
set_coding <- function(data, coding) {
  plain <- setdiff(class(data), "llamaherd_coded")
  data.table::setattr(data, "llamaherd", coding)
  data.table::setattr(data, "class", c(if (!is.null(coding)) "llamaherd_coded", plain))
}

#' @export
`[<-.llamaherd_coded` <- function(x, ..., value) {
  data <- without_coding(x)
  data[...] <- value
  kept_coding(data, x)
}

#' @export
`[[<-.llamaherd_coded` <- function(x, ..., value) {
  data <- without_coding(x)
  data[[...]] <- value
  kept_coding(data, x)
}

#' @export
`$<-.llamaherd_coded` <- function(x, name, value) {
  x[[name]] <- value
  x
}

# Also called by dplyr::rename().
#' @export
`names<-.llamaherd_coded` <- function(x, value) {
  coding <- attr(x, "llamaherd")
  at <- lapply(coding[named_columns], match, names(x))
  for (part in names(at)) {
    there <- !is.na(at[[part]])
    coding[[part]][there] <- as.character(value)[at[[part]][there]]
  }
  data <- without_coding(x)
  names(data) <- value
  as_coded(data, coding)
}

# Elements of the record that contain names of columns.
named_columns <- c("text", "label", "probs", "columns", "needs")

#' @export
rbind.llamaherd_coded <- function(...) {
  frames <- lapply(list(...), \(x) {
    if (inherits(x, "llamaherd_coded")) without_coding(x) else x
  })
  do.call(rbind, frames)
}

# Joins coded texts as the left table. If the join renames columns of the coded texts, the result is
# a plain data frame.
#' @export
merge.llamaherd_coded <- function(x, y, ...) {
  if (inherits(y, "llamaherd_coded")) {
    y <- without_coding(y)
  }
  kept_coding(merge(without_coding(x), y, ...), x)
}

#' @exportS3Method dplyr::dplyr_reconstruct
dplyr_reconstruct.llamaherd_coded <- function(data, template) {
  plain <- if (inherits(data, "llamaherd_coded")) without_coding(data) else data
  made <- dplyr::dplyr_reconstruct(plain, without_coding(template))
  kept_coding(made, template)
}

#' @exportS3Method dplyr::group_by
group_by.llamaherd_coded <- function(.data, ...) {
  kept_coding(dplyr::group_by(without_coding(.data), ...), .data)
}

#' @exportS3Method dplyr::ungroup
ungroup.llamaherd_coded <- function(x, ...) {
  kept_coding(dplyr::ungroup(without_coding(x), ...), x)
}

#' @exportS3Method dplyr::summarise
summarise.llamaherd_coded <- function(.data, ...) {
  dplyr::summarise(without_coding(.data), ...)
}

#' @exportS3Method tibble::as_tibble
as_tibble.llamaherd_coded <- function(x, ...) {
  tibble::as_tibble(without_coding(x), ...)
}

#' @export
as.data.frame.llamaherd_coded <- function(x, ...) {
  as.data.frame(without_coding(x), ...)
}

#' Restore the record of how labels were made
#'
#' The return value of [annotate_texts()] records the codebook, prompts and model of its labels,
#' which [report()], [plot()][plots] and [gold_sample()] use. The record is kept when rows are
#' removed or sorted and columns are added or renamed. The record is lost if you save the data as a
#' CSV file, edit a label or a text, bind the rows of several runs, or use [cbind()], [transform()]
#' or a right join; the columns remain. This function restores the record from the return value of
#' `annotate_texts()`, which you can store with [saveRDS()].
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
  error_call <- rlang::current_env()
  data <- check_data(data, error_call)
  check_class(coded, "llamaherd_coded", "coded", error_call, null = FALSE)
  coding <- attr(coded, "llamaherd")
  if (inherits(data, "llamaherd_coded")) {
    data <- without_coding(data)
  }
  needs <- c(coding$text, coding$label)
  missing <- setdiff(needs, names(data))
  if (length(missing) > 0) {
    abort(
      c(
        "{.arg data} has no column {.field {missing[[1]]}}, which it had when it was coded.",
        i = "There are {listed_columns(data)}."
      ),
      "argument",
      error_call
    )
  }
  check_same_coding(data, coded, needs, error_call)
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
check_same_coding <- function(data, coded, needs, error_call) {
  other <- which(is.na(match_rows(data, coded, needs)))
  if (length(other) > 0) {
    row <- other[[1]]
    values <- vapply(needs, \(name) value_text(data[[name]][[row]]), "")
    abort(
      c(
        "Row {row} of {.arg data} was not coded, or has another label.",
        i = "Its {.field {needs}}: {.val {shorten(values, 40L)}}."
      ),
      "argument",
      error_call
    )
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
  is_silent <- identical(the$not_printed, rlang::obj_address(x))
  the$not_printed <- NULL
  if (is_silent) {
    return(invisible(x))
  }
  coding <- attr(x, "llamaherd")
  label <- coding$label
  counts <- ""
  if (length(label) == 1 && is.factor(x[[label]])) {
    shares <- table(x[[label]])
    shown <- utils::head(shares[shares > 0], 6)
    counts <- paste0(
      if (length(shown) > 0) ": ",
      paste(names(shown), shown, collapse = ", ")
    )
  }
  cat(sprintf("<llamaherd_coded> %d %s%s\n", nrow(x), plural(nrow(x), "text"), counts))
  if (!is.null(coding$recalibration)) {
    writeLines(console_lines(coding$recalibration$line))
  }
  cat(sprintf("Steps: %s\n", as_text(coding$run$steps$methods)), sep = "")
  writeLines(notes_wrapped(sprintf("Note: %s", as_text(coding$run$notes))))
  data <- without_coding(x)
  if (inherits(data, "tbl_df") && tibble) {
    print(data, ..., n = n, width = width)
  } else {
    first <- c(coding$text, label, coding$columns["prob"])
    print_rows(data, n, width, first)
  }
  invisible(x)
}
