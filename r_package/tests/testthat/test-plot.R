# Tests the shapes that Python computes from R's objects, and their drawing by ggplot2 and base
# graphics.

local_graphics <- function(engine, env = parent.frame()) {
  if (engine == "ggplot2") {
    skip_if_not_installed("ggplot2")
  }
  withr::local_options(llamaherd.graphics = engine, .local_envir = env)
  withr::local_pdf(withr::local_tempfile(.local_envir = env), .local_envir = env)
}

long <- "a label of many words that goes on and on, for more than two lines of a plot"
kinds <- c("no", long, strrep("x", 70))

coded_frame_of <- function(n = 30) {
  probs <- matrix(
    rep(c(0.95, 0.04, 0.01, 0.3, 0.6, 0.1), length.out = 3 * n),
    n,
    byrow = TRUE
  )
  labels <- factor(kinds[max.col(probs)], kinds)
  labels[[3]] <- NA
  frame <- data.frame(text = paste("text", seq_len(n)), label = labels, probs)
  names(frame)[3:5] <- paste0("p_", kinds)
  as_coded(
    frame,
    list(
      label = "label",
      text = "text",
      names = kinds,
      probs = stats::setNames(paste0("p_", kinds), kinds),
      columns = c(label = "label"),
      codebook = list(type = "label"),
      needs = c("label", "text")
    )
  )
}

classes_of <- function() {
  probs <- rbind(c(0.95, 0.04, 0.01), c(0.3, 0.6, 0.1), NA)
  frame <- data.frame(
    label = factor(c(kinds[1:2], NA), kinds),
    stats::setNames(as.data.frame(probs), paste0("p_", kinds)),
    check.names = FALSE
  )
  logprobs <- matrix(log(probs), 3, dimnames = list(NULL, kinds))
  new_table(frame, NULL, logprobs = logprobs)
}

curve_of <- function() {
  columns <- list(
    threshold = c(0.9, 0.7, 0.6),
    coverage = c(0.25, 0.5, 1),
    accuracy = c(1, 0.9, 0.8),
    low = c(0.8, 0.75, 0.7),
    high = c(1, 0.95, 0.9)
  )
  new_coverage(c(columns, n = 80), 0.9)
}

agreement_of <- function() {
  frame <- data.frame(
    coefficient = c("percent", "linear kappa", "alpha", "ac1"),
    value = c(0.8, 0.5, -0.1, NA),
    low = c(0.7, 0.3, -0.3, NA),
    high = c(0.9, 0.7, 0.1, NA),
    n_units = c(40L, 40L, 38L, 40L),
    n_coders = 3L
  )
  structure(frame, class = c("llamaherd_agreement", "data.frame"), level = 0.95)
}

estimates_of <- function() {
  rows <- expand.grid(
    method = c("dsl", "ppi", "gold", "naive"),
    outcome = kinds,
    stringsAsFactors = FALSE
  )
  rows$term <- "share"
  rows$group <- ""
  rows$estimate <- seq(0.2, 0.5, length.out = 12)
  rows$low <- rows$estimate - 0.05
  rows$high <- rows$estimate + 0.05
  structure(
    list(
      rows = rows,
      methods = c("dsl", "ppi", "gold", "naive"),
      level = 0.95,
      n_texts = 1000,
      n_gold = 100,
      model = "mean",
      formula = NULL
    ),
    class = "llamaherd_estimates"
  )
}

robustness_of <- function(n = 7) {
  shares <- matrix(seq(0.1, 0.9, length.out = 3 * n), n, dimnames = list(NULL, kinds))
  structure(
    list(
      summary = data.frame(
        variant = paste(long, seq_len(n)),
        flips = c(0, rep(0.2, n - 1)),
        shares,
        check.names = FALSE
      ),
      labels = data.frame(row = 1:50),
      ranges = data.frame(
        label = kinds,
        min = apply(shares, 2, min),
        max = apply(shares, 2, max)
      )
    ),
    class = "llamaherd_robustness"
  )
}

