# Tests probabilities without generation, in R with real models.

texts <- c(
  a = "The keeper saved two penalties.",
  b = NA,
  c = "Shares of the bank fell by nine percent.",
  d = "The minister resigned after the vote."
)
prompts <- ifelse(is.na(texts), NA, paste0("Text: ", texts, "\nTopic:"))
labels <- c("Sports", "Business", "Politics")

test_that("labels have the probabilities that their scores have", {
  for (model in list(smollm2(), gemma3())) {
    context <- local_context(model = model)
    classes <- classify_parallel(context, prompts, labels, verbosity = -1)
    expect_identical(is.na(classes$label), c(FALSE, TRUE, FALSE, FALSE))
    probs <- as.matrix(classes[paste0("p_", labels)])
    expect_equal(unname(rowSums(probs)), c(1, NA, 1, 1))
    logprobs <- attr(classes, "logprobs")
    expect_equal(classes$coverage, rowSums(exp(logprobs)))
    expect_equal(unname(probs), unname(exp(logprobs) / rowSums(exp(logprobs))))
    expect_equal(classes$prob, apply(probs, 1, max), ignore_attr = TRUE)
    expect_equal(
      classes$entropy,
      -rowSums(probs * log(probs)),
      ignore_attr = TRUE
    )

    # No label is the beginning of another label, so a label's probability is the probability of its
    # text as a continuation.
    scores <- score_parallel(
      context,
      prompts,
      list(paste0(" ", labels)),
      verbosity = -1
    )
    expect_equal(scores$logprob, as.vector(t(logprobs)), tolerance = 1e-4)
    expect_identical(scores$prompt, rep(names(texts), each = 3))
    expect_identical(
      lengths(scores$token_logprobs)[!is.na(scores$n_tokens)],
      scores$n_tokens[-(4:6)]
    )
    expect_equal(
      vapply(scores$token_logprobs[1:3], sum, double(1)),
      scores$logprob[1:3]
    )
  }
})

test_that("labels may have names, several readings and a space of their own", {
  context <- local_context()
  plain <- classify_parallel(
    context,
    prompts[1],
    c("Sports", "Football", "Politics")
  )
  named <- classify_parallel(
    context,
    prompts[1],
    c(play = "Sports", play = "Football", rule = "Politics")
  )
  expect_equal(named$p_play, plain$p_Sports + plain$p_Football)
  expect_identical(levels(named$label), c("play", "rule"))
  spaced <- classify_parallel(context, prompts[1], labels, space = TRUE)
  expect_identical(
    spaced$p_Sports,
    classify_parallel(context, prompts[1], labels)$p_Sports
  )
  bare <- classify_parallel(context, prompts[1], labels, space = FALSE)
  expect_false(bare$coverage == spaced$coverage)
  chat <- classify_parallel(
    context,
    texts[1],
    labels,
    chat = TRUE,
    system = "Name the topic."
  )
  expect_false(is.na(chat$label))
})

test_that("calibrations are what the papers say", {
  context <- local_context()
  classes <- classify_parallel(context, prompts, labels, verbosity = -1)
  probs <- as.matrix(classes[paste0("p_", labels)])
  calibration <- calibrate_batch(classes)
  expect_equal(calibration$prior, unname(colMeans(probs[-2, ])))
  expect_identical(calibration$n, 3L)
  expect_silent(new <- calibrated(classes, calibration))
  shares <- sweep(probs, 2, calibration$prior, "/")
  expect_equal(as.matrix(new[paste0("p_", labels)]), shares / rowSums(shares))
  path <- withr::local_tempfile()
  saveRDS(calibration, path)
  expect_identical(calibrated(classes, readRDS(path)), new)
  free <- classify_parallel(context, "Text: N/A\nTopic:", labels)
  made <- classify_calibrated(
    context,
    prompts,
    labels,
    "contextual",
    content_free = "Text: N/A\nTopic:",
    verbosity = -1
  )
  expect_identical(
    made,
    calibrated(classes, calibrate_contextual(free)),
    ignore_attr = c("stats", "timing")
  )
  expect_error(
    calibrate_batch(classify_parallel(context, NA, labels, verbosity = -1)),
    "no row",
    class = "llamaherd_error_argument"
  )
  expect_error(
    calibrated(classify_parallel(context, "x", c("a", "b", "c")), calibration),
    "labels",
    class = "llamaherd_error_argument"
  )
})

test_that("a perplexity is that of the tokens' probabilities", {
  context <- local_context()
  found <- perplexity(context, c(texts, d = ""), verbosity = -1)
  expect_identical(is.na(found$perplexity), c(FALSE, TRUE, FALSE, FALSE, TRUE))
  expect_gt(
    perplexity(context, "penalties two The saved keeper.")$perplexity,
    found$perplexity[[1]]
  )
  n <- length(tokenize(smollm2(), texts[["a"]]))
  expect_identical(found$n_tokens[[1]], n - 1L)
})

test_that("log-probabilities of an answer are those of its scores", {
  context <- local_context()
  prompt <- "The capital of France is"
  answer <- generate(context, prompt, max_tokens = 4, logprobs = 3)
  found <- attr(answer, "logprobs")[[1]]
  expect_identical(paste(found$token, collapse = ""), plain(answer))
  expect_identical(nrow(found), 4L)
  scores <- score_parallel(context, prompt, as.character(answer))
  # The end of the text may be tokenized into tokens other than the drawn tokens.
  expect_equal(
    found$logprob[1:2],
    scores$token_logprobs[[1]][1:2],
    tolerance = 1e-3
  )
  for (i in 1:4) {
    top <- found$top[[i]]
    expect_identical(nrow(top), 3L)
    expect_false(is.unsorted(rev(top$logprob)))
    expect_identical(top$token[[1]], found$token[[i]]) # it took the most likely one
    expect_equal(top$logprob[[1]], found$logprob[[i]])
  }
  answers <- generate_parallel(
    context,
    c("", prompt),
    max_tokens = 2,
    logprobs = 0,
    verbosity = -1
  )
  expect_null(attr(answers, "logprobs")[[1]])
  expect_named(attr(answers, "logprobs")[[2]], c("token", "id", "logprob"))
})
