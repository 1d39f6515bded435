# The class llamaherd_table: a data frame with one row per prompt, and attributes with one element
# per prompt. Subsets and bound rows are plain data frames, because the attributes would not match
# their rows.

# Creates a table. `names` are the names of the prompts, `...` the attributes.
new_table <- function(frame, names, ...) {
  structure(
    frame,
    row.names = row_names(names, nrow(frame)),
    class = c("llamaherd_table", "data.frame"),
    ...
  )
}

# Returns row names, which must be unique in a data frame.
row_names <- function(names, n) {
  if (is.null(names) || anyNA(names) || !all(nzchar(names)) || anyDuplicated(names)) {
    .set_row_names(n)
  } else {
    names
  }
}

# Creates a table of answers from a llamaherd_result of JSON texts; prompts without a schema get a
# row of NA.
answers_table <- function(result, column, dotted, has_schema = TRUE) {
  text <- unname(plain(result))
  json <- replace(text, rep_len(!has_schema, length(text)), NA)
  frame <- text_columns(json, column, dotted)
  frame <- with_thoughts(frame, attr(result, "thoughts"))
  attributes <- attributes(result)[setdiff(
    names(attributes(result)),
    c("names", "class", "answers")
  )]
  rlang::exec(new_table, frame, names(result), text = text, !!!attributes)
}

# Returns the texts of a table of answers, with their attributes.
text_result <- function(x) {
  if (!is.data.frame(x)) {
    return(x)
  }
  kept <- setdiff(names(attributes(x)), c("names", "row.names", "class", "text"))
  rlang::exec(
    structure,
    attr(x, "text"),
    answers = attr(x, "text"),
    !!!attributes(x)[kept],
    class = c("llamaherd_result", "character")
  )
}

output_texts <- function(x) if (is.data.frame(x)) attr(x, "text") else plain(x)

# Selects rows of a table of answers and returns a table.
rows_of_table <- function(x, at) {
  part <- text_result(x)[at]
  kept <- setdiff(names(attributes(part)), c("names", "class", "answers"))
  frame <- plain_frame(x)[at, , drop = FALSE]
  rlang::exec(new_table, frame, NULL, text = plain(part), !!!attributes(part)[kept])
}

# Returns the data frame without its class and attributes.
plain_frame <- function(x) {
  new_frame(lapply(unclass(x), identity)[names(x)], nrow(x), attr(x, "row.names"))
}

#' @export
`[<-.llamaherd_table` <- function(x, ..., value) {
  x <- plain_frame(x)
  x[...] <- value
  x
}

#' @export
rbind.llamaherd_table <- function(...) {
  frames <- lapply(list(...), \(x) {
    if (inherits(x, "llamaherd_table")) plain_frame(x) else x
  })
  do.call(rbind, frames)
}

# Loads the package tibble, so that its methods are registered: a tibble may have been read from a
# file.
has_tibble <- function() requireNamespace("tibble", quietly = TRUE)

#' @export
print.llamaherd_table <- function(
  x,
  ...,
  n = 20L,
  tibble = has_tibble()
) {
  failed <- attr(x, "finish_reason") %in% c("error", "cancelled")
  show_answered(x, sum(!failed), length(failed))
  first <- utils::head(plain_frame(x), n)
  if (tibble) {
    names <- if (is.character(attr(x, "row.names"))) "name"
    print(tibble::as_tibble(first, rownames = names, .name_repair = "minimal"), n = n)
  } else {
    print(first)
  }
  show_more(nrow(x) - n, "row")
  invisible(x)
}