judged_of <- function(term = "share") {
  found <- robustness_of(3)
  found$fit <- estimates_of()
  found$fit$formula <- if (term != "share") label == "no" ~ x
  found$estimates <- data.frame(
    variant = rep(found$summary$variant, each = 2),
    outcome = "a",
    term = term,
    group = rep(c("A", "B"), 3),
    estimate = 1:6 / 10,
    low = 0:5 / 10,
    high = 2:7 / 10
  )
  found
}

result_of <- function(n = 40) {
  structure(
    rep("a", n),
    timing = data.frame(
      queue_s = (seq_len(n) - 1) %/% 8,
      first_token_s = (seq_len(n) - 1) %/% 8 + 0.3,
      wall_s = (seq_len(n) - 1) %/% 8 + 1
    ),
    stats = structure(
      list(
        n_slots = 8,
        n_prompts = n,
        wall_s = 5,
        prefill_s = 2,
        decode_s = 2.5,
        n_prefill_tokens = 12345,
        n_decode_tokens = 400,
        prefill_tokens_per_s = 6000,
        decode_tokens_per_s = 160
      ),
      class = "llamaherd_stats"
    ),
    class = c("llamaherd_result", "character")
  )
}

test_that("bars are counts by label and probability", {
  skip_if_no_llamaherd()
  x <- coded_frame_of()
  shown <- picture_coded(x)
  counts <- tapply(shown$data$n, shown$data$row, sum)
  expect_equal(c(counts), c(table(x$label)), ignore_attr = TRUE)
  by_part <- tapply(shown$data$n, shown$data$part, sum)
  expect_equal(by_part[["0.9 to 1"]], sum(x$label == "no", na.rm = TRUE))
  expect_equal(by_part[["0.5 to 0.7"]], sum(x$label == long, na.rm = TRUE))
  expect_identical(shown$notes[[1]], "14 (48%)")
  expect_identical(shown$legend, "probability of the label")
  alone <- picture_coded(x[c("text", "label")])
  expect_null(alone$legend)
  expect_equal(alone$data$n, as.vector(table(x$label)), ignore_attr = TRUE)
})

test_that("bands of probabilities are Python's", {
  skip_if_no_llamaherd()
  x <- coded_frame_of(7)
  x[[3]] <- c(1, 0.9, 0.89, 0.7, 0.5, 0.499, 0)
  coding <- attr(x, "llamaherd")
  x <- as_coded(replace(as.data.frame(x), "label", "no"), coding)
  shown <- picture_coded(x)$data
  expect_equal(tapply(shown$n, shown$part, sum), c(2, 2, 1, 2), ignore_attr = TRUE)
})

test_that("several labels of a text count for each", {
  skip_if_no_llamaherd()
  x <- coded_frame_of(3)
  coding <- attr(x, "llamaherd")
  coding$codebook <- with_element(coding$codebook, "type", "multiple")
  coding$names <- c("no", "y")
  frame <- replace(as.data.frame(x), "label", list(c("no; y", "", NA)))
  shown <- picture_coded(as_coded(frame, coding))
  expect_equal(shown$data$n, c(1, 1))
  expect_identical(shown$notes, c("1 (50%)", "1 (50%)"))
})

test_that("labels of prompts are counted as those of texts", {
  skip_if_no_llamaherd()
  shown <- picture_classes(classes_of())
  expect_identical(shown$title, "Labels of 2 of 3 prompts")
  expect_identical(shown$notes, c("1 (50%)", "1 (50%)", "0 (0%)"))
  by_part <- tapply(shown$data$n, shown$data$part, sum)
  expect_equal(by_part[c("0.9 to 1", "0.5 to 0.7")], c(1, 1), ignore_attr = TRUE)
})

