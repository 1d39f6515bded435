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

# Returns margins in lines: space for the names of rows, and for a legend with the given number of
# lines.
base_margins <- function(names, n_legend, left = 1.5) {
  wide <- left_margin(names, graphics::par("din")[[1]], left)
  graphics::par(mar = c(4 + n_legend, wide, 2.5, 1))
}

# Returns the left margin in lines that names need, at most 0.45 of the given inches.
left_margin <- function(names, inches, left = 1.5) {
  line <- graphics::par("csi")
  needed <- max(graphics::strwidth(names, "inches", cex = small), 0)
  min(needed / line + left, 0.45 * inches / line)
}

base_frame <- function(xlim, ylim, picture, names = NULL) {
  graphics::plot.new()
  graphics::plot.window(xlim, ylim, xaxs = "i", yaxs = "i")
  graphics::title(xlab = picture$x)
  base_title(picture)
  graphics::axis(1, col = NA, col.ticks = "#555555")
  if (!is.null(names)) {
    base_row_axis(names)
  }
}

base_row_axis <- function(names) {
  size <- small * size_of_names(names, room = 16 + 6 * (length(names) > 12))
  graphics::axis(
    2,
    seq_along(names),
    names,
    tick = FALSE,
    lwd = 0,
    gap.axis = -1,
    cex.axis = size
  )
}

base_title <- function(picture) {
  title <- in_lines(picture$title, 62)
  line <- if (grepl("\n", title, fixed = TRUE)) 0.2 else 0.8
  graphics::mtext(title, adj = 0, line = line, font = 2, at = left_edge())
}

# Returns the position of a title: at the left of the figure, for names of any width.
left_edge <- function() {
  graphics::grconvertX(0.02, "ndc", "user")
}

base_legend <- function(names, ..., title = NULL, lines = length(names)) {
  y <- graphics::grconvertY(0.005, "ndc", "user")
  graphics::legend(
    x = graphics::grconvertX(0.5, "ndc", "user"),
    y = y,
    legend = names,
    xjust = 0.5,
    yjust = 0,
    xpd = NA,
    bty = "n",
    cex = small,
    title = title,
    ncol = if (lines < length(names)) length(names) else 1,
    ...
  )
}

# Returns the number of lines of a legend: one if all names fit into a row, else one per name.
legend_lines <- function(names) {
  inches <- length(names) * (max(graphics::strwidth(names, "inches", cex = small)) + 0.45)
  if (inches < 0.9 * graphics::par("din")[[1]]) 1 else length(names)
}

base_grid <- function(horizontal = FALSE) {
  graphics::abline(v = graphics::axTicks(1), col = "#E5E5E5")
  if (horizontal) {
    graphics::abline(h = graphics::axTicks(2), col = "#E5E5E5")
  }
}

base_bars <- function(picture) {
  data <- picture$data
  names <- names_that_fit(levels(data$row))
  single <- is.null(picture$legend)
  counts <- tapply(data$n, list(data$part, data$row), sum)
  counts[is.na(counts)] <- 0
  total <- colSums(counts)
  base_margins(names, if (single) 0 else 2)
  n <- length(names)
  end <- max(total, 1e-9) * (1.05 + 0.026 * max(nchar(picture$notes)))
  base_frame(c(0, end), c(n + 0.6, 0.4), picture, names)
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
  graphics::text(total, seq_len(n), picture$notes, pos = 4, cex = small, offset = 0.25)
  if (!single) {
    base_legend(rownames(counts), fill = fill, title = picture$legend, lines = 1)
  }
}

base_forest <- function(picture) {
  data <- picture$data
  names <- names_that_fit(levels(data$row))
  series <- levels(data$series)
  n <- length(series)
  shown <- if (n > 1) series
  n_lines <- if (length(shown) > 0) legend_lines(shown) else 0
  base_margins(names, n_lines)
  limits <- picture$limits %||% c(0, 1)
  has_zero <- limits[[1]] < 0 && limits[[2]] > 0
  limits <- limits + c(-0.02, 0.02) * max(diff(limits), 1e-9)
  base_frame(limits, c(length(names) + 0.6, 0.4), picture, names)
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
  graphics::points(
    data$value,
    at,
    pch = symbols_for(n)[of],
    bg = colour[of],
    col = "white",
    cex = 1.2
  )
  if (n_lines > 0) {
    base_legend(
      shown,
      pch = symbols_for(n),
      pt.bg = colour,
      col = "white",
      pt.cex = 1.3,
      lines = n_lines
    )
  }
}

