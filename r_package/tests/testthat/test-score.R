test_that("continuations have a row for each prompt", {
  context <- local_context()
  prompts <- c(a = "x", b = "fail so", c = NA)
  scores <- score_parallel(context, prompts, c("ab", "c", "d"), verbosity = -1)
  expect_s3_class(scores, "llamaherd_table")
  expect_named(scores, c("continuation", "logprob", "n_tokens", "token_logprobs"))
  expect_identical(scores$continuation, c("ab", "c", "d"))
  expect_equal(scores$logprob, c(2 * log(0.5), NA, NA))
  expect_identical(scores$n_tokens, c(2L, NA, NA))
  expect_identical(scores$token_logprobs, list(log(c(0.5, 0.5)), NULL, NULL))
  expect_identical(rownames(scores), names(prompts))
  expect_identical(attr(scores, "errors"), c(NA, "so", "the prompt is NA"))
  same <- score_parallel(context, c("x", "y"), "ab")
  expect_identical(same$continuation, c("ab", "ab"))
  expect_seen("model_start", "'continuations': [['ab'], ['ab']], 'space': False")
})

test_that("a continuation that is NA fails its prompt", {
  context <- local_context()
  scores <- score_parallel(context, c("x", "y", NA), c("a", NA, NA), verbosity = -1)
  expect_identical(scores$continuation, c("a", NA, NA))
  expect_identical(is.na(scores$logprob), c(FALSE, TRUE, TRUE))
  expect_identical(
    attr(scores, "errors"),
    c(NA, "the continuation is NA", "the prompt is NA")
  )
  expect_no_match(the$module$seen("model_start"), "None, None, None")
})

test_that("several continuations have a row each", {
  context <- local_context()
  prompts <- c(a = "x", b = "fail so")
  scores <- score_parallel(context, prompts, list(c("ab", "c"), "d"), verbosity = -1)
  expect_identical(scores$prompt, c("a", "a", "b"))
  expect_identical(scores$continuation, c("ab", "c", "d"))
  expect_identical(scores$n_tokens, c(2L, 1L, NA))
  expect_output(print(scores), "1 of 2 prompts")
  scores <- score_parallel(context, c("x", "y"), list(c("ab", "c")))
  expect_identical(scores$prompt, c(1L, 1L, 2L, 2L))
  none <- score_parallel(context, character(), list(c("ab", "c")))
  expect_identical(lapply(none, typeof), lapply(scores, typeof))
  expect_identical(nrow(none), 0L)
  expect_identical(nrow(score_parallel(context, character(), "a")), 0L)
})

test_that("texts have a perplexity", {
  context <- local_context()
  texts <- c(a = "abc", b = NA)
  perplexities <- perplexity(context, texts, verbosity = -1)
  expect_identical(perplexities$perplexity, c(2, NA))
  expect_identical(perplexities$n_tokens, c(3L, NA))
  expect_identical(rownames(perplexities), names(texts))
  expect_identical(
    lapply(perplexity(context, character()), typeof),
    lapply(perplexities, typeof)
  )
  expect_seen("model_start", "'parse_special': False")
  expect_warning(perplexity(context, NA), class = "llamaherd_warning_failed")
})

test_that("a missing continuation fails alone", {
  context <- local_context()
  expect_page(score_parallel(context, "x", list(NA_character_)))
})
