# Prints data frames on the console: a few rows, one line per row, and the columns that fit.

# Prints rows. `first` are columns that are shown before others if not all fit.
print_rows <- function(frame, n, width, first = character()) {
  shown <- utils::head(frame, n)
  # Columns without a name, and several columns with the same name, are also shown.
  without <- is.na(names(shown)) | !nzchar(names(shown))
  names(shown) <- make.unique(replace(names(shown), without, "(no name)"))
  most <- min(36L, max(12L, width %/% 2L))
  cells <- lapply(rlang::set_names(names(shown)), \(name) cells_of(shown[[name]], most))
  rows <- encode(rownames(shown))
  columns <- c(list(rows), unname(cells))
  heads <- c("", names(shown))
  wide <- mapply(
    \(cells, head) max(nchar(c(cells, head), "width")),
    columns,
    heads
  )
  order <- unique(c(intersect(first, names(shown)), names(shown)))
  has_room <- cumsum(wide[match(order, heads)] + 1L) + wide[[1]] <= width
  kept <- intersect(names(shown), order[cumsum(!has_room) == 0])
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
    c(TRUE, vapply(shown[kept], \(x) !is.numeric(x), TRUE)),
    SIMPLIFY = FALSE
  )
  show_lines(sub(" +$", "", do.call(paste, lines)))
  if (nrow(frame) > n) {
    n_more <- nrow(frame) - n
    show_lines(sprintf("... %s more %s", big(n_more), plural(n_more, "row")))
  }
  more <- setdiff(names(shown), kept)
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
  at <- which(gap > share_rounding)
  for (digits in 3:most_decimals) {
    text <- format(x, digits = digits, decimal.mark = ".")
    if (!any(abs(as.numeric(text[at])) %in% c(0, 1))) {
      break
    }
  }
  text
}

# Returns whole numbers with commas, also with options(OutDec = ",").
big <- function(n) formatC(n, format = "d", big.mark = ",", decimal.mark = ".")
