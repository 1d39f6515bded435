# Converts JSON texts to the columns of a data frame.

# Returns a data frame with one row per text; NA gives a row of NA. Values other than objects become
# a column `value`.
text_columns <- function(text, column, dotted = FALSE) {
  columns <- as_column(parse_texts(text), column, dotted)
  if (column$kind == "object") columns else new_frame(list(value = columns), length(text))
}

# Returns parsed values, NULL for NA. Parsing all texts together is much faster than parsing them
# one by one. A single invalid text would make the whole call fail, but Python returns only valid
# JSON.
parse_texts <- function(text) {
  values <- vector("list", length(text))
  at <- which(!is.na(text))
  json <- without_nul(text[at])
  # Whole numbers beyond 2^53 become texts, because R's numbers would round them.
  parse <- \(json) jsonlite::parse_json(json, bigint_as_char = TRUE)
  values[at] <- tryCatch(
    parse(sprintf("[%s]", paste(json, collapse = ","))),
    error = \(cnd) lapply(json, \(one) tryCatch(parse(one), error = \(cnd) NULL))
  )
  values
}

# Replaces NUL characters, because texts in R cannot contain them.
without_nul <- function(json) {
  gsub("(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000", "\\1\\\\ufffd", json, perl = TRUE)
}

# Converts values to a column. `values` is a list of jsonlite's values without simplification, NULL
# for missing values. A value whose type differs from the column's type becomes NA.
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

# Recognizes jsonlite's form of a whole number beyond 2^53.
is_large <- function(x) is.character(x) && grepl("^-?[0-9]{16,}$", x[[1]])

number_column <- function(values) {
  large <- vapply(values, is_large, logical(1))
  values[large] <- lapply(values[large], as.double)
  atomic_column(values, is.numeric, NA_real_)
}

# Returns doubles if a value has more than 32 bits, because as an integer it would become NA and
# look like a missing answer. Returns texts if a value is beyond 2^53, because a double would be a
# different number.
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

# Converts all elements to one column and then splits this column. Returns NULL if there is no
# array.
array_column <- function(values, items, dotted) {
  is_array <- vapply(values, is.list, logical(1))
  flat <- as_column(
    unlist(values[is_array], recursive = FALSE, use.names = FALSE),
    items,
    dotted
  )
  n <- lengths(values[is_array])
  end <- cumsum(n)
  result <- vector("list", length(values))
  result[is_array] <- Map(\(n, end) slice(flat, end - n, n), n, end)
  result
}

# Returns the `n` elements, or rows, that follow the first `from` elements or rows.
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

# Returns the member with a name. A name may be "", which `[[` does not find.
member <- function(x, name) {
  at <- if (is.list(x)) match(name, names(x), nomatch = 0L) else 0L
  if (at > 0) x[[at]]
}

# Creates a data frame whose columns may be data frames; data.frame() would split such columns.
new_frame <- function(columns, n, row_names = .set_row_names(n)) {
  names(columns) <- names(columns) %||% character()
  structure(columns, row.names = row_names, class = "data.frame")
}

# Replaces columns that are data frames by columns with dotted names.
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

# Columns for answers that follow JSON Schemas, as Python determines them. A field whose type is not
# fixed, or does not match any type of column, becomes a list column, of kind "any".
#
# A column is a list with `kind`. An "enum" also has `levels`, an "array" has `items` and an
# "object" has `fields`; items and fields are columns themselves.

# Returns the columns for answers to schemas in JSON; combined if there are several.
schema_columns <- function(texts) {
  as_schema_column(py_call("schema_columns", as.list(unique(texts))))
}

as_schema_column <- function(x) {
  result <- list(kind = x[["kind"]])
  switch(
    x[["kind"]],
    enum = result$levels <- as_text(x[["levels"]]),
    array = result$items <- as_schema_column(x[["items"]]),
    object = result$fields <- stats::setNames(
      lapply(x[["fields"]], as_schema_column),
      as_text(x[["names"]])
    )
  )
  result
}

#' Describe a schema for the prompt
#'
#' A schema constrains the form of answers, but the model does not see it. `schema_prompt()` writes
#' an instruction that names the fields and their descriptions, for the prompt or the system
#' message.
#'
#' @param schema A schema, see [generate_parallel()]: a type such as [type_object()], a JSON Schema,
#'   or a list of schemas.
#' @returns A string; for a list of schemas a character vector with one element per schema.
#' @seealso [type_object()], [generate_parallel()]
#' @export
#' @examplesIf llamaherd_available()
#' schema <- type_object(
#'   reason = type_string("Why, in one sentence."),
#'   sentiment = type_enum(c("positive", "negative"))
#' )
#' cat(schema_prompt(schema))
schema_prompt <- function(schema) {
  rlang::check_required(schema)
  n <- if (is_per_prompt_schema(schema)) length(schema) else 1L
  texts <- check_schema(schema, "schema", n)
  if (is.null(texts) || any(vapply(as.list(unclass(texts)), is.null, logical(1)))) {
    abort_argument("schema", "a type or a JSON Schema", schema)
  }
  as_text(py_call("schema_prompt", as_py_list(unclass(texts))))
}