test_that("when prompts were read is shown of probabilities of labels, too", {
  skip_if_no_llamaherd()
  x <- classes_of()
  expect_error(plot(x, type = "time"), class = "llamaherd_error_argument")
  attr(x, "timing") <- data.frame(
    queue_s = c(0, 0.5, NA),
    first_token_s = NA_real_,
    wall_s = c(0.5, 2, NA)
  )
  attr(x, "stats") <- structure(list(n_slots = 1), class = "llamaherd_stats")
  for (engine in c("ggplot2", "base")) {
    local_graphics(engine)
    expect_silent(print(plot(x, type = "time")))
  }
  shown <- picture_timeline(x)
  expect_equal(
    shown$data,
    data.frame(waited = c(0, 0.5), first = c(0.5, 2), end = c(0.5, 2))
  )
  expect_identical(shown$title, "2 prompts in 1 slot")
})

test_that("other tables are drawn as data frames", {
  local_graphics("base")
  expect_null(plot(new_table(data.frame(x = 1:3, label = 3:1), NULL)))
})

test_that("coefficients of agreement are shown with their intervals", {
  skip_if_no_llamaherd()
  shown <- picture_agreement(agreement_of())
  expect_identical(
    levels(shown$data$row),
    c("percent agreement", "linear kappa", "Krippendorff's alpha", "Gwet's AC1")
  )
  expect_identical(shown$data$value, agreement_of()$value)
  expect_identical(shown$title, "Agreement of 3 coders on 40 units")
  expect_identical(shown$x, "value, with 95% interval")
  expect_identical(nrow(picture_agreement(agreement_of()[0, ])$data), 0L)
})

test_that("a coverage curve is drawn by itself as it is of a validation", {
  skip_if_no_llamaherd()
  shown <- picture_coverage(curve_of())
  expect_identical(shown$data$y, c(1, 0.9, 0.8))
  expect_identical(shown$reference$y, c(0.8, 0.8))
  expect_match(shown$title, "80 texts")
  expect_match(shown$y, "90% interval")
  none <- coverage_curve(numeric(), logical())
  expect_error(plot(none), class = "llamaherd_error_argument")
  prob <- seq(0.99, 0.5, length.out = 20)
  found <- validate(rep(c("a", "b"), 10), rep("a", 20), prob = prob, level = 0.8)
  expect_identical(attr(found$coverage, "level"), 0.8)
})

test_that("a timeline is in the order of the prompts' beginnings", {
  skip_if_no_llamaherd()
  x <- result_of()
  attr(x, "timing") <- attr(x, "timing")[40:1, ]
  attr(x, "timing")$wall_s[[1]] <- NA
  shown <- picture_timeline(x)$data
  expect_identical(nrow(shown), 39L)
  expect_false(is.unsorted(shown$waited))
  expect_true(all(shown$waited <= shown$first & shown$first <= shown$end))
  attr(x, "timing") <- NULL
  expect_error(picture_timeline(x), class = "llamaherd_error_argument")
})

test_that("names of rows take a few lines", {
  expect_identical(wrapped(c("a", "")), c("a", " "))
  lines <- strsplit(wrapped(c(long, strrep("x", 200))), "\n")
  expect_identical(lengths(lines), c(3L, 3L))
  expect_true(all(nchar(unlist(lines)) <= 26))
  expect_match(wrapped(strrep("x", 200)), "[.]{3}$")
  expect_identical(wrapped("a\nb\tc"), "a b c")
})

all_of <- function() {
  list(
    coded_frame_of(),
    classes_of(),
    curve_of(),
    agreement_of(),
    estimates_of(),
    robustness_of(),
    judged_of(),
    judged_of("x"),
    result_of(),
    attr(result_of(), "stats")
  )
}

# Returns the texts that a function draws on a page.
drawn_texts <- function(draw) {
  path <- withr::local_tempfile(fileext = ".pdf")
  grDevices::pdf(path, width = 6.5, height = 3.6, compress = FALSE, useKerning = FALSE)
  tryCatch(draw(), finally = grDevices::dev.off())
  lines <- grep("[)] Tj$", readLines(path, warn = FALSE), value = TRUE, useBytes = TRUE)
  sub("^.* Tm [(](.*)[)] Tj$", "\\1", lines, useBytes = TRUE)
}

