# Sizes of texts in plots by ggplot2, which computes its own layout only when it draws: estimates
# the room that a device leaves for the panel, and fits names to it.

# Inches of a line of text of the usual size in ggplot_theme(), and of names of rows.
text_inches <- 0.19
name_inches <- 0.14

# Returns the approximate width and height in inches that the title, the axes and the legend leave
# for the panel.
panel_inches <- function(picture) {
  legend <- switch(
    picture$shape,
    bars = if (is.null(picture$legend)) 0 else 2.4,
    forest = legend_rows(levels(picture$data$series), picture$size),
    tradeoff = legend_rows(levels(picture$data$series), picture$size),
    timeline = legend_rows(picture$phases, picture$size),
    matrix = 2.4,
    curve = 1.4,
    0
  )
  n <- sum(lines_of(c(picture$title, picture$x)))
  high <- picture$size[[2]] - text_inches * (n + legend) - 0.5
  if (picture$shape == "matrix") {
    high <- high - ggplot_columns(levels(picture$data$column), picture$size)$inches
  }
  left <- if (nzchar(picture$y)) 0.9 else 0.3
  c(max(picture$size[[1]] - left, 0.5), max(high, 0.3))
}

# Returns the number of rows of a legend below the plot; 0 if a single series needs no legend.
legend_rows <- function(names, size) {
  if (length(names) < 2) {
    return(0)
  }
  0.5 + 1.25 * ceiling(length(names) / legend_columns(names, size))
}

# Returns the number of columns with which a legend fits below a plot. Columns are as wide as their
# widest name.
legend_columns <- function(names, size) {
  wide <- 0.08 * nchar(names, "width") + 0.45
  for (n_columns in rev(seq_along(names))) {
    n_rows <- ceiling(length(names) / n_columns)
    column <- (seq_along(names) - 1) %/% n_rows
    if (sum(tapply(wide, column, max)) <= 0.8 * size[[1]]) {
      return(n_columns)
    }
  }
  1
}

# Returns a y scale that shows the rows from top to bottom, with names that fit `inches` of height.
row_scale <- function(rows, picture, inches = picture$panel[[2]]) {
  fitted <- fitted_rows(rows, picture, inches)
  named <- rlang::set_names(fitted$names, levels(rows))
  size <- ggplot2::rel(fitted$size)
  list(
    ggplot2::scale_y_discrete(limits = rev(levels(rows)), labels = \(x) unname(named[x])),
    ggplot2::theme(axis.text.y = ggplot2::element_text(size = size))
  )
}

fitted_rows <- function(rows, picture, inches = picture$panel[[2]]) {
  room <- inches / (nlevels(rows) + 0.2)
  fitted_names(levels(rows), room, name_inches, widest = 0.4 * picture$size[[1]])
}

# Returns the grid of panels in which their rows have the most room: the number of columns, the
# inches of height of a panel, the number of characters of its title and the number of its ticks.
panel_grid <- function(picture) {
  rows <- levels(picture$data$row)
  series <- levels(picture$data$series)
  most <- max(1, min(length(rows), 5, floor((picture$size[[1]] - 1.6) / 1.2)))
  n_columns <- seq_len(most)
  high <- picture$panel[[2]] / ceiling(length(rows) / n_columns) - 0.55
  needed <- name_inches * max(lines_of(wrapped(series))) * (length(series) + 0.2)
  fits <- which(high >= needed)
  at <- if (length(fits) > 0) fits[[1]] else which.max(high)
  wide <- (picture$size[[1]] - 1.8) / at
  list(
    n_columns = at,
    inches = max(high[[at]], 0.2),
    width = max(10L, floor(12 * wide)),
    n_breaks = max(2, min(5, floor(wide / 0.55)))
  )
}

# Returns names of columns, their text element, and the inches of height that they need beyond a
# line: lines below each other if they fit the width of a column, and otherwise turned.
ggplot_columns <- function(names, size) {
  across <- 0.6 * size[[1]] / length(names)
  width <- floor(across / (name_inches * character_width * 1.1))
  words <- unlist(strsplit(names, " +"))
  flat <- wrapped(names, max(4L, width))
  is_cut <- any(endsWith(flat, "...") & !endsWith(names, "..."))
  if (max(nchar(words), 0L) <= width && !is_cut && anyDuplicated(flat) == 0) {
    text <- ggplot2::element_text()
    return(list(
      names = flat,
      text = text,
      inches = name_inches * (max(lines_of(flat)) - 1)
    ))
  }
  highest <- 0.3 * size[[2]]
  line <- name_inches * min(1, max(0.3, across / name_inches)) * character_width * 1.1
  fitted <- fitted_names(names, across, name_inches, max(10L, floor(highest / line)))
  lines <- unlist(strsplit(fitted$names, "\n", fixed = TRUE))
  wide <- max(nchar(lines, "width")) * name_inches * character_width * 1.1 * fitted$size
  fitted$size <- fitted$size * min(1, highest / wide)
  relative <- ggplot2::rel(fitted$size)
  text <- ggplot2::element_text(size = relative, angle = 90, hjust = 1, vjust = 0.5)
  list(names = fitted$names, text = text, inches = min(wide, highest))
}

# Returns the names of points and their positions, on the scales of the axes.
names_beside <- function(picture) {
  data <- picture$data
  names <- wrapped(data$name)
  # The axes are longer than their limits by 5% at each end.
  longer <- \(x) x + c(-0.05, 0.05) * diff(x)
  limits <- lapply(picture$limits, longer)
  inches <- picture$panel
  to <- function(x, axis, i) {
    (x - limits[[axis]][[1]]) / diff(limits[[axis]]) * inches[[i]]
  }
  back <- function(x, axis, i) {
    limits[[axis]][[1]] + x / inches[[i]] * diff(limits[[axis]])
  }
  lines <- strsplit(names, "\n", fixed = TRUE)
  wide <- 0.082 * vapply(lines, \(x) max(nchar(x, "width"), 1), 1)
  x <- to(data$x, "x", 1)
  at <- beside_points(x, to(data$y, "y", 2), wide, 0.16 * lines_of(names), inches)
  data.frame(
    name = names,
    x = back(at[, "x"], "x", 1),
    y = back(at[, "y"], "y", 2),
    end = back(at[, "end"], "x", 1),
    from_x = data$x,
    from_y = data$y
  )
}
