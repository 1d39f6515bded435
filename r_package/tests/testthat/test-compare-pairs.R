# tests/cross/test_same_pairs.py compares texts with a model, from R and from Python.

# The value that Python returns for three texts and two pairs; one pair failed.
example_pairs <- function() {
  strengths <- list(
    name = list("a", "b", "c"),
    text = list("One.", "Two.", "Three."),
    strength = list(1, 0.25, -1.25),
    std_error = list(0.1, 0.2, 0.3),
    low = list(0.5, 0, -2),
    high = list(1.5, 0.5, -0.5),
    rank = list(1L, 2L, 3L),
    n_pairs = list(1L, 1L, 0L)
  )
  pairs <- list(
    first = list("a", "c"),
    second = list("b", "a"),
    round = list(1L, 1L),
    log_odds = list(-0.5, NaN),
    prob = list(0.38, NaN),
    position_bias = list(0.2, NaN),
    consistent = list(TRUE, NULL),
    coverage = list(0.9, NaN),
    error = list(NULL, "too long")
  )
  found <- list(
    strengths = strengths,
    pairs = pairs,
    position_bias = list(0.2, NaN, NaN),
    consistent = 1,
    reliability = 0.9,
    dispersion = 0.1,
    df = 0L,
    n_parts = 2L,
    converged = TRUE,
    correlations = list(NaN),
    notes = list("a note"),
    page = "<PairComparison: 3 texts, 2 pairs>\nWhich?",
    checks = "<PairComparison: 3 texts, 2 pairs>\nconverged"
  )
  options <- list(level = 0.95, design = "adaptive", seed = 1)
  new_pairs(found, "Which?", options)
}

test_that("strengths and pairs are data frames", {
  found <- example_pairs()
  expect_equal(found$strengths$strength, c(1, 0.25, -1.25))
  expect_identical(found$strengths$rank, 1:3)
  expect_equal(found$pairs$consistent, c(TRUE, NA))
  expect_equal(found$pairs$log_odds, c(-0.5, NA))
  expect_equal(found$pairs$error, c(NA, "too long"))
  expect_false(found$connected)
  expect_identical(as.data.frame(found), found$strengths)
  expect_output(print(found), "<llamaherd_pairs> 3 texts, 2 pairs")
  expect_output(print(summary(found)), "converged")
})

test_that("strengths are compared with people's pairs and known scores", {
  local_real()
  found <- example_pairs()
  people <- data.frame(
    first = c("a", "b", "a"),
    second = c("b", "c", "c"),
    winner = c("a", "b", NA)
  )
  agreement <- pair_agreement(found, people, c(c = 1, a = 3, b = 2))
  expect_s3_class(agreement, "data.frame")
  value <- function(measure) agreement$value[agreement$measure == measure]
  expect_equal(value("accuracy"), 1)
  expect_equal(value("direct"), 0)
  expect_equal(value("spearman"), 1)
  expect_equal(agreement$n[agreement$measure == "accuracy"], 2L)
  expect_equal(attr(agreement, "n_ties"), 1L)
  expect_output(print(agreement), "1 pair without a winner is left out")
  expect_equal(
    pair_agreement(found, known = c(3, NA, 1))$n,
    c(2L, 2L)
  )
  bad <- function(...) {
    expect_error(pair_agreement(...), class = "llamaherd_error_argument")
  }
  bad(found)
  bad(found, known = 1:2)
  bad(found, known = c(x = 1))
  bad(found, data.frame(first = "a"))
  bad(list(), people)
  people$winner[[1]] <- "c"
  bad(found, people)
})

test_that("strengths are plotted", {
  local_real()
  skip_if_not_installed("ggplot2")
  withr::local_pdf(NULL)
  drawn <- print(plot(example_pairs()))
  expect_true("c" %in% drawn$scales$get_scales("y")$labels)
})

test_that("texts need different names", {
  expect_equal(pair_texts(c("x", "y"), environment())$names, c("1", "2"))
  expect_equal(pair_texts(c(p = "x", q = "y"), environment())$names, c("p", "q"))
  bad <- function(x) {
    expect_error(pair_texts(x, environment()), class = "llamaherd_error_argument")
  }
  bad(c(a = "x", a = "y"))
  bad(c(a = "x", "y"))
  bad(c("x", NA))
  bad(1:2)
})