for (engine in c("ggplot2", "base")) {
  test_that(sprintf("numbers in plots by %s have a point", engine), {
    skip_if_no_llamaherd()
    local_graphics(engine)
    for (x in all_of()) {
      usual <- drawn_texts(\() print(plot(x)))
      expect_match(usual, "^[0-9]", all = FALSE)
      withr::with_options(list(OutDec = ","), {
        expect_identical(drawn_texts(\() print(later <<- plot(x))), usual)
        if (engine == "ggplot2") {
          expect_identical(drawn_texts(\() print(later)), usual)
        }
      })
    }
  })

  test_that(sprintf("everything is drawn by %s", engine), {
    skip_if_no_llamaherd()
    local_graphics(engine)
    before <- graphics::par("mar", "las", "mgp")
    for (x in all_of()) {
      drawn <- expect_silent(print(plot(x)))
      expect_s3_class(drawn, if (engine == "ggplot2") "ggplot" else "data.frame")
    }
    expect_identical(graphics::par("mar", "las", "mgp"), before)
  })

  test_that(sprintf("validations are drawn by %s", engine), {
    skip_if_no_llamaherd()
    local_graphics(engine)
    model <- rep(kinds, c(45, 40, 15))
    codes <- list(Ann = rep(kinds, c(40, 40, 20)), Ben = rep(kinds, c(35, 40, 25)))
    found <- validate(model, codes, prob = seq(0.99, 0.5, length.out = 100))
    for (type in c("measures", "labels", "confusion", "calibration", "coverage")) {
      expect_silent(print(plot(found, type = type)))
    }
    expect_error(plot(found, type = "all"), class = "llamaherd_error_argument")
    unsure <- validate(model, codes)
    expect_error(plot(unsure, type = "coverage"), "no probabilities of the labels")
    # Labels without a text have no precision, and intervals may be missing.
    expect_silent(print(plot(validate(c("a", "b"), c("a", "a")), type = "labels")))
  })
}

test_that("validations of labels that are numbers are drawn", {
  skip_if_no_llamaherd()
  local_graphics("base")
  labels <- rep(c(1, 2, 5), 10)
  found <- validate(labels, rev(labels), scale = "interval", n_bootstrap = 0)
  for (type in c("measures", "labels", "confusion", "numbers")) {
    expect_silent(print(plot(found, type = type)))
  }
})

test_that("numbers of a validation are those that it has", {
  skip_if_no_llamaherd()
  found <- validate(rep(c("a", "b"), c(12, 8)), rep(c("a", "b"), 10), prob = (1:20) / 20)
  shown <- picture_validation(found, "measures")$data
  of <- found$table
  accuracy <- of[of$measure == "accuracy", ]
  expect_equal(
    unlist(shown[1, c("value", "low", "high")]),
    unlist(accuracy[4:6]),
    ignore_attr = TRUE
  )
  counts <- picture_validation(found, "confusion")$data
  at <- counts$row == "a" & counts$column == "b"
  expect_identical(counts$n[at], 6L)
  scores <- picture_validation(found, "labels")$data
  precision <- scores$value[scores$series == "precision"]
  expect_identical(precision, found$labels$precision)
})

test_that("graphics that there are not are refused", {
  skip_if_no_llamaherd()
  withr::local_options(llamaherd.graphics = "lattice")
  expect_error(plot(estimates_of()), class = "llamaherd_error_argument")
})

test_that("each coefficient has an axis of its own", {
  skip_if_no_llamaherd()
  fit <- estimates_of()
  fit$formula <- label == "no" ~ party
  fit$rows$term <- rep(c("(Intercept)", "party", "age"), each = 4)
  fit$rows$outcome <- "label"
  fit$rows[9:12, c("estimate", "low", "high")] <- c(1:4, 0:3, 2:5) * 1000
  for (engine in c("ggplot2", "base")) {
    local_graphics(engine)
    drawn <- print(plot(fit))
    data <- if (engine == "ggplot2") drawn$data else drawn
    expect_identical(levels(data$row), c("(Intercept)", "party", "age"))
    expect_identical(nrow(data), 12L)
    if (engine == "ggplot2") {
      ranges <- lapply(ggplot2::ggplot_build(drawn)$layout$panel_params, \(p) p$x.range)
      expect_gt(ranges[[3]][[2]], 4000)
      expect_lt(ranges[[1]][[2]], 1)
    }
    expect_identical(graphics::par("mfrow"), c(1L, 1L))
  }
})

