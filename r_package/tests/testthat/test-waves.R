# Tests waves of codes, survey weights, models of coders' errors, and simultaneous intervals.

set.seed(4)
n <- 500
party <- sample(c("A", "B"), n, TRUE)
truth <- ifelse(stats::runif(n) < ifelse(party == "A", 0.3, 0.5), "against", "for")
speeches <- data.frame(
  id = seq_len(n),
  text = sprintf("Speech %d.", seq_len(n)),
  label = ifelse(stats::runif(n) < 0.2, "for", truth),
  party = party,
  w = sample(c(1, 3), n, TRUE)
)
coded_by <- function(gold, rates = 0) {
  right <- truth[gold$rows]
  other <- ifelse(right == "for", "against", "for")
  codes <- lapply(rates, \(rate) ifelse(stats::runif(length(right)) < rate, other, right))
  names(codes) <- paste0("coder", seq_along(rates))
  read_gold(data.frame(id = gold$ids, codes), gold)
}
first_wave <- function() {
  coded_by(gold_sample(speeches, 120, text = text, label = label, seed = 1))
}

test_that("a second simple wave makes one simple sample", {
  skip_if_no_llamaherd()
  before <- first_wave()
  both <- gold_sample(speeches, 80, after = before, seed = 2)
  expect_equal(unique(both$all_probs), 200 / 500)
  expect_equal(both$history$n, c(120, 80))
  expect_equal(both$history$n_coded, c(0, 120))
  expect_equal(sum(!is.na(both$gold)), 120)
  expect_match(format(both), "waves of 120, 80 texts", all = FALSE)
  path <- withr::local_tempfile(fileext = ".csv")
  write_gold(both, path, uncoded = TRUE)
  expect_equal(nrow(utils::read.csv(path)), 80)
})

test_that("a model of coders says how often each errs", {
  skip_if_no_llamaherd()
  drawn <- gold_sample(speeches, 150, text = text, label = label, seed = 1)
  gold <- coded_by(drawn, c(0.05, 0.2, 0.2))
  model <- dawid_skene(gold)
  expect_gt(model$accuracy[["coder1"]], model$accuracy[["coder2"]])
  expect_equal(rowSums(model$labels[c("p_against", "p_for")]), rep(1, 150))
  expect_equal(unname(rowSums(model$errors$coder1)), c(1, 1))
  found <- suppressWarnings(estimate(speeches, gold))
  expect_match(found$agreement, "3 coders agree")
  expect_match(format(found), "Krippendorff", all = FALSE)
  expect_error(dawid_skene(first_wave()), "3 coders at least")
})

test_that("intervals that hold together are wider, and have one level", {
  skip_if_no_llamaherd()
  gold <- first_wave()
  width <- function(...) {
    found <- suppressWarnings(estimate(speeches, gold, by = party, methods = "gold", ...))
    apply(confint(found), 1, diff)
  }
  each <- width()
  expect_true(all(width(simultaneous = "bonferroni") > each))
  expect_error(estimate(speeches, gold, simultaneous = "max_t"), "bonferroni")
  found <- suppressWarnings(estimate(speeches, gold, simultaneous = "bonferroni"))
  expect_error(confint(found, level = 0.9), "simultaneous")
})
