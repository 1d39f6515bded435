# Waves of codes and simultaneous intervals: arguments arrive, and pages say so. The numbers are
# compared with Python's in tests/cross/test_same_numbers.py.

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
first_wave <- function() {
  gold <- gold_sample(speeches, 120, text = text, label = label, seed = 1)
  read_gold(data.frame(id = gold$ids, coder1 = truth[gold$rows]), gold)
}

test_that("a second simple wave makes one simple sample", {
  skip_if_no_llamaherd()
  before <- first_wave()
  both <- gold_sample(speeches, 80, after = before, seed = 2)
  expect_equal(both$history$n, c(120, 80))
  expect_match(format(both), "waves of 120, 80 texts", all = FALSE)
  path <- withr::local_tempfile(fileext = ".csv")
  write_gold(both, path, uncoded = TRUE)
  expect_equal(nrow(utils::read.csv(path)), 80)
})

test_that("codes of four coders have their agreement on the page of an estimate", {
  skip_if_no_llamaherd()
  gold <- first_wave()
  codes <- data.frame(id = gold$ids, a = gold$gold, b = gold$gold, c = rev(gold$gold))
  fit <- suppressWarnings(estimate(speeches, read_gold(codes, gold)))
  expect_match(fit$agreement, "4 coders agree")
  expect_match(format(fit), "Krippendorff", all = FALSE)
  expect_error(dawid_skene(gold), "3 coders at least")
})

test_that("intervals that hold together are wider, and have one level", {
  skip_if_no_llamaherd()
  gold <- first_wave()
  width <- function(...) {
    fit <- suppressWarnings(estimate(speeches, gold, by = party, methods = "gold", ...))
    apply(confint(fit), 1, diff)
  }
  alone <- width()
  expect_true(all(width(simultaneous = "bonferroni") > alone))
  expect_error(estimate(speeches, gold, simultaneous = "max_t"), "bonferroni")
  fit <- suppressWarnings(estimate(speeches, gold, simultaneous = "bonferroni"))
  expect_error(confint(fit, level = 0.9), "simultaneous")
})
