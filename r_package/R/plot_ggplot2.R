# Draws shapes by ggplot2.

# Returns a ggplot whose texts fit a device of `size`, its width and height in inches.
ggplot_of <- function(picture, size = c(6.5, 3.6)) {
  picture$title <- in_lines(picture$title, 8.8 * size[[1]])
  picture$x <- in_lines(picture$x, 9.2 * size[[1]])
  picture$size <- size
  picture$panel <- panel_inches(picture)
  plot <- switch(
    picture$shape,
    bars = ggplot_bars(picture),
    forest = ggplot_forest(picture),
    panels = ggplot_panels(picture),
    matrix = ggplot_matrix(picture),
    curve = ggplot_curve(picture),
    tradeoff = ggplot_tradeoff(picture),
    scatter = ggplot_scatter(picture),
    timeline = ggplot_timeline(picture)
  )
  lines <- max(10, floor(10 * picture$panel[[2]]))
  plot +
    ggplot2::labs(
      title = picture$title,
      x = picture$x,
      y = if (nzchar(picture$y)) in_lines(picture$y, lines)
    )
}

# Returns the symbol of a column, because R CMD check would report its name as an undefined
# variable.
of_data <- function(name) rlang::sym(name)

ggplot_theme <- function(grid = "x") {
  none <- ggplot2::element_blank()
  line <- ggplot2::element_line(colour = "#E5E5E5", linewidth = 0.3)
  ggplot2::theme_minimal(base_size = 12) +
    ggplot2::theme(
      plot.title = ggplot2::element_text(face = "bold", size = 13),
      plot.title.position = "plot",
      panel.grid.minor = none,
      panel.grid.major.x = if (grepl("x", grid)) line else none,
      panel.grid.major.y = if (grepl("y", grid)) line else none,
      legend.position = "bottom",
      legend.margin = ggplot2::margin(0, 0, 0, 0)
    )
}

# Returns axes of numbers, whose ticks have a point, also if the plot is printed later.
x_scale <- function(...) ggplot2::scale_x_continuous(labels = tick_labels, ...)
y_scale <- function(...) ggplot2::scale_y_continuous(labels = tick_labels, ...)

# Returns the scales of series, whose names in the legend are cut to the width of the device.
series_scales <- function(series, size, guide) {
  n <- nlevels(series)
  names <- in_one_line(levels(series), floor(7.5 * size[[1]]))
  arguments <- list(NULL, labels = names, guide = guide)
  list(
    rlang::exec(ggplot2::scale_shape_manual, !!!arguments, values = symbols_for(n)),
    rlang::exec(ggplot2::scale_fill_manual, !!!arguments, values = colours_for(n)),
    rlang::exec(ggplot2::scale_colour_manual, !!!arguments, values = colours_for(n))
  )
}

ggplot_bars <- function(picture) {
  data <- picture$data
  single <- is.null(picture$legend)
  total <- tapply(data$n, data$row, sum)
  notes <- data.frame(row = factor(levels(data$row), levels(data$row)), n = c(total))
  notes$text <- paste0(" ", picture$notes)
  fill <- if (single) okabe_ito[[1]] else shades[seq_len(nlevels(data$part))]
  size <- fitted_rows(data$row, picture)$size
  wide <- 0.08 * size * (max(nchar(picture$notes)) + 1)
  room <- 0.02 + wide / max(0.55 * picture$size[[1]] - wide, 0.5)
  ggplot2::ggplot(data, ggplot2::aes(x = !!of_data("n"), y = !!of_data("row"))) +
    ggplot2::geom_col(
      ggplot2::aes(fill = !!of_data("part")),
      width = 0.7,
      colour = "#333333",
      linewidth = 0.2,
      position = ggplot2::position_stack(reverse = TRUE)
    ) +
    ggplot2::geom_text(
      ggplot2::aes(label = !!of_data("text")),
      data = notes,
      hjust = 0,
      size = 3.6 * size
    ) +
    ggplot2::scale_fill_manual(
      picture$legend,
      values = fill,
      guide = if (single) "none" else ggplot2::guide_legend(title.position = "top")
    ) +
    x_scale(expand = ggplot2::expansion(c(0, room))) +
    ggplot_theme() +
    row_scale(data$row, picture)
}

