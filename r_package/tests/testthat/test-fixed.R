# Objects whose content is stored twice: an edited element would be printed and not used.

edited <- function(x, name) {
  edits <- list(
    \() x[[name]] <- NULL,
    \() x[[name]][1] <- 1,
    \() x[name] <- list(NULL),
    \() names(x)[1] <- "other",
    \() utils::modifyList(x, stats::setNames(list("y"), name))
  )
  for (edit in edits) {
    expect_error(edit(), "cannot be changed", class = "llamaherd_error_argument")
  }
}

test_that("codebooks, scales, models, contexts and calibrations cannot be edited", {
  context <- local_context()
  book <- codebook("Which?", c(yes = "", n = ""))
  expect_error(book$question <- "Other?", "codebook\\(\\)")
  expect_error(context$n_seq_max <- 4, "context_create\\(\\)")
  expect_error(context$model$path <- "x", "model_load\\(\\)")
  edited(book, "question")
  edited(context, "model")
  edited(context$model, "path")
})

test_that("edited codes of a sample are refused, and read from a data frame", {
  skip_if_no_llamaherd()
  data <- data.frame(text = letters[1:10], label = rep(c("p", "q"), 5))
  gold <- gold_sample(data, 4, text = text, label = label, seed = 1)
  sheet <- as.data.frame(gold)
  sheet$anna <- c("p", "p", "q", "q")
  gold <- read_gold(sheet, gold)
  expect_error(gold$codes$anna[1] <- "q", "read_gold")
  expect_error(gold$gold[1] <- "q", "cannot be changed")
  edited(gold, "codes")

  # The way that the error describes: every function uses the new code.
  sheet <- as.data.frame(gold)
  sheet$anna[1] <- "q"
  changed <- read_gold(sheet, gold)
  expect_identical(changed$codes$anna, c("q", "p", "q", "q"))
  fit <- suppressWarnings(estimate(data, changed, methods = "gold"))
  expect_equal(unname(coef(fit)), c(0.25, 0.75))

  edited(number_scale(0, 4), "high")
  edited(fit, "rows")
  edited(suppressWarnings(validate(data, changed)), "table")
  edited(calibrate_batch(matrix(c(0.2, 0.8, 0.6, 0.4), 2, byrow = TRUE)), "prior")
})

test_that("plot() of an object without a plot names the page of plots", {
  skip_if_no_llamaherd()
  expect_error(plot(codebook("Which?", c("a", "b"))), "no plot of a <llamaherd_codebook>")
  expect_error(plot(number_scale(0, 4)), "llamaherd::plots", class = "llamaherd_error")
})

test_that("no list that prints is left to the plot methods of other packages", {
  methods <- parseNamespaceFile(
    "llamaherd",
    dirname(getNamespaceInfo("llamaherd", "path"))
  )$S3methods
  classes <- function(generic) methods[methods[, 1] == generic, 2]
  # Vectors are a matrix, and journals are data frames, which plot() draws.
  drawn <- c("llamaherd_journal", "llamaherd_vectors")
  expect_identical(setdiff(classes("print"), classes("plot")), drawn)
  expect_error(plot(thinking(10)), "no plot of a <llamaherd_thinking>")
  expect_error(plot(type_string()), "no plot of a <llamaherd_type>")
})
