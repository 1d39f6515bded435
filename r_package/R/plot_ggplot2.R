# Draws a plot by ggplot2, from the description that plot_description() in Python returns: marks
# with their positions, and texts that fit the device. See `description.py` and `fitting.py`.

ggplot_of <- function(description) {
  series <- as_text(description$series)
  marks <- lapply(description$marks, mark_data, series, as_text(description$panels))
  # The data of the plot are those of the first mark of a series.
  plot <- ggplot2::ggplot(Find(\(data) !is.null(data$series), marks))
  size <- min(description$row_size, description$column_size)
  for (i in seq_along(marks)) {
    plot <- plot +
      mark_layers(description$marks[[i]], marks[[i]], size, description$neutral)
  }
  if (length(description$panels) > 0) {
    plot <- plot +
      ggplot2::facet_wrap(
        ggplot2::vars(!!rlang::sym("panel")),
        scales = "free_x",
        ncol = description$n_columns
      )
  }
  label <- \(text) if (nzchar(text)) text
  plot +
    axis_scales(description) +
    series_scales(description, series) +
    ggplot2::labs(
      title = description$title,
      x = label(description$x),
      y = label(description$y),
      alt = description$alt
    ) +
    plot_theme(description)
}

# Returns aesthetics with names of columns as text, because R CMD check would report bare names as
# undefined variables.
aes_of <- function(...) ggplot2::aes(!!!lapply(c(...), rlang::sym))

# Returns the positions of a mark as a data frame. Equal names of panels or series are made
# distinct, because R requires distinct levels.
mark_data <- function(mark, series, panels) {
  positions <- intersect(c("x", "x_end", "y", "y_end", "at", "low", "high"), names(mark))
  data <- as.data.frame(lapply(mark[positions], numbers_of))
  as_factor <- function(at, names) {
    factor(as.integer(unlist(at)) + 1L, seq_along(names), make.unique(names))
  }
  if (length(mark$series) > 0) {
    data$series <- rep_len(as_factor(mark$series, series), nrow(data))
  }
  if (length(mark$panel) > 0) {
    data$panel <- rep_len(as_factor(mark$panel, panels), nrow(data))
  }
  data
}

# Returns the layers that draw a mark. `size` is the size of texts in the panel relative to the
# usual size.
mark_layers <- function(mark, data, size, neutral) {
  switch(
    mark$mark,
    Points = point_layers(mark, data),
    Rects = rect_layer(data, neutral),
    Band = band_layer(mark, data),
    Line = line_layer(mark, data),
    Texts = text_layer(mark, data, size)
  )
}

point_layers <- function(mark, data) {
  aes <- aes_of(x = "x", y = "y", colour = "series", fill = "series", shape = "series")
  if (length(mark$size) > 0) {
    size <- 1.5 * numbers_of(mark$size)
    return(ggplot2::geom_point(aes, data, size = size, alpha = 0.5))
  }
  interval <- if (mark$along == "x") {
    aes_of(x = "low", xend = "high", y = "y", yend = "y", colour = "series")
  } else {
    aes_of(x = "x", xend = "x", y = "low", yend = "high", colour = "series")
  }
  ends <- data[!is.na(data$low) & !is.na(data$high), , drop = FALSE]
  list(
    if (nrow(ends) > 0) ggplot2::geom_segment(interval, ends, linewidth = 0.6),
    ggplot2::geom_point(aes, data, size = 2.2, na.rm = TRUE)
  )
}

rect_layer <- function(data, neutral) {
  ends <- c(xmin = "x", xmax = "x_end", ymin = "y", ymax = "y_end")
  if (is.null(data$series)) {
    return(ggplot2::geom_rect(aes_of(ends), data, fill = neutral))
  }
  aes <- aes_of(ends, fill = "series")
  ggplot2::geom_rect(aes, data, colour = "#808080", linewidth = 0.2)
}

# geom_ribbon() would sort the positions, and those of steps are equal.
band_layer <- function(mark, data) {
  data <- data[!is.na(data$low) & !is.na(data$high), , drop = FALSE]
  back <- data[rev(seq_len(nrow(data))), , drop = FALSE]
  edge <- rbind(data, back)
  edge$end <- c(data$low, back$high)
  ends <- if (mark$along == "x") c(x = "end", y = "at") else c(x = "at", y = "end")
  alpha <- if (mark$is_light) 0.25 else 1
  ggplot2::geom_polygon(aes_of(ends, fill = "series"), edge, alpha = alpha)
}

