test_that("one prompt gives one answer", {
  context <- local_context()
  answer <- generate(context, "x")
  expect_s3_class(answer, "llamaherd_result")
  expect_identical(plain(answer), "x!")
  expect_identical(plain(generate(context, c(1, 2))), "3")
  expect_identical(plain(generate(context, 4L)), "4")
})

test_that("a loop of single calls tells of the first cut answer only", {
  context <- local_context()
  the$told_cut <- NULL
  message <- capture_messages(
    answers <- lapply(c("raw one", "raw two", "raw three"), \(prompt) {
      generate(context, prompt, max_tokens = 2)
    })
  )
  expect_true(all(vapply(answers, attr, "", "finish_reason") == "length"))
  expect_length(message, 1)
  expect_match(message, "The answer ended at `max_tokens`", fixed = TRUE)
})

test_that("a failure is an error", {
  context <- local_context()
  expect_refused(generate(context, "fail for {reasons}"))
  expect_error(generate(context, "fail"), class = "llamaherd_error_generation")
})

test_that("log-probabilities are a data frame for each prompt", {
  context <- local_context()
  prompts <- c(a = "json ab", b = "fail", c = "json c")
  answers <- generate_parallel(context, prompts, logprobs = 2, verbosity = -1)
  tables <- attr(answers, "logprobs")
  expect_length(tables, 3)
  expect_null(tables[[2]])
  expect_identical(tables[[1]]$token, c("a", "b"))
  expect_identical(tables[[1]]$id, utf8ToInt("ab"))
  expect_identical(tables[[1]]$logprob, c(-0.5, NaN))
  top <- data.frame(token = c("a", "b"), id = utf8ToInt("ab"), logprob = c(-0.5, -1.5))
  expect_identical(tables[[1]]$top, list(top, top[0, ]))
  expect_identical(attr(answers["c"], "logprobs"), tables[3])
  expect_identical(as.data.frame(answers)$logprobs, tables)
  answers <- generate_parallel(context, prompts, logprobs = 0, verbosity = -1)
  expect_named(attr(answers, "logprobs")[[1]], c("token", "id", "logprob"))
  answers <- generate_parallel(context, c(NA, NA), logprobs = 0, verbosity = -1)
  expect_identical(attr(answers, "logprobs"), list(NULL, NULL))
  answers <- generate_parallel(context, prompts, verbosity = -1)
  expect_null(attr(answers, "logprobs"))
  expect_false("logprobs" %in% names(as.data.frame(answers)))
  answers <- generate_parallel(context, "json {}", schema = type_object(), logprobs = 1)
  expect_identical(attr(answers, "logprobs")[[1]]$token, c("{", "}"))
})

test_that("a short call calls Python twice", {
  context <- local_context()
  the$module$called()
  generate(context, "x")
  expect_identical(the$module$called(), "model_start")
})
