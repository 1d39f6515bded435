data <- data.frame(
  text = letters[1:6],
  label = c("yes", "no", "yes", "no", NA, "no"),
  party = factor(c("A", "A", "B", "B", "A", "B"), levels = c("C", "A", "B")),
  age = c(1, 2, NA, 4, 5, 6)
)

local_gold <- function() {
  gold <- gold_sample(data, 6, text = text, label = label)
  read_gold(data.frame(id = 1:6, code = c("yes", "yes", "no", NA, NA, NA)), gold)
}

# The codes are too few for estimates: what arrives in Python is tested.
estimated <- \(...) {
  try(suppressWarnings(estimate(data, local_gold(), ...)), silent = TRUE)
}

coded_by_hand <- function(n = 400) {
  data <- data.frame(
    label = rep(c("yes", "no"), n / 2),
    party = rep(c("A", "B"), each = n / 2)
  )
  data$code <- ifelse(seq_len(n) %% 4 < 2, replace(data$label, 1:20, "no"), NA)
  data
}

test_that("estimates are a list with a row for each number and method", {
  local_fake()
  data <- coded_by_hand()
  fit <- estimate(data, "code", by = party, outcome = "no", prob = "simple")
  expect_s3_class(fit, "llamaherd_estimates")
  frame <- as.data.frame(fit)
  expect_identical(dim(frame), c(12L, 10L))
  expect_identical(unique(frame$method), c("dsl", "ppi", "gold", "naive"))
  expect_seen("estimate", "'outcome': ['no']")
  few <- data[1:12, ]
  expect_warning(
    estimate(few, "code", outcome = "no", prob = "simple"),
    class = "llamaherd_warning_python"
  )
})

test_that("coefficients, covariances and intervals are those of one method", {
  local_fake()
  of <- \(...) estimate(coded_by_hand(), "code", outcome = "yes", prob = "simple", ...)
  fit <- of(by = party)
  rows <- as.data.frame(fit)
  rows <- rows[rows$method == "dsl", ]
  names <- c("share A", "share B", "difference A - B")
  expect_identical(names(coef(fit))[1:2], names[1:2])
  expect_identical(unname(coef(fit)), rows$estimate)
  expect_false(identical(coef(fit, method = "naive"), coef(fit)))
  expect_identical(colnames(confint(fit)), c("2.5 %", "97.5 %"))
  expect_equal(unname(confint(fit)), cbind(rows$low, rows$high))
  narrow <- confint(fit, level = 0.9)
  expect_true(all(narrow[, 1] > rows$low & narrow[, 2] < rows$high))
  expect_equal(unname(diag(vcov(fit))), rows$std_error[1:2]^2)
  expect_identical(rownames(vcov(fit)), names(coef(fit))[1:2])
  expect_identical(nobs(fit), 400L)
  fit <- of(methods = "gold")
  expect_error(coef(fit, method = "dsl"), "`methods` must be \"gold\"")
  expect_error(vcov(fit, outcome = "sad"), "`outcome` must be \"yes\"")
})

test_that("a formula is evaluated with labels and with codes", {
  local_fake()
  estimated(label == "yes" ~ party + age)
  seen <- the$module$seen("estimate_regression")
  # Rows 3 and 5 have a missing value, row 4 has no code, and no row has party C.
  expect_match(seen, "'kept': [0.0, 1.0, 3.0, 5.0]", fixed = TRUE)
  expect_match(seen, "'y_hat': [1.0, 0.0, 0.0, 0.0]", fixed = TRUE)
  expect_match(seen, "'y': [1.0, 1.0]", fixed = TRUE)
  expect_match(seen, "'x_hat': [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]", fixed = TRUE)
  expect_match(seen, "'x': [[1.0, 1.0], [0.0, 0.0], [1.0, 2.0]]", fixed = TRUE)
  expect_match(seen, "'has_label_right': False", fixed = TRUE)
})

test_that("a saved estimate contains no variables of the function that made it", {
  local_fake()
  make <- function() {
    secret <- "not to be saved"
    estimate(coded_by_hand(), "code", label == "yes" ~ party, prob = "simple")
  }
  saved <- serialize(make(), NULL)
  expect_length(grepRaw("not to be saved", saved, fixed = TRUE), 0L)
  expect_identical(unserialize(saved), make())
})

