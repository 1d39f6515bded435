test_that("a print of a thousand rows shows the first and counts the others", {
  names <- sprintf("label %d", 1:1000)
  shares <- as.data.frame(matrix(0.5, 1000, 1000, dimnames = list(NULL, names)))
  summary <- cbind(data.frame(variant = sprintf("v%d", 1:1000), flips = 0), shares)
  estimates <- expand.grid(variant = summary$variant, outcome = names[1:30])
  robustness <- structure(
    list(
      labels = data.frame(row = 1:10),
      summary = summary,
      agreement = 0.5,
      thinks = TRUE,
      costs = data.frame(
        variant = summary$variant,
        seconds = 1,
        tokens = 1,
        thinking_tokens = 1
      ),
      estimates = cbind(
        data.frame(lapply(estimates, as.character)),
        data.frame(term = "share", group = "", estimate = 0.5, low = 0.4, high = 0.6)
      )
    ),
    class = "llamaherd_robustness"
  )
  calibration <- structure(
    list(method = "batch", n = 5L, names = names, prior = rep(0.1, 1000)),
    class = "llamaherd_calibration"
  )
  for (object in list(robustness, calibration)) {
    lines <- capture.output(print(object))
    expect_lt(length(lines), 600)
    expect_match(paste(lines, collapse = "\n"), "\\.\\.\\. and [0-9,]+ more")
  }
  expect_identical(first_lines(c("a", "b"), 2L), c("a", "b"))
  expect_identical(first_lines(names, 1L, "row"), c("label 1", "... and 999 more rows"))
})
