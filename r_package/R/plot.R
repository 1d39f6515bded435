#' Plots of labels, passages, validations, agreement, estimates, robustness and calls
#'
#' @description
#' Plots objects of this package with their confidence intervals. The colours are distinct for all
#' kinds of colour vision. If ggplot2 is installed, the plot is a ggplot object, which can be
#' modified and saved; otherwise it is drawn with base graphics. `options(llamaherd.graphics =
#' "base")` always uses base graphics. Python computes the numbers that are plotted, so Python must
#' be installed.
#'
#' Texts fit the open graphics device: long names are wrapped, shortened or written smaller. If a
#' plot with many rows is too small to read, plot it on a higher device, such as `pdf("plot.pdf",
#' height = 10)`.
#'
#' @param x Return value of [annotate_texts()], [classify_parallel()], [validate()],
#'   [validate_spans()], [coverage_curve()], [agreement()], [estimate()], [robustness()],
#'   [compare_codebooks()], [compare_pairs()] or [generate_parallel()], or the attribute `stats` of
#'   a result.
#' @param type For [classify_parallel()]: `"labels"` (number of prompts with each label) or `"time"`
#'   (times at which each prompt waited and was computed). For a validation: `"measures"` (accuracy
#'   and agreement), `"labels"` (precision, recall and F1 of each label), `"confusion"`,
#'   `"calibration"` (a reliability diagram), `"coverage"` (accuracy of the most certain labels) or
#'   `"numbers"` (a Bland-Altman plot of labels that are numbers). For a validation of passages:
#'   `"measures"` (all labels together) or `"labels"` (F1 and alpha of each label).
#' @param ... Must be empty, except for tables without labels, which are plotted as data frames.
#' @returns The plot, which is drawn when it is printed: at the console by itself, in a function, a
#'   loop or [source()] by [print()]. With ggplot2 it is a ggplot object, to which themes and scales
#'   can be added; `ggplot2::autoplot()` returns the same object. Otherwise it is the data frame
#'   that is drawn.
#' @details
#' * Labels: number of texts or prompts with each label; the shade of a colour shows the probability
#'   of the label.
#' * Passages (codebook with `type = "spans"`): number of passages with each label, the share of
#'   texts with such a passage, and the mean length of the passages.
#' * Validation: see `type`. The accuracy of a rule that always predicts the most frequent label is
#'   shown next to the accuracy.
#' * Coverage curve: the same plot as `type = "coverage"` of a validation.
#' * Agreement: all coefficients with their intervals.
#' * Estimates: all methods side by side. Coefficients of a regression have one panel each, because
#'   their units differ.
#' * Robustness: share of each label in each variant and the range of the shares; with a gold sample
#'   the estimates in each variant.
#' * Comparison of codebooks: agreement with codes against seconds per text. The best candidate and
#'   all candidates that cannot be distinguished from it have one colour, the others another colour.
#' * Comparison in pairs: strengths with intervals; for more than 50 texts, only the strongest and
#'   weakest 25.
#' * Result of [generate_parallel()]: the times at which each prompt waited for a slot, was
#'   computed, and was answered.
#' * Statistics of a call: seconds spent on prompts and on answers.
#' @name plots
#' @examplesIf llamaherd::llamaherd_available()
#' truth <- rep(c("pro", "con", "none"), c(40, 40, 20))
#' model <- c(rep("pro", 45), rep("con", 40), rep("none", 15))
#' found <- validate(model, truth, prob = seq(0.99, 0.5, length.out = 100))
#' plot(found)
#' plot(found, type = "confusion")
#' plot(agreement(model, truth))
NULL

#' @rdname plots
#' @export
plot.llamaherd_coded <- function(x, ...) draw(picture_coded(x, rlang::current_env()))

#' @rdname plots
#' @export
plot.llamaherd_table <- function(x, type = c("labels", "time"), ...) {
  error_call <- rlang::current_env()
  if (is.null(attr(x, "logprobs"))) {
    return(plot(plain_frame(x), ...))
  }
  type <- check_choice(type, c("labels", "time"))
  make <- if (type == "labels") picture_classes else picture_timeline
  draw(make(x, error_call))
}

