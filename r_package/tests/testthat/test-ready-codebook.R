test_that("ready codebooks are codebooks, and listed with their sources", {
  local_real()
  listed <- list_ready_codebooks()
  expect_true(all(c("sentiment", "stance", "policy_topics") %in% listed$name))
  expect_true(all(nzchar(listed$sources)))
  expect_identical(listed$needs_target, listed$name == "stance")
  book <- ready_codebook("sentiment")
  expect_s3_class(book, "llamaherd_codebook")
  expect_named(book$labels, c("positive", "negative", "neutral"))
  stance <- ready_codebook("stance", target = "nuclear energy")
  expect_match(stance$question, "towards nuclear energy?", fixed = TRUE)
  path <- withr::local_tempfile(fileext = ".yaml")
  write_codebook(stance, path)
  expect_identical(read_codebook(path), stance)
})

test_that("wrong names and targets are named", {
  local_real()
  expect_error(ready_codebook("x"), "name must be", class = "llamaherd_error_argument")
  expect_error(
    ready_codebook("stance"),
    "target must be",
    class = "llamaherd_error_argument"
  )
  expect_error(
    ready_codebook("emotion", "x"),
    "target must be",
    class = "llamaherd_error_argument"
  )
  expect_error(ready_codebook(3), class = "llamaherd_error_argument")
})

test_that("models are suggested by memory", {
  local_real()
  models <- llamaherd_models(memory_gb = 8)
  columns <- c("source", "memory_gb", "size_bytes", "fits", "measured", "published")
  expect_named(models, columns)
  expect_identical(models$fits, c(TRUE, TRUE, FALSE, FALSE))
  expect_type(llamaherd_models()$fits, "logical")
  expect_error(llamaherd_models(0), "memory_gb", class = "llamaherd_error_argument")
  expect_error(llamaherd_models("8"), class = "llamaherd_error_argument")
})
