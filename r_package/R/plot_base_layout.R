# Margins of plots by base graphics: measures titles, names and legends, and divides the device
# between them and the panel.

# Returns the parts of a plot that fit the device, and sets the margins. `names` are names of rows,
# and `columns` names of columns below the panel.
#
#   title, x, y      lines of the title and of the titles of the axes
#   names, size      names of rows, and their size relative to `small`
#   columns          names, size, whether they are turned
#   legend           names, cex, number of columns, number of lines
#   bottom           lines below the panel, to the title of the horizontal axis
#   inches           width and height of the panel
base_layout <- function(
  picture,
  names = NULL,
  legend = NULL,
  legend_title = NULL,
  columns = NULL
) {
  line <- graphics::par("csi")
  device <- graphics::par("din")
  layout <- list(
    title = lines_within(picture$title, 0.96 * device[[1]], font = 2),
    x = lines_within(picture$x, 0.96 * device[[1]]),
    legend = fitted_legend(legend, legend_title, device)
  )
  top <- 0.9 + 1.1 * length(layout$title)
  below <- 0.8 + 1.1 * length(layout$x) + (layout$legend$n_lines %||% 0) * 1.05
  if (!is.null(columns)) {
    across <- 0.62 * device[[1]] / length(columns)
    layout$columns <- fitted_columns(columns, across, 0.3 * device[[2]])
  }
  layout$bottom <- (layout$columns$inches %||% line) / line + 0.9
  height <- max(device[[2]] - (top + below + layout$bottom) * line, 0.2)
  layout$y <- if (nzchar(picture$y)) lines_within(picture$y, height) else character()
  if (is.null(names)) {
    left <- 3.6
  } else {
    room <- height / (length(names) + 0.2)
    widest <- 0.4 * device[[1]]
    layout[c("names", "size")] <- fitted_names(names, room, line * small)
    wide <- max(graphics::strwidth(layout$names, "inches", cex = small * layout$size))
    layout$size <- layout$size * min(1, widest / wide)
    left <- min(wide, widest) / line + 1
  }
  left <- left + 1.1 * length(layout$y)
  graphics::par(mar = c(below + layout$bottom, left, top, 1))
  layout$inches <- c(max(device[[1]] - (left + 1) * line, 0.2), height)
  layout
}

# Wraps a text to lines of a maximum width in inches.
lines_within <- function(text, inches, cex = 1, font = 1) {
  lines <- character()
  for (word in strsplit(text, " +")[[1]]) {
    longer <- paste(c(lines[length(lines)], word), collapse = " ")
    if (
      length(lines) > 0 &&
        graphics::strwidth(longer, "inches", cex = cex, font = font) <= inches
    ) {
      lines[[length(lines)]] <- longer
    } else {
      lines <- c(lines, word)
    }
  }
  lines
}

# Cuts a text in the middle to a maximum width in inches.
cut_to_inches <- function(text, inches, cex) {
  width <- nchar(text)
  cut <- text
  while (graphics::strwidth(cut, "inches", cex = cex) > inches && width > 8) {
    width <- width - 1
    cut <- cut_middle(text, width)
  }
  cut
}

# Returns the parts of a legend below the plot: as many columns as fit the device, and smaller text
# if the legend needed more than a third of the height.
fitted_legend <- function(names, title, device) {
  if (length(names) == 0) {
    return(NULL)
  }
  line <- graphics::par("csi")
  names <- vapply(names, cut_to_inches, "", 0.96 * device[[1]] - 0.5, small)
  each <- max(graphics::strwidth(names, "inches", cex = small)) + 0.4
  n_columns <- min(length(names), max(1, floor(0.98 * device[[1]] / each)))
  n_lines <- ceiling(length(names) / n_columns) + !is.null(title)
  cex <- small * min(1, max(0.6, device[[2]] / (3 * n_lines * line)))
  list(
    names = unname(names),
    title = title,
    n_columns = n_columns,
    cex = cex,
    n_lines = n_lines * cex / small
  )
}

# Returns names of columns: in lines below each other if they fit the width of a column, and
# otherwise turned.
fitted_columns <- function(names, across, highest) {
  line <- graphics::par("csi") * small
  flat <- wrapped(names, max(4L, floor(across / (line * character_width))))
  words <- unlist(strsplit(names, " +"))
  wide <- max(graphics::strwidth(c(words, flat), "inches", cex = small))
  is_cut <- any(endsWith(flat, "...") & !endsWith(names, "..."))
  if (wide <= 0.95 * across && !is_cut && anyDuplicated(flat) == 0) {
    inches <- max(lines_of(flat)) * line
    return(list(names = flat, size = 1, turned = FALSE, inches = inches))
  }
  size <- min(1, max(0.3, across / line))
  width <- max(10L, floor(highest / (line * size * character_width)))
  turned <- fitted_names(names, across, line, width)
  wide <- max(graphics::strwidth(turned$names, "inches", cex = small * turned$size))
  turned$size <- turned$size * min(1, highest / wide)
  c(turned, turned = TRUE, inches = min(wide, highest))
}

