# Draws shapes by base graphics.

draw_base <- function(picture) {
  old <- graphics::par(no.readonly = TRUE)
  changed <- c("mar", "mgp", "las", "tcl", "cex.axis", "xpd")
  if (picture$shape == "panels") {
    changed <- c("mfrow", "oma", "cex", changed) # the first one starts a new page
  }
  on.exit(graphics::par(old[changed]))
  graphics::par(mgp = c(2.2, 0.6, 0), las = 1, tcl = -0.25, cex.axis = small)
  switch(
    picture$shape,
    bars = base_bars(picture),
    forest = base_forest(picture),
    panels = base_panels(picture),
    matrix = base_matrix(picture),
    curve = base_curve(picture),
    tradeoff = base_tradeoff(picture),
    scatter = base_scatter(picture),
    timeline = base_timeline(picture)
  )
  invisible()
}

# Draws the title, the titles of the axes and the ticks, within the margins of base_layout().
base_frame <- function(xlim, ylim, layout) {
  graphics::plot.new()
  graphics::plot.window(xlim, ylim, xaxs = "i", yaxs = "i")
  base_titles(layout)
  graphics::axis(1, col = NA, col.ticks = "#555555")
  if (is.null(layout$names)) {
    graphics::axis(2, col = NA, col.ticks = "#555555")
  } else {
    base_row_names(layout)
  }
}

base_legend <- function(layout, ...) {
  legend <- layout$legend
  if (is.null(legend)) {
    return(invisible())
  }
  graphics::legend(
    x = graphics::grconvertX(0.5, "ndc", "user"),
    y = graphics::grconvertY(0.005, "ndc", "user"),
    legend = legend$names,
    xjust = 0.5,
    yjust = 0,
    xpd = NA,
    bty = "n",
    cex = legend$cex,
    title = legend$title,
    ncol = legend$n_columns,
    ...
  )
}

base_grid <- function(horizontal = FALSE) {
  graphics::abline(v = graphics::axTicks(1), col = "#E5E5E5")
  if (horizontal) {
    graphics::abline(h = graphics::axTicks(2), col = "#E5E5E5")
  }
}

base_bars <- function(picture) {
  data <- picture$data
  counts <- tapply(data$n, list(data$part, data$row), sum)
  counts[is.na(counts)] <- 0
  total <- colSums(counts)
  single <- is.null(picture$legend)
  shown <- if (!single) rownames(counts)
  layout <- base_layout(picture, levels(data$row), shown, picture$legend)
  n <- length(layout$names)
  size <- small * layout$size
  noted <- max(graphics::strwidth(picture$notes, "inches", cex = size)) + 0.1
  # The longest bar leaves room for its note.
  free <- max(1 - noted / layout$inches[[1]], 0.2)
  base_frame(c(0, max(total, 1e-9) / free), c(n + 0.6, 0.4), layout)
  base_grid()
  fill <- if (single) okabe_ito[[1]] else shades[seq_len(nrow(counts))]
  from <- rbind(0, apply(counts, 2, cumsum))
  for (part in seq_len(nrow(counts))) {
    graphics::rect(
      from[part, ],
      seq_len(n) - 0.35,
      from[part + 1, ],
      seq_len(n) + 0.35,
      col = fill[[part]],
      border = "#333333",
      lwd = 0.5
    )
  }
  graphics::text(total, seq_len(n), picture$notes, pos = 4, cex = size, offset = 0.25)
  base_legend(layout, fill = fill)
}