test_that("what it takes no model for is beside the accuracy alone", {
  skip_if_no_llamaherd()
  labels <- rep(c("a", "b", "a"), 20)
  found <- validate(labels, replace(labels, 1:5, "b"), n_bootstrap = 10)
  data <- picture_validation(found, "measures")$data
  expect_identical(as.character(data$row[data$series == "always 'a'"]), "accuracy")
})

test_that("titles fit a plot of 6.5 x 3.6 inches", {
  skip_if_no_llamaherd()
  skip_if_not_installed("ggplot2")
  drawn <- ggplot_of(picture_coverage(curve_of()))
  for (axis in c("x", "y", "title")) {
    lines <- strsplit(drawn$labels[[axis]], "\n", fixed = TRUE)[[1]]
    expect_true(all(nchar(lines) <= c(x = 60, y = 26, title = 58)[[axis]]))
  }
})

test_that("shades of a matrix have a legend", {
  skip_if_no_llamaherd()
  found <- validate(rep(c("a", "b"), c(12, 8)), rep(c("a", "b"), 10))
  shown <- picture_validation(found, "confusion")
  expect_identical(shown$legend, "share of the texts with this label")
  expect_identical(shades_of_shares(0:1), blues[c(1, 3)])
  skip_if_not_installed("ggplot2")
  scale <- ggplot_of(shown)$scales$get_scales("fill")
  expect_identical(gsub("\n", " ", scale$name), shown$legend)
  # ggplot2 3.5 renamed the class.
  expect_true(inherits(scale$guide, c("colorbar", "GuideColourbar")))
})

test_that("the number of texts in a title is the one that was used", {
  skip_if_no_llamaherd()
  codes <- rep(c("a", "b"), 10)
  found <- validate(rep(c("a", NA), 10), codes)
  expect_match(
    picture_validation(found, "measures")$title,
    "(20 texts; accuracy: 10)",
    fixed = TRUE
  )
  alone <- validate(rep("a", 20), codes)
  expect_match(picture_validation(alone, "measures")$title, ", 20 texts$")
})

test_that("rows of groups name their column, and axes their unit and level", {
  skip_if_no_llamaherd()
  fit <- estimates_of()
  fit$rows <- fit$rows[1:4, ]
  fit$rows$group <- "TRUE"
  fit$grouped_by <- "hashtag"
  expect_identical(levels(picture_estimates(fit)$data$row), "hashtag: TRUE")
  fit$formula <- label == "no" ~ x
  fit$model <- "logit"
  expect_match(picture_estimates(fit)$x, "log odds")
  judged <- judged_of()
  judged$fit$level <- 0.9
  expect_match(picture_robustness(judged)$x, "with 90% interval", fixed = TRUE)
})

test_that("methods are called as in Python's plots", {
  skip_if_no_llamaherd()
  pictures <- reticulate::import("llamaherd.research.reports.pictures")
  expect_identical(as.list(method_names), pictures$METHODS)
})

test_that("long labels leave room for a confusion matrix", {
  skip_if_no_llamaherd()
  codes <- rep(kinds, 10)
  found <- validate(codes, codes, n_bootstrap = 0)
  withr::local_options(llamaherd.graphics = "base")
  path <- withr::local_tempfile(fileext = ".pdf")
  grDevices::pdf(path, 6.5, 3.6)
  withr::defer(grDevices::dev.off())
  expect_silent(print(plot(found, type = "confusion")))
})

