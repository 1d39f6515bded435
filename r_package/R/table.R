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
  cat(sprintf(
    "<llamaherd_table> %d of %d %s answered\n",
    sum(!failed),
    length(failed),
    plural(length(failed), "prompt")
  ))
  first <- utils::head(plain_frame(x), n)
  if (tibble) {
    names <- if (is.character(attr(x, "row.names"))) "name"
    print(tibble::as_tibble(first, rownames = names, .name_repair = "minimal"), n = n)
  } else {
    print(first)
  }
  if (nrow(x) > n) {
    cat(sprintf("... and %d more\n", nrow(x) - n))
  }
  invisible(x)
}

# Prints data frames on the console: a few rows, one line per row, and the columns that fit.

# Prints rows. `first` are columns that are shown before others if not all fit.
print_rows <- function(frame, n, width, first = character()) {
  part <- utils::head(frame, n)
  # Columns without a name, and several columns with the same name, are also part.
  without <- is.na(names(part)) | !nzchar(names(part))
  names(part) <- make.unique(replace(names(part), without, "(no name)"))
  most <- min(36L, max(12L, width %/% 2L))
  cells <- lapply(rlang::set_names(names(part)), \(name) cells_of(part[[name]], most))
  rows <- encode(rownames(part))
  columns <- c(list(rows), unname(cells))
  heads <- c("", names(part))
  wide <- mapply(
    \(cells, head) max(nchar(c(cells, head), "width")),
    columns,
    heads
  )
  order <- unique(c(intersect(first, names(part)), names(part)))
  has_room <- cumsum(wide[match(order, heads)] + 1L) + wide[[1]] <= width
  kept <- intersect(names(part), order[cumsum(!has_room) == 0])
  at <- c(1L, match(kept, heads))
  lines <- mapply(
    \(cells, head, wide, left) {
      formatC(
        c(head, cells),
        width = if (left) -wide else wide,
        flag = if (left) "-" else ""
      )
    },
    columns[at],
    heads[at],
    wide[at],
    c(TRUE, vapply(part[kept], \(x) !is.numeric(x), TRUE)),
    SIMPLIFY = FALSE
  )
  show_lines(sub(" +$", "", do.call(paste, lines)))
  if (nrow(frame) > n) {
    n_more <- nrow(frame) - n
    show_lines(sprintf("... %s more %s", big(n_more), plural(n_more, "row")))
  }
  more <- setdiff(names(part), kept)
  if (length(more) > 0) {
    columns <- plural(length(more), "column")
    words <- sprintf("... %d more %s: %s", length(more), columns, toString(more))
    show_lines(strwrap(words, width, exdent = 4))
  }
}

# Used in place of cli::pluralize(), which needs the package glue in some versions of cli.
plural <- function(n, noun) if (n == 1) noun else paste0(noun, "s")

# Formats values as texts in a line with a maximum width on the screen.
cells_of <- function(x, most = 36L) {
  if (is.list(x)) {
    return(sprintf("<%s>", vapply(x, \(one) class(one)[[1]], "")))
  }
  if (is.numeric(x) && is.null(attr(x, "class"))) {
    return(column_text(x))
  }
  text <- as.character(x)
  text <- cut_to(encode(text), most)
  text[is.na(x)] <- "NA"
  text
}

# Formats a column of numbers with three significant digits, or with more if a number between -1
# and 1 would look like 0, 1 or -1.
column_text <- function(x) {
  gap <- pmin(abs(x), 1 - abs(x))
  at <- which(gap > 1e-9) # smaller distances are rounding errors
  for (digits in 3:9) {
    text <- format(x, digits = digits, decimal.mark = ".")
    if (!any(abs(as.numeric(text[at])) %in% c(0, 1))) {
      break
    }
  }
  text
}

# Returns whole numbers with commas, also with options(OutDec = ",").
big <- function(n) formatC(n, format = "d", big.mark = ",", decimal.mark = ".")

# All numbers in printed objects, plots and files have a point, also with options(OutDec = ","): so
# have the texts that Python writes. Within the calling function, R writes numbers in this way.
# Methods of print() and format() call this function, see zzz.R.
local_point <- function(frame = parent.frame()) {
  rlang::local_options(OutDec = ".", .frame = frame)
}

# Returns labels of the ticks of an axis, for ggplot2, which calls the function when a plot is
# printed.
tick_labels <- function(x) {
  ifelse(is.na(x), NA, format(x, trim = TRUE, justify = "left", decimal.mark = "."))
}

# Returns numbers with a point, also with options(OutDec = ","); never -0.00.
with_decimals <- function(x, digits) {
  text <- formatC(x, digits = digits, format = "f", decimal.mark = ".")
  sub("^-(0[.]?0*)$", "\\1", text)
}
