# The "C" data of Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011, which is also
# `nmm` in the documentation of package irr: 4 coders, 12 units.
nmm <- data.frame(
  a = c(1, 2, 3, 3, 2, 1, 4, 1, 2, NA, NA, NA),
  b = c(1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NA, 3),
  c = c(NA, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NA),
  d = c(1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NA)
)
value_of <- function(x, coefficient) x$value[x$coefficient == coefficient]

# Python's tests assert the values that irr's documentation has.
test_that("codes are columns of a matrix or vectors, and weights a vector or a matrix", {
  skip_if_no_llamaherd()
  coefficients <- agreement(nmm)
  expect_equal(value_of(coefficients, "alpha"), 0.743, tolerance = 1e-3)
  expect_identical(agreement(as.matrix(nmm)), coefficients)
  expect_identical(agreement(nmm$a, nmm$b, nmm$c, nmm$d), coefficients)
  expect_false("kappa" %in% coefficients$coefficient)
  weighted <- \(weights) {
    value_of(agreement(nmm[1:2], kappa_weights = weights), "weighted kappa")
  }
  by_distance <- weighted(c(0, 0, 1, 1))
  expect_equal(weighted(outer(1:4, 1:4, \(i, j) abs(i - j) %/% 2)), by_distance)
  expect_false(isTRUE(all.equal(weighted(0:3), by_distance)))
})

test_that("it is a data frame with intervals", {
  skip_if_no_llamaherd()
  coefficients <- agreement(nmm)
  expect_s3_class(coefficients, c("llamaherd_agreement", "data.frame"), exact = TRUE)
  columns <- c("coefficient", "value", "low", "high", "se", "observed", "expected")
  expect_named(coefficients, c(columns, "n_units", "n_coders"))
  expect_true(all(
    coefficients$low < coefficients$value & coefficients$value < coefficients$high
  ))
  expect_identical(is.na(coefficients$se), c(TRUE, TRUE, FALSE))
  expect_identical(unique(coefficients$n_units), 11L)
  expect_s3_class(coefficients[coefficients$value > 0.75, ], "data.frame", exact = TRUE)
  expect_s3_class(as.data.frame(coefficients), "data.frame", exact = TRUE)
  expect_errors("was removed.*without a bootstrap" = agreement(nmm, n_bootstrap = 100L))
  expect_page({
    agreement(nmm)
    agreement(c("a", "a"), c("a", "a"))
  })
})

test_that("factors, text and numbers are codes", {
  skip_if_no_llamaherd()
  text <- list(c("lo", "mid", "hi", "mid"), c("lo", "hi", "hi", "lo"))
  levels <- c("lo", "mid", "hi")
  factors <- lapply(text, factor, levels = levels)
  ordered <- lapply(text, ordered, levels = levels)
  numbers <- lapply(text, match, levels)
  of <- function(codes, ...) do.call(agreement, c(codes, list(...)))$value
  expect_identical(of(text), of(factors))
  expect_equal(of(factors), of(numbers))
  expect_identical(attr(do.call(agreement, ordered), "scale"), "ordinal")
  expect_equal(of(ordered), of(numbers, scale = "ordinal"))
  expect_equal(of(text, scale = "ordinal", levels = levels), of(ordered))
  expect_identical(of(list(c(TRUE, FALSE, NA), c(TRUE, TRUE, NA)))[[1]], 0.5)
  # A level that no coder used still has a position between the other levels, and is a label.
  apart <- lapply(
    ordered,
    factor,
    levels = c("lo", "x", "y", "mid", "hi"),
    ordered = TRUE
  )
  expect_false(of(apart)[[4]] == of(ordered)[[4]])
})

test_that("weights and what is missing", {
  skip_if_no_llamaherd()
  a <- c("x", "y", "x", NA)
  b <- c("x", "x", "x", "x")
  coefficients <- agreement(a, b, weights = c(1, 2, 3, 4))
  expect_equal(coefficients$value[[1]], 4 / 6)
  none <- agreement(c(NA, "a"), c("a", NA))
  expect_true(all(is.na(none$value)))
  expect_identical(unique(none$n_units), 0L)
})

