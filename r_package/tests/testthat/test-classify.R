prompts <- c(a = "x", b = "fail because {it} did", c = NA, d = "y")

test_that("labels and their probabilities are a data frame", {
  skip_if_not_installed("tibble") # prints it
  context <- local_context()
  expect_page({
    classes <- classify_parallel(context, prompts, c("yes", "n"))
    classes
  })
  expect_s3_class(classes, c("llamaherd_table", "data.frame"), exact = TRUE)
  columns <- c("label", "prob", "margin", "entropy", "coverage", "p_yes", "p_n")
  expect_named(classes, columns)
  expect_identical(classes$label, factor(c("yes", NA, NA, "yes"), levels = c("yes", "n")))
  expect_identical(classes$prob, c(2, NA, NA, 2) / 3)
  expect_equal(classes$margin, c(1, NA, NA, 1) / 3)
  expect_identical(is.na(classes$entropy), c(FALSE, TRUE, TRUE, FALSE))
  expect_identical(classes$coverage, c(0.5, NA, NA, 0.5))
  expect_identical(classes$p_n, c(1, NA, NA, 1) / 3)
  expect_identical(rownames(classes), names(prompts))
  errors <- c(NA, "because {it} did", "the prompt is NA", NA)
  expect_identical(attr(classes, "errors"), errors)
  expect_identical(attr(classes, "finish_reason"), c("stop", "error", "error", "stop"))
  logprobs <- attr(classes, "logprobs")
  expect_identical(dimnames(logprobs), list(NULL, c("yes", "n")))
  expect_equal(unname(logprobs[, 1]), log(c(1, NA, NA, 1) / 3))
  expect_s3_class(attr(classes, "stats"), "llamaherd_stats")
})

test_that("the warning of a low coverage is made without a backtrace, which takes long", {
  context <- local_model_context()
  cnd <- rlang::catch_cnd(classify_parallel(context, "x", c("a", "b")), "warning")
  expect_s3_class(cnd, c("llamaherd_warning_coverage", "llamaherd_warning"))
  expect_null(cnd$trace)
  expect_identical(conditionCall(cnd)[[1]], quote(classify_parallel))
})

test_that("labels arrive with what the model reads and what the user gets", {
  context <- local_context()
  arrives <- function(labels, text, ...) {
    classify_parallel(context, "x", labels, ...)
    expect_match(the$module$seen("model_start"), text, fixed = TRUE)
  }
  arrives("a", "{'labels': ['a'], 'names': ['a'], 'normalize': 'sum',")
  arrives(
    c(good = "great", "bad"),
    "'labels': ['great', 'bad'], 'names': ['good', 'bad']"
  )
  arrives(c(good = "great", good = "fine"), "'names': ['good', 'good']")
  arrives(factor("b", levels = c("b", "a")), "'labels': ['b', 'a']")
  arrives(
    "a",
    "'normalize': 'pmi', 'pmi_prompt': 'It', 'space': True",
    normalize = "pmi",
    pmi_prompt = "It",
    space = TRUE
  )
  arrives(
    "a",
    "'parse_special': False, 'on_error': 'return', 'journal': 'j.sqlite'",
    parse_special = FALSE,
    on_error = "return",
    journal = "j.sqlite"
  )
  arrives("a", "'chat': True, 'system': 'S'", chat = TRUE, system = "S")
})

test_that("no prompts and one label have the same columns", {
  context <- local_context()
  none <- classify_parallel(context, character(), c("yes", "n"))
  some <- classify_parallel(context, "x", c("yes", "n"))
  expect_identical(lapply(none, typeof), lapply(some, typeof))
  expect_identical(nrow(none), 0L)
  expect_identical(dim(attr(none, "logprobs")), c(0L, 2L))
  one <- classify_parallel(context, c("x", "y"), "yes")
  expect_identical(one$p_yes, c(1, 1))
  expect_identical(one$margin, c(1, 1))
  missing <- classify_parallel(context, NA, c("yes", "n"), verbosity = -1)
  expect_identical(lapply(missing, typeof), lapply(some, typeof))
})

test_that("classes fit into pipes", {
  skip_if_not_installed("dplyr")
  context <- local_context()
  data <- data.frame(text = c("x", NA), id = 1:2)
  ask <- \(text) classify_parallel(context, text, c("yes", "n"), verbosity = -1)
  wide <- dplyr::mutate(data, ask(text))
  expect_named(wide, c("text", "id", names(ask("x"))))
  expect_identical(wide$label, factor(c("yes", NA), levels = c("yes", "n")))
  expect_null(attr(wide, "errors"))
  grouped <- dplyr::mutate(dplyr::group_by(data, id), ask(text))
  expect_identical(grouped$p_n, wide$p_n)
})

