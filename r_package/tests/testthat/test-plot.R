# Tests the plots of R's objects: what Python describes, and that ggplot2 draws it.

local_plots <- function(env = parent.frame()) {
  skip_if_no_llamaherd()
  skip_if_not_installed("ggplot2")
  withr::local_pdf(withr::local_tempfile(.local_envir = env), .local_envir = env)
}

# Returns the names at the vertical axis, from top to bottom.
rows_of_plot <- function(plot) plot$scales$get_scales("y")$labels

# Returns the texts that a layer of a plot draws.
texts_of_plot <- function(plot) {
  layers <- Filter(\(layer) !is.null(layer$data$text), plot$layers)
  layers[[1]]$data$text
}

lengths_by <- function(data, by) tapply(data$x_end - data$x, by, sum)

long <- "a label of many words that goes on and on, for more than two lines of a plot"
kinds <- c("no", long, strrep("x", 70))

probs_of <- function(n) {
  probs <- matrix(rep_len(c(0.95, 0.04, 0.01, 0.3, 0.6, 0.1), 3 * n), n, byrow = TRUE)
  colnames(probs) <- paste0("p_", kinds)
  probs
}

coded_frame_of <- function(n = 30) {
  probs <- probs_of(n)
  labels <- replace(factor(kinds[max.col(probs)], kinds), 3, NA)
  frame <- data.frame(text = paste("text", seq_len(n)), label = labels, probs)
  names(frame)[3:5] <- colnames(probs)
  record <- list(label = "label", text = "text", names = kinds)
  record$needs <- c("label", "text")
  record$probs <- stats::setNames(colnames(probs), kinds)
  record$columns <- c(label = "label")
  record$codebook <- list(type = "label")
  as_coded(frame, record)
}

classes_of <- function() {
  probs <- rbind(probs_of(2), NA)
  labels <- factor(c(kinds[1:2], NA), kinds)
  frame <- data.frame(label = labels, probs, check.names = FALSE)
  logprobs <- matrix(log(probs), 3, dimnames = list(NULL, kinds))
  structure(frame, class = c("llamaherd_table", "data.frame"), logprobs = logprobs)
}

curve_of <- \() coverage_curve((8:1) / 10, rep(c(TRUE, FALSE), c(6, 2)), level = 0.9)

agreement_of <- function() {
  codes <- rep(1:4, 10)
  coefficients <- agreement(codes, rev(codes), replace(codes, 1:9, NA), scale = "ordinal")
  coefficients[nrow(coefficients), c("value", "low", "high")] <- NA
  coefficients
}

estimates_of <- function(...) {
  n <- 320
  data <- data.frame(label = rep(kinds, length.out = n), x = sin(seq_len(n)) / 1000)
  data$tag <- rep(c(TRUE, FALSE), each = n / 2)
  data$code <- ifelse(seq_len(n) %% 4 == 0, data$label, NA)
  suppressWarnings(estimate(data, "code", prob = "simple", ...))
}

# Robustness of labels to seven codebooks, and to three with estimates; computed once.
cache <- new.env()

robustness_of <- function(name, n, n_texts, gold = NULL, env = parent.frame(2), ...) {
  if (is.null(cache[[name]])) {
    context <- local_model_context(env)
    data <- data.frame(text = sprintf("Text %d is short.", seq_len(n_texts)))
    if (!is.null(gold)) {
      gold <- gold_sample(data, gold, text = text, seed = 1)
      gold <- read_gold(data.frame(id = gold$ids, code = kinds[1:2]), gold)
    }
    books <- lapply(seq_len(n), \(i) codebook(paste("Which", i), kinds))
    books <- rlang::set_names(books, paste(long, seq_len(n)))
    cache[[name]] <- suppressWarnings(
      robustness(data, text, books, context, gold = gold, ...)
    )
  }
  cache[[name]]
}

several_of <- \() robustness_of("several", 7, 5)
judged_of <- \() robustness_of("judged", 3, 16, 12, outcome = "no")

result_of <- function(n = 40) {
  start <- (seq_len(n) - 1) %/% 8
  stats <- list(n_slots = 8, n_prompts = n, wall_s = 5, prefill_s = 2, decode_s = 2.5)
  stats[c("n_prefill_tokens", "n_decode_tokens")] <- c(12345, 400)
  stats[c("prefill_tokens_per_s", "decode_tokens_per_s")] <- c(6000, 160)
  structure(
    rep("a", n),
    timing = data.frame(queue_s = start, first_token_s = start + 0.3, wall_s = start + 1),
    stats = structure(stats, class = "llamaherd_stats"),
    class = c("llamaherd_result", "character")
  )
}