# Draws a small plot for each row of the data, with one row per series.
base_panels <- function(picture) {
  names <- wrapped(levels(picture$data$series))
  rows <- levels(picture$data$row)
  graphics::par(mfrow = grDevices::n2mfrow(length(rows)), oma = c(2, 0, 2, 0))
  graphics::par(cex = 1)
  for (row in rows) {
    data <- picture$data[picture$data$row == row, ]
    graphics::par(mar = c(2, left_margin(names, graphics::par("fin")[[1]]), 2, 1))
    limits <- range(0, data$value, data$low, data$high, na.rm = TRUE)
    limits <- limits + c(-0.03, 0.03) * max(diff(limits), 1e-9)
    graphics::plot.new()
    graphics::plot.window(limits, c(length(names) + 0.6, 0.4), xaxs = "i", yaxs = "i")
    graphics::axis(1, col = NA, col.ticks = "#555555")
    graphics::axis(2, seq_along(names), names, tick = FALSE, lwd = 0, gap.axis = -1)
    base_grid()
    graphics::abline(v = 0, col = "#999999")
    at <- as.integer(data$series)
    colour <- colours_for(length(names))[at]
    graphics::segments(data$low, at, data$high, at, col = colour, lwd = 1.5)
    symbol <- symbols_for(length(names))[at]
    graphics::points(data$value, at, pch = symbol, bg = colour, col = "white", cex = 1.2)
    graphics::mtext(shorten(row, 40L), adj = 0, line = 0.4, cex = small)
  }
  graphics::mtext(picture$title, adj = 0.02, line = 0.4, font = 2, outer = TRUE)
  graphics::mtext(picture$x, 1, line = 0.4, outer = TRUE)
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
  names <- names_that_fit(levels(data$row))
  columns <- names_that_fit(levels(data$column), 16L)
  line <- graphics::par("csi")
  room <- 0.8 * graphics::par("din")[[1]] / length(columns) / 1.4
  tilted <- max(graphics::strwidth(columns, "inches", cex = small)) > room ||
    any(grepl("\n", columns, fixed = TRUE))
  low <- if (tilted) {
    max(graphics::strwidth(columns, "inches", cex = small)) / line + 1
  } else {
    2
  }
  base_margins(names, 0, left = 3)
  margins <- graphics::par("mar")
  low <- min(low, 0.55 * graphics::par("din")[[2]] / line - 5)
  graphics::par(mar = c(low + 5, margins[-1]))
  graphics::plot.new()
  graphics::plot.window(
    c(0.5, length(columns) + 0.5),
    c(length(names) + 0.5, 0.5),
    xaxs = "i",
    yaxs = "i"
  )
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
  if (length(names) <= 20) {
    ink <- ifelse(data$share > 0.6, "white", "black")
    graphics::text(across, down, big(data$n), col = ink, cex = small)
  }
  graphics::axis(
    1,
    seq_along(columns),
    columns,
    tick = FALSE,
    las = if (tilted) 2 else 1,
    gap.axis = -1,
    cex.axis = small * size_of_names(seq_along(columns))
  )
  base_row_axis(names)
  graphics::mtext(picture$x, 1, line = low + 0.6)
  graphics::mtext(picture$y, 2, line = graphics::par("mar")[[2]] - 1.2, las = 0)
  base_title(picture)
  steps <- (0:4) / 4
  base_legend(
    percent(steps),
    fill = shades_of_shares(steps),
    title = picture$legend,
    lines = 1
  )
}

base_curve <- function(picture) {
  data <- picture$data
  graphics::par(mar = c(5, 5, 2.5, 1))
  limits <- picture$limits
  base_frame(limits$x + c(0, 0.01), limits$y + c(0, 0.01), picture)
  graphics::axis(2, col = NA, col.ticks = "#555555")
  words <- in_lines(picture$y, 38)
  graphics::title(ylab = words, line = 2.6, cex.lab = 1)
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
  base_legend(picture$named, lty = 2, col = "#777777")
}

base_tradeoff <- function(picture) {
  data <- picture$data
  series <- levels(data$series)
  n_lines <- if (length(series) > 1) legend_lines(series) else 0
  graphics::par(mar = c(4 + n_lines, 5, 2.5, 1))
  base_frame(picture$limits$x, picture$limits$y, picture)
  graphics::axis(2, col = NA, col.ticks = "#555555")
  graphics::title(ylab = in_lines(picture$y, 38), line = 2.6, cex.lab = 1)
  base_grid(horizontal = TRUE)
  of <- as.integer(data$series)
  colour <- colours_for(length(series))
  symbol <- symbols_for(length(series))
  graphics::segments(data$x, data$low, data$x, data$high, col = colour[of])
  graphics::points(data$x, data$y, pch = symbol[of], col = colour[of], bg = colour[of])
  graphics::text(data$x, data$y, wrapped(data$name), pos = 4, cex = small)
  if (length(series) > 1) {
    base_legend(series, pch = symbol, col = colour, pt.bg = colour, lines = n_lines)
  }
}

base_scatter <- function(picture) {
  data <- picture$data
  lines <- picture$lines
  graphics::par(mar = c(5, 5, 2.5, 1))
  wider <- function(x) range(x) + c(-0.06, 0.06) * max(diff(range(x)), 0.1)
  across <- wider(data$x)
  base_frame(across, wider(c(data$y, lines$y)), picture)
  graphics::axis(2, col = NA, col.ticks = "#555555")
  graphics::title(ylab = in_lines(picture$y, 38), line = 2.6, cex.lab = 1)
  base_grid(horizontal = TRUE)
  shade <- grDevices::adjustcolor(okabe_ito[[1]], 0.5)
  graphics::points(data$x, data$y, pch = 19, col = shade, cex = 0.8 * data$size)
  graphics::abline(h = lines$y, col = "#555555", lty = c(1, 2, 2)[seq_along(lines$y)])
  graphics::text(across[[2]], lines$y, lines$name, adj = c(1.02, -0.4), cex = small)
}

base_timeline <- function(picture) {
  data <- picture$data
  n <- nrow(data)
  phases <- picture$phases
  n_lines <- legend_lines(phases)
  graphics::par(mar = c(4 + n_lines, 5, 2.5, 1))
  base_frame(c(0, max(data$end) * 1.02), c(n + 0.5, 0.5), picture)
  graphics::axis(2, col = NA, col.ticks = "#555555")
  words <- in_lines(picture$y, 38)
  graphics::title(ylab = words, line = 2.6, cex.lab = 1)
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
  base_legend(phases, fill = phase_colours, lines = n_lines)
}
