test_that("a report is a data frame that prints as a table", {
  local_fake()
  report <- model_optimize("some.gguf")
  expect_s3_class(report, c("llamaherd_optimize", "data.frame"), exact = TRUE)
  expect_identical(report$type, c("Q4_1", "Q8_0"))
  expect_equal(report$speedup, c(1, 1.53), tolerance = 0.01)
  expect_identical(attr(report, "path"), "new.Q8_0.llamaherd.gguf")
  expect_identical(attr(report, "chosen"), "Q8_0")
  expect_output(print(report), "Q8_0.*Kept Q8_0")
  expect_page(report["mean_kl"])
})

test_that("the original is kept where nothing is better", {
  local_fake()
  report <- model_optimize("some.gguf", max_kl = 0)
  expect_identical(attr(report, "path"), "some.gguf")
  expect_identical(attr(report, "chosen"), NA_character_)
  expect_output(print(report), "Kept the original")
})

test_that("arguments arrive with Python's types", {
  local_fake()
  model_optimize("some.gguf")
  expect_seen("start_optimize", "('some.gguf', None, {'max_kl': 0.01})")
  model_optimize(
    "some.gguf",
    "folder",
    types = "Q8_0",
    max_kl = 1L,
    text = c("a", "b"),
    n_threads = 2
  )
  expected <- paste0(
    "('some.gguf', 'folder', {'max_kl': 1, 'n_threads': 2, ",
    "'types': ['Q8_0'], 'text': 'a\\nb'})"
  )
  expect_match(the$module$seen("start_optimize"), expected, fixed = TRUE)
})

test_that("progress is shown and gone at the end", {
  local_fake()
  expect_silent(model_optimize("some.gguf", progress = FALSE))
  expect_s3_class(model_optimize("some.gguf", progress = TRUE), "llamaherd_optimize")
})

test_that("errors have classes and name the argument", {
  local_fake()
  expect_error(
    model_optimize("some.gguf", out = "full"),
    "out: 'full' has {0} MB free",
    fixed = TRUE,
    class = "llamaherd_error_model"
  )
  expect_refused({
    model_optimize("some.gguf", text = NA)
    model_optimize("some.gguf", progress = 1)
  })
})

test_that("an interrupt ends the job and goes on to the caller", {
  local_fake()
  interrupt <- structure(
    class = c("interrupt", "condition"),
    list(message = "", call = NULL)
  )
  stopping <- new.env()
  old <- the$module
  the$module <- list(
    start_optimize = old$start_optimize,
    job_wait = \(...) signalCondition(interrupt),
    job_cancel = \(job) {
      stopping$job <- job
      old$job_cancel(job)
    },
    job_result = old$job_result
  )
  withr::defer(the$module <- old)
  caught <- tryCatch(
    model_optimize("some.gguf", text = "slow"),
    interrupt = \(cnd) "interrupted"
  )
  expect_identical(caught, "interrupted")
  expect_true(stopping$job$wait(9))
})