test_that("on_error = 'stop' is an error that has what was computed", {
  context <- local_context()
  condition <- rlang::catch_cnd(
    classify_parallel(context, prompts, c("yes", "n"), on_error = "stop")
  )
  expect_s3_class(condition, "llamaherd_error_generation")
  expect_s3_class(condition$results, "llamaherd_table")
  expect_match(
    conditionMessage(condition),
    "Prompt 2 failed: because {it} did",
    fixed = TRUE
  )
})

test_that("calibrations take preferences out", {
  context <- local_context()
  texts <- c(a = "x", d = "y")
  classes <- classify_parallel(context, texts, c("yes", "n"))
  calibration <- calibrate_batch(classes)
  expect_equal(
    unclass(calibration)[c("names", "prior", "method", "n")],
    list(names = c("yes", "n"), prior = c(2, 1) / 3, method = "batch", n = 2L)
  )
  expect_page(calibration)
  new <- calibrated(classes, calibration)
  expect_equal(new$p_yes, c(0.5, 0.5))
  expect_equal(new$margin, c(0, 0))
  expect_identical(new$coverage, classes$coverage)
  expect_identical(attr(new, "logprobs"), attr(classes, "logprobs"))
  expect_identical(attr(new, "calibration"), calibration)
  expect_named(new, names(classes))
  probs <- matrix(c(0.9, 0.6, 0.1, 0.4), 2, dimnames = list(c("r", "s"), c("yes", "n")))
  fitted <- calibrated(probs, calibrate_contextual(probs))
  expect_identical(dimnames(fitted), dimnames(probs))
  expect_equal(fitted[1, 1], (0.9 / 0.75) / (0.9 / 0.75 + 0.1 / 0.25))
  bare <- calibrate_batch(unname(probs))
  expect_null(bare$names)
  expect_output(print(bare), "1: 0.75\\n2: 0.25")
  expect_equal(calibrated(probs, bare), fitted, ignore_attr = "calibration")
  plain <- unname(calibrated(unname(probs), bare))
  expect_identical(unname(fitted), plain, ignore_attr = TRUE)
  ask <- \(...) classify_calibrated(context, ...)
  expect_identical(ask(texts, c("yes", "n")), new)
  classes <- ask("x", c("yes", "n"), "contextual", content_free = "N/A")
  expect_identical(attr(classes, "calibration")$method, "contextual")
  classes <- ask("x", c("yes", "n"), calibration = calibration)
  expect_identical(attr(classes, "calibration"), calibration)
  expect_refused({
    calibrate_batch(mtcars)
    calibrate_batch(new)
    calibrate_batch(classes[1:2, ])
    calibrated(classes, 1)
    calibrated(new, calibration)
    calibrated(classify_parallel(context, "x", c("yes", "no")), calibration)
    calibrated(matrix(1, 1, 3), calibration)
    ask(3, c("yes", "no"), calibration = calibration)
    ask(3, c("yes", "no"), calibration = 1)
    ask("x", "a", "contextual")
    ask("x", "a", content_free = "N/A")
    ask("x", "a", "other")
  })
})

test_that("thoughts are columns, NA where a prompt failed", {
  context <- local_context()
  classes <- classify_parallel(
    context,
    prompts,
    c("yes", "n"),
    chat = TRUE,
    thinking = 9,
    n_thoughts = 2,
    verbosity = -1L
  )
  expect_identical(classes$thinking, c("Hm.", NA, NA, "Hm."))
  expect_identical(classes$n_thinking_tokens, c(6L, NA, NA, 6L))
  expect_identical(classes$thinking_complete, c(TRUE, NA, NA, TRUE))
  expect_identical(classes$between, c(0, NA, NA, 0))
  expect_identical(attr(classes, "between")[1, ], c(yes = 0, n = 0.1))
  expect_seen("model_start", "'n_thoughts': 2, 'seed': 1234")
  empty <- classify_parallel(
    context,
    character(),
    "a",
    chat = TRUE,
    thinking = 9,
    n_thoughts = 2
  )
  expect_identical(dim(empty), c(0L, 10L))
})

test_that("a low coverage warns once", {
  context <- local_context()
  expect_warning(
    classes <- classify_parallel(context, "x", c("rare", "odd")),
    "median \\{coverage\\} is 0.001",
    class = "llamaherd_warning_coverage"
  )
  expect_identical(attr(classes, "notes"), "median {coverage} is 0.001")
  expect_no_warning(classify_parallel(context, "x", "rare", verbosity = -1L))
  expect_no_warning(classify_parallel(context, "x", "yes"))
})
