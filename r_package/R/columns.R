# From JSON texts to the columns of a data frame.

# A data frame with a row for each text; NA: a row of NA. What is no object is a column
# `value`.
text_columns <- function(text, column, dotted = FALSE) {
  columns <- as_column(parse_texts(text), column, dotted)
  if (column$kind == "object") columns else new_frame(list(value = columns), length(text))
}

# Parsed values, NULL for NA. All at once is much faster than one by one; what is no JSON, of
# which Python lets none through, would spoil all others.
parse_texts <- function(text) {
  values <- vector("list", length(text))
  given <- which(!is.na(text))
  json <- without_nul(text[given])
  # Whole numbers beyond 2^53, which R's numbers would round, come as texts.
  parse <- \(json) jsonlite::parse_json(json, bigint_as_char = TRUE)
  values[given] <- tryCatch(
    parse(sprintf("[%s]", paste(json, collapse = ","))),
    error = \(cnd) lapply(json, \(one) tryCatch(parse(one), error = \(cnd) NULL))
  )
  values
}

# R's texts have no NUL.
without_nul <- function(json) {
  gsub("(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000", "\\1\\\\ufffd", json, perl = TRUE)
}

# `values` is a list of what jsonlite makes of JSON without simplifying, NULL where there is
# none. What is of another type than the column's is NA.
as_column <- function(values, column, dotted) {
  switch(
    column$kind,
    string = atomic_column(values, is.character, NA_character_),
    number = number_column(values),
    integer = integer_column(values),
    boolean = atomic_column(values, is.logical, NA),
    null = rep(NA, length(values)),
    enum = {
      text <- atomic_column(values, is.character, NA_character_)
      factor(text, levels = column$levels)
    },
    array = array_column(values, column$items, dotted),
    object = object_column(values, column$fields, dotted),
    values
  )
}

atomic_column <- function(values, is_kind, missing) {
  vapply(values, \(x) if (is_kind(x)) x[[1]] else missing, missing)
}

# How jsonlite gives a whole number beyond 2^53.
is_large <- function(x) is.character(x) && grepl("^-?[0-9]{16,}$", x[[1]])

number_column <- function(values) {
  large <- vapply(values, is_large, logical(1))
  values[large] <- lapply(values[large], as.double)
  atomic_column(values, is.numeric, NA_real_)
}

# Doubles where a value has more than 32 bits: NA would look like an answer left open. Texts
# where one is beyond 2^53: a double would be another number.
integer_column <- function(values) {
  large <- vapply(values, is_large, logical(1))
  if (any(large)) {
    small <- atomic_column(values, is.numeric, NA_real_)
    texts <- ifelse(is.na(small), NA_character_, sprintf("%.0f", small))
    texts[large] <- vapply(values[large], `[[`, character(1), 1L)
    return(texts)
  }
  numbers <- atomic_column(values, is.numeric, NA_real_)
  fits <- is.na(numbers) | abs(numbers) <= .Machine$integer.max
  if (all(fits)) as.integer(numbers) else numbers
}

# All elements are made one column, which is then cut up. NULL where there is no array.
array_column <- function(values, items, dotted) {
  given <- vapply(values, is.list, logical(1))
  flat <- as_column(
    unlist(values[given], recursive = FALSE, use.names = FALSE),
    items,
    dotted
  )
  n <- lengths(values[given])
  end <- cumsum(n)
  result <- vector("list", length(values))
  result[given] <- Map(\(n, end) slice(flat, end - n, n), n, end)
  result
}

# `n` elements, or rows, after the first `from`.
slice <- function(x, from, n) {
  at <- from + seq_len(n)
  if (!is.data.frame(x)) {
    return(x[at])
  }
  new_frame(lapply(unclass(x), slice, from, n), n)
}

object_column <- function(values, fields, dotted) {
  columns <- Map(
    \(field, name) as_column(lapply(values, \(x) member(x, name)), field, dotted),
    fields,
    names(fields)
  )
  frame <- new_frame(columns, length(values))
  if (dotted) dotted_frame(frame) else frame
}

# A name may be "", by which `[[` finds nothing.
member <- function(x, name) {
  at <- if (is.list(x)) match(name, names(x), nomatch = 0L) else 0L
  if (at > 0) x[[at]]
}

# A data frame whose columns may be data frames; data.frame() would spread them.
new_frame <- function(columns, n, row_names = .set_row_names(n)) {
  names(columns) <- names(columns) %||% character()
  structure(columns, row.names = row_names, class = "data.frame")
}

# Data frames in columns as columns with dotted names.
dotted_frame <- function(frame) {
  parts <- Map(
    \(column, name) {
      if (!is.data.frame(column)) {
        return(stats::setNames(list(column), name))
      }
      stats::setNames(unclass(column), paste(name, names(column), sep = "."))
    },
    unclass(frame),
    names(frame)
  )
  columns <- lapply(
    unlist(unname(lapply(parts, lapply, list)), recursive = FALSE),
    `[[`,
    1
  )
  names(columns) <- make.unique(names(columns))
  new_frame(columns, nrow(frame))
}