#' @rdname plots
#' @export
plot.llamaherd_validation <- function(
  x,
  type = c("measures", "labels", "confusion", "calibration", "coverage", "numbers"),
  ...
) {
  known <- c("measures", "labels", "confusion", "calibration", "coverage", "numbers")
  type <- if (missing(type)) known[[1]] else check_choice(type, known)
  draw(picture_validation(x, type, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_span_validation <- function(x, type = c("measures", "labels"), ...) {
  known <- c("measures", "labels")
  type <- if (missing(type)) known[[1]] else check_choice(type, known)
  draw(picture_span_validation(x, type, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_coverage <- function(x, ...) {
  draw(picture_coverage(x, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_agreement <- function(x, ...) {
  draw(picture_agreement(x, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_estimates <- function(x, ...) {
  draw(picture_estimates(x, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_robustness <- function(x, ...) {
  draw(picture_robustness(x, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_codebooks <- function(x, ...) {
  draw(picture_comparison(x, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_pairs <- function(x, ...) {
  draw(picture("pairs", list(json = x$json), rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_result <- function(x, ...) {
  draw(picture_timeline(x, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_stats <- function(x, ...) draw(picture_stats(x, rlang::current_env()))

#' @export
plot.llamaherd_fixed <- function(x, ...) {
  abort(
    c(
      "There is no plot of a {.cls {class(x)[[1]]}}.",
      i = "{.code ?llamaherd::plots} lists the objects that have plots."
    ),
    "argument",
    NULL
  )
}

# Draws the plot with ggplot2 if it is installed, unless the option `llamaherd.graphics` selects
# base graphics.
draw <- function(picture) {
  local_point()
  wanted <- getOption("llamaherd.graphics", "ggplot2")
  check_choice(wanted, c("ggplot2", "base"), "llamaherd.graphics")
  if (wanted == "ggplot2" && requireNamespace("ggplot2", quietly = TRUE)) {
    return(ggplot_of(picture, device_size()))
  }
  structure(picture$data, class = c("llamaherd_plot", "data.frame"), picture = picture)
}

# Returns the size of the open graphics device in inches. dev.size() would open a device, which in
# a script is the file Rplots.pdf.
device_size <- function() {
  if (grDevices::dev.cur() > 1) grDevices::dev.size() else c(7, 7)
}

#' @export
print.llamaherd_plot <- function(x, ...) {
  draw_base(attr(x, "picture"))
  invisible(x)
}

# ggplot2::autoplot() returns a ggplot, also if the option selects base graphics.
autoplot_llamaherd <- function(object, ...) {
  rlang::local_options(llamaherd.graphics = "ggplot2")
  plot(object, ...)
}

# The colours of Okabe and Ito are distinct for all kinds of colour vision; their yellow is left
# out, because it is too light for lines on white. The shades of one hue are also distinct in grey.
okabe_ito <- c(
  "#0072B2",
  "#D55E00",
  "#009E73",
  "#E69F00",
  "#CC79A7",
  "#56B4E9",
  "#000000"
)
shades <- c("#08306B", "#3787C0", "#9AC8E1", "#DBE9F6")
blues <- c("#F7FBFF", "#6BAED6", "#154E86")
plot_symbols <- c(21L, 22L, 24L, 23L, 25L)
phase_colours <- c("#C8C8C8", "#E69F00", "#0072B2")
small <- 0.95 # size of names and notes relative to the titles of axes, in base graphics

colours_for <- function(n) rep_len(okabe_ito, n)
symbols_for <- function(n) rep_len(plot_symbols, n)

# Returns shades for shares, with enough contrast to black or white text.
shades_of_shares <- function(share) {
  grDevices::rgb(grDevices::colorRamp(blues)(share), maxColorValue = 255)
}

percent <- function(level) sprintf("%g%%", 100 * level)