test_that("bars are counts by label and probability", {
  local_plots()
  x <- coded_frame_of()
  drawn <- plot(x)
  counts <- lengths_by(drawn$data, round(drawn$data$y + 0.35))
  expect_equal(c(counts), c(table(x$label)), ignore_attr = TRUE)
  by_part <- lengths_by(drawn$data, drawn$data$series)
  expect_equal(by_part[["0.9 to 1"]], sum(x$label == "no", na.rm = TRUE))
  expect_equal(by_part[["0.5 to 0.7"]], sum(x$label == long, na.rm = TRUE))
  expect_identical(texts_of_plot(drawn)[[1]], "14 (48%)")
  expect_identical(drawn$scales$get_scales("fill")$name, "probability of the label")
  alone <- plot(x[c("text", "label")])
  expect_null(alone$scales$get_scales("fill")$name)
  expect_equal(alone$data$x_end, as.vector(table(x$label)), ignore_attr = TRUE)
})

test_that("several labels of a text count for each", {
  local_plots()
  x <- coded_frame_of(3)
  coding <- attr(x, "llamaherd")
  coding$codebook <- with_element(coding$codebook, "type", "multiple")
  coding$names <- c("no", "y")
  frame <- replace(as.data.frame(x), "label", list(c("no; y", "", NA)))
  drawn <- plot(as_coded(frame, coding))
  expect_equal(drawn$data$x_end, c(1, 1))
  expect_identical(texts_of_plot(drawn), c("1 (50%)", "1 (50%)"))
})

test_that("labels of prompts are counted as those of texts", {
  local_plots()
  drawn <- plot(classes_of())
  expect_identical(drawn$labels$title, "Labels of 2 of 3 prompts")
  expect_identical(texts_of_plot(drawn), c("1 (50%)", "1 (50%)", "0 (0%)"))
  by_part <- lengths_by(drawn$data, drawn$data$series)
  expect_equal(by_part[c("0.9 to 1", "0.5 to 0.7")], c(1, 1), ignore_attr = TRUE)
})

# Returns a column of positions of each phase of a timeline, for each prompt.
phases_of <- function(plot, column) {
  matrix(
    unlist(lapply(plot$layers, \(layer) {
      n <- nrow(layer$data) / 2
      layer$data[[column]][2 * seq_len(n / 2)]
    })),
    ncol = 3
  )
}

test_that("when prompts were read is shown of probabilities of labels, too", {
  local_plots()
  x <- classes_of()
  expect_error(plot(x, type = "time"), class = "llamaherd_error_argument")
  attr(x, "timing") <- data.frame(
    queue_s = c(0, 0.5, NA),
    first_token_s = NA_real_,
    wall_s = c(0.5, 2, NA)
  )
  attr(x, "stats") <- structure(list(n_slots = 1), class = "llamaherd_stats")
  expect_silent(print(plot(x, type = "time")))
  drawn <- plot(x, type = "time")
  expect_equal(phases_of(drawn, "high"), cbind(c(0, 0.5), c(0.5, 2), c(0.5, 2)))
  expect_identical(drawn$labels$title, "2 prompts in 1 slot")
})

test_that("other tables are drawn as data frames", {
  withr::local_pdf(NULL)
  other <- data.frame(x = 1:3, label = 3:1)
  expect_null(plot(structure(other, class = c("llamaherd_table", "data.frame"))))
})

test_that("a timeline is in the order of the prompts' beginnings", {
  local_plots()
  x <- result_of()
  attr(x, "timing") <- attr(x, "timing")[40:1, ]
  attr(x, "timing")$wall_s[[1]] <- NA
  drawn <- plot(x)
  ends <- phases_of(drawn, "high")
  expect_identical(nrow(ends), 39L)
  expect_false(is.unsorted(ends[, 1]))
  expect_true(all(ends[, 1] <= ends[, 2] & ends[, 2] <= ends[, 3]))
  attr(x, "timing") <- attr(x, "timing")[2:4, ] # three rows have no names at halves
  breaks <- ggplot2::ggplot_build(plot(x))$layout$panel_params[[1]]$y$breaks
  expect_identical(abs(breaks[!is.na(breaks)]), c(0, 1, 2))
  attr(x, "timing") <- NULL
  expect_error(plot(x), class = "llamaherd_error_argument")
})

