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
  told <- capture_messages(
    answers <- lapply(c("raw one", "raw two", "raw three"), \(prompt) {
      generate(context, prompt, max_tokens = 2)
    })
  )
  expect_true(all(vapply(answers, attr, "", "finish_reason") == "length"))
  expect_length(told, 1)
  expect_match(told, "The answer ended at `max_tokens`", fixed = TRUE)
})

test_that("a failure is an error", {
  context <- local_context()
  expect_refused(generate(context, "fail for {reasons}"))
  expect_error(generate(context, "fail"), class = "llamaherd_error_generation")
})

test_that("wrong prompts are named", {
  context <- local_context()
  expect_refused({
    generate(context, c("a", "b"))
    generate(context, NA_character_)
    generate(context, NULL)
    generate(context, list("a"))
    generate(context, 1.5)
    generate(context, "a", unknown = 1)
  })
})