line_layer <- function(mark, data) {
  if (!is.null(data$series)) {
    return(ggplot2::geom_path(
      aes_of(x = "x", y = "y", colour = "series"),
      data,
      linewidth = 0.7
    ))
  }
  type <- if (mark$is_dashed) "dashed" else "solid"
  aes <- aes_of(x = "x", y = "y")
  ggplot2::geom_path(aes, data, colour = "#777777", linetype = type, linewidth = 0.4)
}

text_layer <- function(mark, data, size) {
  data$text <- as_text(mark$text)
  is_white <- rep_len(c(as.logical(unlist(mark$is_white)), FALSE), nrow(data))
  ggplot2::geom_text(
    aes_of(x = "x", y = "y", label = "text"),
    data,
    hjust = c(left = -0.08, center = 0.5, right = 1)[[mark$align]],
    vjust = if (mark$align == "right") -0.4 else 0.5,
    colour = ifelse(is_white, "white", "black"),
    size = size * text_points / ggplot2::.pt
  )
}

text_points <- 9 # size of texts, except of the titles of the plot and of its axes

# Returns the scales of both axes. Names are at whole numbers, from top to bottom; ticks of numbers
# have a point, also if the plot is printed later.
axis_scales <- function(description) {
  named <- function(names) list(breaks = seq_along(names) - 1, labels = as_text(names))
  counted <- list(labels = tick_labels)
  limits <- unlist(description$x_limits)
  x <- if (length(description$columns) > 0) named(description$columns) else counted
  if (length(description$columns) == 0) {
    x$n.breaks <- description$n_ticks
  }
  if (!is.null(limits)) {
    x <- c(x, list(limits = limits, expand = c(0, 0)))
  }
  y <- if (length(description$rows) > 0) named(description$rows) else counted
  y_limits <- unlist(description$y_limits)
  if (description$is_whole) {
    y$breaks <- \(ends) Filter(\(at) at == round(at), pretty(ends))
  }
  y <- c(y, list(limits = y_limits, expand = c(0, 0)))
  is_reversed <- !is.null(y_limits) && y_limits[[1]] > y_limits[[2]]
  scale_y <- if (is_reversed) ggplot2::scale_y_reverse else ggplot2::scale_y_continuous
  list(rlang::exec(ggplot2::scale_x_continuous, !!!x), rlang::exec(scale_y, !!!y))
}

# Returns the scales of the series, whose legends become one.
series_scales <- function(description, series) {
  symbols <- c(circle = 21L, square = 22L, triangle = 24L, diamond = 23L, down = 25L)
  has_legend <- length(description$legend) > 0
  guide <- if (has_legend) {
    ggplot2::guide_legend(ncol = description$legend_columns, title.position = "top")
  } else {
    "none"
  }
  scale <- function(make, values) {
    names <- make.unique(series)
    make(
      if (nzchar(description$legend_title)) description$legend_title,
      values = rlang::set_names(values, names),
      labels = if (has_legend) {
        rlang::set_names(as_text(description$legend), names)
      } else {
        names
      },
      limits = names,
      guide = guide
    )
  }
  list(
    scale(ggplot2::scale_fill_manual, as_text(description$colours)),
    scale(ggplot2::scale_colour_manual, as_text(description$colours)),
    scale(ggplot2::scale_shape_manual, unname(symbols[as_text(description$symbols)]))
  )
}

plot_theme <- function(description) {
  none <- ggplot2::element_blank()
  grid <- ggplot2::element_line(colour = "#E5E5E5", linewidth = 0.3)
  is_named <- function(names) length(names) > 0
  columns <- list(size = text_points * description$column_size)
  if (description$is_tilted) {
    columns <- c(columns, angle = 40, hjust = 1, vjust = 1)
  }
  names <- ggplot2::element_text(size = text_points * description$row_size)
  ggplot2::theme_minimal(base_size = 10) +
    ggplot2::theme(
      plot.background = ggplot2::element_rect(fill = "white", colour = NA),
      plot.title = ggplot2::element_text(face = "bold", size = 11),
      plot.title.position = "plot",
      axis.text.x = rlang::exec(ggplot2::element_text, !!!columns),
      axis.text.y = names,
      panel.grid.minor = none,
      panel.grid.major.x = if (is_named(description$columns)) none else grid,
      panel.grid.major.y = if (is_named(description$rows) || description$is_whole) {
        none
      } else {
        grid
      },
      panel.spacing.x = ggplot2::unit(0.2, "inches"),
      strip.text = ggplot2::element_text(hjust = 0, size = 10),
      legend.position = "bottom",
      legend.margin = ggplot2::margin(0, 0, 0, 0),
      legend.key.height = ggplot2::unit(0.17, "inches"),
      legend.text = ggplot2::element_text(size = text_points)
    )
}