test_that("coded texts are no codes of several coders", {
  coded <- structure(
    data.frame(a = "x", b = "y"),
    class = c("llamaherd_coded", "data.frame")
  )
  expect_error(agreement(coded), "validate\\(\\)", class = "llamaherd_error_argument")
})

test_that("agreement with other names of columns is a data frame", {
  skip_if_no_llamaherd()
  coefficients <- agreement(c("a", "b", "a"), c("a", "b", "b"))
  names(coefficients)[[2]] <- "estimate"
  expect_s3_class(coefficients, "data.frame", exact = TRUE)
  expect_output(print(coefficients), "estimate")
})

test_that("codes of any type go as they are, and blank ones are left to Python", {
  expect_identical(as_codes(c(1, 2, NA)), list(1L, 2L, NULL))
  expect_identical(as_codes(c(a = 1.5)), list(1.5))
  expect_identical(as_codes(c(TRUE, NA)), list("TRUE", NULL))
  expect_identical(as_codes(factor(c("b", "", NA))), list("b", "", NULL))
  expect_identical(as_codes(as.Date("2020-01-31")), list("2020-01-31"))
  labelled <- structure(
    c(1, NA, 2),
    labels = c(no = 1),
    class = c("haven_labelled", "double")
  )
  expect_message(codes <- as_codes(labelled), NA) # a scale with labels of some values
  expect_identical(codes, list(1L, NULL, 2L))
  attr(labelled, "labels") <- c(no = 1, yes = 2)
  expect_message(codes <- as_codes(labelled, "anna"), "values of anna.*haven::as_factor")
  expect_identical(codes, list(1L, NULL, 2L))
  expect_identical(
    known_levels(list(1, factor("a"), factor("b", ordered = TRUE))),
    list(list("b"), list("a"))
  )
})

test_that("a message about value labels names the coder", {
  local_real()
  codes <- structure(
    c(1, 2, 1),
    labels = c(no = 1, yes = 2),
    class = c("haven_labelled", "double")
  )
  expect_message(expect_message(agreement(anna = codes, codes), "anna"), "coder 2")
})

test_that("no label is a code where a text may have several labels", {
  local_real()
  data <- data.frame(text = sprintf("Text %d.", 1:20), label = "x")
  gold <- gold_sample(
    data,
    8,
    text = text,
    label = label,
    names = c("x", "y", "(none)"),
    several = TRUE,
    seed = 1
  )
  none <- "((none))" # a label is called "(none)"
  anna <- c("none", "none", "x", "y; x", "x", "x", "", "y")
  ben <- c("none", "x", "none", "x; y", "x", "x", "x", "y")
  gold <- read_gold(data.frame(id = gold$ids, anna = anna, ben = ben), gold)
  expect_output(print(gold, n = 8), " none +none")
  coefficients <- agreement(gold)
  expect_identical(unique(coefficients$n_units), 7L)
  expect_equal(value_of(coefficients, "percent"), 5 / 7)
  sets <- list(
    anna = c(none, none, "x", "x; y", "x", "x", NA, "y"),
    ben = c(none, "x", none, "x; y", "x", "x", "x", "y")
  )
  expect_equal(coefficients$value, agreement(as.data.frame(sets))$value)
})

test_that("errors of codes and weights name what is wrong in R's words", {
  skip_if_no_llamaherd()
  codes <- c("a", "b", "a")
  refused <- \(message, ...) {
    call <- rlang::expr(agreement(codes, codes, ...))
    expect_error(eval(call), message, class = "llamaherd_error_argument")
  }
  refused("`[.]{3}.* `?a", levels = "a")
  refused(
    "`weights[[]2[]]` must be finite and not negative, not -1",
    weights = c(1, -1, 1)
  )
  refused("`weights` must not all be 0", weights = c(0, 0, 0))
  data <- data.frame(text = letters[1:3], w = c(0.5, 2, 1))
  expect_error(
    gold_sample(data, 1, text = text, prob = "uncertainty", confidence = w),
    "`confidence[2]` must be between 0 and 1, not 2",
    fixed = TRUE
  )
})
