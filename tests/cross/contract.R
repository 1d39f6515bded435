# Runs the tests in the folder contract: Rscript contract.R, with the models' paths in
# LLAMAHERD_TEST_SMOLLM2 and LLAMAHERD_TEST_GEMMA3.
library(testthat)
here <- dirname(sub(
  "^--file=",
  "",
  grep("^--file=", commandArgs(), value = TRUE)
))
test_dir(
  file.path(here, "contract"),
  package = "llamaherd",
  load_package = "installed",
  reporter = "check"
)
