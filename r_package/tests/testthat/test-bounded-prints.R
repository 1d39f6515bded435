test_that("a print of a thousand rows shows the first and counts the others", {
  names <- sprintf("label %d", 1:1000)
  object <- structure(
    list(page = sprintf("line %d", 1:1000)),
    class = c("llamaherd_robustness", "llamaherd_object")
  )
  lines <- capture.output(print(object))
  expect_lt(length(lines), 210)
  expect_match(paste(lines, collapse = "\n"), "\\.\\.\\. and [0-9,]+ more")
  # An object of an earlier version has no page.
  old <- structure(list(method = "batch", n = 5L), class = "llamaherd_calibration")
  expect_output(print(old), "batch")
  expect_identical(first_lines(c("a", "b"), 2L), c("a", "b"))
  expect_identical(first_lines(names, 1L, "row"), c("label 1", "... and 999 more rows"))
})
