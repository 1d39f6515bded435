test_that("a print of a thousand rows shows the first and counts the others", {
  names <- sprintf("label %d", 1:1000)
  object <- structure(
    list(page = sprintf("line %d", 1:1000)),
    class = c("llamaherd_robustness", "llamaherd_object")
  )
  calibration <- structure(
    list(method = "batch", n = 5L, names = names, prior = rep(0.1, 1000)),
    class = "llamaherd_calibration"
  )
  for (object in list(object, calibration)) {
    lines <- capture.output(print(object))
    expect_lt(length(lines), 210)
    expect_match(paste(lines, collapse = "\n"), "\\.\\.\\. and [0-9,]+ more")
  }
  expect_identical(first_lines(c("a", "b"), 2L), c("a", "b"))
  expect_identical(first_lines(names, 1L, "row"), c("label 1", "... and 999 more rows"))
})
