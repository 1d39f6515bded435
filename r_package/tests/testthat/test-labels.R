# Labels may be texts, factors, logical values and numbers, wherever a function takes labels.

kinds <- list(
  text = c("TRUE", "FALSE"),
  logical = c(TRUE, FALSE),
  factor = factor(c("TRUE", "FALSE"), levels = c("TRUE", "FALSE"))
)

test_that("logical values and factors are labels with the text of their values", {
  for (labels in kinds) {
    expect_identical(as.vector(label_set(labels)), c("TRUE", "FALSE"))
  }
  expect_identical(label_set(c(a = 1, b = 2.5)), c(a = "1", b = "2.5"))
  expect_identical(label_set(c(1e5, 1e-3)), c("100000", "0.001"))
  expect_identical(label_set(c(TRUE, NA)), c(TRUE, NA))
  expect_identical(label_set(factor("b", c("a", "b"))), c("a", "b"))
  expect_identical(label_values(factor("b", c("a", "b"))), "b")
})

test_that("every function with labels takes each kind of them", {
  context <- local_context()
  calls <- list(
    classify = \(x) classify_parallel(context, "a", x)[c("label", "prob")],
    choices = \(x) {
      generate_parallel(context, "a", choices = x)
      the$module$seen("model_start")
    },
    type = \(x) type_enum(x)
  )
  for (name in names(calls)) {
    results <- lapply(kinds, calls[[name]])
    expect_identical(results$logical, results$text, info = name)
    expect_identical(results$factor, results$text, info = name)
  }
  classes <- classify_parallel(context, "a", kinds$logical)
  expect_identical(levels(classes$label), kinds$text)
})

test_that("codebooks, samples and statistics take each kind of labels", {
  skip_if_no_llamaherd()
  books <- lapply(kinds, \(x) {
    codebook("Is it?", x, examples = data.frame(text = c("a", "b"), label = x))
  })
  expect_identical(books$logical, books$text)
  expect_identical(books$factor, books$text)
  examples <- data.frame(text = "a", label = I(list(c(1, 2))))
  several <- codebook("Is it?", c(1, 2), type = "multiple", examples = examples)
  expect_match(several$content, "\"label\": ?\\[\"1\", ?\"2\"\\]")
  data <- data.frame(text = letters[1:24], label = rep(c(TRUE, FALSE, TRUE), 8))
  samples <- lapply(kinds, \(x) {
    gold_sample(data, 12, text = text, label = label, names = x, seed = 1)
  })
  expect_identical(samples$logical, samples$text)
  gold <- samples$logical
  sheet <- as.data.frame(gold)
  sheet$code <- rep(c(TRUE, FALSE), 6)
  codes <- read_gold(sheet, gold)
  expect_identical(unique(codes$gold), c("TRUE", "FALSE"))
  factors <- transform(data, label = factor(label, kinds$text))
  logical <- validate(data$label[gold$rows], sheet$code, label_levels = c(TRUE, FALSE))
  expect_identical(validate(factors$label[gold$rows], sheet$code)$table, logical$table)
  shares <- \(data) suppressWarnings(as.data.frame(estimate(data, codes, outcome = TRUE)))
  expect_identical(shares(factors)$estimate, shares(data)$estimate)
  expect_identical(
    agreement(c(TRUE, FALSE, TRUE), c("TRUE", "FALSE", "FALSE"))$value,
    agreement(c(1, 0, 1), c(TRUE, FALSE, FALSE))$value
  )
})
