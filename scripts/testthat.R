# Runs the R package's tests with the package installed in .rlib.
library(testthat)

# Without this variable, testthat skips tests that are not for CRAN.
Sys.setenv(NOT_CRAN = "true")
results <- test_dir(
  "r_package/tests/testthat",
  package = "llamaherd",
  load_package = "installed",
  reporter = "check",
  stop_on_failure = FALSE
)
table <- as.data.frame(results)
if (any(table$failed > 0 | table$error)) quit(status = 1)