base_forest <- function(picture) {
  data <- picture$data
  series <- levels(data$series)
  n <- length(series)
  layout <- base_layout(picture, levels(data$row), if (n > 1) series)
  limits <- picture$limits %||% c(0, 1)
  has_zero <- limits[[1]] < 0 && limits[[2]] > 0
  limits <- limits + c(-0.02, 0.02) * max(diff(limits), 1e-9)
  base_frame(limits, c(length(layout$names) + 0.6, 0.4), layout)
  base_grid()
  spans <- picture$spans
  if (!is.null(spans)) {
    at <- as.integer(spans$row)
    graphics::segments(
      spans$low,
      at,
      spans$high,
      at,
      col = "#D9D9D9",
      lwd = 8,
      lend = 1
    )
  }
  if (has_zero) {
    graphics::abline(v = 0, col = "#999999")
  }
  colour <- colours_for(n)
  of <- as.integer(data$series)
  at <- as.integer(data$row) + beside(data)
  graphics::segments(data$low, at, data$high, at, col = colour[of], lwd = 1.5)
  # Points of many rows are smaller, so that neighbours do not cover each other.
  room <- 0.6 * layout$inches[[2]] / (length(layout$names) * max(n, 2))
  size <- 1.2 * min(1, max(0.5, room / 0.05))
  graphics::points(
    data$value,
    at,
    pch = symbols_for(n)[of],
    bg = colour[of],
    col = "white",
    cex = size
  )
  base_legend(layout, pch = symbols_for(n), pt.bg = colour, col = "white", pt.cex = 1.3)
}

# Draws a small plot for each row of the data, with one row per series.
base_panels <- function(picture) {
  rows <- levels(picture$data$row)
  layout <- base_panel_layout(picture, levels(picture$data$series), length(rows))
  names <- layout$names
  graphics::par(mfrow = c(layout$n_rows, layout$n_columns), oma = layout$outer)
  graphics::par(cex = layout$cex, mar = c(2, 0.9, 1.8, 0.9))
  for (i in seq_along(rows)) {
    data <- picture$data[picture$data$row == rows[[i]], ]
    limits <- range(0, data$value, data$low, data$high, na.rm = TRUE)
    limits <- limits + c(-0.03, 0.03) * max(diff(limits), 1e-9)
    graphics::plot.new()
    graphics::plot.window(limits, c(length(names) + 0.6, 0.4), xaxs = "i", yaxs = "i")
    graphics::axis(1, col = NA, col.ticks = "#555555")
    if ((i - 1) %% layout$n_columns == 0) {
      base_row_names(layout)
    }
    base_grid()
    graphics::abline(v = 0, col = "#999999")
    at <- as.integer(data$series)
    colour <- colours_for(length(names))[at]
    graphics::segments(data$low, at, data$high, at, col = colour, lwd = 1.5)
    symbol <- symbols_for(length(names))[at]
    graphics::points(data$value, at, pch = symbol, bg = colour, col = "white", cex = 1.2)
    name <- cut_to_inches(rows[[i]], layout$inches[[1]], layout$cex * small)
    graphics::mtext(name, adj = 0, line = 0.4, cex = layout$cex * small)
  }
  base_outer_titles(layout)
}

# Returns offsets of points from the middle of their row, so that they do not overlap.
beside <- function(data) {
  of <- ifelse(is.na(data$value), NA, as.integer(data$series))
  place <- stats::ave(of, data$row, FUN = \(x) rank(x, na.last = "keep"))
  there <- stats::ave(of, data$row, FUN = \(x) sum(!is.na(x)))
  step <- 0.6 / max(nlevels(data$series) - 1, 1)
  ifelse(is.na(of), 0, (place - (there + 1) / 2) * step)
}

base_matrix <- function(picture) {
  data <- picture$data
  columns <- levels(data$column)
  steps <- (0:4) / 4
  layout <- base_layout(
    picture,
    levels(data$row),
    percent(steps),
    picture$legend,
    columns
  )
  n <- length(layout$names)
  graphics::plot.new()
  limits <- c(0.5, length(columns) + 0.5)
  graphics::plot.window(limits, c(n + 0.5, 0.5), xaxs = "i", yaxs = "i")
  across <- as.integer(data$column)
  down <- as.integer(data$row)
  fill <- shades_of_shares(data$share)
  graphics::rect(
    across - 0.5,
    down - 0.5,
    across + 0.5,
    down + 0.5,
    col = fill,
    border = "white"
  )
  if (n <= 20) {
    ink <- ifelse(data$share > 0.6, "white", "black")
    size <- small * min(layout$size, layout$columns$size)
    graphics::text(across, down, big(data$n), col = ink, cex = size)
  }
  below <- graphics::grconvertY(0, "npc", "inches") - 0.08
  graphics::text(
    seq_along(columns),
    graphics::grconvertY(below, "inches", "user"),
    layout$columns$names,
    srt = if (layout$columns$turned) 90 else 0,
    adj = if (layout$columns$turned) c(1, 0.5) else c(0.5, 1),
    xpd = NA,
    cex = small * layout$columns$size
  )
  base_row_names(layout)
  base_titles(layout)
  base_legend(layout, fill = shades_of_shares(steps))
}

