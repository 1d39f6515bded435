# options(OutDec = ",") changes what format() and, before R 4.3, as.character() make of numbers.

test_that("numbers keep their point on the way to Python and to files", {
  withr::local_options(OutDec = ",")
  expect_identical(number_texts(c(0.5, 1, 1e6)), c("0.5", "1", "1000000"))
  expect_identical(value_text(c(0.5, NA, 2)), c("0.5", NA, "2"))
  expect_identical(as_utf8(0.25), "0.25")
  expect_identical(getOption("OutDec"), ",")
  path <- withr::local_tempfile(fileext = ".csv")
  annotation_sink_csv(path)(data.frame(x = c(0.5, 1), y = c(TRUE, NA)), "m")
  expect_identical(readLines(path)[2:3], c("0.5,TRUE", "1,NA"))
})

test_that("a model and an agreement print without a warning", {
  context <- local_context()
  withr::local_options(OutDec = ",")
  expect_no_warning(format(context$model))
  expect_no_warning(big(12345))
  expect_identical(big(12345), "12,345")
})

test_that("labels with decimals are the same labels", {
  skip_if_no_llamaherd()
  withr::local_options(OutDec = ",")
  book <- codebook("How much?", c(0.5, 1, 1.5), type = "ordinal")
  expect_named(book$labels, c("0.5", "1", "1.5"))
  expect_true(book$is_numeric)
  labels <- c(0.5, 1, 1.5, 1)
  found <- suppressWarnings(validate(
    labels,
    data.frame(a = labels, b = c("0.5", "1", "1.5", "1"))
  ))
  accuracy <- found$table$value[found$table$measure == "accuracy"]
  expect_identical(accuracy[[1]], 1)
})