test_that("labels on the right have the codes' values", {
  local_fake()
  estimated(age ~ label, model = "ols")
  expect_seen(
    "estimate_regression",
    "'x_hat': [[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]]",
    "'x': [[1.0, 1.0], [1.0, 1.0]]",
    "'has_label_right': True"
  )
  # scale() subtracts the mean of all rows.
  estimated(I(label == "yes") ~ scale(age, scale = FALSE), cluster = party)
  expect_seen(
    "estimate_regression",
    "'x': [[1.0, 1.0], [-2.6, -1.6]]",
    "'clusters': [0.0, 0.0, 1.0, 1.0]"
  )
})

test_that("codes without a design need their probabilities", {
  local_fake()
  codes <- c("yes", "no", NA, NA, NA, "no")
  expect_error(estimate(data, codes), "no inclusion", class = "llamaherd_error_argument")
  sent <- \(...) try(suppressWarnings(estimate(...)), silent = TRUE)
  sent(cbind(data, hand = codes), "hand", prob = "simple")
  expect_seen("estimate", "['yes', 'no', None, None, None, 'no']", "'prob': 'simple'")
  sent(data, codes, prob = rep(0.5, 6))
  expect_seen("estimate", "'prob': [0.5, 0.5")
  sent(data, codes, label == "yes" ~ age, prob = "simple")
  expect_seen("estimate_regression", "'y': [1.0, 0.0, 0.0]")
})

test_that("messages show what is missing as NA, and name the argument", {
  skip_if_no_llamaherd()
  estimated <- \(...) estimate(coded_by_hand(), "code", prob = "simple", ...)
  not_known <- "`outcome` must be among the labels .*, not NA"
  expect_error(estimated(outcome = NA), not_known)
  expect_error(estimated(outcome = c("yes", NA)), not_known)
  expect_errors(
    "outcome.*yes.* must be a number, not NA" = estimated(outcome = c(no = 0, yes = NA)),
    "`outcome` must name at least one of the labels" = estimated(outcome = character()),
    "`formula` has `prty`, which is no column" = estimated(label == "yes" ~ prty)
  )
})

test_that("a label counts where it is among several", {
  skip_if_no_llamaherd()
  label <- rep(c("a; b", "a", "b", "", "a; b", "b"), 50)
  code <- rep(c("a; b", "a", "a; b", "", "b", "b"), 50)
  code[1:300 %% 12 < 6] <- NA
  data <- data.frame(label = factor(label), age = sin(1:300))
  fit <- suppressWarnings(estimate(data, code, prob = "simple", several = TRUE))
  expect_identical(unique(as.data.frame(fit)$outcome), c("a", "b"))
  expect_equal(coef(fit, method = "naive"), c("a share" = 1 / 2, "b share" = 2 / 3))
  has <- \(x, name) ifelse(is.na(x), NA, grepl(name, x))
  alone <- data.frame(label = has(label, "a"))
  single <- estimate(alone, has(code, "a"), prob = "simple", outcome = "TRUE")
  expect_equal(coef(fit)[["a share"]], coef(single)[[1]])

  attr(data, "llamaherd") <- list(columns = list(), codebook = list(type = "multiple"))
  class(data) <- c("llamaherd_coded", class(data))
  expect_equal(coef(estimate(data, code, prob = "simple")), coef(fit))
  known <- estimate(data, code, has_label(label, "a") ~ age, prob = "simple")
  alone <- data.frame(label = as.numeric(has(label, "a")), age = data$age)
  single <- estimate(alone, as.numeric(has(code, "a")), label ~ age, prob = "simple")
  expect_equal(coef(known), coef(single))
  expect_named(
    coef(estimate(data, code, age ~ has_label(label, "b"), prob = "simple")),
    c("(Intercept)", "has_label(label, \"b\")")
  )
  expect_error(
    estimate(data, code, label == "a" ~ age, prob = "simple"),
    "such as has_label(label, \"x\") ~ age",
    fixed = TRUE
  )
})

# A logit model of 400 texts; half of the texts have codes.
logit_of <- function() {
  data <- data.frame(label = rep(c("a", "b"), c(150, 250)), party = rep(c("A", "B"), 200))
  data$code <- ifelse(seq_len(400) %% 4 < 2, replace(data$label, 1:20, "b"), NA)
  estimate(data, "code", label == "a" ~ party, model = "logit", prob = "simple")
}

