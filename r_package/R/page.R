# Prints pages and tables on the console, as wide as it is.

# Prints the lines of a page, which Python writes for a width of 88 or 90.
show_page <- function(lines, width = getOption("width")) {
  show_lines(fitted_page(as.character(lines), width))
}

# Returns lines that fit into a width: sentences are wrapped again, and the columns of a table that
# have no room follow below, as those of a data frame do.
fitted_page <- function(lines, width) {
  lines <- joined_sentences(lines)
  is_row <- grepl("\\S {2,}\\S", lines)
  # A row may have a single cell.
  before <- c(FALSE, utils::head(is_row, -1))
  is_row <- is_row | (nzchar(lines) & before & c(is_row[-1], FALSE))
  parts <- split(lines, cumsum(c(TRUE, diff(is_row) != 0)[seq_along(lines)]))
  fitted <- lapply(parts, \(part) {
    if (max(nchar(part, "width")) <= width) {
      part
    } else if (grepl("\\S {2,}\\S", part[[1]])) {
      folded_table(part, width)
    } else {
      wrapped(part, width)
    }
  })
  as.character(unlist(fitted))
}

# Joins lines that Python has wrapped: the next line is indented, and its first word had no room.
joined_sentences <- function(lines) {
  for (i in rev(seq_along(lines))[-1]) {
    pair <- lines[i + 0:1]
    is_text <- c(nzchar(pair[[1]]), startsWith(pair[[2]], "  ")) &
      !grepl("\\S {2,}\\S", pair)
    word <- sub("^ *(\\S*).*$", "\\1", pair[[2]])
    if (all(is_text) && nchar(pair[[1]]) < 91L && nchar(pair[[1]]) + nchar(word) > 86L) {
      lines[[i]] <- paste(pair[[1]], trimws(pair[[2]]))
      lines <- lines[-(i + 1L)]
    }
  }
  lines
}

# Wraps lines that are too long; the next lines are indented by two more spaces.
wrapped <- function(lines, width) {
  unlist(lapply(lines, \(line) {
    if (nchar(line, "width") <= width) {
      return(line)
    }
    indent <- nchar(sub("^( *).*$", "\\1", line))
    strwrap(line, width + 1L, indent = indent, exdent = indent + 2L)
  }))
}

# Returns the rows of a table with as many columns as fit, then its first column with further ones.
folded_table <- function(rows, width) {
  columns <- columns_of_rows(rows)
  if (length(columns) == 1) {
    return(wrapped(rows, width))
  }
  wide <- vapply(columns, \(column) max(nchar(column, "width")), 1L)
  names <- trimws(columns[[1]], "right")
  room <- max(width - max(wide[-1]), 12L)
  is_long <- nchar(names) > room
  half <- (room - 3L) %/% 2L
  ends <- substring(names, nchar(names) - half + 1L)
  names[is_long] <- paste0(substr(names, 1L, room - 3L - half), "...", ends)[is_long]
  # format() counts a backslash twice.
  widths <- nchar(names, "width")
  columns[[1]] <- paste0(names, strrep(" ", max(widths) - widths))
  wide[[1]] <- nchar(columns[[1]][[1]], "width")
  lines <- character()
  i <- 2L
  while (i <= length(columns)) {
    n <- max(1, sum(cumsum(wide[i:length(columns)]) <= width - wide[[1]]))
    lines <- c(lines, do.call(paste0, columns[c(1L, seq(i, length.out = n))]))
    i <- i + n
  }
  wrapped(trimws(lines, "right"), width)
}

# Returns the columns of a table, which two blanks or more in all rows separate. The blanks are part
# of the second column.
columns_of_rows <- function(rows) {
  n <- max(nchar(rows))
  rows <- paste0(rows, strrep(" ", n - nchar(rows)))
  is_blank <- colSums(do.call(rbind, strsplit(rows, "")) != " ") == 0
  runs <- rle(is_blank)
  from <- cumsum(c(1L, runs$lengths))[seq_along(runs$lengths)]
  is_gap <- runs$values & runs$lengths > 1L & from > 1L & from + runs$lengths <= n
  starts <- c(1L, from[is_gap])
  unname(Map(\(from, to) substr(rows, from, to), starts, c(starts[-1] - 1L, n)))
}

# Formats a text in one line; NA becomes "NA".
encode <- function(x) visible(encodeString(readable(x)))

# Shows characters that would change the direction of a line, or begin another line, as escapes.
visible <- function(x) {
  x <- as_utf8(x)
  for (i in which(grepl(hidden_characters, x, perl = TRUE))) {
    characters <- utf8ToInt(x[[i]])
    letters <- intToUtf8(characters, multiple = TRUE)
    hidden <- grepl(hidden_characters, letters, perl = TRUE)
    letters[hidden] <- sprintf("\\u%04x", characters[hidden])
    x[[i]] <- paste(letters, collapse = "")
  }
  x
}

hidden_characters <- "[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\u0085]"

# Writes lines to the console, and the number of those after `most`.
show_lines <- function(lines, most = 200L) writeLines(visible(first_lines(lines, most)))

first_lines <- function(lines, most, noun = "line") {
  more <- length(lines) - most
  if (more <= 0) {
    return(lines)
  }
  c(utils::head(lines, most), paste("... and", count_of(more, paste("more", noun))))
}

# Cuts texts to a number of columns on the screen.
cut_to <- function(x, width) {
  long <- nchar(x, "width") > width
  x[long] <- paste0(strtrim(x[long], width - 3L), "...")
  x
}

# Returns the names of prompts, or the index of a prompt without a name.
labels_of <- function(x) {
  rows <- attr(x, "row.names") %||% if (is.matrix(x)) rownames(x)
  if (is.numeric(rows)) {
    return(sprintf("[%d]", rows))
  }
  label <- rows %||% rlang::names2(x)
  ifelse(nzchar(label), label, sprintf("[%d]", seq_along(x)))
}

# Returns lines with at most `n` rows of each table. Lines of tables begin with spaces, the first
# one has the names of the columns.
first_rows <- function(lines, n) {
  parts <- split(lines, cumsum(c(TRUE, diff(startsWith(lines, "  ")) != 0)))
  short <- lapply(unname(parts), \(part) {
    n_more <- length(part) - 1L - n
    if (!startsWith(part[[1]], "  ") || n_more <= 0) {
      return(part)
    }
    c(utils::head(part, n + 1L), sprintf("  ... and %s more", big(n_more)))
  })
  as.character(unlist(short))
}

# Ends notes with a period, unless they have another end.
as_sentences <- function(notes) {
  sub("([^.!?:])$", "\\1.", as_text(notes))
}

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
  show_more(nrow(frame) - n, "row")
  more <- setdiff(names(part), kept)
  if (length(more) > 0) {
    words <- paste("...", count_of(length(more), "more column"))
    show_lines(strwrap(paste0(words, ": ", toString(more)), width, exdent = 4))
  }
}

# Used in place of cli::pluralize(), which needs the package glue in some versions of cli.
plural <- function(n, noun) if (n == 1) noun else paste0(noun, "s")

# Returns a count with its noun, such as "2,000 texts".
count_of <- function(n, noun) paste(big(n), plural(n, noun))

# Prints the number of rows or elements that were left out; nothing for 0 or less.
show_more <- function(n, noun) {
  if (n > 0) show_lines(paste("...", count_of(n, paste("more", noun))))
}

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
