#' Plots of labels, passages, validations, agreement, estimates, robustness and calls
#'
#' @description
#' Plots objects of this package with their confidence intervals. The colours are distinct for all
#' kinds of colour vision. The plot is a ggplot object, which can be modified and saved; it needs
#' the package ggplot2. Python computes the numbers that are plotted, so Python must be installed.
#'
#' Texts fit the graphics device that is open when `plot()` is called: long names are wrapped,
#' shortened or written smaller. If a plot with many rows is too small to read, plot it on a higher
#' device, such as `pdf("plot.pdf", height = 10)`.
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
#' @returns A ggplot object, to which layers, themes and scales can be added. It is drawn when it is
#'   printed: at the console by itself, in a function, a loop or [source()] by [print()].
#'   `ggplot2::autoplot()` returns the same object.
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
#' * Comparison of codebooks: agreement with codes and seconds per text, side by side. The best
#'   candidate and all candidates that cannot be distinguished from it have one colour, the others
#'   another colour.
#' * Comparison in pairs: strengths with intervals; for more than 50 texts, only the strongest and
#'   weakest 25.
#' * Result of [generate_parallel()]: the times at which each prompt waited for a slot, was
#'   computed, and was answered.
#' * Statistics of a call: seconds spent on prompts and on answers.
#' @name plots
#' @aliases plot.llamaherd_coverage plot.llamaherd_agreement plot.llamaherd_estimates
#'   plot.llamaherd_robustness plot.llamaherd_codebooks plot.llamaherd_pairs
#' @examplesIf llamaherd::llamaherd_available() && requireNamespace("ggplot2", quietly = TRUE)
#' truth <- rep(c("pro", "con", "none"), c(40, 40, 20))
#' model <- c(rep("pro", 45), rep("con", 40), rep("none", 15))
#' found <- validate(model, truth, prob = seq(0.99, 0.5, length.out = 100))
#' plot(found)
#' plot(found, type = "confusion")
#' plot(agreement(model, truth))
NULL

#' @rdname plots
#' @export
plot.llamaherd_coded <- function(x, ...) {
  check_coded_rows(x, "x")
  coding <- attr(x, "llamaherd")
  columns <- unclass(x)
  if (identical(coding$codebook$type, "spans")) {
    spans <- columns[[coding$columns[["spans"]] %||% "spans"]]
    if (!is.list(spans)) {
      abort_argument("x", "coded texts with their list column of passages", x)
    }
    passages <- lapply(unname(spans), passages_json)
    values <- list(spans = passages, names = as_py_list(coding$span_labels))
    return(drawn("passages", values))
  }
  probs <- all_probs(x)
  values <- list(
    labels = text_list(value_text(columns[[coding$label %||% ""]])),
    names = as_py_list(coding$names),
    probs = if (!is.null(probs)) unname(lapply(probs, as_py_numbers)),
    several = identical(coding$codebook$type, "multiple"),
    things = "texts"
  )
  drawn("labels", values)
}

#' @rdname plots
#' @export
plot.llamaherd_table <- function(x, type = c("labels", "time"), ...) {
  logprobs <- attr(x, "logprobs")
  if (is.null(logprobs)) {
    return(plot(plain_frame(x), ...))
  }
  if (check_choice(type, c("labels", "time")) == "time") {
    return(drawn("timeline", timing_given(x)))
  }
  columns <- unclass(x)
  names <- colnames(logprobs)
  values <- list(
    labels = text_list(value_text(columns$label)),
    names = as_py_list(names),
    probs = unname(lapply(columns[paste0("p_", names)], as_py_numbers)),
    several = FALSE,
    things = "prompts"
  )
  drawn("labels", values)
}

#' @rdname plots
#' @export
plot.llamaherd_validation <- function(
  x,
  type = c("measures", "labels", "confusion", "calibration", "coverage", "numbers"),
  ...
) {
  needs_prob <- c(calibration = "bins", coverage = "coverage")
  type <- py_value(type)
  needed <- if (is.character(type)) needs_prob[type]
  if (!is.null(needed) && !is.na(needed) && is.null(x[[needed]])) {
    abort_no_prob()
  }
  drawn("validation", c(content_to_plot(x), list(type = type)))
}

#' @rdname plots
#' @export
plot.llamaherd_span_validation <- function(x, type = c("measures", "labels"), ...) {
  drawn("span_validation", c(content_to_plot(x), list(type = py_value(type))))
}

# The method of all classes whose content is enough for the plot.
#' @export
plot.llamaherd_numbers <- function(x, ...) {
  drawn(sub("^llamaherd_", "", class(x)[[1]]), content_to_plot(x))
}

# Returns the content of an object for Python: its JSON, or the columns and attributes of a table.
content_to_plot <- function(x) {
  if (!is.data.frame(x)) {
    return(unclass(x)[intersect(c("json", "estimates_json"), names(x))])
  }
  columns <- lapply(as.list(plain_frame(x)), \(column) {
    if (is.double(column)) as_py_numbers(column) else text_list(column)
  })
  list(columns = columns, level = attr(x, "level"), n = attr(x, "n", exact = TRUE))
}

#' @rdname plots
#' @export
plot.llamaherd_result <- function(x, ...) {
  drawn("timeline", timing_given(x))
}

#' @rdname plots
#' @export
plot.llamaherd_stats <- function(x, ...) {
  names <- c("n_prompts", "wall_s", "prefill_s", "decode_s", "n_prefill_tokens")
  names <- c(names, "n_decode_tokens", "prefill_tokens_per_s", "decode_tokens_per_s")
  drawn("time", lapply(unclass(x)[names], as.double))
}

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

autoplot_llamaherd <- function(object, ...) plot(object, ...)

timing_given <- function(x) {
  columns <- lapply(attr(x, "timing"), as_py_numbers)
  if (is.null(attr(x, "timing"))) {
    columns <- list(queue_s = list(), first_token_s = list(), wall_s = list())
  }
  c(columns, n_slots = as.integer(attr(x, "stats")$n_slots %||% 0L))
}

# Returns the ggplot of an object. `kind` and `given`, the content of the object, are the arguments
# of plot_description() in Python, whose texts fit the open graphics device.
drawn <- function(kind, values) {
  check_graphics()
  # dev.size() would open a device, which in a script is the file Rplots.pdf.
  size <- if (grDevices::dev.cur() > 1) grDevices::dev.size() else c(7, 7)
  arguments <- list(kind = kind, given = values, width = size[[1]], height = size[[2]])
  description <- call_python("plot_description", arguments)
  check_ggplot2()
  ggplot_of(description)
}

check_graphics <- function() {
  if (identical(getOption("llamaherd.graphics"), "base")) {
    abort(c(
      "Plots are drawn with ggplot2 only: {.code options(llamaherd.graphics)} is gone.",
      i = "Remove the option; {.code install.packages(\"ggplot2\")} installs ggplot2."
    ))
  }
}

check_ggplot2 <- function(is_installed = requireNamespace("ggplot2", quietly = TRUE)) {
  if (!is_installed) {
    abort(
      c(
        "Plots need the R package ggplot2, which is not installed.",
        i = "Install it with {.code install.packages(\"ggplot2\")}."
      ),
      "package"
    )
  }
}

percent <- function(level) sprintf("%g%%", 100 * level)