test_that("a summary has what a table of coefficients has", {
  skip_if_no_llamaherd()
  fit <- logit_of()
  table <- coef(summary(fit, method = "gold"))
  expect_identical(rownames(table), c("(Intercept)", "partyB"))
  expect_equal(table[, "estimate"], coef(fit, method = "gold"))
  expect_equal(
    table[, c("low", "high")],
    confint(fit, method = "gold"),
    ignore_attr = TRUE
  )
  expect_equal(table[, "t"], table[, "estimate"] / table[, "std_error"])
  # The tests agree with the intervals: if an interval ends at 0, p is 0.05.
  df <- subset(as.data.frame(fit), method == "gold")$df
  expect_equal(unname(table[, "p"]), 2 * stats::pt(unname(-abs(table[, "t"])), df))
  printed <- format(summary(fit))
  expect_match(
    printed[[1]],
    "label == \"a\" ~ party: 400 texts, 200 with codes (simple",
    fixed = TRUE
  )
  expect_match(printed[[4]], "estimate +std_error +low +high +t +p$")
  expect_output(print(summary(fit)), "partyB")
})

test_that("nobody asks whether a share is 0", {
  skip_if_no_llamaherd()
  data <- data.frame(label = rep(c("a", "b"), 100), party = rep(c("A", "B"), each = 100))
  data$code <- ifelse(seq_len(200) %% 3 == 0, data$label, NA)
  shares <- estimate(data, "code", prob = "simple")
  expect_identical(
    colnames(coef(summary(shares))),
    c("estimate", "std_error", "low", "high")
  )
  by <- estimate(data, "code", outcome = "a", by = party, prob = "simple")
  expect_identical(unname(is.na(coef(summary(by))[, "p"])), c(TRUE, TRUE, FALSE))
  expect_match(format(summary(by))[[1]], "shares and means of a: 200 texts")
})

test_that("packages that make tables get theirs", {
  skip_if_no_llamaherd()
  skip_if_not_installed("generics")
  fit <- logit_of()
  expect_identical(nobs(fit), 400L)
  expect_identical(nobs(fit, method = "gold"), 200L)
  tidy <- generics::tidy(fit, conf.int = TRUE, conf.level = 0.9)
  expect_named(
    tidy,
    c("term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high")
  )
  expect_identical(tidy$term, names(coef(fit)))
  expect_equal(tidy$conf.high, unname(confint(fit, level = 0.9)[, 2]))
  expect_named(generics::tidy(fit), names(tidy)[1:5])
  expect_equal(
    generics::tidy(fit, method = "naive")$std.error,
    unname(sqrt(diag(vcov(fit, method = "naive"))))
  )
  counts <- data.frame(nobs = 400L, n_gold = 200L, design = fit$design)
  expect_identical(generics::glance(fit), cbind(counts, model = "logit", method = "dsl"))
})

test_that("an ordinal label is compared by its order", {
  skip_if_no_llamaherd()
  names <- c("low", "mid", "high")
  data <- data.frame(label = ordered(rep(names, 100), names), x = sin(1:300))
  code <- as.character(data$label)
  code[1:300 %% 2 == 0] <- NA
  by_order <- estimate(data, code, (label >= "mid") ~ x, prob = "simple")
  by_name <- estimate(data, code, label %in% c("mid", "high") ~ x, prob = "simple")
  expect_equal(coef(by_order), coef(by_name))
  levels <- coef(estimate(data, code, x ~ label, prob = "simple"))
  expect_named(levels, c("(Intercept)", "labelmid", "labelhigh"))
  expect_error(confint(by_order, level = 90), class = "llamaherd_error_argument")
})

test_that("a formula is evaluated on all rows, with codes in place of labels", {
  local_fake()
  estimated(label == "yes" ~ I(age - mean(age, na.rm = TRUE)))
  seen <- the$module$seen("estimate_regression")
  # The mean of all ages is 3.6; rows 1 and 2 have a code and an age.
  expect_match(seen, "'x': [[1.0, 1.0], [-2.6, -1.6]]", fixed = TRUE)
  scores <- data$age
  expect_s3_class(estimated(label == "yes" ~ scores), "llamaherd_estimates")
  expect_errors(
    "use only each row's own label" = estimate(
      data,
      local_gold(),
      age ~ I((label == "yes") - (label == "yes")[2])
    )
  )
  codes <- c(TRUE, FALSE, TRUE, NA, NA, NA)
  flags <- transform(data, label = label == "yes", code = codes)
  sent <- \() suppressWarnings(estimate(flags, code, label ~ party, prob = "simple"))
  try(sent(), silent = TRUE)
  expect_seen("estimate_regression", "'y': [1.0, 0.0, 1.0]")
  flags$code <- c("TRUE", "?", "TRUE", NA, NA, NA)
  expect_errors("`gold` must be numbers or truth values" = sent())
})

