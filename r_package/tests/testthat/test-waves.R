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

test_that("a wave that depends on codes has weighted estimates", {
  skip_if_no_llamaherd()
  both <- gold_sample(
    speeches,
    60,
    after = first_wave(),
    prob = ifelse(speeches$party == "B", 3, 1),
    seed = 2
  )
  both <- coded_by(both)
  expect_equal(both$design$kind, "waves")
  found <- suppressWarnings(estimate(speeches, both, outcome = "against"))
  weights <- 1 / both$probs
  share <- sum(weights * (both$gold == "against")) / sum(weights)
  expect_equal(unname(coef(found, "gold")), share)
  part <- suppressWarnings(estimate(subset(speeches, party == "A"), both))
  expect_equal(part$n_texts, sum(party == "A"))
  expect_match(part$notes, "texts from which the sample was drawn", all = FALSE)
})

test_that("survey weights are those of lm()", {
  skip_if_no_llamaherd()
  gold <- first_wave()
  found <- suppressWarnings(estimate(speeches, gold, label == "for" ~ party, weights = w))
  fit <- stats::lm(I(label == "for") ~ party, speeches, weights = w)
  expect_equal(coef(found, "naive"), coef(fit))
  means <- suppressWarnings(estimate(speeches, gold, outcome = "for", weights = "w"))
  by_hand <- stats::weighted.mean(speeches$label == "for", speeches$w)
  expect_equal(unname(coef(means, "naive")), by_hand)
  checked <- validate(speeches, gold, weights = w)
  right <- (speeches$label == truth)[gold$rows]
  accuracy <- subset(as.data.frame(checked), measure == "accuracy" & part == "accuracy")
  expect_equal(accuracy$value, stats::weighted.mean(right, speeches$w[gold$rows]))
  drawn <- gold_sample(
    speeches,
    50,
    prob = "weights",
    weights = w,
    floor = 0,
    label = label,
    seed = 1
  )
  expect_equal(drawn$all_probs, 50 * speeches$w / sum(speeches$w))
  expect_error(estimate(speeches, gold, weights = -speeches$w), "at least 0")
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

test_that("picked texts are hardly a simple sample, and clusters are noted", {
  skip_if_no_llamaherd()
  picked <- ifelse(speeches$label == "for" & speeches$id %% 2 == 0, truth, NA)
  expect_warning(
    found <- estimate(speeches, picked, prob = "simple", outcome = "for"),
    "hardly a simple sample"
  )
  expect_equal(found$label_check$n_coded[[1]], 0)
  expect_lt(attr(found$label_check, "p_value"), 0.01)
  clustered <- speeches
  by_label <- order(speeches$label)
  clustered$speaker <- sprintf("s%d", match(speeches$id, by_label) %/% 20)
  noted <- suppressWarnings(estimate(clustered, first_wave(), outcome = "for"))
  expect_match(noted$notes, "'speaker'", all = FALSE)
})
