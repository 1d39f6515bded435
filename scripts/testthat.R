# Runs the R package's tests with the installed package: testthat.R [FOLDER [FILE]]. FILE is the
# name of one file without "test-" and ".R".
library(testthat)

# Without this variable, testthat skips tests that are not for CRAN.
Sys.setenv(NOT_CRAN = "true")
arguments <- c(commandArgs(TRUE), "r_package/tests/testthat")
results <- test_dir(
  arguments[[1]],
  filter = if (length(arguments) > 2) sprintf("^%s$", arguments[[2]]),
  package = "llamaherd",
  load_package = "installed",
  reporter = "check",
  stop_on_failure = FALSE
)
table <- as.data.frame(results)
if (any(table$failed > 0 | table$error)) {
  quit(status = 1)
}