test_that("printed estimates fit a console of 80 columns", {
  skip_if_no_llamaherd()
  data <- data.frame(
    label = rep(c("against", "for"), 60),
    party = rep(c("A", "B", "C"), 40)
  )
  data$code <- ifelse(seq_len(120) %% 2 == 0, NA, data$label)
  data$code[c(1, 3, 5)] <- "for"
  data$other <- data$code
  fit <- suppressWarnings(estimate(data, "code", prob = "simple", by = "party"))
  withr::local_options(width = 80)
  lines <- capture.output(print(fit))
  expect_lte(max(nchar(lines)), 80)
  # Estimates are below each other, whatever the length of their names.
  rows <- grep("^  .*[[].*[]]$", lines, value = TRUE)
  expect_length(rows, 4 * 10)
  expect_length(unique(regexpr("[", rows, fixed = TRUE)), 1)
})

test_that("labels that are numbers have a mean, and are on either side of a formula", {
  skip_if_no_llamaherd()
  set.seed(2)
  truth <- sample(0:10, 400, TRUE)
  rated <- data.frame(text = sprintf("Text %d.", 1:400), age = rnorm(400) + truth / 5)
  rated$label <- pmin(truth + sample(-1:2, 400, TRUE), 10L)
  gold <- gold_sample(rated, 120, text = text, label = label, seed = 1)
  gold <- read_gold(data.frame(id = gold$ids, code = truth[gold$rows]), gold)
  naive <- \(...) as.data.frame(estimate(rated, gold, ..., methods = "naive"))
  expect_equal(naive(outcome = "mean")$estimate, mean(rated$label))
  for (formula in c(label ~ age, age ~ label)) {
    expect_equal(naive(formula)$estimate, unname(coef(lm(formula, rated))))
  }
  rated$label <- ifelse(rated$label > 5, "a", "b")
  expect_error(estimate(rated, gold, outcome = "mean"))
})

test_that("the median of numbers is estimated, and what was removed is told", {
  local_real()
  truth <- rep(0:9, 40)
  data <- data.frame(text = sprintf("Text %d.", 1:400), label = pmin(truth + 1L, 9L))
  names <- as.character(0:9)
  gold <- gold_sample(data, 120, text = text, label = label, names = names, seed = 1)
  gold <- read_gold(data.frame(id = gold$ids, code = truth[gold$rows]), gold)
  fit <- suppressWarnings(estimate(data, gold, outcome = "median", methods = "dsl"))
  expect_equal(as.data.frame(fit)$outcome, "median")
  of <- \(...) estimate(data, gold, ...)
  expect_errors(
    "the only quantile" = of(outcome = "quantile"),
    "quantile.* was removed.*median" = of(outcome = "median", quantile = 0.5),
    "was removed.*dawid_skene" = of(consensus = "one_coin"),
    "cannot take" = of(quantiles = 0.5)
  )
})

test_that("types of columns and a CSV make no difference", {
  local_real()
  set.seed(1)
  n <- 200
  data <- data.frame(
    label = sample(c("a", "b"), n, TRUE),
    group = sample(1:2, n, TRUE),
    p = runif(n, 0.2, 0.7),
    w = runif(n, 1, 2)
  )
  same <- runif(n) < 0.8
  data$code <- ifelse(runif(n) < data$p, ifelse(same, data$label, "a"), NA)
  numbers <- function(data) {
    fit <- suppressWarnings(
      estimate(data, code, outcome = "a", by = group, prob = data$p, weights = w)
    )
    as.matrix(as.data.frame(fit)[c("estimate", "std_error", "low", "high")])
  }
  file <- withr::local_tempfile(fileext = ".csv")
  write.csv(data, file, row.names = FALSE)
  factors <- transform(
    data,
    label = factor(label, levels = c("b", "a", "unused")),
    code = factor(code, levels = c("a", "b")),
    group = factor(group, levels = c(1, 2, 3))
  )
  expected <- numbers(data)
  expect_equal(numbers(read.csv(file)), expected, tolerance = 1e-9)
  expect_equal(numbers(factors), expected, tolerance = 1e-9)
  expect_equal(numbers(transform(data, group = as.character(group))), expected)
  expect_equal(numbers(transform(data, group = as.numeric(group), w = w * 5)), expected)
  expect_equal(numbers(data[rev(seq_len(n)), ]), expected)
})

test_that("all warnings of a call are one warning", {
  caught <- list()
  withCallingHandlers(
    warn_python(c("few {codes}", "few errors", "few {codes}")),
    warning = \(cnd) {
      caught[[length(caught) + 1]] <<- cnd
      rlang::cnd_muffle(cnd)
    }
  )
  expect_length(caught, 1)
  expect_s3_class(caught[[1]], "llamaherd_warning_python")
  expect_match(conditionMessage(caught[[1]]), "2 warnings:.*few [{]codes[}].*few errors")
  expect_no_warning(warn_python(character()))
})
