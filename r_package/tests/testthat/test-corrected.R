local({
  set.seed(3)
  n <- 600
  truth <- sample(c("no", "yes"), n, TRUE)
  wrong <- runif(n) < 0.25
  label <- ifelse(wrong, ifelse(truth == "yes", "no", "yes"), truth)
  age <- rnorm(n) + (truth == "yes")
  speeches <<- data.frame(
    text = sprintf("Text %d.", seq_len(n)),
    label,
    age,
    w = runif(n) + 0.5
  )
  codes <<- truth
})

coded_sample <- function() {
  gold <- gold_sample(speeches, 200, text = text, label = label, seed = 1)
  read_gold(data.frame(id = gold$ids, code = codes[gold$rows]), gold)
}

test_that("a regression of the corrected outcome is that of estimate()", {
  local_real()
  gold <- coded_sample()
  data <- corrected(speeches, gold, "yes")
  expect_identical(names(data), c(names(speeches), "corrected"))
  fit <- lm(corrected ~ age, data)
  estimates <- estimate(speeches, gold, label == "yes" ~ age, methods = "dsl")
  expect_equal(unname(coef(fit)), unname(coef(estimates)), tolerance = 1e-6)
  weights <- replicate_weights(speeches, gold, n = 300)
  expect_identical(dim(weights), c(600L, 300L))
  refit <- \(w) coef(lm(corrected ~ age, cbind(data, weight = w), weights = weight))
  changes <- apply(weights, 2, refit) - coef(fit)
  errors <- sqrt(4 * rowMeans(changes^2))
  expect_equal(unname(errors), as.data.frame(estimates)$std_error, tolerance = 0.15)
})

test_that("labels, numbers, weights and errors are those of Python", {
  local_real()
  gold <- coded_sample()
  shares <- corrected(speeches, gold)
  by <- as.data.frame(estimate(speeches, gold, methods = "dsl"))
  expect_equal(mean(shares$corrected_yes), by$estimate[by$outcome == "yes"])
  scores <- c(no = 1, yes = 3)
  mean_of <- as.data.frame(estimate(speeches, gold, outcome = scores, methods = "dsl"))
  expect_equal(mean(corrected(speeches, gold, scores)$corrected), mean_of$estimate)
  plain <- replicate_weights(speeches, gold, n = 3)
  expect_equal(replicate_weights(speeches, gold, n = 3, weights = w), plain * speeches$w)
  expect_error(corrected(shares, gold), "corrected_no")
  expect_error(replicate_weights(speeches, gold, target = "texts"), "one outcome")
  expect_refused(replicate_weights(speeches, gold, n = 1))
})

test_that("columns mean in a formula what they mean to lm()", {
  local_real()
  gold <- coded_sample()
  # haven's is.na() is TRUE for values that SPSS declares to be missing.
  registerS3method("is.na", "nine_is_missing", \(x) unclass(x) == 9, baseenv())
  data <- transform(speeches, party = factor(rep(c("A", "B", "C"), 200)))
  contrasts(data$party) <- contr.sum(3)
  data$answer <- structure(rep(c(1, 2, 9, 2, 1), 120), class = "nine_is_missing")
  # Columns that a call does not name need no message on value labels.
  sex <- structure(rep(c("m", "w"), 300), labels = c(man = "m", woman = "w"))
  data$sex <- structure(sex, class = c("haven_labelled", "character"))
  outcome <- corrected(data, gold, "yes")
  for (right in c("party + answer", "C(party, \"contr.helmert\")")) {
    of <- \(left) as.formula(paste(left, "~", right))
    left <- of("label == \"yes\"")
    expect_message(fit <- estimate(data, gold, left, methods = "dsl"), NA)
    expect_equal(coef(fit), coef(lm(of("corrected"), outcome)), tolerance = 1e-6)
  }
})

test_that("replicates for these texts belong to the predictions of corrected()", {
  local_real()
  gold <- coded_sample()
  data <- transform(speeches, p_yes = ifelse(label == "yes", 0.7, 0.4))
  data <- suppressWarnings(recalibrate(transform(data, p_no = 1 - p_yes), gold))
  weights <- \(...) replicate_weights(data, gold, "yes", target = "texts", n = 3, ...)
  expect_identical(weights(), weights(predictions = "probs"))
  expect_false(identical(weights(), weights(predictions = "labels")))
})