test_that("names that plots cut stay different", {
  skip_if_no_llamaherd()
  expect_identical(nlevels(picture_robustness(judged_of())$data$series), 3L)
  expect_identical(nlevels(picture_robustness(robustness_of())$data$series), 7L)
  frame <- points_data(list(
    row = 1:2,
    of = c(1, 1),
    rows = c("a", "a"),
    series = "b",
    value = 1:2,
    low = c(NaN, 1),
    high = c(NaN, 3)
  ))
  expect_identical(levels(frame$row), c("a", "a.1"))
  expect_identical(frame$low, c(NA, 1))
})

spans_frame_of <- function() {
  spans <- function(label, start, end) {
    data.frame(label = label, quote = rep("x", length(label)), start = start, end = end)
  }
  x <- data.frame(text = c(sprintf("%030d", 1:2), NA))
  x$spans <- list(
    spans(c("a", "b"), c(1L, 10L), c(5L, 12L)),
    spans("a", 4L, 9L),
    NULL
  )
  as_coded(
    x,
    list(
      text = "text",
      names = character(),
      columns = c(spans = "spans"),
      codebook = list(type = "spans"),
      span_labels = c("a", "b", "none"),
      needs = c("text", "spans")
    )
  )
}

test_that("passages are counted by label, also of some rows", {
  local_real()
  found <- picture_coded(spans_frame_of())
  expect_equal(as.character(found$data$row), c("a", "b", "none"))
  expect_equal(found$data$n, c(2, 1, 0))
  expect_equal(found$notes, c("2 (100%; 6)", "1 (50%; 3)", "0"))
  expect_equal(picture_coded(spans_frame_of()[2, ])$data$n, c(1, 0, 0))
  without <- spans_frame_of()
  without$spans <- NULL
  attr(without, "llamaherd") <- attr(spans_frame_of(), "llamaherd")
  expect_error(picture_coded(without), class = "llamaherd_error_argument")
})

test_that("passages and their validation are drawn", {
  local_real()
  path <- withr::local_tempfile(fileext = ".jsonl")
  texts <- sprintf("%030d", 1:2)
  line <- '{"text": "%s", "coder": "eve", "spans": [%s]}'
  marked <- '{"start": 0, "end": 5, "label": "a"}, {"start": 9, "end": 14, "label": "b"}'
  writeLines(sprintf(line, texts, c(marked, "")), path)
  found <- validate_spans(spans_frame_of(), read_spans(path), n_bootstrap = 0)
  expect_equal(attr(found, "level"), 0.95)
  for (engine in c("ggplot2", "base")) {
    local_graphics(engine)
    expect_no_error(print(plot(spans_frame_of())))
    expect_no_error(print(plot(found)))
    expect_no_error(print(plot(found, type = "labels")))
  }
  drawn <- picture_span_validation(found, "labels", rlang::current_env())
  expect_equal(levels(drawn$data$row), c("a", "b"))
  expect_equal(levels(drawn$data$series), c("exact F1", "overlap F1", "unitizing alpha"))
  exact <- drawn$data$value[drawn$data$series == "exact F1"]
  expect_equal(exact, c(2 / 3, 0))
  expect_error(plot(found, type = "confusion"), class = "llamaherd_error_argument")
})

test_that("names fit the height of their row and stay different", {
  few <- c("short", "a rather long label that needs several lines")
  expect_identical(fitted_names(few, 1, 0.2)$names, wrapped(few))
  expect_identical(fitted_names(few, 1, 0.2)$size, 1)
  many <- sprintf("a rather long label number %02d with words", 1:30)
  for (room in c(1, 0.5, 0.3, 0.1)) {
    fitted <- fitted_names(many, room, 0.2)
    expect_lte(max(lines_of(fitted$names)) * 0.2 * fitted$size, room)
    expect_length(unique(fitted$names), 30)
  }
  expect_false(any(grepl("\n", fitted$names)))
  expect_lte(max(nchar(fitted$names)), 40)
  # Lines that are cut after the third are not equal.
  same <- paste(strrep("the same beginning of all labels ", 4), 1:2)
  expect_length(unique(fitted_names(same, 10, 0.2)$names), 2)
  expect_lt(fitted_names(many, 1, 0.2, widest = 1)$size, 1)
  expect_identical(cut_middle(c("abc", "abcdefghijkl"), 9), c("abc", "abc...jkl"))
})

