# Runs the R package's own tests against the package installed in .rlib.
library(testthat)

# Without it testthat skips snapshot tests.
Sys.setenv(NOT_CRAN = "true")
results <- test_dir(
  "r_package/tests/testthat",
  package = "llamaherd",
  load_package = "installed",
  reporter = "check",
  stop_on_failure = FALSE
)
table <- as.data.frame(results)
cat(sprintf(
  "[ FAIL %d | WARN %d | SKIP %d | PASS %d ]\n",
  sum(table$failed) + sum(table$error), sum(table$warning),
  sum(table$skipped), sum(table$passed)
))
if (sum(table$failed) + sum(table$error) > 0) quit(status = 1)
