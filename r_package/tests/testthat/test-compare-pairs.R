# tests/cross/test_same_coding.py compares texts with a model, from R and from Python.

# Strengths of three texts and two pairs, of which one failed.
example_pairs <- function() {
  vector <- \(type, name, ...) list(type = type, name = name, values = list(...))
  value <- \(name, value) list(type = "value", name = name, value = value)
  text <- \(name, ...) vector("text", name, ...)
  number <- \(name, ...) vector("number", name, ...)
  integer <- \(name, ...) vector("integer", name, ...)
  strengths <- list(
    text("name", "a", "b", "c"),
    text("text", "One.", "Two.", "Three."),
    number("strength", 1, 0.25, -1.25),
    integer("rank", 1, 2, 3)
  )
  pairs <- list(
    text("first", "a", "c"),
    number("log_odds", -0.5, NaN),
    vector("flag", "consistent", TRUE, NULL),
    text("error", NULL, "too long")
  )
  bias <- c(
    number("position_bias", 0.2, NaN, NaN),
    list(names = list("value", "low", "high"))
  )
  from_python(list(
    type = "object",
    class = "llamaherd_pairs",
    parts = list(
      list(type = "table", name = "strengths", n = 3L, columns = strengths),
      list(type = "table", name = "pairs", n = 2L, columns = pairs),
      bias,
      value("connected", FALSE),
      value("checks", "<PairComparison: 3 texts, 2 pairs>\nconverged")
    ),
    page = list("<llamaherd_pairs> 3 texts, 2 pairs", "Which?"),
    json = pairs_json
  ))
}

# The same, as Python stores it.
pairs_json <- paste0(
  '{"llamaherd_pairs": 1, "strengths": [',
  paste0(
    sprintf(
      '{"name": "%s", "text": "%s", "strength": %s, "std_error": 0.1, "low": %s, "high": %s,
        "rank": %d, "n_pairs": 1}',
      c("a", "b", "c"),
      c("One.", "Two.", "Three."),
      c(1, 0.25, -1.25),
      c(0.5, 0, -2),
      c(1.5, 0.5, -0.5),
      1:3
    ),
    collapse = ", "
  ),
  '], "pairs": [
    {"first": 0, "second": 1, "round": 1, "forward": -0.5, "backward": -0.5, "coverage": 0.9,
     "error": null},
    {"first": 2, "second": 0, "round": 1, "forward": NaN, "backward": NaN, "coverage": NaN,
     "error": "too long"}],
  "question": "Which?", "level": 0.95, "design": "adaptive", "seed": 1, "position_bias":
  {"value": 0.2, "low": NaN, "high": NaN, "n": 1}, "consistent": 1, "reliability": 0.9,
  "dispersion": 0.1, "df": 0, "n_parts": 2, "is_converged": true, "correlations": [NaN],
  "notes": []}'
)

test_that("strengths and pairs are data frames", {
  comparison <- example_pairs()
  expect_equal(comparison$strengths$strength, c(1, 0.25, -1.25))
  expect_identical(comparison$strengths$rank, 1:3)
  expect_equal(comparison$pairs$consistent, c(TRUE, NA))
  expect_equal(comparison$pairs$log_odds, c(-0.5, NA))
  expect_equal(comparison$pairs$error, c(NA, "too long"))
  expect_identical(comparison$position_bias, c(value = 0.2, low = NA, high = NA))
  expect_false(comparison$connected)
  expect_identical(as.data.frame(comparison), comparison$strengths)
  expect_output(print(comparison), "<llamaherd_pairs> 3 texts, 2 pairs")
  expect_output(
    print(summary(comparison)),
    "<llamaherd_pairs> 3 texts, 2 pairs\nconverged"
  )
})

test_that("strengths are compared with people's pairs and known scores", {
  local_real()
  comparison <- example_pairs()
  people <- data.frame(first = c("a", "b", "a"), second = c("b", "c", "c"))
  people$winner <- c("a", "b", NA)
  agreement <- pair_agreement(comparison, people, c(c = 1, a = 3, b = 2))
  expect_s3_class(agreement, "data.frame")
  value <- function(measure) agreement$value[agreement$measure == measure]
  expect_equal(value("accuracy"), 1)
  expect_equal(value("direct"), 0)
  expect_equal(value("spearman"), 1)
  expect_equal(agreement$n[agreement$measure == "accuracy"], 2L)
  expect_equal(attr(agreement, "n_ties"), 1L)
  expect_output(print(agreement), "1 pair without a winner is left out")
  expect_equal(pair_agreement(comparison, known = c(3, NA, 1))$n, c(2L, 2L))
  winners <- replace(people, "winner", list(c("c", "b", NA)))
  expect_errors(
    pair_agreement(comparison),
    pair_agreement(comparison, known = 1:2),
    pair_agreement(comparison, known = c(x = 1)),
    pair_agreement(comparison, data.frame(first = "a")),
    pair_agreement(list(), people),
    pair_agreement(comparison, winners)
  )
})

test_that("strengths are plotted", {
  local_real()
  skip_if_not_installed("ggplot2")
  withr::local_pdf(NULL)
  drawn <- print(plot(example_pairs()))
  expect_true("c" %in% drawn$scales$get_scales("y")$labels)
})

test_that("texts need different names", {
  expect_named(pair_texts(c("x", "y")), c("1", "2"))
  expect_named(pair_texts(c(p = "x", q = "y")), c("p", "q"))
  expect_errors(
    pair_texts(c(a = "x", a = "y")),
    pair_texts(c(a = "x", "y")),
    pair_texts(c("x", NA)),
    "such as data\\$text" = pair_texts(data.frame(text = "x")),
    pair_texts(1:2)
  )
})