# Writes the title of the plot, and the titles of the axes.
base_titles <- function(layout) {
  n <- length(layout$title)
  left <- graphics::grconvertX(0.02, "ndc", "user")
  for (i in seq_len(n)) {
    graphics::mtext(
      layout$title[[i]],
      adj = 0,
      line = 0.6 + 1.1 * (n - i),
      font = 2,
      at = left
    )
  }
  for (i in seq_along(layout$x)) {
    at <- middle_within_device(layout$x[[i]])
    graphics::mtext(layout$x[[i]], 1, line = layout$bottom + 1.1 * (i - 1), at = at)
  }
  first <- graphics::par("mar")[[2]] - 1.2
  for (i in seq_along(layout$y)) {
    graphics::mtext(layout$y[[i]], 2, line = first - 1.1 * (i - 1), las = 0)
  }
}

# Returns the middle of the panel, or, for a text that would leave the device there, the nearest
# position at which it does not.
middle_within_device <- function(text) {
  half <- graphics::strwidth(text, "inches") / 2 + 0.05
  middle <- graphics::grconvertX(0.5, "npc", "inches")
  inside <- max(min(middle, graphics::par("din")[[1]] - half), half)
  graphics::grconvertX(inside, "inches", "user")
}

# Writes the names of rows. axis() would omit names that it takes to overlap.
base_row_names <- function(layout) {
  edge <- graphics::grconvertX(0, "npc", "inches") - 0.08
  graphics::text(
    graphics::grconvertX(edge, "inches", "user"),
    seq_along(layout$names),
    layout$names,
    adj = c(1, 0.5),
    xpd = NA,
    cex = small * layout$size
  )
}

# Returns the grid of panels with the largest panels for `n` panels with a row per series: the names
# of the rows are left of the first column only.
base_panel_layout <- function(picture, series, n) {
  line <- graphics::par("csi")
  device <- graphics::par("din")
  layout <- list(
    title = lines_within(picture$title, 0.96 * device[[1]], font = 2),
    x = lines_within(picture$x, 0.96 * device[[1]])
  )
  top <- 0.4 + 1.1 * length(layout$title)
  below <- 0.4 + 1.1 * length(layout$x)
  names <- wrapped(series)
  best <- NULL
  for (cex in c(1, 0.85, 0.7, 0.55)) {
    wide <- max(graphics::strwidth(names, "inches", cex = small)) * cex
    left <- min(wide, 0.4 * device[[1]]) / line + 1
    for (n_columns in seq_len(min(n, 6))) {
      n_rows <- ceiling(n / n_columns)
      width <- (device[[1]] - left * line) / n_columns - 1.8 * line * cex
      height <- (device[[2]] - (top + below) * line) / n_rows - 3.8 * line * cex
      # Lines of text for which a row has room; a panel needs room for its ticks, too.
      room <- height / (length(names) + 0.2) / (line * cex * max(lines_of(names)))
      room <- min(room, width / (1.1 * cex))
      if (is.null(best) || room > best$room) {
        best <- list(
          room = room,
          cex = cex,
          n_columns = n_columns,
          n_rows = n_rows,
          outer = c(below, left, top, 0.5),
          inches = c(width, height)
        )
      }
      if (room >= 1) {
        break
      }
    }
    if (best$room >= 1) {
      break
    }
  }
  room <- max(best$inches[[2]], 0.1) / (length(names) + 0.2)
  fitted <- fitted_names(series, room, line * small * best$cex)
  c(layout, best, fitted)
}

# Writes the title above all panels, and the title of the axes below them. Call it after the last
# panel.
base_outer_titles <- function(layout) {
  line <- graphics::par("csi") / layout$cex
  device <- graphics::par("din")
  write <- function(text, x, y, ...) {
    x <- graphics::grconvertX(x, "inches", "user")
    y <- graphics::grconvertY(y, "inches", "user")
    graphics::text(x, y, text, xpd = NA, cex = 1 / layout$cex, ...)
  }
  for (i in seq_along(layout$title)) {
    y <- device[[2]] - (0.2 + 1.1 * (i - 0.5)) * line
    write(layout$title[[i]], 0.02 * device[[1]], y, adj = c(0, 0.5), font = 2)
  }
  middle <- (layout$outer[[2]] * line + device[[1]]) / 2
  for (i in seq_along(layout$x)) {
    y <- (0.2 + 1.1 * (length(layout$x) - i + 0.5)) * line
    half <- graphics::strwidth(layout$x[[i]], "inches", cex = 1 / layout$cex) / 2
    at <- max(half, min(middle, device[[1]] - half - 0.05))
    write(layout$x[[i]], at, y)
  }
}
