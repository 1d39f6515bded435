#' Plots of labels, validations, agreement, estimates, robustness and calls
#'
#' @description
#' Each plot shows one thing, with intervals where there are some, in colours that people with any
#' colour vision can tell apart. With ggplot2 installed it is drawn by that, and returned, to add
#' to it or to save it; otherwise by base graphics. `options(llamaherd.graphics = "base")` draws
#' by base graphics in any case.
#'
#' @param x What [annotate_texts()], [classify_parallel()], [validate()], [coverage_curve()],
#'   [agreement()], [estimate()], [robustness()] or [generate_parallel()] returned; or the attribute
#'   `stats` of what a call returned.
#' @param type Of what [classify_parallel()] returned: `"labels"`, or `"time"`, when each prompt
#'   waited and was read. Of a validation: `"measures"` (accuracy and agreement), `"labels"`
#'   (precision, recall and F1 of each label), `"confusion"`, `"calibration"` (a reliability
#'   diagram) or `"coverage"` (accuracy of the labels that the model is most sure of).
#' @param ... Not used, but by R's own plot of tables that are not of labels.
#' @returns With ggplot2 the plot, invisibly; otherwise the data frame that was drawn, invisibly.
#' @details
#' * Coded texts, and probabilities of labels: how many have each label, in shades by its
#'   probability.
#' * A validation: see `type`. Beside the accuracy is that of giving always the most frequent label.
#' * A coverage curve: as `type = "coverage"` of a validation.
#' * Agreement: all coefficients with their intervals.
#' * Estimates: all methods side by side; of a regression a panel for each coefficient, with an axis
#'   of its own, since coefficients have different units.
#' * Robustness: the share of each label in each variant, and the range of these; with a gold sample
#'   the estimates in each variant.
#' * A result of [generate_parallel()]: when each prompt waited for a slot, was read, was answered.
#' * Statistics of a call: what its time went to.
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
plot.llamaherd_coded <- function(x, ...) draw(picture_coded(x))

#' @rdname plots
#' @export
plot.llamaherd_table <- function(x, type = c("labels", "time"), ...) {
  error_call <- rlang::current_env()
  if (is.null(attr(x, "logprobs"))) {
    return(plot(plain_frame(x), ...))
  }
  type <- check_choice(type, c("labels", "time"))
  draw(if (type == "labels") picture_classes(x) else picture_timeline(x, error_call))
}

#' @rdname plots
#' @export
plot.llamaherd_validation <- function(
  x,
  type = c("measures", "labels", "confusion", "calibration", "coverage"),
  ...
) {
  error_call <- rlang::current_env()
  known <- c("measures", "labels", "confusion", "calibration", "coverage")
  type <- if (missing(type)) known[[1]] else check_choice(type, known)
  draw(switch(
    type,
    measures = picture_measures(x),
    labels = picture_scores(x),
    confusion = picture_confusion(x),
    calibration = picture_calibration(x, error_call),
    coverage = picture_coverage(x$coverage %||% abort_no_prob(error_call), error_call)
  ))
}

#' @rdname plots
#' @export
plot.llamaherd_coverage <- function(x, ...) {
  draw(picture_coverage(x, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_agreement <- function(x, ...) draw(picture_agreement(x))

#' @rdname plots
#' @export
plot.llamaherd_estimates <- function(x, ...) draw(picture_estimates(x))

#' @rdname plots
#' @export
plot.llamaherd_robustness <- function(x, ...) draw(picture_robustness(x))

#' @rdname plots
#' @export
plot.llamaherd_result <- function(x, ...) {
  draw(picture_timeline(x, rlang::current_env()))
}

#' @rdname plots
#' @export
plot.llamaherd_stats <- function(x, ...) draw(picture_stats(x))

# By ggplot2 if it is there, unless an option says otherwise.
draw <- function(picture) {
  wanted <- getOption("llamaherd.graphics", "ggplot2")
  check_choice(wanted, c("ggplot2", "base"), "llamaherd.graphics")
  if (wanted == "ggplot2" && requireNamespace("ggplot2", quietly = TRUE)) {
    plot <- ggplot_of(picture)
    print(plot)
    return(invisible(plot))
  }
  draw_base(picture)
  invisible(picture$data)
}

# Okabe and Ito's colours for all kinds of colour vision, but for the yellow, which is too light
# for lines on white; and shades of one hue, which differ in grey, too.
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
small <- 0.95 # size of names and notes beside that of the axes' titles, in base graphics

colours_for <- function(n) rep_len(okabe_ito, n)
symbols_for <- function(n) rep_len(plot_symbols, n)

# A title, or a legend's, in lines of at most so many characters.
in_lines <- function(text, width) paste(strwrap(text, width + 1L), collapse = "\n")

# Shades of a matrix, on which black or white can be read.
shades_of_shares <- function(share) {
  grDevices::rgb(grDevices::colorRamp(blues)(share), maxColorValue = 255)
}

# Names of rows in a few lines.
wrapped <- function(x, width = 26L, n_lines = 3L) {
  x <- gsub("[[:cntrl:]]+", " ", as.character(x))
  vapply(
    x,
    \(name) {
      lines <- strwrap(name, width)
      # Words that are too long by themselves.
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