base_curve <- function(picture) {
  data <- picture$data
  layout <- base_layout(picture, legend = picture$named)
  limits <- picture$limits
  base_frame(limits$x + c(0, 0.01), limits$y + c(0, 0.01), layout)
  base_grid(horizontal = TRUE)
  graphics::lines(picture$reference, col = "#777777", lty = 2)
  if (picture$steps && nrow(data) > 1) {
    graphics::polygon(
      c(data$x, rev(data$x)),
      c(data$low, rev(data$high)),
      col = grDevices::adjustcolor(okabe_ito[[6]], 0.35),
      border = NA
    )
    graphics::lines(data$x, data$y, col = okabe_ito[[1]], lwd = 2)
  } else {
    graphics::segments(data$x, data$low, data$x, data$high, col = okabe_ito[[1]])
    graphics::points(data$x, data$y, pch = 19, col = okabe_ito[[1]], xpd = TRUE)
  }
  base_legend(layout, lty = 2, col = "#777777")
}

base_tradeoff <- function(picture) {
  data <- picture$data
  series <- levels(data$series)
  layout <- base_layout(picture, legend = if (length(series) > 1) series)
  base_frame(picture$limits$x, picture$limits$y, layout)
  base_grid(horizontal = TRUE)
  of <- as.integer(data$series)
  colour <- colours_for(length(series))
  symbol <- symbols_for(length(series))
  graphics::segments(data$x, data$low, data$x, data$high, col = colour[of])
  names <- wrapped(data$name)
  at <- beside_points(
    graphics::grconvertX(data$x, "user", "npc") * layout$inches[[1]],
    graphics::grconvertY(data$y, "user", "npc") * layout$inches[[2]],
    graphics::strwidth(names, "inches", cex = small),
    graphics::par("csi") * small * lines_of(names),
    layout$inches
  )
  x <- graphics::grconvertX(at[, "x"] / layout$inches[[1]], "npc", "user")
  y <- graphics::grconvertY(at[, "y"] / layout$inches[[2]], "npc", "user")
  end <- graphics::grconvertX(at[, "end"] / layout$inches[[1]], "npc", "user")
  graphics::segments(data$x, data$y, end, y, col = "#999999", lwd = 0.7)
  graphics::points(data$x, data$y, pch = symbol[of], col = colour[of], bg = colour[of])
  graphics::text(
    x,
    y,
    names,
    adj = c(0, 0.5),
    cex = small
  )
  base_legend(layout, pch = symbol, col = colour, pt.bg = colour)
}

base_scatter <- function(picture) {
  data <- picture$data
  lines <- picture$lines
  layout <- base_layout(picture)
  wider <- function(x) range(x) + c(-0.06, 0.06) * max(diff(range(x)), 0.1)
  across <- wider(data$x)
  base_frame(across, wider(c(data$y, lines$y)), layout)
  base_grid(horizontal = TRUE)
  shade <- grDevices::adjustcolor(okabe_ito[[1]], 0.5)
  graphics::points(data$x, data$y, pch = 19, col = shade, cex = 0.8 * data$size)
  graphics::abline(h = lines$y, col = "#555555", lty = c(1, 2, 2)[seq_along(lines$y)])
  graphics::text(across[[2]], lines$y, lines$name, adj = c(1.02, -0.4), cex = small)
}

base_timeline <- function(picture) {
  data <- picture$data
  n <- nrow(data)
  layout <- base_layout(picture, legend = picture$phases)
  base_frame(c(0, max(data$end) * 1.02), c(n + 0.5, 0.5), layout)
  base_grid()
  from <- cbind(0, data$waited, data$first)
  to <- cbind(data$waited, data$first, data$end)
  for (phase in 1:3) {
    graphics::rect(
      from[, phase],
      seq_len(n) - 0.5,
      to[, phase],
      seq_len(n) + 0.5,
      col = phase_colours[[phase]],
      border = NA
    )
  }
  base_legend(layout, fill = phase_colours)
}