# Returns the texts that a function draws on a page.
drawn_texts <- function(draw, width = 6.5, height = 3.6) {
  path <- withr::local_tempfile(fileext = ".pdf")
  grDevices::pdf(path, width, height, compress = FALSE, useKerning = FALSE)
  tryCatch(draw(), finally = grDevices::dev.off())
  lines <- grep("[)] Tj$", readLines(path, warn = FALSE), value = TRUE, useBytes = TRUE)
  sub("^.* Tm [(](.*)[)] Tj$", "\\1", lines, useBytes = TRUE)
}

test_that("everything is a ggplot, whose numbers have a point", {
  local_plots()
  all <- list(coded_frame_of(), classes_of(), curve_of(), agreement_of(), estimates_of())
  all <- c(all, list(several_of(), judged_of(), result_of(), attr(result_of(), "stats")))
  for (x in all) {
    expect_s3_class(expect_silent(print(plot(x))), "ggplot")
    usual <- drawn_texts(\() print(plot(x)))
    expect_match(usual, "^[0-9]", all = FALSE)
    withr::with_options(list(OutDec = ","), {
      expect_identical(drawn_texts(\() print(later <<- plot(x))), usual)
      expect_identical(drawn_texts(\() print(later)), usual)
    })
  }
  expect_s3_class(ggplot2::autoplot(agreement_of()), "ggplot")
  expect_identical(plot(agreement_of())$theme$plot.background$fill, "white") # of saved files
})

test_that("plots take layers, scales and themes", {
  local_plots()
  changed <- plot(estimates_of()) +
    ggplot2::scale_colour_grey() +
    ggplot2::theme_bw() +
    ggplot2::labs(title = "mine")
  expect_no_error(suppressMessages(print(changed)))
  expect_identical(changed$labels$title, "mine")
})

test_that("validations are drawn", {
  local_plots()
  model <- rep(kinds, c(45, 40, 15))
  codes <- list(Ann = rep(kinds, c(40, 40, 20)), Ben = rep(kinds, c(35, 40, 25)))
  validation <- validate(model, codes, prob = seq(0.99, 0.5, length.out = 100))
  for (type in c("measures", "labels", "confusion", "calibration", "coverage")) {
    expect_silent(print(plot(validation, type = type)))
  }
  expect_error(plot(validation, type = "all"), class = "llamaherd_error_argument")
  unsure <- validate(model, codes)
  expect_error(plot(unsure, type = "coverage"), "no probabilities of the labels")
  # Labels without a text have no precision, and intervals may be missing.
  expect_silent(print(plot(validate(c("a", "b"), c("a", "a")), type = "labels")))
  # A curve of one text is a point.
  validation <- suppressWarnings(validate("a", "a", prob = 0.9))
  expect_silent(print(plot(validation, type = "coverage")))
  labels <- rep(c(1, 2, 5), 10)
  validation <- validate(labels, rev(labels), scale = "interval")
  for (type in c("measures", "labels", "confusion", "numbers")) {
    expect_silent(print(plot(validation, type = type)))
  }
})

test_that("numbers of a validation are those that it has", {
  local_plots()
  validation <- validate(
    rep(c("a", "b"), c(12, 8)),
    rep(c("a", "b"), 10),
    prob = (1:20) / 20
  )
  accuracy <- validation$table[validation$table$measure == "accuracy", 4:6]
  drawn <- unlist(plot(validation)$data[1, c("x", "low", "high")])
  expect_equal(drawn, unlist(accuracy), ignore_attr = TRUE)
  confusion <- plot(validation, type = "confusion")
  expect_identical(texts_of_plot(confusion), c("6", "6", "4", "4"))
  expect_error(plot(coverage_curve(numeric(), logical())), class = "llamaherd_error")
})

test_that("without ggplot2 the error names it, and base graphics are refused", {
  expect_error(
    check_ggplot2(is_installed = FALSE),
    "ggplot2, which is not installed",
    class = "llamaherd_error_package"
  )
  withr::local_options(llamaherd.graphics = "base")
  expect_errors("drawn with ggplot2 only" = plot(agreement_of()))
})

test_that("each coefficient has an axis of its own", {
  local_plots()
  fit <- estimates_of(label == "no" ~ tag + x)
  drawn <- print(plot(fit))
  expect_identical(levels(drawn$data$panel), names(coef(fit)))
  expect_identical(nrow(drawn$data) %% 3L, 0L)
  ranges <- lapply(ggplot2::ggplot_build(drawn)$layout$panel_params, \(p) p$x.range)
  expect_gt(diff(ranges[[3]]), 9 * diff(ranges[[1]]))
})

