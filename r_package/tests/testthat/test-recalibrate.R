made_speeches <- function(n = 400) {
  set.seed(1)
  names <- c("against", "neutral", "for")
  truth <- sample(names, n, replace = TRUE, prob = c(0.4, 0.2, 0.4))
  scores <- matrix(stats::rnorm(3 * n), n) + 1.5 * outer(truth, names, "==")
  probs <- prop.table(exp(scores + rep(c(0, 2, 0), each = n)), 1)
  data.frame(
    text = sprintf("Speech %d.", seq_len(n)),
    label = names[max.col(probs)],
    p_against = probs[, 1],
    p_neutral = probs[, 2],
    p_for = probs[, 3],
    truth = truth,
    party = rep(c("A", "B"), length.out = n),
    votes = 2 * (truth == "for") + stats::rnorm(n)
  )
}

made_gold <- function(data, n = 120, ...) {
  gold <- gold_sample(data, n, text = "text", label = "label", seed = 1, ...)
  read_gold(data.frame(id = gold$ids, code = data$truth[gold$rows]), gold)
}

test_that("labels get better, and the model's stay", {
  local_real()
  speeches <- made_speeches()
  gold <- made_gold(speeches)
  better <- recalibrate(speeches, gold)
  expect_identical(better$raw_label, speeches$label)
  expect_identical(better$raw_p_for, speeches$p_for)
  expect_identical(which(!is.na(better$fold)), sort(gold$rows))
  record <- recalibration(better)
  expect_identical(record$features, "probs")
  expect_equal(record$n_codes, 120)
  scores <- record$scores
  raw <- mean((speeches$label == speeches$truth)[gold$rows])
  expect_equal(scores$model[scores$measure == "accuracy"], raw)
  expect_output(print(record), "Recalibrated by probs on 120 codes, 5 folds")
  expect_null(recalibration(speeches))
  factors <- transform(speeches, label = factor(label, c("for", "neutral", "against")))
  expect_identical(levels(recalibrate(factors, gold)$label), levels(factors$label))
})

test_that("regressions average over labels", {
  local_real()
  speeches <- made_speeches()
  gold <- made_gold(speeches)
  right <- estimate(speeches, gold, votes ~ label, predictions = "probs")
  naive <- stats::lm(votes ~ p_for + p_neutral, speeches)
  expect_equal(unname(coef(right, "naive")), unname(stats::coef(naive)))
  left <- estimate(speeches, gold, label == "for" ~ party, predictions = "probs")
  naive <- stats::lm(p_for ~ party, speeches)
  expect_equal(unname(coef(left, "naive")), unname(stats::coef(naive)))
  logit <- label == "for" ~ party
  fit <- estimate(recalibrate(speeches, gold), gold, logit, model = "logit")
  expect_identical(fit$predictions, "recalibrated")
})

test_that("wrong use is refused", {
  local_real()
  speeches <- made_speeches()
  gold <- made_gold(speeches)
  codes <- c(speeches$truth[1:20], rep(NA, 380))
  better <- recalibrate(speeches, gold)
  code_of <- \(call) expect_error(call, class = "llamaherd_error_argument")$code
  expect_identical(
    code_of(recalibrate(speeches, codes, prob = "simple")),
    "too_few_codes"
  )
  expect_identical(code_of(recalibrate(better, gold)), "conflict")
  expect_errors(
    recalibrate(speeches[1:3], gold),
    recalibrate(speeches, gold, "words"),
    recalibrate(speeches, gold, "embeddings"),
    recalibrate(speeches, gold, "embeddings", matrix(0, 2, 2)),
    recalibrate(speeches, gold, n_folds = 1),
    recalibrate(1:3, gold),
    estimate(speeches, gold, predictions = "x"),
    estimate(speeches[c("text", "label")], gold, predictions = "probs")
  )
})

# Returns coded texts in the form that annotate_texts() returns.
made_coded <- function(data) {
  kinds <- c("against", "neutral", "for")
  names <- c("label", paste0("p_", kinds))
  record <- list(
    label = "label",
    text = "text",
    names = kinds,
    needs = c("label", "text")
  )
  record$probs <- rlang::set_names(names[-1], kinds)
  record$columns <- rlang::set_names(names)
  record$codebook <- codebook("What is it?", kinds)
  record$run <- list(codebook = list(content = list()), notes = list())
  record$run_json <- "{\"seed\": 1}"
  as_coded(data, record)
}

test_that("coded texts keep their record", {
  local_real()
  speeches <- made_speeches()
  coded <- made_coded(speeches)
  gold <- made_gold(coded)
  better <- recalibrate(coded, gold)
  expect_s3_class(better, "llamaherd_coded")
  plain <- recalibrate(speeches, gold)
  expect_equal(better$label, plain$label)
  expect_equal(recalibration(better[1:10, ])$n_codes, 120)
  expect_output(print(better), "Recalibrated by probs on 120 codes")
  coding <- attr(better, "llamaherd")
  expect_equal(coding$run$seed, 1)
  expect_equal(coding$run$recalibration$n_codes, 120)
  expect_identical(estimate(better, gold)$predictions, "recalibrated")
  expect_equal(
    original_labels(better)$labels,
    as.list(speeches$label),
    ignore_attr = TRUE
  )
})