ggplot_forest <- function(picture) {
  data <- picture$data
  n <- nlevels(data$series)
  has_spans <- !is.null(picture$spans)
  apart <- 0.6
  dodge <- ggplot2::position_dodge2(width = apart, reverse = TRUE, padding = 0)
  plot <- ggplot2::ggplot(
    data,
    ggplot2::aes(x = !!of_data("value"), y = !!of_data("row"))
  )
  if (has_spans) {
    plot <- plot +
      ggplot2::geom_linerange(
        ggplot2::aes(
          xmin = !!of_data("low"),
          xmax = !!of_data("high"),
          y = !!of_data("row")
        ),
        data = picture$spans,
        inherit.aes = FALSE,
        colour = "#D9D9D9",
        linewidth = 3
      )
  }
  limits <- picture$limits %||% c(0, 1)
  if (limits[[1]] < 0 && limits[[2]] > 0) {
    plot <- plot +
      ggplot2::geom_vline(xintercept = 0, colour = "#999999", linewidth = 0.4)
  }
  if (!all(is.na(data$low))) {
    plot <- plot +
      ggplot2::geom_linerange(
        ggplot2::aes(
          xmin = !!of_data("low"),
          xmax = !!of_data("high"),
          colour = !!of_data("series")
        ),
        position = if (n > 1) dodge else "identity",
        linewidth = 0.6,
        na.rm = TRUE
      )
  }
  guide <- if (n > 1) {
    ggplot2::guide_legend(ncol = legend_columns(levels(data$series), picture$size))
  } else {
    "none"
  }
  plot +
    ggplot2::geom_point(
      ggplot2::aes(
        fill = !!of_data("series"),
        shape = !!of_data("series"),
        colour = !!of_data("series")
      ),
      position = if (n > 1) dodge else "identity",
      size = 2.2,
      na.rm = TRUE
    ) +
    series_scales(data$series, picture$size, guide) +
    x_scale(limits = limits) +
    ggplot_theme() +
    row_scale(data$row, picture)
}

# Draws a panel for each row of the data, with one row per series.
ggplot_panels <- function(picture) {
  data <- picture$data
  n <- nlevels(data$series)
  grid <- panel_grid(picture)
  levels(data$row) <- make.unique(cut_middle(levels(data$row), grid$width))
  ggplot2::ggplot(
    data,
    ggplot2::aes(
      x = !!of_data("value"),
      y = !!of_data("series"),
      colour = !!of_data("series")
    )
  ) +
    ggplot2::geom_vline(xintercept = 0, colour = "#999999", linewidth = 0.4) +
    ggplot2::geom_linerange(
      ggplot2::aes(xmin = !!of_data("low"), xmax = !!of_data("high")),
      linewidth = 0.6,
      na.rm = TRUE
    ) +
    ggplot2::geom_point(
      ggplot2::aes(fill = !!of_data("series"), shape = !!of_data("series")),
      size = 2.2,
      na.rm = TRUE
    ) +
    series_scales(data$series, picture$size, "none") +
    ggplot2::facet_wrap(
      ggplot2::vars(!!of_data("row")),
      scales = "free_x",
      ncol = grid$n_columns
    ) +
    x_scale(n.breaks = grid$n_breaks) +
    ggplot_theme() +
    row_scale(data$series, picture, grid$inches) +
    ggplot2::theme(
      strip.text = ggplot2::element_text(hjust = 0),
      panel.spacing.x = ggplot2::unit(0.2, "inches")
    )
}

ggplot_matrix <- function(picture) {
  data <- picture$data
  many <- nlevels(data$row) > 20
  columns <- ggplot_columns(levels(data$column), picture$size)
  named <- rlang::set_names(columns$names, levels(data$column))
  size <- fitted_rows(data$row, picture)$size
  plot <- ggplot2::ggplot(data, ggplot2::aes(!!of_data("column"), !!of_data("row"))) +
    ggplot2::geom_tile(
      ggplot2::aes(fill = !!of_data("share")),
      colour = "white",
      linewidth = 0.5
    )
  if (!many) {
    data$ink <- ifelse(data$share > 0.6, "white", "black")
    plot <- plot +
      ggplot2::geom_text(
        ggplot2::aes(label = big(!!of_data("n"))),
        data = data,
        colour = data$ink,
        size = 3.6 * size
      )
  }
  plot +
    ggplot2::scale_fill_gradientn(
      picture$legend,
      colours = shades_of_shares((0:10) / 10),
      limits = c(0, 1),
      labels = percent,
      guide = ggplot2::guide_colourbar(
        barwidth = 12,
        barheight = 0.8,
        title.position = "top"
      )
    ) +
    ggplot2::scale_x_discrete(labels = \(x) unname(named[x])) +
    ggplot_theme("") +
    row_scale(data$row, picture) +
    ggplot2::theme(axis.text.x = columns$text)
}