test_that("names that plots cut stay different", {
  local_plots()
  expect_identical(nlevels(plot(judged_of())$data$series), 3L)
  expect_identical(nlevels(plot(several_of())$data$series), 7L)
  mark <- list(x = 1:2, y = 1:2, low = c(NaN, 1), high = c(NaN, 3), series = c(0, 1))
  data <- mark_data(mark, c("a", "a"), character())
  expect_identical(levels(data$series), c("a", "a.1"))
  expect_identical(data$low, c(NA, 1))
})

spans_frame_of <- function() {
  x <- data.frame(text = c(sprintf("%030d", 1:2), NA))
  x$spans <- list(
    data.frame(label = c("a", "b"), quote = "x", start = c(1L, 10L), end = c(5L, 12L)),
    data.frame(label = "a", quote = "x", start = 4L, end = 9L),
    NULL
  )
  record <- list(text = "text", names = character(), needs = c("text", "spans"))
  record$columns <- c(spans = "spans")
  record$codebook <- list(type = "spans")
  record$span_labels <- c("a", "b", "none")
  as_coded(x, record)
}

test_that("passages are counted by label, also of some rows", {
  local_plots()
  drawn <- plot(spans_frame_of())
  expect_equal(rows_of_plot(drawn), c("a", "b", "none"))
  expect_equal(drawn$data$x_end, c(2, 1, 0))
  expect_equal(texts_of_plot(drawn), c("2 (100%; 6)", "1 (50%; 3)", "0"))
  expect_equal(plot(spans_frame_of()[2, ])$data$x_end, c(1, 0, 0))
  kept <- attributes(spans_frame_of())[c("llamaherd", "class")]
  without <- as.data.frame(spans_frame_of())["text"]
  attributes(without)[names(kept)] <- kept
  expect_errors(plot(without))
})

test_that("passages and their validation are drawn", {
  local_plots()
  path <- withr::local_tempfile(fileext = ".jsonl")
  texts <- sprintf("%030d", 1:2)
  line <- '{"text": "%s", "coder": "eve", "spans": [%s]}'
  marked <- '{"start": 0, "end": 5, "label": "a"}, {"start": 9, "end": 14, "label": "b"}'
  writeLines(sprintf(line, texts, c(marked, "")), path)
  validation <- validate_spans(spans_frame_of(), read_spans(path))
  expect_equal(attr(validation, "level"), 0.95)
  expect_no_error(print(plot(spans_frame_of())))
  expect_no_error(print(plot(validation)))
  drawn <- print(plot(validation, type = "labels"))
  expect_equal(rows_of_plot(drawn), c("a", "b"))
  expect_equal(
    levels(drawn$data$series),
    c("exact F1", "overlap F1", "unitizing alpha")
  )
  exact <- drawn$data$x[drawn$data$series == "exact F1"]
  expect_equal(exact, c(2 / 3, 0))
  expect_error(plot(validation, type = "confusion"), class = "llamaherd_error_argument")
})

test_that("plots write the name of each row, column and series, on small devices, too", {
  local_plots()
  names <- sprintf("Category %02d: energy prices, housing and the climate", 1:24)
  wide <- validate(rep(names, 3), rep(rev(names), 3))
  for (size in list(c(6.5, 3.6), c(4, 8))) {
    for (type in c("labels", "confusion")) {
      texts <- drawn_texts(\() print(plot(wide, type = type)), size[[1]], size[[2]])
      for (name in sprintf("Category %02d:", 1:24)) {
        n_labels <- sum(startsWith(texts, name))
        expect_gte(n_labels, if (type == "labels") 1 else 2)
      }
    }
    estimates <- estimates_of()
    fit <- drawn_texts(\() print(plot(estimates)), size[[1]], size[[2]])
    expect_true(all(c("corrected (DSL)", "human codes only") %in% gsub("\\\\", "", fit)))
  }
})

test_that("texts fit the device that is open", {
  local_plots()
  several <- several_of()
  of_size <- function(width, height) {
    withr::local_pdf(NULL, width = width, height = height)
    plot(several)
  }
  low <- of_size(6.5, 3.6)$theme$axis.text.y$size
  expect_lt(low, of_size(6.5, 12)$theme$axis.text.y$size)
  longest <- function(plot) max(nchar(strsplit(plot$labels$title, "\n")[[1]]))
  expect_lte(longest(of_size(3, 6)), 24)
  expect_gt(longest(of_size(6.5, 6)), 24)
})
