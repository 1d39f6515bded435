test_that("only an exact 0 or 1 is shown as 0 or 1", {
  values <- c(499 / 500, 1 / 500, 1, 0, 0.5, -0.999, -1e-15, 1.004, NA)
  shown <- c("0.998", "0.002", "1.00", "0.00", "0.50", "-0.999", "0.00", "1.00", "NA")
  expect_identical(decimals(values), shown)
  expect_identical(decimals(c(0.99996, 0.5), 3L), c("0.99996", "0.500"))
  expect_identical(decimals(numeric()), character())
  expect_identical(
    percents(c(1999 / 2000, 0.5, 1, 0)),
    c("99.95%", "50.0%", "100.0%", "0.0%")
  )
  expect_identical(percents(c(499 / 500, 1 / 500), 0L), c("99.8%", "0.2%"))
  expect_identical(percents(c(199 / 200, 1 / 200), 0L), c("99.5%", "0.5%"))
  expect_identical(percents(c(-1e-12, -0.004)), c("0.0%", "-0.4%"))
  expect_identical(limits_text(0.997, 1), "[0.997, 1.00]")
  withr::with_options(list(OutDec = ","), expect_identical(decimals(499 / 500), "0.998"))
})

test_that("R and Python show the same texts", {
  skip_if_no_llamaherd()
  decimals_py <- reticulate::import("llamaherd.core.decimals")
  values <- c(0, 1, 1 - 10^-(1:8), 10^-(1:8), 0.123456, -0.9996, 0.995, -1e-12)
  of_python <- vapply(values, \(x) decimals_py$decimals(x, 2L), "")
  expect_identical(decimals(values), of_python)
  expect_identical(percents(values), vapply(values, \(x) decimals_py$percents(x, 1L), ""))
  shares <- c(values, 0.005, 0.995, 0.0005, 0.9995)
  whole <- vapply(shares, \(x) decimals_py$percents(x, 0L), "")
  expect_identical(percents(shares, 0L), whole)
})

test_that("no column of numbers hides that a share is not 0 or 1", {
  skip_if_no_llamaherd()
  expect_identical(cells_of(c(0.9996, 0.5)), c("0.9996", "0.5000"))
  expect_identical(cells_of(c(0.00004, 1, NA)), c("4e-05", "1e+00", "   NA"))
  expect_identical(cells_of(c(1, 0, 3)), c("1", "0", "3"))
  codes <- data.frame(a = c("x", rep(c("x", "y"), 250))[1:500])
  codes$b <- replace(codes$a, 1, "y")
  expect_match(format(agreement(codes), digits = 2L), "0[.]998", all = FALSE)
})