ggplot_curve <- function(picture) {
  data <- picture$data
  plot <- ggplot2::ggplot(data, ggplot2::aes(!!of_data("x"), !!of_data("y"))) +
    ggplot2::geom_line(
      ggplot2::aes(linetype = picture$named),
      data = picture$reference,
      colour = "#777777"
    ) +
    ggplot2::scale_linetype_manual(NULL, values = "dashed")
  ends <- ggplot2::aes(ymin = !!of_data("low"), ymax = !!of_data("high"))
  plot <- if (picture$steps && nrow(data) > 1) {
    plot +
      ggplot2::geom_ribbon(ends, fill = okabe_ito[[6]], alpha = 0.35) +
      ggplot2::geom_line(colour = okabe_ito[[1]], linewidth = 0.7)
  } else {
    plot +
      ggplot2::geom_linerange(ends, colour = okabe_ito[[1]], linewidth = 0.5) +
      ggplot2::geom_point(colour = okabe_ito[[1]], size = 2)
  }
  plot +
    ggplot2::coord_cartesian(xlim = picture$limits$x, ylim = picture$limits$y) +
    x_scale() +
    y_scale() +
    ggplot_theme("xy")
}

ggplot_tradeoff <- function(picture) {
  data <- picture$data
  n <- nlevels(data$series)
  columns <- legend_columns(levels(data$series), picture$size)
  guide <- if (n > 1) ggplot2::guide_legend(ncol = columns) else "none"
  names <- names_beside(picture)
  ends <- ggplot2::aes(ymin = !!of_data("low"), ymax = !!of_data("high"))
  ggplot2::ggplot(
    data,
    ggplot2::aes(
      x = !!of_data("x"),
      y = !!of_data("y"),
      colour = !!of_data("series"),
      fill = !!of_data("series"),
      shape = !!of_data("series")
    )
  ) +
    ggplot2::geom_linerange(ends, linewidth = 0.6, na.rm = TRUE) +
    ggplot2::geom_segment(
      ggplot2::aes(
        x = !!of_data("from_x"),
        y = !!of_data("from_y"),
        xend = !!of_data("end"),
        yend = !!of_data("y")
      ),
      data = names,
      inherit.aes = FALSE,
      colour = "#999999",
      linewidth = 0.3
    ) +
    ggplot2::geom_point(size = 2.4) +
    ggplot2::geom_text(
      ggplot2::aes(!!of_data("x"), !!of_data("y"), label = !!of_data("name")),
      data = names,
      inherit.aes = FALSE,
      hjust = 0,
      size = 3.6
    ) +
    series_scales(data$series, picture$size, guide) +
    ggplot2::coord_cartesian(xlim = picture$limits$x, ylim = picture$limits$y) +
    x_scale() +
    y_scale() +
    ggplot_theme("xy")
}

ggplot_scatter <- function(picture) {
  data <- picture$data
  lines <- picture$lines
  lines$x <- max(data$x)
  point <- ggplot2::aes(!!of_data("x"), !!of_data("y"))
  ggplot2::ggplot(data, point) +
    ggplot2::geom_hline(
      yintercept = lines$y,
      colour = "#555555",
      linetype = c("solid", "dashed", "dashed")[seq_along(lines$y)]
    ) +
    ggplot2::geom_point(colour = okabe_ito[[1]], alpha = 0.5, size = 2 * data$size) +
    ggplot2::geom_text(
      ggplot2::aes(!!of_data("x"), !!of_data("y"), label = !!of_data("name")),
      data = lines,
      hjust = 1,
      vjust = -0.5,
      size = 3
    ) +
    x_scale() +
    y_scale() +
    ggplot_theme("xy")
}

ggplot_timeline <- function(picture) {
  data <- picture$data
  phases <- picture$phases
  n <- nrow(data)
  long <- data.frame(
    place = rep(seq_len(n), 3),
    phase = factor(rep(phases, each = n), phases),
    from = c(rep(0, n), data$waited, data$first),
    to = c(data$waited, data$first, data$end)
  )
  ggplot2::ggplot(long) +
    ggplot2::geom_rect(ggplot2::aes(
      xmin = !!of_data("from"),
      xmax = !!of_data("to"),
      ymin = !!of_data("place") - 0.5,
      ymax = !!of_data("place") + 0.5,
      fill = !!of_data("phase")
    )) +
    ggplot2::scale_fill_manual(
      NULL,
      values = phase_colours,
      guide = ggplot2::guide_legend(ncol = legend_columns(phases, picture$size))
    ) +
    ggplot2::scale_y_reverse(labels = tick_labels, expand = ggplot2::expansion(0.01)) +
    x_scale(expand = ggplot2::expansion(c(0, 0.02))) +
    ggplot_theme()
}
