# Fits texts of plots to the size of the graphics device, in inches: names of rows, titles, and
# names beside points. Both drawings use these functions; they draw nothing.

# Wraps the title of a plot or a legend to lines of a maximum width.
in_lines <- function(text, width) paste(strwrap(text, width + 1L), collapse = "\n")

# Returns the number of lines of each text; an empty text has one line.
lines_of <- function(x) pmax(lengths(strsplit(as.character(x), "\n", fixed = TRUE)), 1L)

# Mean width of a character, relative to the height of a line of text.
character_width <- 0.5

# Returns names of rows or columns that fit `room`, the inches of each row, and their `size`
# relative to the usual size, at which a line has `line` inches. Names are wrapped to lines; if
# there is no room for several lines, each name has one line, and is smaller if there is not even
# room for one. Names stay different.
fitted_names <- function(x, room, line, width = 26L, widest = Inf) {
  for (n_lines in 3:1) {
    names <- if (n_lines > 1) wrapped(x, width, n_lines) else in_one_line(x, width)
    size <- room / (max(lines_of(names), 1) * line)
    if (size >= 0.8 && anyDuplicated(names) == 0) {
      break
    }
  }
  lines <- unlist(strsplit(names, "\n", fixed = TRUE))
  needed <- character_width * line * max(nchar(lines, "width"), 1)
  list(names = names, size = min(1, max(0.3, size), widest / needed))
}

# Returns names in one line, cut in the middle to the smallest width at which different names stay
# different.
in_one_line <- function(x, width = 26L) {
  for (most in width + c(4L, 14L, 24L, 64L)) {
    cut <- cut_middle(x, most)
    if (!anyDuplicated(cut)) {
      break
    }
  }
  cut
}

cut_middle <- function(x, width) {
  x <- trimws(gsub("[[:cntrl:][:space:]]+", " ", as.character(x)))
  long <- nchar(x) > width
  n_end <- (width - 3L) %/% 2L
  head <- substr(x[long], 1L, width - 3L - n_end)
  tail <- substring(x[long], nchar(x[long]) - n_end + 1L)
  x[long] <- paste0(head, "...", tail)
  x
}

# Wraps names of rows.
wrapped <- function(x, width = 26L, n_lines = 3L) {
  x <- gsub("[[:cntrl:]]+", " ", as.character(x))
  vapply(
    x,
    \(name) {
      lines <- strwrap(name, width)
      # Splits words that are too long for a line.
      lines <- unlist(lapply(lines, in_pieces, width))
      lines <- lines[nzchar(lines)]
      if (length(lines) > n_lines) {
        lines <- lines[seq_len(n_lines)]
        lines[[n_lines]] <- paste0(substr(lines[[n_lines]], 1L, width - 3L), "...")
      }
      if (length(lines) == 0) " " else paste(lines, collapse = "\n")
    },
    character(1),
    USE.NAMES = FALSE
  )
}

in_pieces <- function(line, width) {
  at <- seq(1L, max(nchar(line), 1L), by = width)
  substring(line, at, at + width - 1L)
}

# Returns the positions of names of points, in inches: beside their point, where they overlap the
# fewest other names and points, and lie inside of the panel. `x` is the left end of a name, `y` its
# middle, `end` the end that is next to the point. `size` is the width and height of the panel.
beside_points <- function(x, y, wide, high, size) {
  gap <- 0.08
  points <- cbind(x - 0.05, y - 0.05, x + 0.05, y + 0.05)
  placed <- matrix(0, 0, 4)
  at <- cbind(x = x, y = y, end = x)
  for (i in order(-y)) {
    shifts <- high[[i]] * c(0, 0.6, -0.6, 1.2, -1.2, 1.8, -1.8, 2.4, -2.4)
    left <- rep(c(x[[i]] + gap, x[[i]] - gap - wide[[i]]), length(shifts))
    middle <- y[[i]] + rep(shifts, each = 2)
    boxes <- cbind(
      left,
      middle - high[[i]] / 2,
      left + wide[[i]],
      middle + high[[i]] / 2
    )
    others <- rbind(placed, points)
    cost <- apply(boxes, 1, \(box) {
      outside <- sum(pmax(0, -box[1:2]), pmax(0, box[3:4] - size))
      sum(overlap(box, others)) + 100 * outside
    })
    best <- which.min(round(cost, 6))
    end <- left[[best]] + (best %% 2 == 0) * wide[[i]]
    at[i, ] <- c(left[[best]], middle[[best]], end)
    placed <- rbind(placed, boxes[best, ])
  }
  at
}

# Returns the areas that a box has in common with others; a box is its left, lower, right and upper
# end.
overlap <- function(box, others) {
  across <- pmin(box[[3]], others[, 3]) - pmax(box[[1]], others[, 1])
  down <- pmin(box[[4]], others[, 4]) - pmax(box[[2]], others[, 2])
  pmax(across, 0) * pmax(down, 0)
}