test_that("names beside points overlap neither each other nor the panel's edges", {
  boxes_of <- function(x, y, wide, high, size) {
    at <- beside_points(x, y, wide, high, size)
    left <- unname(at[, "x"])
    middle <- unname(at[, "y"])
    cbind(left, middle - high / 2, left + wide, middle + high / 2)
  }
  size <- c(5, 2)
  # At the same place, at the edges, and far from others.
  x <- c(1, 1, 1.05, 4.9, 4.95, 3, 0.1)
  y <- c(1, 1, 1.02, 1.9, 0.1, 1, 1.95)
  boxes <- boxes_of(x, y, rep(1.2, 7), rep(0.16, 7), size)
  for (i in seq_along(x)) {
    expect_identical(sum(overlap(boxes[i, ], boxes[-i, , drop = FALSE])), 0)
    expect_true(all(boxes[i, 1:2] >= 0 & boxes[i, 3:4] <= size))
  }
  alone <- unname(boxes_of(1, 1, 1, 0.16, size)[1, ])
  expect_equal(alone, c(1.08, 0.92, 2.08, 1.08))
})

shape_of <- function(shape, rows, series = c("corrected (DSL)", "human codes only")) {
  data <- expand.grid(
    series = factor(series, series),
    row = factor(rows, rows),
    stringsAsFactors = FALSE
  )
  n <- nrow(data)
  numbers <- data.frame(value = 0.5, low = 0.4, high = 0.6, n = 10L, share = 0.2)
  data <- cbind(data, numbers[rep(1, n), ])
  data$part <- data$series
  data$column <- data$row
  if (shape == "matrix") {
    data <- merge(
      data[!duplicated(data$row), -(1:2)],
      data.frame(row = factor(rows, rows))
    )
  }
  list(
    shape = shape,
    title = "A title of many words that is about as long as titles of plots are",
    x = "a title of the horizontal axis, with 95% intervals",
    y = if (shape == "matrix") "label of the model" else "",
    data = data,
    notes = rep("1,234 (33%)", length(rows)),
    legend = "probability of the label"
  )
}

many_names <- sprintf("Category %02d: energy prices, housing and the climate", 1:24)

test_that("base graphics divide a small device between panel, names and legend", {
  local_graphics("base")
  withr::local_pdf(NULL, width = 6.5, height = 3.6)
  line <- graphics::par("csi")
  for (names in list("no", kinds, many_names)) {
    shape <- shape_of("forest", names)
    layout <- base_layout(shape, names, sprintf("series number %d", 1:8))
    size <- small * layout$size
    wide <- max(graphics::strwidth(layout$names, "inches", cex = size))
    expect_lte(wide / line, graphics::par("mar")[[2]])
    row <- layout$inches[[2]] / length(names)
    expect_lte(max(lines_of(layout$names)) * line * size, row)
    expect_length(unique(layout$names), length(names))
    legend <- layout$legend
    each <- graphics::strwidth(legend$names, "inches", cex = legend$cex)
    expect_lte(legend$n_columns * (max(each) + 0.3), 6.5)
    expect_gt(layout$inches[[2]], 0.8)
    expect_lte(max(graphics::strwidth(layout$title, "inches", font = 2)), 6.5)
    columns <- fitted_columns(names, 4 / length(names), 1)
    needed <- line * small * columns$size
    across <- if (columns$turned) {
      max(lines_of(columns$names)) * needed
    } else {
      max(graphics::strwidth(columns$names, "inches", cex = small * columns$size))
    }
    expect_lte(across, max(4 / length(names), 0.3 * line * small))
    expect_lte(columns$inches, 1)
  }
  vertical <- base_layout(list(title = "a", x = "b", y = strrep("share of texts ", 8)))
  expect_lte(max(graphics::strwidth(vertical$y, "inches")), vertical$inches[[2]])
})

test_that("plots write the name of each row, column and series", {
  path <- withr::local_tempfile(fileext = ".pdf")
  series <- unname(method_names)
  for (engine in c("base", if (requireNamespace("ggplot2", quietly = TRUE)) "ggplot2")) {
    for (kind in c("forest", "bars", "matrix", "panels")) {
      rows <- if (kind == "panels") "(Intercept)" else many_names
      shape <- shape_of(kind, rows, series)
      grDevices::pdf(path, 6.5, 3.6, compress = FALSE, useKerning = FALSE)
      if (engine == "base") {
        draw_base(shape)
      } else {
        print(ggplot_of(shape, c(6.5, 3.6)))
      }
      grDevices::dev.off()
      lines <- grep("T[jJ]$", readLines(path), value = TRUE, useBytes = TRUE)
      text <- gsub("\\\\([()])", "\\1", paste(lines, collapse = "\n"))
      names <- c(
        if (kind != "panels") sprintf("(Category %02d:", 1:24),
        if (kind != "matrix") sprintf("(%s)", series)
      )
      for (name in names) {
        expect_true(grepl(name, text, fixed = TRUE), info = paste(engine, kind, name))
      }
    }
  }
})

test_that("panels have room for the names of their rows and for their titles", {
  local_graphics("base")
  withr::local_pdf(NULL, width = 6.5, height = 3.6)
  series <- unname(method_names)
  for (n in c(1, 3, 9)) {
    layout <- base_panel_layout(shape_of("panels", as.character(1:n)), series, n)
    expect_gte(layout$n_rows * layout$n_columns, n)
    row <- layout$inches[[2]] / length(series)
    expect_lte(graphics::par("csi") * small * layout$cex * layout$size, row)
    grid <- panel_grid(c(
      shape_of("panels", as.character(1:n), series),
      list(size = c(6.5, 3.6), panel = c(6, 2.7))
    ))
    expect_gte(grid$inches / length(series), 0.8 * name_inches * (n < 9))
  }
})

test_that("ggplot2's texts fit the device", {
  skip_if_not_installed("ggplot2")
  rows_in <- function(names, size) {
    picture <- shape_of("forest", names, sprintf("variant number %d of 8", 1:8))
    plot <- ggplot_of(picture, size)
    shown <- plot$scales$get_scales("y")$labels(names)
    relative <- as.numeric(plot$theme$axis.text.y$size)
    list(lines = max(lines_of(shown)), size = relative, names = shown)
  }
  low <- rows_in(many_names, c(6.5, 3.6))
  high <- rows_in(many_names, c(6.5, 12))
  expect_lt(low$size, high$size)
  expect_lte(24 * low$size * low$lines * name_inches, 3.6)
  expect_length(unique(low$names), 24)
  expect_identical(rows_in(kinds, c(6.5, 12))$size, 1)
  names <- c("corrected (DSL)", "corrected (PPI++)", strrep("long ", 12))
  expect_identical(legend_columns(names[1:2], c(6.5, 3.6)), 2L)
  expect_identical(legend_columns(names, c(6.5, 3.6)), 1)
  cut <- series_scales(factor(paste(strrep("long ", 20), 1:3)), c(6.5, 3.6), "none")
  shown <- cut[[1]]$labels
  expect_length(unique(shown), 3)
  expect_lte(max(nchar(shown)), 52)
  turned <- ggplot_columns(many_names, c(6.5, 3.6))
  expect_lte(turned$inches, 0.3 * 3.6 + 1e-9)
  expect_identical(turned$text$angle, 90)
  expect_identical(ggplot_columns(c("pro", "con"), c(6.5, 3.6))$names, c("pro", "con"))
})

test_that("a curve of one text is a point", {
  skip_if_no_llamaherd()
  found <- suppressWarnings(validate("a", "a", prob = 0.9, n_bootstrap = 0))
  for (graphics in c(
    "base",
    if (requireNamespace("ggplot2", quietly = TRUE)) "ggplot2"
  )) {
    withr::local_options(llamaherd.graphics = graphics)
    grDevices::pdf(NULL)
    expect_silent(print(plot(found, type = "coverage")))
    grDevices::dev.off()
  }
})
